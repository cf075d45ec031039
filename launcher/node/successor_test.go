package node_test

import (
	"cmp"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// Brief tasks begin in the slots of others. No node has more tasks at a time than slots, gangs
// get slots all the same, and at the end no slot is missing.
func TestSuccessorsShareSlotsWithGangs(t *testing.T) {
	const slots = 4
	w := newNet(t, 3, slots)
	w.chores.lasts = ms
	w.behave = func(k *keeper) { k.at = 50 * ms }
	id := w.bag("n1", 1, 20_000, nil)
	w.run(200 * ms)
	if w.chores.waited == 0 {
		t.Fatal("no task is the successor of another")
	}
	for i := range 4 {
		g := w.submit(w.names[i%3], launcher.ClientID(10+i), gang(12))
		w.until("a gang to end", 300*ms, func() bool { return w.over(g) })
	}
	if n := w.tally(id, 60*sec); n.OK != 20_000 {
		t.Errorf("got %+v, want 20000 ok", n)
	}
	if w.chores.peak > slots {
		t.Errorf("a node had %d tasks at a time on %d slots", w.chores.peak, slots)
	}
	for _, name := range w.names {
		if free := w.nodes[name].node.Slots().Free; free != slots {
			t.Errorf("%s has %d free slots at the end, want %d", name, free, slots)
		}
	}
}

// Built-in tasks that sleep for a moment wait for the end of the task before them, too.
func TestSuccessorsAmongBuiltinTasks(t *testing.T) {
	w := newNet(t, 1, 2)
	const total, length = 200, 2 * ms
	began := w.Now()
	id := w.bag("n1", 1, total, func(s *submit.Job) {
		s.Spec = record.Spec{Each: s.Spec.Each, Body: binary.BigEndian.AppendUint64([]byte{launcher.BodySleep}, uint64(length))}
	})
	if n := w.tally(id, 10*sec); n.OK != total {
		t.Errorf("got %+v, want %d ok", n, total)
	}
	if took, least := w.Now()-began, time.Duration(total/2)*length; took < least {
		t.Errorf("%d tasks of %v took %v on two slots, want at least %v", total, length, took, least)
	}
}

// A run that wants the slots of brief tasks waits for the tasks that run, and not for the bag.
func TestRunsComeBetweenBriefTasks(t *testing.T) {
	for _, slots := range []int32{1, 2, 4} {
		w := newNet(t, 1, slots)
		w.chores.lasts = ms
		w.behave = func(k *keeper) { k.at = 5 * ms }
		w.bag("n1", 1, 20_000, nil)
		w.run(200 * ms)
		for i := range 4 {
			before := w.chores.waited
			g := w.submit("n1", launcher.ClientID(10+i), gang(slots))
			w.until("a run among brief tasks to end", 100*ms, func() bool { return w.over(g) })
			w.run(50 * ms)
			if w.chores.waited == before {
				t.Errorf("%d slots: after run %d no task is the successor of another", slots, i+1)
			}
		}
	}
}

// successor runs brief tasks until one waits on n1 for the end of another, and returns both.
func successor(w *net) (prev, next launcher.TaskLaunch) {
	h := w.nodes["n1"]
	w.until("a task to wait for another", sec, func() bool {
		for after, l := range h.waiting {
			prev, next = h.chores[after], l
		}
		return next.Serial != 0
	})
	return prev, next
}

// The successor of a task that cannot be killed goes back, and starts elsewhere as if for the
// first time.
func TestSuccessorOfAnUnkillableTask(t *testing.T) {
	const total = 400
	w := newNet(t, 1, 2)
	w.chores.lasts = ms
	id := w.bag("n1", 1, total, nil)
	prev, next := successor(w)
	h := w.nodes["n1"]
	delete(h.chores, prev.Serial)
	delete(h.waiting, prev.Serial)
	h.input(func(out *launcher.Outbox) {
		h.node.TaskEnds(w.Now(), []launcher.TaskEnd{
			{Serial: prev.Serial, Kind: launcher.CauseSignal, Code: 9, Began: 1, Ended: 2, Left: true},
			{Serial: next.Serial, Kind: launcher.CauseSignal, Code: 15, Told: true},
		}, out)
	})
	if n := w.tally(id, 60*sec); n.OK != total-1 || n.Killed != 1 {
		t.Errorf("got %+v, want %d ok and 1 killed", n, total-1)
	}
}

// When a runner dies, its tasks have crashed. A start that waited for the end of another does
// not count as an attempt, in which order ever the ends come.
func TestSuccessorsOfALostRunner(t *testing.T) {
	const total, slots = 400, 2
	for _, back := range []bool{false, true} {
		w := newNet(t, 1, slots)
		w.chores.lasts = ms
		id := w.bag("n1", 1, total, func(s *submit.Job) { s.Spec.CrashLimit = 1 })
		successor(w)
		h := w.nodes["n1"]
		ran := int32(len(h.chores))
		var ends []launcher.TaskEnd
		for _, all := range []map[uint64]launcher.TaskLaunch{h.chores, h.waiting} {
			for _, l := range all {
				ends = append(ends, launcher.TaskEnd{Serial: l.Serial, Kind: launcher.CauseNodeLost, Code: filch.ExitNodeLost})
			}
			clear(all)
		}
		slices.SortFunc(ends, func(a, b launcher.TaskEnd) int { return cmp.Compare(a.Serial, b.Serial) })
		if back {
			slices.Reverse(ends)
		}
		h.input(func(out *launcher.Outbox) { h.node.TaskEnds(w.Now(), ends, out) })
		if n := w.tally(id, 60*sec); n.Lost != ran || n.OK != total-ran {
			t.Errorf("backwards %t: got %+v, want %d lost, which ran, of %d", back, n, ran, total)
		}
	}
}
