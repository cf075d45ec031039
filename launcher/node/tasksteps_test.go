package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/origin"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/mtc/submit"
)

// taskWorld is a task of three slots on n1 that lives for so long; its steps
// live for two seconds.
func taskWorld(t *testing.T, lasts time.Duration) (w *net, bag filch.JobID, serial uint64) {
	w = newNet(t, 2, 4)
	w.chores.lasts = lasts
	w.behave = func(k *keeper) { k.at = 2 * sec }
	bag = w.bag("n1", 1, 1, func(s *submit.Job) { s.Spec.Each = filch.Room{Slots: 3} })
	w.until("the task to begin", 5*sec, func() bool { return len(w.nodes["n1"].chores) == 1 })
	for serial = range w.nodes["n1"].chores {
	}
	return w, bag, serial
}

// taskStep is what a task submits that types filch run.
func taskStep(bag filch.JobID, serial uint64, n int32) launcher.Request {
	r := step(bag, n)
	r.Task = serial
	return r
}

func (w *net) lastReply() string { return w.replies[len(w.replies)-1] }

func TestAStepOfATaskUsesItsSlots(t *testing.T) {
	w, bag, serial := taskWorld(t, 20*sec)
	id := w.submit("n1", 2, taskStep(bag, serial, 3))
	w.run(sec)
	n1 := w.nodes["n1"].node
	if s := n1.Slots(); s.Free != 1 || s.Jobs != 1 {
		t.Errorf("%+v, want three slots used, by a step inside its task", s)
	}
	i, ok := n1.Job(w.Now(), id)
	if !ok || i.Kind != "step" || i.Parent != bag || i.Task == nil || *i.Task != 0 || w.ranksOf(id) != "n1:[{0 3}]" {
		t.Errorf("step %+v on %s, want it on n1 as one of task %d.0", i, w.ranksOf(id), bag)
	}
	// A second one waits for its sibling, and says so.
	b := w.submit("n1", 3, taskStep(bag, serial, 2))
	if x, err := n1.Explain(w.Now(), b); err != nil || !strings.Contains(x.Text, "waits for slots of task") || !strings.Contains(x.Text, "that step "+id.String()+" uses") {
		t.Errorf("explains %+v, %v, want that it waits for its sibling", x, err)
	}
	// What is too large is refused at once, with what helps.
	w.submit("n1", 4, taskStep(bag, serial, 4))
	if last := w.lastReply(); !strings.Contains(last, "room for 3") || !strings.Contains(last, "--new-job") || !strings.Contains(last, "submit -c") {
		t.Errorf("heard %s, want a refusal with the numbers", last)
	}
	// A step of a step uses the task, too.
	w.run(1500 * ms)
	w.ended(id)
	c := w.submit("n1", 5, step(b, 1))
	w.run(5 * sec)
	for _, id := range []filch.JobID{b, c} {
		if e := w.ended(id); e.Code != 0 {
			t.Errorf("%d ended %+v, want 0", id, e)
		}
	}
	// Another node knows nothing of the task, nor does anybody when it has ended.
	w.submit("n2", 6, taskStep(bag, serial, 1))
	if last := w.lastReply(); !strings.Contains(last, "does not run on n2") {
		t.Errorf("heard %s, want a refusal where the task is not", last)
	}
	if got := w.tally(bag, 30*sec); got.OK != 1 {
		t.Errorf("the bag ended %+v", got)
	}
	w.submit("n1", 7, taskStep(bag, serial, 1))
	if last := w.lastReply(); !strings.Contains(last, "does not run on n1") {
		t.Errorf("heard %s, want a refusal when the task has ended", last)
	}
	w.quiet()
}

