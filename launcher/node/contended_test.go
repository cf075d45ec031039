package node_test

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// Twenty jobs of half the cluster at once: two run at a time, as with one
// central queue, and no message is spent on polling. Renewals of running jobs
// are counted apart: they are per second, not per job.
func TestHalfClusterJobsRunTwoAtATime(t *testing.T) {
	const nodes, jobs = 64, 20
	w := newNet(t, nodes, 16)
	w.behave = func(k *keeper) { k.at = 10 * sec }
	renewals := 0
	w.onSend = func(from, to filch.NodeName, m launcher.Message) {
		if _, ok := m.(*launcher.Renew); ok {
			renewals++
		}
	}
	var ids []filch.JobID
	for i := range jobs {
		ids = append(ids, w.submit(w.names[(i*37)%nodes], launcher.ClientID(i+1), gang(nodes*8)))
		w.run(ms / 10)
	}
	w.run(jobs/2*10*sec + sec)
	for _, id := range ids {
		if e := w.ended(id); e.Code != 0 {
			t.Errorf("job %d ended %+v, want 0", id, e)
		}
	}
	w.run(30 * sec)
	w.quiet()
	per := float64(w.sent-renewals) / jobs / nodes
	t.Logf("%.2f messages per node and job, %.2f renewals", per, float64(renewals)/jobs/nodes)
	if per > 12 {
		t.Errorf("%.2f messages per node and job, want at most 12", per)
	}
}
