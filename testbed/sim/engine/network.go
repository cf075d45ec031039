package engine

import "time"

// Links are the faults and delays of the network. The zero value loses no message and
// takes no time.
type Links struct {
	LatencyMin time.Duration
	LatencyMax time.Duration // drawn evenly, for each message: messages overtake each other
	Loss       float64       // of each message
	Dup        float64       // delivered a second time, promptly
	LateDup    float64       // delivered a second time after up to LateMax, as from a clogged path
	LateMax    time.Duration
	Tail       float64 // held back for up to TailMax
	TailMax    time.Duration
}

// Quiet is a cluster network on a good day: 20 to 80 us one way.
func Quiet() Links {
	return Links{LatencyMin: 20 * time.Microsecond, LatencyMax: 80 * time.Microsecond}
}

// Network decides the fate of each message between two hosts. Cuts and clogs
// are directed, so that a partition may be asymmetric.
type Network struct {
	Links Links
	rng   *Dice
	n     int
	cuts  []int16         // by from*n+to: how many faults cut the path; nil until the first cut
	clogs []time.Duration // by from*n+to: messages are held until then; nil until the first clog

	sent, lost, doubled uint64
}

// NewNetwork joins n hosts, numbered from 0.
func NewNetwork(n int, links Links, rng *Dice) *Network {
	return &Network{Links: links, rng: rng, n: n}
}

// Cut adds (by 1) or takes away (by -1) a cut of the path from a to b.
func (w *Network) Cut(a, b int32, by int16) {
	if w.cuts == nil {
		w.cuts = make([]int16, w.n*w.n)
	}
	w.cuts[int(a)*w.n+int(b)] += by
}

// IsCut reports whether nothing passes from a to b.
func (w *Network) IsCut(a, b int32) bool {
	return w.cuts != nil && w.cuts[int(a)*w.n+int(b)] > 0
}

// Clog holds back the messages from a to b until the given moment.
func (w *Network) Clog(a, b int32, until time.Duration) {
	if w.clogs == nil {
		w.clogs = make([]time.Duration, w.n*w.n)
	}
	w.clogs[int(a)*w.n+int(b)] = until
}

// Arrivals returns up to two moments at which a message leaving now arrives.
func (w *Network) Arrivals(now time.Duration, a, b int32) (at [2]time.Duration, count int) {
	w.sent++
	l := &w.Links
	if w.IsCut(a, b) || w.rng.Chance(l.Loss) {
		w.lost++
		return at, 0
	}
	leave := now
	if w.clogs != nil {
		leave = max(leave, w.clogs[int(a)*w.n+int(b)])
	}
	at[0] = leave + w.rng.Between(l.LatencyMin, l.LatencyMax)
	if w.rng.Chance(l.Tail) {
		at[0] += w.rng.Between(0, l.TailMax)
	}
	count = 1
	switch {
	case w.rng.Chance(l.Dup):
		at[1] = leave + w.rng.Between(l.LatencyMin, 3*l.LatencyMax)
		count = 2
	case w.rng.Chance(l.LateDup):
		at[1] = leave + w.rng.Between(l.LatencyMin, l.LateMax)
		count = 2
	}
	if count == 2 {
		w.doubled++
	}
	return at, count
}

// Heal ends the faults of the links: no later message is lost, doubled or held back.
// Cuts and clogs stay.
func (w *Network) Heal() {
	w.Links = Links{LatencyMin: w.Links.LatencyMin, LatencyMax: w.Links.LatencyMax}
}

// Counts returns the numbers of messages sent, lost and doubled.
func (w *Network) Counts() (sent, lost, doubled uint64) { return w.sent, w.lost, w.doubled }
