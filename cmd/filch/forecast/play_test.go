package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// same is a length that is always the same, as many ends said.
func same(seconds float64) length { return length{mean: seconds, ends: 1 << 20} }

func limited(seconds float64) length { return length{limit: seconds} }

func run(ranks int32, l length) job { return job{ranks: ranks, slots: 1, left: 1, length: l} }

func bag(tasks int, l length) job { return job{slots: 1, left: tasks, length: l} }

// on makes a job run, on slots of node 0.
func (j job) on(age float64, slots int32) job {
	j.left--
	j.running = append(j.running, part{age: age, on: []share{{0, slots}}})
	return j
}

// since makes a run wait already.
func (j job) since(seconds float64) job { j.waited = seconds; return j }

func (j job) with(change func(*job)) job { change(&j); return j }

func TestForecast(t *testing.T) {
	never := math.Inf(1)
	for _, c := range []struct {
		name   string
		free   []int32
		jobs   []job
		target int
		start  float64
		end    float64
		latest float64 // of the end
	}{
		{"a run that fits", []int32{4}, []job{run(4, same(5))}, 0, 0, 5, never},
		{"a run over two nodes", []int32{2, 2}, []job{run(4, same(5))}, 0, 0, 5, never},
		{"a task that no node can take", []int32{1, 1}, []job{bag(1, same(5)).with(func(j *job) { j.slots = 2 })}, 0, never, never, never},
		{"a bag in two waves", []int32{4}, []job{bag(8, same(5))}, 0, 0, 10, never},
		{"a bag with a bound", []int32{4}, []job{bag(8, same(5)).with(func(j *job) { j.atMost = 2 })}, 0, 0, 20, never},
		{"a bag that runs", []int32{0}, []job{bag(3, same(5)).on(4, 1)}, 0, 0, 11, never},
		{"gaps between tasks", []int32{1}, []job{bag(4, same(5)).with(func(j *job) { j.gap = 1 })}, 0, 0, 24, never},
		{"behind a run", []int32{0}, []job{run(2, same(10)).on(4, 2), run(2, same(3))}, 1, 6, 9, never},
		{"behind a limit", []int32{0}, []job{run(2, limited(10)).on(4, 2), run(2, limited(3))}, 1, never, never, 9},
		{"behind a run of unknown length", []int32{0}, []job{run(2, length{}).on(4, 2), run(2, same(3))}, 1, never, never, never},
		{"beside a run of unknown length", []int32{2}, []job{run(2, length{}).on(4, 2), run(2, same(3))}, 1, 0, 3, never},
		{"an older gang goes first", []int32{1}, []job{run(1, same(10)).on(2, 1), run(2, same(4)), run(1, same(1))}, 2, 12, 13, never},
		{"tasks fill the slots of a gang", []int32{1}, []job{run(1, same(10)).on(2, 1), run(2, same(4)), bag(2, same(3))}, 2, 0, 6, never},
		{"and stop when the gang can start", []int32{1}, []job{run(1, same(10)).on(2, 1), run(2, same(4)), bag(3, same(3))}, 2, 0, 15, never},
		{"firm tasks do not fill", []int32{1}, []job{run(1, same(10)).on(2, 1), run(2, same(4)), bag(2, same(3)).with(func(j *job) { j.firm = true })}, 2, 12, 15, never},
		{"a run gets the slots of an older bag", []int32{0}, []job{bag(400, same(5)).on(4, 1).on(2, 1), run(2, same(3)).since(3)}, 1, 3, 6, never},
		{"after one more task", []int32{0}, []job{bag(400, same(5)).on(4, 1).on(2, 1), run(2, same(3)).since(1)}, 1, 6, 9, never},
		{"after an older run", []int32{0}, []job{bag(400, same(5)).on(4, 1).on(2, 1), run(2, same(3)), run(1, same(3)).since(3)}, 2, 6, 9, never},
		{"but a bag is forecast without younger runs", []int32{0}, []job{bag(4, same(5)).on(4, 1).on(4, 1), run(2, length{})}, 0, 0, 6, never},
		{"after an end", []int32{4}, []job{run(1, same(10)), run(1, same(2)).with(func(j *job) { j.after = []wait{{job: 0}} })}, 1, 10, 12, never},
		{"after a start", []int32{4}, []job{run(1, same(10)), run(1, same(2)).with(func(j *job) { j.after = []wait{{job: 0, started: true, delay: 3}} })}, 1, 3, 5, never},
		{"after any", []int32{4}, []job{run(1, same(10)), run(1, same(4)), run(1, same(2)).with(func(j *job) { j.after, j.any = []wait{{job: 0}, {job: 1}}, true })}, 2, 4, 6, never},
		{"a begin", []int32{4}, []job{run(1, same(10)).with(func(j *job) { j.begin = 7 })}, 0, 7, 17, never},
		{"a held job", []int32{4}, []job{run(1, same(10)).with(func(j *job) { j.never = true })}, 0, never, never, never},
		{"a held job keeps no slots", []int32{1}, []job{run(1, same(10)).with(func(j *job) { j.never = true }), run(1, same(2))}, 1, 0, 2, never},
		{"only some nodes", []int32{4, 1}, []job{bag(3, same(2)).with(func(j *job) { j.nodes = []bool{false, true} })}, 0, 0, 6, never},
		{"a workflow", []int32{4}, []job{bag(4, same(2)).with(func(j *job) { j.graph = [][]int32{{}, {0}, {0}, {1, 2}} })}, 0, 0, 6, never},
		{"a workflow that runs", []int32{4}, []job{bag(3, same(2)).with(func(j *job) { j.graph = [][]int32{{}, {0}, {1}} }).on(1, 1)}, 0, 0, 5, never},
		{"kinds of a workflow", []int32{4}, []job{bag(2, same(2)).with(func(j *job) {
			long := same(7)
			j.graph, j.kinds = [][]int32{{}, {0}}, []*length{nil, &long}
		})}, 0, 0, 9, never},
		{"an unknown kind of a workflow", []int32{4}, []job{bag(2, same(2)).with(func(j *job) {
			j.graph, j.kinds = [][]int32{{}, {0}}, []*length{nil, {}}
		})}, 0, 0, never, never},
		{"gangs of a bag", []int32{2, 2}, []job{bag(2, same(2)).with(func(j *job) { j.ranks = 3 })}, 0, 0, 4, never},
	} {
		q := queue{jobs: c.jobs, free: c.free}
		start, end := q.forecast(c.target, 1)
		near := func(got, want float64) bool {
			return got == want || math.Abs(got-want) <= 0.05+0.01*want
		}
		if !near(start.likely, c.start) || !near(end.likely, c.end) || !near(end.latest, c.latest) {
			t.Errorf("%s: starts at %g, ends at %g, at the latest at %g; want %g, %g, %g", c.name, start.likely, end.likely, end.latest, c.start, c.end, c.latest)
		}
	}
}

