package launcher_test

import (
	"testing"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/launcher"
)

func TestLocalJobSendsNoMessage(t *testing.T) {
	w := newNet(t, 4, 4)
	id := w.submit("n1", 1, ranks(4))
	w.run(5 * sec)
	if e := w.ended(id); e.Code != 0 || e.State != filch.OK {
		t.Errorf("ended %+v, want 0", e)
	}
	if w.sent != 0 {
		t.Errorf("sent %d messages, want none", w.sent)
	}
	w.quiet()
}

func TestJobOverFourNodes(t *testing.T) {
	w := newNet(t, 4, 4)
	id := w.submit("n1", 1, ranks(16))
	w.run(5 * sec)
	if e := w.ended(id); e.Code != 0 {
		t.Errorf("ended %+v, want 0", e)
	}
	w.quiet()
}

func TestManyJobsUnderLoss(t *testing.T) {
	for seed := range uint64(40) {
		w := newNet(t, 6, 4)
		w.rng = seed
		w.faults = faults{drop: 0.05, dup: 0.1, delayMax: 2 * ms}
		w.behave = func(k *keeper) { k.at = 200 * ms }
		var ids []filch.JobID
		for i := range 12 {
			ids = append(ids, w.submit(w.names[i%6], ClientID(i+1), ranks(int32(1+(i*7)%24))))
			w.run(3 * ms)
		}
		w.run(120 * sec)
		for _, id := range ids {
			if e := w.ended(id); e.Code != 0 {
				t.Errorf("seed %d: ended %+v, want 0", seed, e)
			}
		}
		w.run(30 * sec)
		w.quiet()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
