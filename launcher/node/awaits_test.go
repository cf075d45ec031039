package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// behind is a run that waits for an event of other jobs.
func behind(ranks int32, when record.When, ids ...filch.JobID) launcher.Request {
	r := gang(ranks)
	r.Before = record.Conditions{After: ids}
	for range ids {
		r.Before.When = append(r.Before.When, when)
	}
	return r
}

// fails makes a run of the net end badly.
func fails(k *keeper) {
	k.ends = []launcher.RankEnd{{Rank: k.start.Launch.Nodes[k.start.Index].Ranks[0].First, Kind: launcher.CauseExit, Code: 3}}
}

// state is the state of a run at its node.
func (w *net) state(name filch.NodeName, id filch.JobID) string {
	i, _ := w.nodes[name].node.Job(w.Now(), id)
	return i.State
}

// refusal is what a client heard when its run was refused; "" if nothing.
func (w *net) refusal(client launcher.ClientID) string {
	for _, line := range w.replies {
		if strings.Contains(line, "client "+string(rune('0'+client))+": Refused") {
			return line
		}
	}
	return ""
}

// Runs wait for a run, each for its own event, and hold no slot meanwhile; a run whose
// event can never come is skipped at once, with the reason.
func TestRunsAfterARun(t *testing.T) {
	for _, code := range []int32{0, 3} {
		w := newNet(t, 3, 4)
		w.behave = func(k *keeper) {
			if k.at = 5 * sec; code != 0 && k.start.Launch.Ident.Job == 1 {
				fails(k)
			}
		}
		first := w.detach("n1", 1, gang(2))
		runs := map[record.When]filch.JobID{}
		for when := record.WhenOK; when <= record.WhenNotOK; when++ {
			runs[when] = w.submit("n2", launcher.ClientID(2+when), behind(4, when, first))
		}
		w.run(2 * sec)
		for when, id := range runs {
			if x, _ := w.nodes["n2"].node.Explain(w.Now(), id); w.state("n2", id) != "waiting" || !strings.Contains(x.Text, "waits for job "+first.String()+" to end") {
				t.Errorf("%v of a run that goes on: %s, explained as %q", when, w.state("n2", id), x.Text)
			}
		}
		if free := w.free(); free != 10 {
			t.Errorf("%d slots are free, want all but those of the run", free)
		}
		w.run(4 * sec)
		for when, id := range runs {
			want := "running"
			if !when.Met(map[int32]filch.State{0: filch.OK, 3: filch.Failed}[code]) {
				want = "skipped"
				if said := w.refusal(launcher.ClientID(2 + when)); !strings.Contains(said, "is skipped: job 1 ended with the state") {
					t.Errorf("%v: the client hears %q", when, said)
				}
			}
			if got := w.state("n2", id); got != want {
				t.Errorf("%v of a run with code %d: got %s, want %s", when, code, got, want)
			}
		}
		w.run(30 * sec)
		w.quiet()
	}
}

// A run begins after the start of another run, and not before.
func TestRunAfterAStart(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 10 * sec }
	w.submit("n1", 1, gang(8))
	w.run(sec)
	first := w.detach("n1", 2, gang(4))
	second := w.detach("n2", 3, behind(4, record.WhenStarted, first))
	w.run(5 * sec)
	if got := w.state("n2", second); got != "waiting" {
		t.Errorf("%s before the start it waits for", got)
	}
	w.until("the start", 20*sec, func() bool { return w.state("n1", first) == "running" })
	w.until("the run after the start", 3*sec, func() bool { return w.state("n2", second) == "running" })
	w.ends(second, 0)
	w.run(20 * sec)
	w.quiet()
}

// The owner of the waited job dies, and another node goes on with that job; the run that
// waits begins when it has ended there.
func TestWaitedJobIsTakenOver(t *testing.T) {
	w := newNet(t, 4, 4)
	w.behave = func(k *keeper) { k.at = 25 * sec }
	r := gang(2)
	r.Shape.Only = []filch.NodeName{"n3"}
	first := w.detach("n1", 1, r)
	second := w.detach("n2", 2, behind(2, record.WhenOK, first))
	w.run(2 * sec)
	w.dies("n1")
	w.run(10 * sec)
	if i, _ := w.told(first); i.Hop != 1 || i.Code != nil {
		t.Fatalf("the waited job is %+v, want it taken over", i)
	}
	if got := w.state("n2", second); got != "waiting" {
		t.Errorf("%s while the waited job goes on", got)
	}
	w.ends(first, 0)
	w.until("the run", 5*sec, func() bool { return w.state("n2", second) == "running" })
	w.ends(second, 0)
	w.run(60 * sec)
	w.quiet()
}

