package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"

	"github.com/filch-hpc/filch/launcher"
	. "github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/mtc/policy"
)

func like(kind string, n int32) launcher.Request {
	r := gang(n)
	r.Like = kind
	return r
}

// A run that takes as long as others of its kind is refused where the nodes are
// taken away before that, and waits no longer than it may still finish.
func TestRunsThatCannotFinishAreRefused(t *testing.T) {
	ends := policy.Walltime{End: 60 * sec, Drain: 5 * sec}
	blind := ends
	blind.Blind = true
	limited := like("solve", 2)
	limited.Policy.TimeLimit = 10 * sec
	for _, c := range []struct {
		name     string
		walltime policy.Walltime
		at       time.Duration
		r        launcher.Request
		refused  bool
	}{
		{"in time", ends, 35 * sec, like("solve", 2), false},
		{"too late", ends, 40 * sec, like("solve", 2), true},
		{"another kind", ends, 40 * sec, like("plot", 2), false},
		{"another number of ranks", ends, 40 * sec, like("solve", 3), false},
		{"of no kind", ends, 40 * sec, gang(2), false},
		{"with a limit", ends, 40 * sec, limited, false},
		{"not looked at", blind, 40 * sec, like("solve", 2), false},
		{"no end", policy.Walltime{}, 40 * sec, like("solve", 2), false},
	} {
		w := netOf(t, 1, 4, net{chores: chores{walltime: c.walltime}})
		w.behave = func(k *keeper) { k.at = 20 * sec }
		first := w.submit("n1", 1, like("solve", 2))
		w.run(c.at)
		if e := w.ended(first); e.Code != 0 {
			t.Fatalf("%s: the first ended %+v", c.name, e)
		}
		w.submit("n1", 2, c.r)
		if got := strings.Contains(w.last(), "cannot finish: solve took up to 20s on 2 ranks before, and the nodes are taken away in 20s"); got != c.refused {
			t.Errorf("%s: %s", c.name, w.last())
		}
		w.run(time.Minute)
	}
	w := netOf(t, 1, 4, net{chores: chores{walltime: ends}})
	w.behave = func(k *keeper) { k.at = 10 * sec }
	w.submit("n1", 1, like("solve", 2))
	w.run(11 * sec)
	w.behave = func(k *keeper) { k.at = 100 * sec }
	w.submit("n1", 1, like("other", 3))
	waits := w.submit("n1", 2, like("solve", 2))
	w.run(10 * sec)
	if x, err := w.nodes["n1"].node.Explain(w.Now(), waits); err != nil || !strings.Contains(x.Text, "solve took up to 10s on 2 ranks before, so the job gives up in 28s: after that it could not finish") {
		t.Errorf("explains %q, %v", x.Text, err)
	}
	w.run(30 * sec)
	if !strings.Contains(w.last(), "and a job that starts now could not finish: solve took up to 10s on 2 ranks before") {
		t.Errorf("at %v it heard %s", w.Now(), w.last())
	}
}

// What runs took is in the mirror, and what a mirror tells is known.
func TestWhatRunsTookIsMirrored(t *testing.T) {
	ends := policy.Walltime{End: 60 * sec}
	w := netOf(t, 3, 4, net{chores: chores{walltime: ends}})
	w.behave = func(k *keeper) { k.at = 20 * sec }
	w.submit("n1", 1, like("solve", 2))
	w.run(25 * sec)
	runs := w.remains().Runs()
	if len(runs) != 1 || runs[0].Kind != "2:solve" || runs[0].Took.Round(sec) != 20*sec {
		t.Fatalf("the mirror tells of %+v", runs)
	}
	x := netOf(t, 1, 4, net{chores: chores{walltime: policy.Walltime{End: 15 * sec}}})
	x.nodes["n1"].node.Learn(runs)
	x.submit("n1", 1, like("solve", 2))
	if !strings.Contains(x.last(), "cannot finish: solve took up to 20s") {
		t.Errorf("a run of a kind that was learnt before: %s", x.last())
	}
}