// What is left of the steps of a task when that ends is ended, and then only the
// task's end is told.
func TestStepsEndWithTheirTask(t *testing.T) {
	w, bag, serial := taskWorld(t, 3*sec)
	w.behave = func(k *keeper) { k.at, k.stubborn = 100*sec, true }
	detached := taskStep(bag, serial, 2)
	detached.Detach = true
	a := w.submit("n1", 2, taskStep(bag, serial, 1))
	w.submit("n1", 3, detached)
	w.run(sec)
	if s := w.nodes["n1"].node.Slots(); s.Jobs != 2 {
		t.Fatalf("%+v, want two steps that run", s)
	}
	c := w.submit("n1", 4, taskStep(bag, serial, 1))
	w.until("the task to end", 5*sec, func() bool { return len(w.nodes["n1"].chores) == 0 })
	w.run(500 * ms)
	if w.heard(bag, launcher.TasksFinished) != nil {
		t.Error("the bag ended while ranks of a step of its task ran")
	}
	if s := w.nodes["n1"].node.Slots(); s.Free != 1 {
		t.Errorf("%+v, want the slots of the task in use until its steps are over", s)
	}
	if got := w.tally(bag, 2*sec); got.OK != 1 {
		t.Errorf("the bag ended %+v", got)
	}
	w.run(sec)
	for _, j := range w.nodes["n1"].node.Jobs(w.Now()) {
		if j.Kind == "step" && (j.Code == nil || *j.Code == 0) {
			t.Errorf("step %+v, want it ended with its task", j)
		}
	}
	w.ended(a)
	if heard := strings.Join(w.replies, "\n"); !strings.Contains(heard, "ended while it waited") {
		t.Errorf("the step %d that waited heard nothing of the end: %s", c, heard)
	}
	w.run(10 * sec)
	w.quiet()
}

// A task whose launcher is restarted is ended by its runner. No step of it is left.
func TestStepsOfATaskEndWithTheirLauncher(t *testing.T) {
	w, bag, serial := taskWorld(t, 60*sec)
	w.behave = func(k *keeper) { k.at = 100 * sec }
	w.submit("n1", 2, taskStep(bag, serial, 1))
	waits := w.submit("n1", 3, taskStep(bag, serial, 3))
	w.run(sec)
	w.crash("n1", false)
	w.nodes["n1"].chores = nil
	w.run(sec)
	w.restart("n1")
	w.run(2 * sec)
	if len(w.nodes["n1"].keepers) > 0 {
		t.Errorf("%d keepers of steps are left", len(w.nodes["n1"].keepers))
	}
	w.run(10 * sec)
	for _, j := range w.nodes["n1"].node.Jobs(w.Now()) {
		if j.Code == nil && j.Kind == "step" {
			t.Errorf("step %+v is left, %d waited", j, waits)
		}
	}
	for _, h := range w.nodes {
		if s := h.node.Slots(); s.Jobs > 0 {
			t.Errorf("%s: %+v, want no part of a step", h.Name, s)
		}
	}
}

// A machine dies under a task that has a step, and is back. Another task of the same job
// runs there, under the same number: it is no host of that step, which is over. Found by
// the whole-node simulator (seed 15256: it ran once more, on slots of the other task).
func TestAStepDoesNotOutliveTheLauncherOfItsTask(t *testing.T) {
	for _, begun := range []bool{false, true} {
		w := newNet(t, 2, 4)
		w.chores.lasts = 2 * sec
		w.behave = func(k *keeper) { k.at = 60 * sec }
		bag := w.bag("n1", 1, 40, func(s *submit.Job) { s.Spec.Each = filch.Room{Slots: 3} })
		n1 := w.nodes["n1"]
		var serial uint64
		w.until("the second task here", 5*sec, func() bool {
			for k := range n1.chores {
				serial = max(serial, k)
			}
			return serial > 2
		})
		id := w.submit("n1", 2, taskStep(bag, serial, 3))
		if !begun {
			id = w.submit("n1", 3, taskStep(bag, serial, 3)) // waits for its sibling
		}
		w.run(500 * ms)
		w.crash("n1", true)
		n1.chores = nil
		w.run(100 * ms)
		w.restart("n1")
		w.until("a task to run with the number of the first", 30*sec, func() bool {
			_, ok := n1.chores[serial]
			return ok
		})
		w.run(ranks.AdoptGrace + origin.RepeatMax + sec)
		if k := w.live("n1"); k > 0 {
			t.Errorf("begun %t: %d keepers run on n1; want none: the steps are over", begun, k)
		}
		if i, ok := n1.node.Job(w.Now(), id); ok && i.State != "cancelled" {
			t.Errorf("begun %t: the step is %s; want cancelled", begun, i.State)
		}
	}
}