// The origin of a waiting run dies: the node that takes the run over knows the conditions.
func TestWaiterIsTakenOver(t *testing.T) {
	for _, code := range []int32{0, 3} {
		w := newNet(t, 4, 4)
		w.behave = func(k *keeper) {
			if k.at = 25 * sec; code != 0 { // the rank fails in the middle
				k.at = 50 * sec
				fails(k)
			}
		}
		r := gang(2)
		r.Shape.Only = []filch.NodeName{"n3"}
		first := w.detach("n2", 1, r)
		second := w.detach("n1", 2, behind(2, record.WhenOK, first))
		w.run(sec)
		w.dies("n1")
		w.run(10 * sec)
		i, _ := w.told(second)
		if i.Hop != 1 || i.State != "waiting" || !strings.Contains(i.Cause, "waits for job") {
			t.Fatalf("the waiting run is %+v, want it taken over, and waiting", i)
		}
		w.ends(first, code)
		if code == 0 {
			w.until("the run", 5*sec, func() bool { return w.state(i.Origin, second) == "running" })
			w.ends(second, 0)
		} else if i = w.ends(second, filch.ExitOurs); i.State != "skipped" || !strings.Contains(i.Cause, "skipped: job") {
			t.Errorf("got %+v, want it skipped", i)
		}
		w.run(60 * sec)
		w.quiet()
	}
}

// A condition is met while the node of the waiting run is cut off: an attached run begins
// once the node hears of it, a detached run once, wherever its record is.
func TestConditionMetDuringACut(t *testing.T) {
	w := newNet(t, 5, 4)
	starts := map[filch.JobID]int{}
	w.behave = func(k *keeper) {
		k.at = 8 * sec
		if k.start.Index == 0 {
			starts[k.start.Launch.Ident.Job]++
		}
	}
	r := gang(2)
	r.Shape.Only = []filch.NodeName{"n3"}
	first := w.detach("n2", 1, r)
	here := w.submit("n1", 2, behind(2, record.WhenOK, first))
	there := w.detach("n1", 3, behind(2, record.WhenOK, first))
	w.run(sec)
	w.faults.cut = func(from, to filch.NodeName) bool { return (from == "n1") != (to == "n1") }
	w.ends(first, 0)
	w.run(3 * sec)
	if got := w.state("n1", here); got != "waiting" {
		t.Errorf("%s, although the node cannot know that the waited job ended", got)
	}
	w.faults.cut = nil
	w.until("the attached run", 15*sec, func() bool { return w.state("n1", here) == "running" })
	w.ends(there, 0)
	w.run(60 * sec)
	if len(starts) != 3 || starts[here] != 1 || starts[there] != 1 {
		t.Errorf("starts by job: %v, want one of each run", starts)
	}
	w.quiet()
}

// A launcher that is started again looks again at what its runs wait for.
func TestWaiterRestarts(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 6 * sec }
	first := w.detach("n2", 1, gang(2))
	second := w.detach("n1", 2, behind(2, record.WhenOK, first))
	w.run(sec)
	w.crash("n1", false)
	w.run(sec)
	w.restart("n1")
	w.run(sec)
	if got := w.state("n1", second); got != "waiting" {
		t.Errorf("%s after the restart", got)
	}
	w.ends(first, 0)
	w.ends(second, 0)
	w.run(20 * sec)
	w.quiet()
}

// A run that waits keeps its place: once it may begin, it goes before younger runs.
func TestWaiterKeepsItsTicket(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 5 * sec }
	first := w.detach("n1", 1, gang(2))
	second := w.detach("n1", 2, behind(8, record.WhenAny, first))
	w.run(sec)
	var young []filch.JobID
	for i := range 3 {
		young = append(young, w.detach("n2", launcher.ClientID(3+i), gang(8)))
	}
	w.ends(first, 0)
	w.until("the older run", 12*sec, func() bool { return w.state("n1", second) == "running" })
	if got := w.state("n2", young[2]); got != "waiting" {
		t.Errorf("the youngest run is %s", got)
	}
	w.run(60 * sec)
	w.quiet()
}

// Runs and bags begin at their time, by the clock of their node.
func TestBeginTime(t *testing.T) {
	w := newNet(t, 3, 4)
	w.chores.lasts = 100 * ms
	w.behave = func(k *keeper) { k.at = sec }
	at := w.Now() + 20*sec
	r := gang(2)
	r.Before.Begin = int64(at)
	run := w.submit("n1", 1, r)
	bag := w.bag("n2", 2, 3, func(s *submit.Job) { s.Begin = int64(at) })
	w.run(15 * sec)
	if got := w.state("n1", run); got != "waiting" || len(w.chores.begun) > 0 {
		t.Errorf("5 s before the time to begin the run is %s, and %v tasks began", got, w.chores.begun)
	}
	w.until("the run", 6*sec, func() bool { return w.state("n1", run) == "running" })
	if late := w.Now() - at; late < 0 || late > 100*ms {
		t.Errorf("the run began %v after its time", late)
	}
	if got := w.tally(bag, 2*sec); got.OK != 3 {
		t.Errorf("the bag ended %+v", got)
	}
	w.run(20 * sec)
	w.quiet()
}

