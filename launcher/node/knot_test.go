package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// ensemble is a bag whose tasks each start a run of their own and wait for it.
type ensemble struct {
	w       *net
	bag     filch.JobID
	need    int32 // ranks of a run
	clients launcher.ClientID
	tasks   map[launcher.ClientID]ensembleTask
	loose   func(client launcher.ClientID) bool // that task ends by itself
	refused []string
}

type ensembleTask struct {
	h      *host
	serial uint64
	job    filch.JobID
}

// newEnsemble submits it on n1; a task that does not end by its run goes on for
// so long.
func newEnsemble(t *testing.T, nodes int, tasks, need int32, lasts time.Duration, loose func(launcher.ClientID) bool) *ensemble {
	w := newNet(t, nodes, 4)
	e := &ensemble{w: w, need: need, clients: 100, tasks: map[launcher.ClientID]ensembleTask{}, loose: loose}
	w.chores.lasts = lasts
	w.chores.end = func(h *host, l launcher.TaskLaunch) launcher.TaskEnd {
		e.clients++
		c := e.clients
		w.After(10*ms, func() {
			r := gang(need)
			r.Inside = launcher.Inside{Job: l.Start.Job, Task: l.Serial}
			e.tasks[c] = ensembleTask{h, l.Serial, w.submit(h.Name, c, r)}
		})
		return launcher.TaskEnd{}
	}
	w.ties = func(h *host) []launcher.Tie {
		return slices.DeleteFunc(h.node.Ties(), func(t launcher.Tie) bool { return loose != nil && slices.ContainsFunc(t.Clients, loose) })
	}
	e.bag = w.bag("n1", 1, tasks, nil)
	return e
}

// run lets the ensemble go on until the bag has ended, or for so long.
func (e *ensemble) run(within time.Duration) {
	for end := e.w.Now() + within; e.w.Now() < end && e.w.heard(e.bag, launcher.TasksFinished) == nil; e.w.run(100 * ms) {
		for c, x := range e.tasks {
			line := fmt.Sprintf("%s client %d: Refused", x.h.Name, c)
			i := slices.IndexFunc(e.w.replies, func(r string) bool { return strings.HasPrefix(r, line) })
			switch {
			case i >= 0:
				e.refused = append(e.refused, e.w.replies[i])
				x.h.finish(x.serial, launcher.TaskEnd{Kind: launcher.CauseExit, Code: 125})
			case e.w.over(x.job):
				x.h.finish(x.serial, launcher.TaskEnd{})
			default:
				continue
			}
			delete(e.tasks, c)
		}
	}
}

func TestAKnotOfTasksIsUntied(t *testing.T) {
	e := newEnsemble(t, 2, 20, 4, 3600*sec, nil)
	e.run(6 * sec)
	if len(e.refused) > 0 {
		t.Errorf("refused before a second look: %v", e.refused)
	}
	told, held, tied := false, 0, int64(0)
	for _, h := range e.w.nodes {
		tied += h.node.TasksHere(e.bag).Tied
		for _, j := range h.node.Jobs(e.w.Now()) {
			if x, err := h.node.Explain(e.w.Now(), j.ID); err == nil {
				for _, p := range x.Places {
					if p.Holder == e.bag {
						held++
					}
				}
			}
			told = told || strings.Contains(j.Cause, "deadlock: ") && strings.Contains(j.Cause, "8 slots are held by 8 tasks and runs, which wait for runs that they started")
		}
	}
	if !told || held == 0 || tied != 8 {
		t.Errorf("what the runs wait for is said: %t, on %d nodes the bag that has the slots, and of %d tasks that they wait so", told, held, tied)
	}
	e.run(10 * 60 * sec)
	n := e.w.heard(e.bag, launcher.TasksFinished)
	if n == nil || n.Tally.OK < 2 || n.Tally.OK+n.Tally.Failed != 20 || int(n.Tally.Failed) != len(e.refused) {
		t.Fatalf("the bag ended %+v, with %d refused, want some runs of 20 done", n, len(e.refused))
	}
	t.Logf("figure: of 20 tasks %d ok, %d refused", n.Tally.OK, n.Tally.Failed)
	for _, r := range e.refused {
		if !strings.Contains(r, "deadlock: ") || !strings.Contains(r, "filch submit -c 4 -- filch run") {
			t.Errorf("heard %s, want the reason and what to do", r)
		}
	}
	e.w.run(30 * sec)
	e.w.quiet()
}

