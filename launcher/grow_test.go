package launcher_test

import (
	"fmt"
	"testing"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/stealer"
)

func linesOf(n int) (lines [][]byte) {
	for i := range n {
		lines = append(lines, fmt.Appendf([]byte{PayloadLine}, "echo %d", i))
	}
	return lines
}

// A client that goes before all of its job was submitted leaves none that is
// open for ever; one that goes after it was closed leaves all of it.
func TestClientGoesInTheMiddleOfASubmission(t *testing.T) {
	w := newNetWith(t, 3, 4, true)
	w.chores.lasts = 100 * ms
	part := func(s *TaskSubmission) {
		s.Open, s.Partial, s.Lines, s.Spec.Payloads = true, true, linesOf(40), true
	}
	h := w.nodes["n1"]
	follow := func(id filch.JobID) {
		o := w.nodes["n2"]
		o.input(func(out *Outbox) { o.node.FollowTasks(w.now, 99, id, out) })
	}
	cut := w.bag("n1", 1, 40, part)
	follow(cut)
	whole := w.bag("n1", 2, 40, part)
	follow(whole)
	h.input(func(out *Outbox) { h.node.GrowTasks(w.now, 2, whole, 7, 0, linesOf(5), out) })
	w.until("the addition", 10*sec, func() bool { return w.heard(whole, TasksAdded) != nil })
	h.input(func(out *Outbox) { h.node.CloseTasks(w.now, whole, out) })
	for client := range ClientID(3) {
		h.input(func(out *Outbox) { h.node.ClientGone(w.now, client, out) })
	}
	if got := w.tally(cut, 60*sec); got.Sum() != 40 || got.Cancelled == 0 {
		t.Errorf("a job of which more was to come ended %+v, want it cancelled", got)
	}
	if got := w.tally(whole, 60*sec); got.OK != 45 {
		t.Errorf("a job that was closed ended %+v, want 45 ok", got)
	}

	// Before it is accepted, too.
	before := len(w.jobs())
	s := TaskSubmission{Name: "bag", Total: 40, Follow: true, Spec: mtc.Spec{Each: mtc.Room{Slots: 1}, Body: []byte{BodyOrder}}}
	part(&s)
	h.input(func(out *Outbox) { h.node.SubmitTasks(w.now, 5, s, int64(w.now), out) })
	h.input(func(out *Outbox) { h.node.ClientGone(w.now, 5, out) })
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

// slowMerges has a change of the records of tasks take longer than the store's
// own wait: a replica is silent, and not yet declared dead. It must not be
// proposed anew: what the first one took from a dead node would be told to
// nobody, and wait for ever.
func slowMerges(t testing.TB) string {
	w := netOf(t, 7, 2, net{stored: true})
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
	w.declare("n5", stealer.Dead)
	w.run(StoreWait + 3*sec)
	w.faults.cut = nil
	for end := w.now + 60*sec; w.now < end && w.heard(id, TasksFinished) == nil; {
		w.run(100 * ms)
	}
	news := w.heard(id, TasksFinished)
	switch {
	case news == nil:
		return fmt.Sprintf("the bag has not ended: %+v", w.heard(id, TasksProgress))
	case news.Tally.OK != total:
		return fmt.Sprintf("the bag ended %+v", news.Tally)
	}
	w.run(20 * sec)
	w.quiet()
	return ""
}
