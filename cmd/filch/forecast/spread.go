package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Rounds of a forecast: fewer for queues with many tasks.
const (
	roundsMost  = 400
	roundsLeast = 20
	unitsMost   = 2_000_000 // of all rounds: about 2 s
)

// A forecast gives the middle of all rounds, and times around 18 of 20 rounds.
const (
	low  = 0.05
	high = 0.95
)

// The least spread, since launchers also need time: a part of the time, and seconds.
const (
	leastSpread  = 0.02
	leastSeconds = 0.2
)

// span is a time with its spread, in seconds from now; infinite if not known.
type span struct{ early, likely, late, latest float64 }

// forecast plays the queue in many rounds. The same seed gives the same rounds.
func (q *queue) forecast(target int, seed uint64) (start, end span) {
	r := rand.New(rand.NewPCG(seed, 0))
	var starts, ends []float64
	for n, units := 0, 0; n < roundsMost && (n < roundsLeast || units < unitsMost); n++ {
		t, used := q.play(target, r)
		units += used
		starts, ends = append(starts, t.start), append(ends, t.end)
	}
	most, _ := q.play(target, nil)
	return spread(starts, most.start), spread(ends, most.end)
}

func spread(list []float64, latest float64) span {
	slices.Sort(list)
	at := func(part float64) float64 { return list[int(part*float64(len(list)-1))] }
	s := span{at(low), at(0.5), at(high), latest}
	if s.likely > 0 && !math.IsInf(s.likely, 1) {
		wide := max(leastSpread*s.likely, leastSeconds)
		s.early, s.late = max(min(s.early, s.likely-wide), 0), max(s.late, s.likely+wide)
	}
	if math.IsInf(s.likely, 1) {
		s.early = s.likely // only some rounds have a time
	} else if !math.IsInf(s.latest, 1) && s.latest > 0 { // no time is later than the latest
		s.late, s.likely, s.early = min(s.late, s.latest+leastSeconds), min(s.likely, s.latest), min(s.early, s.latest)
	}
	return s
}
