package sim

import "time"

// Links says what the network does to messages. The zero value loses nothing
// and takes no time.
type Links struct {
	LatencyMin time.Duration
	LatencyMax time.Duration // drawn evenly, for each message: messages overtake each other
	Loss       float64       // of each message
	Dup        float64       // delivered a second time, promptly
	LateDup    float64       // delivered a second time after up to LateMax, as from a clogged path
	LateMax    time.Duration
}

// quiet is a cluster network on a good day: 20 to 80 us one way.
func quiet() Links {
	return Links{LatencyMin: 20 * time.Microsecond, LatencyMax: 80 * time.Microsecond}
}

// network decides the fate of each message between two hosts. Cuts and clogs
// are directed, so that a partition may be asymmetric.
type network struct {
	links Links
	rng   *dice
	n     int
	cuts  []int16         // by from*n+to: how many faults cut it; nil until the first
	clogs []time.Duration // by from*n+to: held until then; nil until the first

	sent, lost, doubled uint64
}

func newNetwork(n int, links Links, rng *dice) *network {
	return &network{links: links, rng: rng, n: n}
}

// cut adds (by 1) or takes away (by -1) a cut of the path from a to b.
func (w *network) cut(a, b int32, by int16) {
	if w.cuts == nil {
		w.cuts = make([]int16, w.n*w.n)
	}
	w.cuts[int(a)*w.n+int(b)] += by
}

func (w *network) isCut(a, b int32) bool {
	return w.cuts != nil && w.cuts[int(a)*w.n+int(b)] > 0
}

// clog holds back what is sent from a to b until the given moment.
func (w *network) clog(a, b int32, until time.Duration) {
	if w.clogs == nil {
		w.clogs = make([]time.Duration, w.n*w.n)
	}
	w.clogs[int(a)*w.n+int(b)] = until
}

// arrivals returns the moments at which a message leaving now arrives: none,
// one or two of them.
func (w *network) arrivals(now time.Duration, a, b int32) (at [2]time.Duration, count int) {
	w.sent++
	l := &w.links
	if w.isCut(a, b) || w.rng.chance(l.Loss) {
		w.lost++
		return at, 0
	}
	leave := now
	if w.clogs != nil {
		leave = max(leave, w.clogs[int(a)*w.n+int(b)])
	}
	at[0] = leave + w.rng.between(l.LatencyMin, l.LatencyMax)
	count = 1
	switch {
	case w.rng.chance(l.Dup):
		at[1] = leave + w.rng.between(l.LatencyMin, 3*l.LatencyMax)
		count = 2
	case w.rng.chance(l.LateDup):
		at[1] = leave + w.rng.between(l.LatencyMin, l.LateMax)
		count = 2
	}
	if count == 2 {
		w.doubled++
	}
	return at, count
}
