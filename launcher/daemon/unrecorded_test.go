package daemon

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/wire"
)

// A bag whose record waits for room on the disk is a job: filch ps lists the bag, and so all
// commands know the bag, and say what the bag waits for.
func TestABagWithoutARecordIsKnown(t *testing.T) {
	const full = "the disk of n1 accepts no records: no space left"
	c := newCluster(t, 1, 1)
	r := c.nodes[0]
	first := r.bag(1, nil)
	until(t, first, launcher.TasksFinished)
	if err := r.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { t.Node.StoreDisk(t.Now, "no space left", t.Out) }); err != nil {
		t.Fatal(err)
	}
	r.bag(4, nil)
	var id filch.JobID
	poll(t, "the list to have the bag", func() bool {
		var jobs []launcher.JobInfo
		r.query(t, &jobs, wire.VerbPs)
		for i := range jobs {
			if jobs[i].Code == nil {
				id = jobs[i].ID
			}
		}
		return id != 0
	})
	const why = "waits until the record of the job is stored: " + full
	var info, waited launcher.JobInfo
	var x launcher.Explanation
	r.query(t, &info, wire.VerbInfo, id.String())
	r.query(t, &waited, wire.VerbWait, id.String(), "1ms")
	r.query(t, &x, wire.VerbExplain, id.String())
	if info.Cause != why || info.Tasks.Total != 4 || waited.Cause != why || waited.Code != nil || x.Text != why || x.State != "waiting" || !x.Stuck {
		t.Errorf("info says %+v, wait %+v, explain %+v", info, waited, x)
	}
	if err := c.ask(0, &info, wire.VerbCancel, id.String(), "0"); err == nil || !strings.HasSuffix(err.Error(), why) {
		t.Errorf("cancel says %v", err)
	}
	if err := r.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { t.Node.StoreDisk(t.Now, "", t.Out) }); err != nil {
		t.Fatal(err)
	}
	r.query(t, &waited, wire.VerbWait, id.String(), "60s")
	if waited.Code == nil || *waited.Code != 0 {
		t.Errorf("with room on the disk the bag ends as %+v", waited)
	}
}
