package node_test

import (
	"encoding/binary"
	"testing"
	"time"

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
		w.until("a gang to end", 5*sec, func() bool { return w.over(g) })
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
