package policy

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

// TestAnnouncer: of many nodes, as many hear of the ready tasks of a workflow as there are tasks, at
// most 256 at once: when there are twice as many as at the last round, and again after a wait. Of few
// nodes, and of a bag, no more hear than of any work.
func TestAnnouncer(t *testing.T) {
	const sec = time.Second
	type look struct {
		at    time.Duration
		ready int64 // 0: the node has no tasks for others
		hear  int
	}
	for _, c := range []struct {
		name    string
		nodes   int
		victims Victims
		looks   []look
	}{
		{"many nodes", 401, Random, []look{{sec, 300, 256}, {sec + callAgain/2, 600, 0}, {sec + callAgain, 600, 256}, {sec + callAgain + 2*newsAgain, 1201, 256}}},
		{"fewer tasks than nodes", 401, Random, []look{{sec, 30, 30}, {2 * sec, 0, 0}, {3 * sec, 40, 40}}},
		{"less than usual", 401, Random, []look{{sec, 3, 20}}},
		{"few nodes", 17, Random, []look{{sec, 300, 4}, {sec + callAgain, 300, 0}}},
		{"lifelines", 401, Lifeline, []look{{sec, 300, 0}}},
	} {
		m := slotted(c.nodes, func(int) int32 { return 2 })
		b := Bulletin{Press: Press{heard: true}}
		for i, l := range c.looks {
			if l.ready == 0 {
				b.Idle()
				continue
			}
			b.Fresh = i == 0
			w := News{Self: m.At(0).Name, Ready: l.ready, Victims: c.victims, Fits: func(*filch.Member) bool { return true }}
			if got := b.Round(l.at, 0, m, w, new(filch.Rand)); len(got) != l.hear {
				t.Errorf("%s: %d nodes hear of %d tasks at %v, want %d", c.name, len(got), l.ready, l.at, l.hear)
			}
		}
	}
	var h Announcer
	if h.Next() != filch.Never {
		t.Errorf("with no tasks a round is due at %v", h.Next())
	}
	for range 20 {
		h.told(sec, 5)
	}
	if got := h.Next(); got != sec+PollRest {
		t.Errorf("after 20 rounds the next is at %v, want %v after the last", got, PollRest)
	}
}

// TestNewsComeToRest: after a look the next round is later than the look, whatever changed between two
// looks. A deadline that stays in the past would turn the node's loop for ever.
func TestNewsComeToRest(t *testing.T) {
	const few, many = 5, 40
	for seed := range filch.Rand(200) {
		r, now := seed+1, time.Second
		m := map[int]*Members{few: slotted(few, func(int) int32 { return 2 }), many: slotted(many, func(int) int32 { return 2 })}
		var b Bulletin
		for range 50 {
			now += []time.Duration{0, newsAgain / 2, newsAgain, callAgain, PollRest}[r.IntN(5)]
			if r.IntN(8) == 0 {
				b.Idle()
			}
			nodes := m[[]int{few, many}[r.IntN(2)]]
			w := News{Self: nodes.At(0).Name, Ready: int64(r.IntN(3) * r.IntN(100)), Victims: []Victims{Random, Lifeline}[r.IntN(2)], Fits: func(*filch.Member) bool { return true }}
			b.Round(now, 0, nodes, w, &r)
			if next := b.Next(now); next <= now {
				t.Fatalf("seed %d: after a look at %v with %d ready tasks, victims %v, the next round is at %v", seed, now, w.Ready, w.Victims, next)
			}
		}
	}
}
