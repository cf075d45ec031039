package forecast

import (
	"math"
	"math/rand/v2"
)

// length describes the time of a run, or of a task of a job, in seconds.
type length struct {
	sample    []float64 // of good ends
	mean      float64   // without a sample
	deviation float64
	ends      int     // good ends behind the mean; 0: the mean is not known
	limit     float64 // 0: none
}

// known reports whether any end is known.
func (l *length) known() bool { return len(l.sample) > 0 || l.ends > 0 }

// count is the number of ends behind the estimate.
func (l *length) count() int {
	if n := len(l.sample); n > 0 {
		return n
	}
	return l.ends
}

// Few ends say little about the mean of the next ones: in each round the times are longer or
// shorter by a factor with the deviation of one time, as a part of the mean, divided by the root of
// the number of ends. The deviation is doubt at least: equal ends may be a chance.
const doubt = 0.3

// doubtMost bounds the factor of a few ends of which one is far off.
const doubtMost = 3

// factor draws the factor of a round.
func (l *length) factor(r *rand.Rand) float64 {
	if !l.known() {
		return 1
	}
	mean, deviation := l.moments()
	n, part := float64(l.count()), doubt
	if mean > 0 {
		few := math.Sqrt(max(n-1, 1) / max(n-3, 1)) // the deviation is not well known either
		part = min(max(part, few*deviation/mean), doubtMost)
	}
	return math.Exp(part / math.Sqrt(n) * r.NormFloat64())
}

// leastPart is the shortest drawn time, as a part of the mean.
const leastPart = 0.1

// draw draws the time of one run or task; infinite if unknown.
func (l *length) draw(r *rand.Rand, factor float64) float64 {
	took := math.Inf(1)
	switch {
	case len(l.sample) > 0:
		took = factor * l.sample[r.IntN(len(l.sample))]
	case l.ends > 0:
		took = factor * max(l.mean+l.deviation*r.NormFloat64(), leastPart*l.mean)
	default:
		return took
	}
	return l.bounded(took)
}

// drawMany draws the time of n tasks one after the other.
func (l *length) drawMany(r *rand.Rand, factor float64, n int) float64 {
	if n == 1 || !l.known() {
		return l.draw(r, factor)
	}
	mean, deviation := l.moments()
	sum := float64(n)*mean + math.Sqrt(float64(n))*deviation*r.NormFloat64()
	sum = factor * max(sum, leastPart*float64(n)*mean)
	if l.limit > 0 {
		sum = min(sum, float64(n)*l.limit)
	}
	return sum
}

// moments are the mean and the standard deviation of one time.
func (l *length) moments() (mean, deviation float64) {
	n := float64(len(l.sample))
	if n == 0 {
		return l.mean, l.deviation
	}
	for _, v := range l.sample {
		mean += v / n
	}
	squares := 0.0
	for _, v := range l.sample {
		squares += (v - mean) * (v - mean)
	}
	if n > 1 {
		deviation = math.Sqrt(squares / (n - 1))
	}
	return mean, deviation
}

// draws bounds the draws for a time longer than the age of a run or task.
const draws = 16

// left draws the rest of a time after age. A run older than all
// draws lasts for a further part of its age.
func (l *length) left(r *rand.Rand, factor, age float64) float64 {
	if !l.known() {
		return math.Inf(1)
	}
	for range draws {
		if took := l.draw(r, factor); took > age {
			return took - age
		}
	}
	rest := age * r.Float64()
	if l.limit > 0 {
		rest = min(rest, max(l.limit-age, 0))
	}
	return rest
}

func (l *length) bounded(took float64) float64 {
	if l.limit > 0 {
		return min(took, l.limit)
	}
	return took
}

// most is the longest time: the limit, or infinite.
func (l *length) most() float64 {
	if l.limit > 0 {
		return l.limit
	}
	return math.Inf(1)
}

// open counts the tasks of a workflow of a kind without a known time.
func (j *job) open() (n int) {
	for _, l := range j.kinds {
		if l != nil && !l.known() {
			n++
		}
	}
	return n
}
