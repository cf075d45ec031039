package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

func linesOf(n int) (lines [][]byte) {
	for i := range n {
		lines = append(lines, fmt.Appendf([]byte{launcher.PayloadLine}, "echo %d", i))
	}
	return lines
}

// A client that goes before all of its job was submitted leaves none that is
// open for ever; one that goes after it was closed leaves all of it.
func TestClientGoesInTheMiddleOfASubmission(t *testing.T) {
	w := newNet(t, 3, 4)
	w.chores.lasts = 100 * ms
	part := func(s *submit.Job) {
		s.Open, s.Partial, s.Lines, s.Spec.Payloads = true, true, linesOf(40), true
	}
	h := w.nodes["n1"]
	follow := func(id filch.JobID) {
		o := w.nodes["n2"]
		o.input(func(out *launcher.Outbox) { o.node.FollowTasks(w.Now(), 99, id, out) })
	}
	cut := w.bag("n1", 1, 40, part)
	follow(cut)
	whole := w.bag("n1", 2, 40, part)
	follow(whole)
	h.input(func(out *launcher.Outbox) { h.node.GrowTasks(w.Now(), 2, whole, 7, 0, linesOf(5), out) })
	w.until("the addition", 10*sec, func() bool { return w.heard(whole, launcher.TasksAdded) != nil })
	h.input(func(out *launcher.Outbox) { h.node.CloseTasks(w.Now(), whole, out) })
	for client := range launcher.ClientID(3) {
		h.input(func(out *launcher.Outbox) { h.node.ClientGone(w.Now(), client, out) })
	}
	if got := w.tally(cut, 60*sec); got.Sum() != 40 || got.Cancelled == 0 {
		t.Errorf("a job of which more was to come ended %+v, want it cancelled", got)
	}
	if got := w.tally(whole, 60*sec); got.OK != 45 {
		t.Errorf("a job that was closed ended %+v, want 45 ok", got)
	}

	// Before it is accepted, too.
	before := len(w.jobs())
	s := submit.Job{Name: "bag", Total: 40, Follow: true, Spec: record.Spec{Each: filch.Room{Slots: 1}, Body: []byte{launcher.BodyOrder}}}
	part(&s)
	h.input(func(out *launcher.Outbox) { h.node.SubmitTasks(w.Now(), 5, s, int64(w.Now()), out) })
	h.input(func(out *launcher.Outbox) { h.node.ClientGone(w.Now(), 5, out) })
	w.run(sec)
	if len(w.jobs()) != before {
		t.Fatalf("who is gone was told of %v", w.jobs())
	}
	early := whole + 1
	follow(early)
	if got := w.tally(early, 60*sec); got.Sum() != 40 || got.Cancelled == 0 {
		t.Errorf("a job whose client went before it was accepted ended %+v, want it cancelled", got)
	}
	w.run(20 * sec)
	w.quiet()
}

// A change of the records of tasks takes longer than the store's own wait: a replica
// is silent, and not yet declared dead. What it takes from a dead node goes on.
func TestATakeThatTakesLong(t *testing.T) {
	w := newNet(t, 7, 2)
	w.chores.lasts = 200 * ms
	const total = 600
	id := w.bag("n1", 1, total, nil)
	w.run(3 * sec)
	if w.chores.begun["n5"] == 0 {
		t.Fatalf("no task began on n5: %v", w.chores.begun)
	}
	w.crash("n5", true)
	w.nodes["n5"].chores = nil
	w.faults.cut = func(from, to filch.NodeName) bool { return (from == "n4") != (to == "n4") }
	w.declare("n5", filch.Dead)
	w.run(records.StoreWait + 3*sec)
	w.faults.cut = nil
	for end := w.Now() + 60*sec; w.Now() < end && w.heard(id, launcher.TasksFinished) == nil; {
		w.run(100 * ms)
	}
	news := w.heard(id, launcher.TasksFinished)
	switch {
	case news == nil:
		t.Fatalf("the bag has not ended: %+v", w.heard(id, launcher.TasksProgress))
	case news.Tally.OK != total:
		t.Errorf("the bag ended %+v", news.Tally)
	}
	w.run(20 * sec)
	w.quiet()
}

// said reports whether a client of a node heard something since.
func (w *net) said(since int, client launcher.ClientID, what string) bool {
	return slices.ContainsFunc(w.replies[since:], func(s string) bool {
		return strings.HasPrefix(s, fmt.Sprintf("n1 client %d: ", client)) && strings.Contains(s, what)
	})
}