// Of jobs that share a name, runs and bags, on all nodes, one runs at a time.
func TestOneOfANameAtATime(t *testing.T) {
	w := newNet(t, 4, 4)
	w.chores.lasts = 2 * sec
	w.behave = func(k *keeper) { k.at = 2 * sec }
	r := gang(2)
	r.Name, r.Before.Alone = "solve", true
	var runs []filch.JobID
	for i := range 4 {
		runs = append(runs, w.submit(w.names[i%4], launcher.ClientID(1+i), r))
	}
	bag := w.bag("n3", 9, 2, func(s *submit.Job) { s.Name, s.Alone = "solve", true })
	for end := w.Now() + 30*sec; w.Now() < end; w.run(50 * ms) {
		live := 0
		for _, name := range w.names {
			live += w.live(name)
		}
		if len(w.nodes["n3"].chores) > 0 || len(w.nodes["n1"].chores) > 0 {
			live++
		}
		if live > 1 {
			t.Fatalf("at %v %d jobs of the name run", w.Now(), live)
		}
	}
	for _, id := range runs {
		if e := w.ended(id); e.State != filch.OK {
			t.Errorf("job %d ended %v", id, e.State)
		}
	}
	if got := w.tally(bag, time.Second); got.OK != 2 {
		t.Errorf("the bag ended %+v", got)
	}
	w.quiet()
}

// A run waits for a task of a bag, and a bag for a task of another bag.
func TestAfterATask(t *testing.T) {
	w := newNet(t, 3, 4)
	w.chores.lasts = 3 * sec
	w.behave = func(k *keeper) { k.at = sec }
	bag := w.bag("n1", 1, 40, nil)
	part := func(index int32) record.Conditions {
		return record.Conditions{After: []filch.JobID{bag}, Parts: []record.Part{{Tasks: record.Pick{From: index, Count: 1}, Name: "a"}}}
	}
	r := gang(1)
	r.Before = part(0)
	first := w.submit("n2", 2, r)
	r.Before = part(39)
	last := w.submit("n2", 3, r)
	next := w.bag("n3", 4, 2, func(s *submit.Job) { s.Conditions = part(0) })
	w.run(2 * sec)
	if got := w.state("n2", first); got != "waiting" {
		t.Errorf("%s before the end of the task", got)
	}
	w.until("the run after the first task", 5*sec, func() bool { return w.state("n2", first) != "waiting" })
	if got := w.state("n2", last); got != "waiting" {
		t.Errorf("the run after the last task is %s", got)
	}
	if got := w.tally(next, 60*sec); got.OK != 2 {
		t.Errorf("the bag after a task ended %+v", got)
	}
	w.until("the run after the last task", 60*sec, func() bool { return w.over(last) })
	w.run(20 * sec)
	w.quiet()
}

// A held run that waits begins after both: its release and its condition.
func TestHoldOfAWaiter(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 4 * sec }
	first := w.detach("n1", 1, gang(2))
	r := behind(2, record.WhenOK, first)
	r.HeldBy = "ann"
	early := w.detach("n1", 2, r)
	late := w.detach("n1", 3, r)
	if err := w.hold("n1", early, ""); err != nil {
		t.Fatal(err)
	}
	w.ends(first, 0)
	w.until("the released run", 3*sec, func() bool { return w.state("n1", early) == "running" })
	if got := w.state("n1", late); got != "waiting" {
		t.Errorf("a held run is %s", got)
	}
	if err := w.hold("n1", late, ""); err != nil {
		t.Fatal(err)
	}
	w.until("the other run", 3*sec, func() bool { return w.state("n1", late) == "running" })
	w.run(20 * sec)
	w.quiet()
}

// The client of a waiting run goes: the run ends. A step cannot wait.
func TestWaitersWithoutAWait(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 20 * sec }
	first := w.detach("n1", 1, gang(2))
	second := w.submit("n1", 2, behind(2, record.WhenOK, first))
	w.run(2 * sec)
	h := w.nodes["n1"]
	h.input(func(out *launcher.Outbox) { h.node.ClientGone(w.Now(), 2, out) })
	w.run(sec)
	if got := w.state("n1", second); got != "cancelled" {
		t.Errorf("%s without its client", got)
	}
	r := behind(1, record.WhenOK, 77)
	r.Parent = first
	w.submit("n1", 3, r)
	w.run(sec)
	if said := w.last(); !strings.Contains(said, "a step starts on the slots of its job") {
		t.Errorf("a step that waits: %s", said)
	}
	none := w.submit("n2", 4, behind(1, record.WhenAny, 9999))
	w.run(8 * sec)
	if said := w.refusal(4); w.state("n2", none) != "skipped" || !strings.Contains(said, "there is no job 9999 to wait for") {
		t.Errorf("%s: %s", w.state("n2", none), said)
	}
	w.run(20 * sec)
	w.quiet()
}
