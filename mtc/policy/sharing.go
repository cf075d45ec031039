package policy

import "time"

// Sharing is tt of FLDS (MATRIX v2, IV.E): tasks dedicated to a node that would wait for
// longer than tt are shared. tt halves when tasks are shared, and doubles again, up to the
// set value, when the node finds nothing to steal: a node that failed to steal before its
// first work would otherwise never share tasks. The zero Sharing has the tt of [LocalTime].
type Sharing struct{ tt, most time.Duration }

// Set sets the first tt, which tt never exceeds.
func (s *Sharing) Set(most time.Duration) { s.tt, s.most = most, most }

// TT is the present tt.
func (s *Sharing) TT() time.Duration { return s.tt }

// Failed takes in that the node found nothing to steal.
func (s *Sharing) Failed() {
	if !mutantTTFalls {
		s.tt = min(2*s.tt, s.most)
	}
}

// ttMin is the lower bound of tt.
const ttMin = 10 * time.Millisecond

// Excess is how many of n dedicated tasks are to be shared at a throughput; then tt halves.
func (s *Sharing) Excess(n int, rate float64) int {
	k := excess(n, rate, s.tt)
	if k > 0 {
		s.tt = max(s.tt/2, ttMin)
	}
	return k
}
