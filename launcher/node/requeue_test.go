package node_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// requeue asks the node of a job to start the job again.
func (w *net) requeue(at filch.NodeName, id filch.JobID) (err *filch.Error) {
	h := w.nodes[at]
	h.input(func(out *launcher.Outbox) { err = h.node.Requeue(w.Now(), id, "user", out) })
	return err
}

// A run that is started again ends its ranks, waits with its number and ticket, and has
// one attempt more. What cannot start again is refused with the reason.
func TestRequeueOfARun(t *testing.T) {
	w := newNet(t, 4, 4)
	var wrong string
	onceOnly(w, &wrong)
	r := gang(8)
	r.Policy.KillWait = 3 * sec
	id := w.detach("n1", 1, r)
	w.run(2 * sec)
	if err := w.requeue("n1", id); err != nil {
		t.Fatal(err)
	}
	if err := w.requeue("n1", id); err != nil {
		t.Errorf("the second request was refused: %v", err)
	}
	w.run(8 * sec)
	if i, _ := w.told(id); i.Attempt != 2 || i.State != "running" {
		t.Errorf("got %+v, want the second attempt to run", i)
	}
	if err := w.requeue("n1", id); err != nil {
		t.Error(err)
	}
	if i := w.ends(id, 0); i.Attempt != 3 {
		t.Errorf("ended %+v, want the third attempt", i)
	}
	if wrong != "" {
		t.Error(wrong)
	}
	attached := w.submit("n1", 1, gang(4))
	for _, c := range []struct {
		id   filch.JobID
		text string
	}{{id, "has ended already: ok"}, {id + 99, "there is no job"}, {attached, "only detached jobs start again"}} {
		if err := w.requeue("n1", c.id); err == nil || !strings.Contains(err.Text, c.text) {
			t.Errorf("got %v, want %s", err, c.text)
		}
	}
	w.run(60 * sec)
	w.quiet()
}

// A cancel that follows ends the job.
func TestACancelOverrulesARequeue(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at, k.stubborn = 60*sec, true }
	r := gang(8)
	r.Policy.KillWait = 5 * sec
	id := w.detach("n1", 1, r)
	w.run(2 * sec)
	if err := w.requeue("n1", id); err != nil {
		t.Fatal(err)
	}
	w.run(sec)
	n1 := w.nodes["n1"]
	n1.input(func(out *launcher.Outbox) { n1.node.Cancel(w.Now(), id, 0, "user", out) })
	w.run(10 * sec)
	if i, _ := w.told(id); i.Code == nil || i.State != "cancelled" || i.Attempt != 1 {
		t.Errorf("ended %+v, want cancelled", i)
	}
	w.quiet()
}

// The request outlives the owner: the next owner starts the job again, and its launcher
// after a restart does.
func TestARequeueOutlivesItsOwner(t *testing.T) {
	for _, what := range []string{"restart", "dies"} {
		w := newNet(t, 6, 4)
		w.behave = func(k *keeper) { k.at, k.stubborn = 30*sec, true }
		r := gang(8)
		r.Shape.Exclude = []filch.NodeName{"n1"}
		r.Policy.KillWait = 6 * sec
		id := w.detach("n1", 1, r)
		w.run(2 * sec)
		if err := w.requeue("n1", id); err != nil {
			t.Fatal(err)
		}
		w.run(sec)
		if what == "restart" {
			w.crash("n1", false)
			w.run(200 * ms)
			w.restart("n1")
		} else {
			w.dies("n1")
		}
		w.until("the end of the job", 200*sec, func() bool { i, _ := w.told(id); return i.Code != nil })
		if i, _ := w.told(id); *i.Code != 0 || i.Attempt < 2 {
			t.Errorf("%s: ended %+v with %d, want 0 of another attempt", what, i, *i.Code)
		}
	}
}

// Of an array with a bound, at most so many jobs have slots at a time; the others wait in
// the order of submission, also after a restart of the launcher.
func TestAnArrayKeepsItsBound(t *testing.T) {
	w := newNet(t, 3, 4)
	most := 0
	w.behave = func(k *keeper) {
		k.at = 3 * sec
		live := 0
		for _, n := range w.names {
			live += w.live(n)
		}
		most = max(most, live)
	}
	var ids []filch.JobID
	for range 6 {
		r := gang(1)
		r.Array = launcher.Array{Key: "a", Most: 2}
		ids = append(ids, w.detach("n1", 1, r))
	}
	other := w.detach("n1", 1, gang(1))
	w.run(sec)
	if i, _ := w.told(other); i.State != "running" {
		t.Errorf("a job beside the array is %s", i.State)
	}
	n1 := w.nodes["n1"]
	if x, err := n1.node.Explain(w.Now(), ids[5]); err != nil || !strings.Contains(x.Text, "at most 2 jobs of its array run at a time") {
		t.Errorf("got %+v, %v", x, err)
	}
	n1.input(func(out *launcher.Outbox) { n1.node.Cancel(w.Now(), ids[2], 0, "user", out) })
	w.crash("n1", false)
	w.run(200 * ms)
	w.restart("n1")
	for i, id := range ids {
		code := int32(0)
		if i == 2 {
			code = filch.ExitCancelled
		}
		w.ends(id, code)
	}
	if most > 3 {
		t.Errorf("%d jobs had slots at a time, want 2 of the array and one other", most)
	}
	w.quiet()
}