// While any of the slots can still come free, nobody is refused.
func TestWhatCanEndIsNoKnot(t *testing.T) {
	for _, c := range []struct {
		name  string
		loose func(launcher.ClientID) bool
	}{
		{"some-tasks-end", func(c launcher.ClientID) bool { return c%2 == 0 }},
		{"a-node-does-not-answer", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnsemble(t, 2, 8, 4, 60*sec, c.loose)
			if c.loose == nil {
				all := e.w.ties
				e.w.ties = func(h *host) []launcher.Tie {
					if h.Name == "n2" {
						return nil
					}
					return all(h)
				}
			}
			e.run(10 * 60 * sec)
			if n := e.w.heard(e.bag, launcher.TasksFinished); len(e.refused) > 0 || n == nil || n.Tally.OK != 8 {
				t.Errorf("the bag ended %+v, refused %v", n, e.refused)
			}
		})
	}
}

// A run that waits for a run that waits for the slots of both waits for itself, and
// so does one that was submitted where its parent has a part of what it needs.
func TestAChainOfRunsIsAKnot(t *testing.T) {
	for _, links := range []int{1, 2} {
		w := newNet(t, 2, 4)
		w.behave = func(k *keeper) { k.at = 3600 * sec }
		w.ties = func(h *host) []launcher.Tie { return h.node.Ties() }
		last := w.submit("n1", 1, gang(1))
		for i := range links - 1 {
			r := gang(1)
			r.Inside.Job = last
			last = w.submit("n1", launcher.ClientID(2+i), r)
		}
		w.run(sec)
		r := gang(8)
		r.Inside.Job = last
		id := w.submit("n1", 9, r)
		w.run(6 * sec)
		x, err := w.nodes["n1"].node.Explain(w.Now(), id)
		if want := fmt.Sprintf("%d slots are held by %d tasks and runs", links, links); err != nil || !strings.Contains(x.Text, want) {
			t.Errorf("explains %+v, %v, want %q", x, err, want)
		}
		w.run(4 * sec)
		if last := w.last(); !strings.Contains(last, "client 9: Refused 125") || !strings.Contains(last, "deadlock: ") {
			t.Errorf("%d links: heard %s, want a refusal", links, last)
		}
		// With a time limit, the outer run ends, and that is waited for.
		timed := gang(4)
		timed.Policy.TimeLimit, timed.Shape.Only = 3000*sec, []filch.NodeName{"n2"}
		timed.Shape.Ranks = 1
		outer := w.submit("n2", 20, timed)
		w.run(sec)
		r.Inside.Job = outer
		before := len(w.replies)
		id = w.submit("n2", 21, r)
		w.run(300 * sec)
		if heard := strings.Join(w.replies[before:], "\n"); strings.Contains(heard, "Refused") {
			t.Errorf("job %d inside of one that ends by itself: heard %s", id, heard)
		}
	}
}

// A step that needs the slots of the step that it was started in waits for itself.
func TestAStepInsideOfAStepIsAKnot(t *testing.T) {
	w := newNet(t, 1, 4)
	w.behave = func(k *keeper) { k.at = 3600 * sec }
	w.ties = func(h *host) []launcher.Tie { return h.node.Ties() }
	inside := func(parent filch.JobID, slots int32) filch.JobID {
		r := step(parent, 1)
		r.Inside.Job, r.Shape.PerRank.Slots = parent, slots
		defer w.run(sec)
		return w.submit("n1", launcher.ClientID(10*parent), r)
	}
	outer := gang(1)
	outer.Shape.PerRank.Slots = 2
	a := w.submit("n1", 1, outer)
	w.run(sec)
	b := inside(a, 1)
	c := inside(b, 1)
	if got := w.ranksOf(c); got != "n1:[{0 1}]" {
		t.Fatalf("a step beside the one that it was started in is on %s", got)
	}
	d := inside(c, 1)
	w.run(6 * sec)
	if x, err := w.nodes["n1"].node.Explain(w.Now(), d); err != nil || !strings.Contains(x.Text, "deadlock: 2 slots are held") {
		t.Errorf("explains %+v, %v, want the deadlock", x, err)
	}
	w.run(3 * sec)
	if last := w.last(); !strings.Contains(last, fmt.Sprintf("client %d: Refused 125", 10*c)) || !strings.Contains(last, "--new-job") {
		t.Errorf("heard %s, want a refusal of the last", last)
	}
}