// In the last seconds nodes lend to those runs and start those tasks that can end.
func TestEndingNodesFinishWhatTheyCan(t *testing.T) {
	w := netOf(t, 3, 2, net{chores: chores{walltime: policy.Walltime{End: 30 * sec, Drain: 10 * sec}}})
	w.chores.lasts = 2 * sec
	began := []time.Duration{}
	w.chores.end = func(*host, launcher.TaskLaunch) launcher.TaskEnd {
		began = append(began, w.age())
		return launcher.TaskEnd{}
	}
	w.bag("n1", 1, 1000, nil)
	w.run(21*sec - w.age())
	w.submit("n2", 1, gang(1))
	if !strings.Contains(w.last(), "cannot start: the run time of this run is not known, and the nodes are taken away in 9s") {
		t.Errorf("a run that nobody knows the length of heard %s", w.last())
	}
	short := gang(5)
	short.Policy.TimeLimit = 3 * sec
	known := w.submit("n2", 2, short)
	w.run(8 * sec)
	if e := w.ended(known); e.Code != 0 {
		t.Errorf("a run that was known to finish ended %+v", e)
	}
	w.run(30 * sec)
	last := began[len(began)-1]
	if last < 24*sec || last > 27*sec {
		t.Errorf("the last task of 2 s began at %v, want it soon before 27 s", last)
	}
}

// A run of which the run time of this run is not known is not started in the drain: it
// is refused then, and gives up when the drain begins, unless nodes of another
// allocation may lend.
func TestUnknownRunsEndWithTheDrain(t *testing.T) {
	ends := net{chores: chores{walltime: policy.Walltime{End: 60 * sec, Drain: 20 * sec}}}
	w := netOf(t, 2, 2, ends)
	w.behave = func(k *keeper) { k.at = 100 * sec }
	w.submit("n1", 1, gang(4))
	w.run(sec)
	waits := w.submit("n2", 1, like("solve", 2))
	limited := gang(2)
	limited.Policy.TimeLimit = 10 * sec
	known := w.submit("n2", 2, limited)
	w.run(38 * sec)
	if i, _ := w.nodes["n2"].node.Job(w.Now(), waits); i.State != "waiting" {
		t.Fatalf("before the drain the run is %s", i.State)
	}
	w.run(2 * sec)
	if i, _ := w.nodes["n2"].node.Job(w.Now(), waits); i.State != "failed" || !strings.Contains(i.Cause, "the run time of solve is not known, and the nodes are taken away in 20s") {
		t.Errorf("as the drain began it is %s: %s", i.State, i.Cause)
	}
	if i, _ := w.nodes["n2"].node.Job(w.Now(), known); i.State != "waiting" {
		t.Errorf("a run with a limit is %s in the drain", i.State)
	}
	w.submit("n1", 3, gang(1))
	if !strings.Contains(w.last(), "cannot start: the run time of this run is not known, and the nodes are taken away in 19s") {
		t.Errorf("one that was submitted in the drain heard %s", w.last())
	}

	w = netOf(t, 2, 2, ends)
	other := Peer{Name: "n2", Incarnation: 1, Standing: filch.Up, Total: filch.Room{Slots: 2}, Group: "slurm-9"}
	n1 := w.nodes["n1"]
	w.run(45 * sec)
	n1.input(func(out *launcher.Outbox) { n1.node.Peer(w.Now(), other, out) })
	id := w.submit("n1", 1, gang(2))
	w.run(sec)
	if i, _ := n1.node.Job(w.Now(), id); i.State == "failed" {
		t.Errorf("a run that another allocation may lend to is %s: %s", i.State, i.Cause)
	}
	other.Standing = filch.Left
	n1.input(func(out *launcher.Outbox) { n1.node.Peer(w.Now(), other, out) })
	w.run(30 * sec)
	if i, _ := n1.node.Job(w.Now(), id); i.State == "waiting" {
		t.Errorf("a run whose last lender left is %s", i.State)
	}
}
