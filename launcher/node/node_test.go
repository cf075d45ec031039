package node_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

func TestLocalJobSendsNoMessage(t *testing.T) {
	w := newNet(t, 4, 4)
	id := w.submit("n1", 1, gang(4))
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
	id := w.submit("n1", 1, gang(16))
	w.run(5 * sec)
	if e := w.ended(id); e.Code != 0 {
		t.Errorf("ended %+v, want 0", e)
	}
	w.quiet()
}

func TestManyJobsUnderLoss(t *testing.T) {
	for seed := range uint64(40) {
		w := newNet(t, 6, 4)
		w.rng, w.dice = filch.Rand(seed), filch.Rand(seed)
		w.faults = faults{drop: 0.05, dup: 0.1, delayMax: 2 * ms}
		w.behave = func(k *keeper) { k.at = 200 * ms }
		var ids []filch.JobID
		for i := range 12 {
			ids = append(ids, w.submit(w.names[i%6], launcher.ClientID(i+1), gang(int32(1+(i*7)%24))))
			w.run(3 * ms)
		}
		w.calm(120 * sec)
		for _, id := range ids {
			if e := w.ended(id); e.Code != 0 {
				t.Errorf("seed %d: ended %+v, want 0", seed, e)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestCrashExplainsAbort has a rank of another node killed, and one of the
// origin's node abort since it lost its peer: the abort is known first.
func TestCrashExplainsAbort(t *testing.T) {
	for _, first := range []launcher.RankEnd{{Kind: launcher.CauseAbort, Code: 15}, {Kind: launcher.CauseExit, Code: 15}} {
		w := newNet(t, 2, 1)
		w.faults.delayMax = 0 // every message takes 20 us, the go too
		w.behave = func(k *keeper) {
			r := k.start.Launch.Nodes[k.start.Index].Ranks[0].First
			k.at = 400 * ms
			end := first
			if k.start.Index > 0 {
				end = launcher.RankEnd{Kind: launcher.CauseSignal, Code: 11}
				k.at -= 20 * time.Microsecond
			}
			end.Rank = r
			k.ends = []launcher.RankEnd{end}
		}
		id := w.submit("n1", 1, gang(2))
		w.run(10 * sec)
		want := int32(139)
		if first.Kind == launcher.CauseExit {
			want = 15
		}
		if e := w.ended(id); e.Code != want {
			t.Errorf("after %+v ended with %d, want %d", first, e.Code, want)
		}
	}
}
