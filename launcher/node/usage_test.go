package node_test

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// What the ranks of a job used is added up at its origin, and outlives the launcher.
func TestWhatRanksUsedIsKept(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) {
		k.at = sec
		if k.host.Name == "n2" {
			k.at = 4 * sec
		}
		for _, s := range k.start.Launch.Nodes[k.start.Index].Ranks {
			for r := s.First; r < s.First+filch.Rank(s.Count); r++ {
				k.ends = append(k.ends, launcher.RankEnd{Rank: r, Usage: filch.Usage{User: 2 * sec, System: sec / 2, PeakBytes: int64(r+1) << 20}})
			}
		}
	}
	r := gang(8)
	r.Shape.Only = []filch.NodeName{"n1", "n2"}
	id := w.detach("n1", 1, r)
	w.run(3 * sec)
	want := launcher.Used{User: 8, System: 2, Peak: 4 << 20}
	if i, ok := w.nodes["n1"].node.Job(w.Now(), id); !ok || i.Used != want {
		t.Errorf("with half of the ranks ended, the job used %+v, %v, want %+v", i.Used, ok, want)
	}
	w.crash("n1", true) // the keeper there is done
	w.restart("n1")
	w.run(10 * sec)
	want = launcher.Used{User: 16, System: 4, Peak: 8 << 20}
	if i := w.ends(id, 0); i.Used != want {
		t.Errorf("after a restart of the launcher, the job used %+v, want %+v", i.Used, want)
	}
	w.crash("n1", true)
	w.restart("n1")
	w.run(5 * sec)
	if i, ok := w.told(id); !ok || i.Used != want {
		t.Errorf("the record says that the job used %+v, %v, want %+v", i.Used, ok, want)
	}
	if i, ok := w.nodes["n1"].node.Job(w.Now(), id); !ok || i.Used != want {
		t.Errorf("the next launcher says that the job used %+v, %v, want %+v", i.Used, ok, want)
	} else {
		ownUsage(t, "the next launcher", &i)
	}
	for _, i := range w.nodes["n1"].node.Jobs(w.Now()) {
		if i.Rows != nil {
			t.Errorf("a list of jobs has %d bytes about the ranks of job %d", len(i.Rows), i.ID)
		}
	}
	w.quiet()
}

// ownUsage compares what each of the ranks used.
func ownUsage(t *testing.T, who string, i *launcher.JobInfo) {
	t.Helper()
	rows := launcher.ReadRankRows(i.Rows)
	if len(rows) != 8 {
		t.Errorf("%s has %d ranks, want 8", who, len(rows))
	}
	for r, got := range rows {
		want := launcher.RankRow{Ended: true, State: filch.OK, Node: int32(r / 4), Usage: filch.Usage{User: 2 * sec, System: sec / 2, PeakBytes: int64(r+1) << 20}}
		if got != want {
			t.Errorf("%s says of rank %d %+v, want %+v", who, r, got, want)
		}
	}
}
