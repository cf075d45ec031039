package sim

import (
	"math"
	"time"
)

// dice is a small seeded generator (splitmix64), the same on every machine and
// with every version of Go.
type dice struct{ state uint64 }

func newDice(seed, stream uint64) *dice {
	d := &dice{state: seed*0x9e3779b97f4a7c15 ^ stream*0xd1342543de82ef95}
	d.next()
	return d
}

func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// n returns a number in [0, n); n must be positive.
func (d *dice) n(n int) int { return int(d.next() % uint64(n)) }

// unit returns a number in [0, 1).
func (d *dice) unit() float64 { return float64(d.next()>>11) / (1 << 53) }

// chance is true with probability p; p of 0 draws nothing, so that a knob that
// is off does not disturb the run.
func (d *dice) chance(p float64) bool { return p > 0 && d.unit() < p }

// between returns a duration in [low, high].
func (d *dice) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(d.next()%uint64(high-low+1))
}

// exp returns an exponentially distributed duration.
func (d *dice) exp(mean time.Duration) time.Duration {
	return time.Duration(-math.Log(1-d.unit()) * float64(mean))
}
