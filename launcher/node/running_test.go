package node_test

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
)

// Running tasks are listed by their nodes, the longest first; of several nodes' answers
// the longest are kept.
func TestRunningTasksAreListed(t *testing.T) {
	w := newNet(t, 1, 2)
	id := w.bag("n1", 1, 5, sleeps(3*sec))
	h := w.nodes["n1"]
	w.run(2 * sec)
	list := h.node.RunningTasks(w.Now(), id)
	if len(list.Tasks) != 2 || list.More != 0 {
		t.Fatalf("got %+v, want the two tasks that have slots", list)
	}
	for i, r := range list.Tasks {
		if r.Index != int32(i) || r.Node != "n1" || r.Attempt != 1 || r.Took < 1 || r.Took > 2 {
			t.Errorf("task %d is listed as %+v", i, r)
		}
	}
	w.run(2 * sec)
	if list = h.node.RunningTasks(w.Now(), id); len(list.Tasks) != 2 || list.Tasks[0].Index != 2 || list.Tasks[0].Took > 2 {
		t.Errorf("after the first two: got %+v, want the next two", list)
	}
	w.run(20 * sec)
	if list = h.node.RunningTasks(w.Now(), id); len(list.Tasks) != 0 {
		t.Errorf("after the end: got %+v", list)
	}
}

// A task that has ended, and whose end is being recorded, neither runs nor is ready.
func TestEndsOnTheirWayAreListed(t *testing.T) {
	w := newNet(t, 1, 3)
	id := w.bag("n1", 1, 9, sleeps(3*sec))
	h := w.nodes["n1"]
	w.run(5 * sec)
	list := h.node.RunningTasks(w.Now(), id)
	if len(list.Tasks) != 3 || list.Tasks[0].Index != 3 || len(list.Ended) != 0 {
		t.Fatalf("got %+v, want three tasks that run", list)
	}
	h.input(func(out *launcher.Outbox) {
		h.node.OrderTasks(w.Now(), id, record.Orders{Cancels: []record.Pick{{From: 4, Count: 1}}}, out)
	})
	for end := w.Now() + sec; slices.ContainsFunc(list.Tasks, func(r launcher.RunningTask) bool { return r.Index == 4 }); list = h.node.RunningTasks(w.Now(), id) {
		if w.run(ms); w.Now() > end {
			t.Fatal("the cancelled task runs on")
		}
	}
	if ended := list.Ended; len(ended) != 1 || ended[0].Index != 4 || ended[0].State != "cancelled" || ended[0].Node != "n1" || ended[0].Took < 1 || ended[0].Attempts != 1 {
		t.Errorf("the ends that are being recorded are %+v, want that of the cancelled task", ended)
	}
	if here := h.node.TasksHere(id); here.Ended == nil || *here.Ended != (launcher.TaskCounts{Total: 1, Cancelled: 1}) {
		t.Errorf("the ends that are being recorded are counted as %+v, want one cancelled task", here.Ended)
	}
	w.run(sec / 2)
	if list := h.node.RunningTasks(w.Now(), id); len(list.Ended) != 0 {
		t.Errorf("half a second later: got %+v", list.Ended)
	}
	if here := h.node.TasksHere(id); here.Ended != nil {
		t.Errorf("half a second later: %+v", here.Ended)
	}
}

func TestTheLongestRunningTasksAreKept(t *testing.T) {
	var list launcher.RunningTasks
	for n := range 3 {
		var more launcher.RunningTasks
		for i := range launcher.MaxRunning {
			more.Tasks = append(more.Tasks, launcher.RunningTask{Index: int32(i), Node: "n1", Took: float64(i % 1000 * (n + 1))})
		}
		more.More = 5
		list.Add(&more)
	}
	if len(list.Tasks) != launcher.MaxRunning || list.More != 2*launcher.MaxRunning+15 {
		t.Errorf("%d tasks are kept, and %d left out", len(list.Tasks), list.More)
	}
	if first, last := list.Tasks[0], list.Tasks[launcher.MaxRunning-1]; first.Took != 3*999 || last.Took < 999 {
		t.Errorf("the list goes from %v to %v seconds", first.Took, last.Took)
	}
}

// The ranks of a gang run where it found slots, with the node that has the task or without it.
func TestTheNodesOfARunningGangAreListed(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 10 * sec }
	id := w.bag("n1", 1, 3, ofGangs(4, 2))
	w.until("the gangs to run", 10*sec, func() bool {
		for i := range 3 {
			if len(w.running(launcher.TaskID{Job: id, Index: launcher.TaskIndex(i)}, 0)) < 2 {
				return false
			}
		}
		return true
	})
	seen := 0
	for _, name := range w.names {
		h := w.nodes[name]
		for _, r := range h.node.RunningTasks(w.Now(), id).Tasks {
			seen++
			want := map[filch.NodeName]bool{}
			for _, k := range w.running(launcher.TaskID{Job: id, Index: launcher.TaskIndex(r.Index)}, 0) {
				want[k.start.Launch.Nodes[k.start.Index].Node] = true
			}
			now := h.node.TaskNow(w.Now(), 0, id, r.Index, r.Index)
			if len(r.Nodes) != len(want) || !slices.Equal(now.Nodes, r.Nodes) || slices.ContainsFunc(r.Nodes, func(n filch.NodeName) bool { return !want[n] }) {
				t.Errorf("task %d of %s is listed on %v and %v, and has ranks on %v", r.Index, name, r.Nodes, now.Nodes, want)
			}
		}
	}
	if seen != 3 {
		t.Errorf("%d gangs are listed, want 3", seen)
	}
}
