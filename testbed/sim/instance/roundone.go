package instance

import (
	"fmt"
	"math"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// RoundOne traces 64 hosts while a job of each of several sizes starts, and
// lists what breaks the promise of the first round: it asks at most the square
// root of the nodes, or twice those needed; each lends at most half of its free
// room, rounded up; and a job that fits at home sends no message.
func RoundOne(looks engine.Looks) (lines []string) {
	const each = 8
	for _, ranks := range []int{1, each, each + 1, 40, 100, 64 * each / 2, 64 * each} {
		r := &roundOne{ranks: ranks, asked: make(map[int32]bool), free: make(map[int32]int32)}
		r.run(each, looks)
		lines = append(lines, r.lines...)
	}
	return lines
}

type roundOne struct {
	ranks    int
	asked    map[int32]bool
	free     map[int32]int32 // of each victim, before it answered
	first    uint32          // the first round that asked anybody else
	messages int
	lines    []string
}

func (r *roundOne) add(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf("%d ranks: ", r.ranks)+fmt.Sprintf(format, args...))
}

func (r *roundOne) run(each int, looks engine.Looks) {
	const hosts = 64
	w := NewWorld(Options{Seed: uint64(r.ranks), Hosts: hosts, Slots: int32(each), Links: engine.Quiet(), Calm: true, Looks: looks})
	w.peek = func(h *host, in *input) {
		if m, ok := in.body.(*launcher.Ask); ok && m.Half {
			r.free[h.Index] = h.node.Slots().Free
		}
	}
	w.watch = r.see
	w.add(plain(&job{host: 5, demand: demand{Submit: time.Millisecond, Slots: r.ranks, Runs: time.Second}}, 0))
	w.Run(time.Minute)
	w.checkQuiet()
	for _, v := range w.Broken() {
		r.add("%v", v)
	}
	need := (r.ranks + each - 1) / each
	most := max(int(math.Ceil(math.Sqrt(hosts))), 2*need)
	switch {
	case len(r.asked) > most:
		r.add("round one asks %d nodes, want at most %d", len(r.asked), most)
	case r.ranks <= each && r.messages > 0:
		r.add("they fit at home and cost %d messages, want none", r.messages)
	case r.ranks > each && len(r.asked) == 0:
		r.add("they do not fit at home, but nobody was asked in round one")
	}
}

func (r *roundOne) see(from, to *host, m launcher.Message) {
	r.messages++
	switch m := m.(type) {
	case *launcher.Ask:
		if r.first == 0 {
			r.first = m.Round
		}
		if m.Round == r.first {
			r.asked[to.Index] = true
		}
	case *launcher.Grant:
		if had, ok := r.free[from.Index]; ok && m.Round == r.first && m.Held > (had+1)/2 {
			r.add("%s lends %d of %d free, want at most half", from.Name, m.Held, had)
		}
	}
}