// What cannot be added is told to the one who adds it, not to others who add to
// the same job or wait for its end.
func TestARefusalIsForTheClientThatAdds(t *testing.T) {
	w := newNet(t, 3, 4)
	id := w.bag("n1", 1, 40, func(s *submit.Job) {
		s.Open, s.Lines, s.Spec.Payloads = true, linesOf(40), true
	})
	h, since := w.nodes["n1"], len(w.replies)
	h.input(func(out *launcher.Outbox) { h.node.GrowTasks(w.Now(), 3, id, 8, 0, linesOf(2000), out) })
	h.input(func(out *launcher.Outbox) { h.node.GrowTasks(w.Now(), 2, id, 7, 5, nil, out) })
	w.until("the addition", 10*sec, func() bool { return w.heard(id, launcher.TasksAdded) != nil })
	if !w.said(since, 2, "cannot add") {
		t.Errorf("who added tasks without lines heard nothing: %q", w.replies[since:])
	}
	for _, other := range []launcher.ClientID{1, 3} {
		if w.said(since, other, "cannot add") {
			t.Errorf("client %d is told of what another one cannot add", other)
		}
	}
}

// All who add tasks hear when their node is declared dead, and hear of the end of
// the job all the same, as who only waits for it.
func TestAllClientsThatAddHearOfTheEndOfTheirNode(t *testing.T) {
	w := newNet(t, 5, 4)
	id := w.bag("n1", 1, 40, func(s *submit.Job) {
		s.Open, s.Lines, s.Spec.Payloads = true, linesOf(40), true
	})
	h, since := w.nodes["n1"], len(w.replies)
	w.tell = func(line string) {
		if strings.HasPrefix(line, "n1 tells 3: ") && strings.Contains(line, "Token:8") {
			w.faults.cut = func(from, to filch.NodeName) bool { return (from == "n1") != (to == "n1") }
		}
	}
	h.input(func(out *launcher.Outbox) { h.node.GrowTasks(w.Now(), 3, id, 8, 0, linesOf(4000), out) })
	h.input(func(out *launcher.Outbox) { h.node.GrowTasks(w.Now(), 2, id, 7, 0, linesOf(1), out) })
	w.until("the first addition", 10*sec, func() bool { return w.heard(id, launcher.TasksAdded) != nil })
	if n := w.heard(id, launcher.TasksAdded); n.Token != 8 {
		t.Fatalf("the addition %d was made first", n.Token)
	}
	w.split("n1")
	w.tell = nil
	w.heal("n1")
	if !w.said(since, 2, "declared dead") {
		t.Errorf("client 2, who adds, does not hear that its node was declared dead: %q", w.replies[since:])
	}
	if n := w.heard(id, launcher.TasksRefused); n == nil || n.Token != 7 {
		t.Errorf("%+v, want the refusal of addition 7: without its token it is one of the whole job", n)
	}
	if w.said(since, 1, "declared dead") {
		t.Error("client 1, who only waits, is told that its job could not be recorded")
	}
	o := w.nodes["n2"]
	o.input(func(out *launcher.Outbox) { o.node.CloseTasks(w.Now(), id, out) })
	w.until("the end of the bag", 300*sec, func() bool { return w.heard(id, launcher.TasksFinished) != nil })
	for _, client := range []launcher.ClientID{1, 2, 3} {
		if !w.said(since, client, fmt.Sprintf("What:%d", launcher.TasksFinished)) {
			t.Errorf("client %d does not hear of the end of the job", client)
		}
	}
	if n := w.heard(id, launcher.TasksFinished); n.Tally.Sum() < 4040 || n.Tally.OK < 4040 {
		t.Errorf("%+v, want at least the 4040 ok that were said to be added", n.Tally)
	}
}

// Who adds a task after the end of the one before does not wait for the next look for its line.
func TestTasksAddedOneByOneBeginSoon(t *testing.T) {
	w := newNet(t, 1, 4)
	w.chores.lasts = ms
	h := w.nodes["n1"]
	open := w.bag("n1", 1, 1, func(s *submit.Job) { s.Open, s.Lines, s.Spec.Payloads = true, linesOf(1), true })
	w.run(50 * ms)
	for i := range int32(20) {
		h.input(func(out *launcher.Outbox) { h.node.GrowTasks(w.Now(), 1, open, i+1, 0, linesOf(1), out) })
		w.run(10 * ms)
		if got := w.chores.begun["n1"]; got != int(i)+2 {
			t.Fatalf("10ms after task %d was added %d had begun", i+1, got)
		}
	}
}