// The spread is that of the times: of the sum of many, and wider when few ends are known.
func TestSpread(t *testing.T) {
	var sample []float64
	for i := range 100 {
		sample = append(sample, 1+float64(i%5)) // mean 3
	}
	wide := func(tasks int, l length) (low, mid, high float64) {
		q := queue{jobs: []job{bag(tasks, l)}, free: []int32{4}}
		_, end := q.forecast(0, 1)
		return end.early, end.likely, end.late
	}
	low, mid, high := wide(4000, length{sample: sample})
	if mid < 2850 || mid > 3150 || high-low > 0.2*mid || low >= mid || mid >= high {
		t.Errorf("4000 tasks of 3 s on 4 slots end between %g, %g and %g", low, mid, high)
	}
	few, _, _ := wide(400, length{sample: sample[:5]})
	many, _, _ := wide(400, length{sample: sample})
	if few >= many {
		t.Errorf("with 5 known times the job ends at %g at the earliest, with 100 at %g", few, many)
	}
}

// Nine of ten jobs end between the two times, whatever the shape of the lengths, and however few
// ends are known.
func TestNineOfTenJobsEndInTheSpread(t *testing.T) {
	const jobs, tasks, slots = 60, 40, 4
	for name, draw := range map[string]func(*rand.Rand) float64{
		"even":      func(r *rand.Rand) float64 { return 1 + 4*r.Float64() },
		"decaying":  func(r *rand.Rand) float64 { return 3 * r.ExpFloat64() },
		"long tail": func(r *rand.Rand) float64 { return 2 * math.Exp(0.9*r.NormFloat64()) },
	} {
		for _, known := range []int{8, 100} {
			r, in := rand.New(rand.NewPCG(uint64(known), 7)), 0
			for seed := range uint64(jobs) {
				sample := make([]float64, known)
				for i := range sample {
					sample[i] = draw(r)
				}
				free := make([]float64, slots) // when each slot is free
				for range tasks {
					slices.Sort(free)
					free[0] += draw(r)
				}
				q := queue{jobs: []job{bag(tasks, length{sample: sample})}, free: []int32{slots}}
				_, end := q.forecast(0, seed)
				if real := slices.Max(free); end.early <= real && real <= end.late {
					in++
				}
			}
			t.Logf("%s, %d known ends: %d of %d jobs end in the spread", name, known, in, jobs)
			if in < jobs*3/4 { // 60 jobs say nine of ten to a tenth or so
				t.Errorf("%s, %d known ends: %d of %d jobs end in the spread, want nine of ten", name, known, in, jobs)
			}
		}
	}
}

// A long queue costs a bounded number of steps.
func TestManyTasks(t *testing.T) {
	q := queue{jobs: []job{bag(1_000_000, same(1))}, free: make([]int32, 64)}
	for i := range q.free {
		q.free[i] = 16
	}
	_, units := q.play(0, nil)
	if units != 0 && units > 200_000 {
		t.Errorf("%d steps", units)
	}
	_, end := q.forecast(0, 1)
	if want := 1_000_000.0 / 1024; math.Abs(end.likely-want) > 0.03*want {
		t.Errorf("ends at %g, want %g", end.likely, want)
	}
}

// A time that has lasted longer than any before goes on for a while, and up to its limit.
func TestOld(t *testing.T) {
	q := queue{jobs: []job{run(1, length{sample: []float64{1, 2}, limit: 100}).on(99, 1)}, free: []int32{0}}
	_, end := q.forecast(0, 1)
	if end.likely <= 0 || end.late > 1+leastSeconds {
		t.Errorf("ends between %g and %g, want at most 1 s", end.early, end.late)
	}
}

func BenchmarkForecast(b *testing.B) {
	q := queue{jobs: []job{bag(1_000_000, same(1))}, free: make([]int32, 64)}
	for i := range q.free {
		q.free[i] = 16
	}
	for b.Loop() {
		q.forecast(0, 1)
	}
}
