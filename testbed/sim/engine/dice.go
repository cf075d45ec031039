package engine

import (
	"math"
	"time"

	"github.com/filch-hpc/filch"
)

// Dice draw numbers, durations and chances from a seed, the same on every machine and
// with every version of Go.
type Dice struct{ rand filch.Rand }

// NewDice returns the dice of a stream of a seed; streams are independent.
func NewDice(seed, stream uint64) *Dice {
	d := &Dice{filch.Rand(seed*0x9e3779b97f4a7c15 ^ stream*0xd1342543de82ef95)}
	d.Next()
	return d
}

// Next is a number of 64 bits.
func (d *Dice) Next() uint64 { return d.rand.Uint64() }

// N returns a number in [0, n); n must be positive.
func (d *Dice) N(n int) int { return d.rand.IntN(n) }

// Unit returns a number in [0, 1).
func (d *Dice) Unit() float64 { return float64(d.Next()>>11) / (1 << 53) }

// Chance is true with probability p. With p of 0 Chance draws nothing, so a fault that is
// off does not change the run.
func (d *Dice) Chance(p float64) bool { return p > 0 && d.Unit() < p }

// Between returns a duration in [low, high].
func (d *Dice) Between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(d.Next()%uint64(high-low+1))
}

// Exp returns an exponentially distributed duration.
func (d *Dice) Exp(mean time.Duration) time.Duration {
	return time.Duration(-math.Log(1-d.Unit()) * float64(mean))
}
