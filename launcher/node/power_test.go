package node_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/submit"
)

// The start of a task that runs once is on the disks of all who keep its record before
// the task begins: where all lose their power just then, none begins it again.
func TestATaskThatRunsOnceOutlivesAPowerCut(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 500 * ms }
	w.chores.lasts = sec
	starts, off := map[int32]int{}, false
	w.chores.end = func(_ *host, l launcher.TaskLaunch) launcher.TaskEnd {
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
		return launcher.TaskEnd{}
	}
	w.submit("n1", 1, gang(12)) // the records of the bag are on disk by the time that this ends
	id := w.bag("n1", 2, 40, func(s *submit.Job) { s.Spec.Once = true })
	w.until("a task to begin", 10*sec, func() bool { return off })
	w.run(sec)
	begun := len(starts)
	for _, name := range w.names {
		w.restart(name)
	}
	h := w.nodes["n2"]
	h.input(func(out *launcher.Outbox) { h.node.FollowTasks(w.Now(), 3, id, out) })
	if got := w.tally(id, 120*sec); got.Sum() != 40 || got.OK < 40-int32(begun) {
		t.Errorf("%d tasks had begun, and the bag ended %+v", begun, got)
	}
	for i, n := range starts {
		if n > 1 {
			t.Errorf("task %d was started %d times", i, n)
		}
	}
}

// The counter of job ids is on the disks of all who keep it before an id is given:
// where all lose their power just then, no id is given twice. Found by the whole-node
// simulator (seed 11931).
func TestNoIDIsGivenTwiceAfterAPowerCut(t *testing.T) {
	for lasts := range 20 {
		w := newNet(t, 3, 4)
		given, client := map[filch.JobID]bool{}, launcher.ClientID(0)
		submit := func(name filch.NodeName) {
			client++
			w.submit(name, client, gang(1))
			for w.accepted[client] == 0 && w.Now() < 20*sec {
				w.run(10 * usec)
			}
			if id := w.accepted[client]; given[id] {
				t.Errorf("power lost %d us after an id of a new block: job %d is there twice", 20*lasts, id)
			} else {
				given[id] = true
			}
		}
		for range records.BlockMin + 1 { // the last one is of another block
			submit("n1")
		}
		w.run(time.Duration(20*lasts) * usec)
		for _, name := range w.names {
			w.crash(name, true)
		}
		for _, name := range w.names {
			w.restart(name)
		}
		for _, name := range []filch.NodeName{"n3", "n2", "n1"} {
			for range 2 * records.BlockMin {
				submit(name)
			}
		}
	}
}
