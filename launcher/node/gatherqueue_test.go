package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/origin"
)

// A thousand jobs at once: only so many gather, the others stand in line, and
// all run in their order.
func TestABurstOfJobsStandsInLine(t *testing.T) {
	w := newNet(t, 4, 4)
	w.behave = func(k *keeper) { k.at = 20 * ms }
	w.every = 50
	const jobs = 1000
	for i := range jobs {
		r := gang(int32(1 + i%8))
		r.Detach = true
		w.submit("n2", launcher.ClientID(i+1), r)
	}
	w.run(sec)
	var ids []filch.JobID
	for i := range jobs {
		ids = append(ids, w.accepted[launcher.ClientID(i+1)])
	}
	if s := w.nodes["n1"].node.Slots(); s.Waiting > origin.MaxGathers {
		t.Errorf("%d jobs wait on n1, want at most %d", s.Waiting, origin.MaxGathers)
	}
	if x, err := w.nodes["n2"].node.Explain(w.Now(), ids[jobs-1]); err != nil || !strings.Contains(x.Text, "waits for its turn") {
		t.Errorf("explains %+v %v, want its place in line", x, err)
	}
	h := w.nodes["n2"]
	for _, id := range ids[jobs-100:] {
		h.input(func(out *launcher.Outbox) { h.node.Cancel(w.Now(), id, 0, "user", out) })
	}
	w.run(30 * sec)
	var last time.Duration
	for i, id := range ids[:jobs-100] {
		j, ok := h.node.Job(w.Now(), id)
		if !ok || j.State != "ok" {
			t.Fatalf("job %d of %d: %+v, want ok", i, jobs, j)
		}
		waited := time.Duration(j.Waited * float64(time.Second))
		if waited < last-200*ms {
			t.Errorf("job %d waited %v, one before it %v", i, waited, last)
		}
		last = max(last, waited)
	}
	w.quiet()
}

// The record of the oldest job is stored after the records of more younger jobs than may
// gather. The oldest job takes the place of the youngest gathering job, and starts first.
// No job takes the place of a job while its launch waits for its record.
func TestAnOlderJobDoesNotWaitBehindYoungerJobs(t *testing.T) {
	w := newNet(t, 3, 4)
	w.every = 50
	w.behave = func(k *keeper) { k.at = 10 * sec }
	w.submit("n1", 1, gang(12))
	w.run(sec)
	mute := func(filch.NodeName, filch.NodeName) bool { return true }
	whole := gang(12)
	whole.Detach = true
	w.faults.stores = mute
	w.submit("n2", 2, whole)
	w.run(100 * ms)
	w.faults.stores = nil
	const younger = origin.MaxGathers + 44
	for i := range younger {
		w.submit("n2", launcher.ClientID(3+i), whole)
	}
	for w.accepted[2] == 0 {
		w.run(10 * ms)
	}
	if n := len(w.accepted) - 2; n < origin.MaxGathers {
		t.Fatalf("only %d younger jobs began before the oldest", n)
	}
	w.until("all jobs to be accepted", 10*sec, func() bool { return len(w.accepted) == younger+2 })
	n2, oldest := w.nodes["n2"].node, w.accepted[2]
	inLine := func() (n int) {
		for client, id := range w.accepted {
			if x, err := n2.Explain(w.Now(), id); client > 1 && (err != nil || strings.Contains(x.Text, "waits for its turn")) {
				n++
			}
		}
		return n
	}
	if x, err := n2.Explain(w.Now(), oldest); err != nil || strings.Contains(x.Text, "waits for its turn") {
		t.Errorf("the oldest job is not gathering: %+v %v", x, err)
	}
	const want = 1 + younger - origin.MaxGathers
	if n := inLine(); n != want {
		t.Errorf("%d jobs wait for their turn, want %d", n, want)
	}
	w.faults.stores = mute
	launched := func() bool {
		x, err := n2.Explain(w.Now(), oldest)
		return err == nil && strings.Contains(x.Text, "being launched")
	}
	w.until("the launch of the oldest job", 15*sec, launched)
	w.run(sec)
	if n := inLine(); n != want || !launched() {
		t.Errorf("%d jobs wait for their turn while the launch waits for its record, want %d", n, want)
	}
	w.faults.stores = nil
	w.until("the first start", 10*sec, func() bool {
		for client, id := range w.accepted {
			if i, ok := n2.Job(w.Now(), id); client > 1 && ok && i.State == "running" {
				if id != oldest {
					t.Errorf("job %d of client %d started before job %d", id, client, oldest)
				}
				return true
			}
		}
		return false
	})
}
