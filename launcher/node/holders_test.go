package node_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/submit"
)

// Every slot that is not free has a holder, whether a run, a task or a job that still
// gathers has the slot.
func TestEverySlotInUseHasAHolder(t *testing.T) {
	w := newNet(t, 2, 4)
	w.chores.lasts = 60 * sec
	w.behave = func(k *keeper) { k.at = 30 * sec }
	run := w.submit("n1", 1, gang(3))
	w.run(sec)
	limited := w.bag("n1", 2, 2, func(s *submit.Job) { s.Spec.Limit = 100 * sec })
	w.run(sec)
	endless := w.bag("n2", 3, 2, nil)
	w.run(2 * sec)
	gathers := w.submit("n2", 4, gang(6))
	w.run(2 * sec)
	sum := map[filch.JobID]launcher.Holder{}
	for _, name := range w.names {
		n := w.nodes[name].node
		used := int32(0)
		for _, h := range n.Holders(w.Now()) {
			used += h.Slots
			s, known := sum[h.Job]
			if s.Job = h.Job; known {
				s.Add(&h)
			} else {
				s = h
			}
			sum[h.Job] = s
		}
		if s := n.Slots(); used != s.Slots-s.Free {
			t.Errorf("the holders of %s have %d slots of %d, and %d are free", name, used, s.Slots, s.Free)
		}
	}
	if h := sum[run]; h.Slots != 3 || h.Tasks != 0 || h.Gathers {
		t.Errorf("got %+v of the run of 3 ranks", h)
	}
	if h := sum[limited]; h.Slots != 2 || h.Tasks != 2 || h.Left <= 90 || h.Left >= 100 {
		t.Errorf("got %+v of 2 tasks that are at most 100 s old", h)
	}
	if h := sum[endless]; h.Slots != 2 || h.Tasks != 2 || h.Left != 0 {
		t.Errorf("got %+v of 2 tasks without a limit", h)
	}
	if h := sum[gathers]; h.Slots != 1 || !h.Gathers {
		t.Errorf("got %+v of the run that gathers the last slot", h)
	}
}

// The nodes know of a running task, also when the start has no record.
func TestARunningTaskIsKnownByItsNode(t *testing.T) {
	w := newNet(t, 2, 2)
	w.chores.lasts = 60 * sec
	const wall = int64(time.Hour)
	id := w.bag("n1", 1, 6, func(s *submit.Job) { s.Spec.Limit = 100 * sec })
	w.run(3 * sec)
	for _, name := range w.names {
		led := w.nodes[name].node.Led(wall)
		if leads := name == "n1"; leads != (len(led) == 1 && led[0].ID == id && led[0].Tasks.Total == 6 && led[0].Code == nil) {
			t.Errorf("%s leads %+v; n1 leads the bag", name, led)
		}
	}
	running := 0
	for index := range int32(6) {
		for _, name := range w.names {
			h := w.nodes[name].node.TaskNow(w.Now(), wall, id, index, index)
			runs := false
			for _, l := range w.nodes[name].chores {
				runs = runs || l.Start.Index == index
			}
			if h.Running != runs {
				t.Errorf("%s says %+v of task %d, and the task runs there: %t", name, h, index, runs)
			}
			if !h.Running {
				continue
			}
			running++
			if h.Attempt != 1 || h.Took <= 1 || h.Took > 4 || h.Left+h.Took < 99.9 || h.Left+h.Took > 100.1 || max(h.BeganNS+int64(h.Took*1e9)-wall, wall-h.BeganNS-int64(h.Took*1e9)) > 1000 {
				t.Errorf("got %+v of task %d on %s within 4 s", h, index, name)
			}
		}
	}
	if running != 4 {
		t.Errorf("%d tasks run on 4 slots", running)
	}
	ready, runs := int64(0), int64(0)
	for _, name := range w.names {
		for _, l := range w.nodes[name].node.Live() {
			if l.Job != id {
				t.Errorf("%s has tasks of job %d", name, l.Job)
			}
			ready, runs = ready+l.Ready, runs+l.Running
		}
	}
	if ready != 2 || runs != 4 {
		t.Errorf("%d tasks are ready and %d run, of 6 on 4 slots", ready, runs)
	}
}
