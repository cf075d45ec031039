package policy

import (
	"math"
	"time"
)

// Kinds learns how long the tasks of each kind take. Kinds are programs, and few.
type Kinds struct {
	numbers map[string]uint16
	means   []average       // by number; number 0 is the tasks without a kind
	used    []time.Duration // lengths as of the last Settle
	all     average         // of stated and measured lengths
	guess   time.Duration
}

// kindsMax bounds the kinds; further kinds count as none.
const kindsMax = 4096

// NewKinds begins with nothing learnt; guess is the length of a task before the first end,
// a second if guess is 0.
func NewKinds(guess time.Duration) Kinds {
	if guess <= 0 {
		guess = time.Second
	}
	return Kinds{numbers: map[string]uint16{"": 0}, means: make([]average, 1), guess: guess}
}

// Number is the number of a kind.
func (k *Kinds) Number(kind string) uint16 {
	n, ok := k.numbers[kind]
	if !ok && len(k.means) < kindsMax {
		n = uint16(len(k.means))
		k.numbers[kind] = n
		k.means = append(k.means, average{})
	}
	return n
}

// State takes in a length that the workflow's file states.
func (k *Kinds) State(d time.Duration) { k.all.add(d) }

// Add takes in a measured length. Add reports whether the kind's mean is so far from the
// length in use that an order by lengths may change: by a quarter, or the first.
func (k *Kinds) Add(kind uint16, took time.Duration) (changed bool) {
	k.all.add(took)
	a := &k.means[kind]
	a.add(took)
	if int(kind) >= len(k.used) {
		return true
	}
	return math.Abs(float64(a.mean()-k.used[kind])) > 0.25*float64(k.used[kind])
}

// Settle takes the learnt lengths into use.
func (k *Kinds) Settle() {
	mean := k.guess
	if k.all.n > 0 {
		mean = k.all.mean()
	}
	k.used = k.used[:0]
	for i := range k.means {
		d := mean
		if i > 0 && k.means[i].n > 0 {
			d = k.means[i].mean()
		}
		k.used = append(k.used, d)
	}
}

// Length is the length in use for tasks of a kind.
func (k *Kinds) Length(kind uint16) time.Duration { return k.used[kind] }

// average is the number and the mean of durations.
type average struct {
	n     int64
	value float64
}

func (a *average) add(d time.Duration) {
	a.n++
	a.value += (float64(d) - a.value) / float64(a.n)
}

// mean is 0 without durations.
func (a *average) mean() time.Duration { return time.Duration(a.value) }

// Bandwidth is the rate of transfers between nodes in bytes per second, before the first
// is measured: 10 Gb/s (MATRIX v2).
const Bandwidth = 10e9 / 8

// TransferTime is how long bytes take at a rate in bytes per second.
func TransferTime(bytes int64, rate float64) time.Duration {
	if bytes <= 0 {
		return 0
	}
	return time.Duration(min(float64(bytes)/rate*1e9, math.MaxInt64/4))
}
