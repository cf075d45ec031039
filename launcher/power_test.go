package launcher_test

import (
	"testing"

	. "github.com/filch-hpc/filch/launcher"
)

// The start of a task that runs once is on the disks of all who keep its record before
// the task begins: where all lose their power just then, none begins it again.
func TestATaskThatRunsOnceOutlivesAPowerCut(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 500 * ms }
	w.chores.lasts = sec
	starts, off := map[int32]int{}, false
	w.chores.end = func(_ *host, l TaskLaunch) TaskEnd {
		starts[l.Start.Index]++
		if !off {
			off = true
			w.After(100*usec, func() {
				for _, name := range w.names {
					w.crash(name, true)
					w.nodes[name].chores = nil
				}
			})
		}
		return TaskEnd{}
	}
	w.submit("n1", 1, ranks(12)) // the records of the bag are on disk by the time that this ends
	id := w.bag("n1", 2, 40, func(s *TaskSubmission) { s.Spec.Once = true })
	w.until("a task to begin", 10*sec, func() bool { return off })
	w.run(sec)
	begun := len(starts)
	for _, name := range w.names {
		w.restart(name)
	}
	h := w.nodes["n2"]
	h.input(func(out *Outbox) { h.node.FollowTasks(w.Now(), 3, id, out) })
	if got := w.tally(id, 120*sec); got.Sum() != 40 || got.OK < 40-int32(begun) {
		t.Errorf("%d tasks had begun, and the bag ended %+v", begun, got)
	}
	for i, n := range starts {
		if n > 1 {
			t.Errorf("task %d was started %d times", i, n)
		}
	}
}
