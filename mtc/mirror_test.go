package mtc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

func linesOf(b []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

// remains reads lines; damaged ones fail the test.
func recoveredFrom(t *testing.T, b []byte) *queue.Recovered {
	t.Helper()
	m := queue.NewRecovered()
	for _, l := range linesOf(b) {
		if !m.Take(l) {
			t.Fatalf("line %q is refused", l)
		}
	}
	return m
}

var na = record.Owner{Node: "a", Incarnation: 1}

// mirrorRig runs a job over several instances: each is killed after a while,
// with a mirror that is behind by up to a second, and the next goes on.
type mirrorRig struct {
	t       *testing.T
	mirrors [][]byte // of the writers of this instance
	said    []*queue.Mirror
	starts  map[int32]int
	runs    []mirrorRun // of this instance
	heard   map[mirrorStart]time.Duration
}

// mirrorStart tells the starts of a task apart.
type mirrorStart struct {
	index   int32
	attempt filch.Attempt
}

// mirrorRun is a start, and mirrorLength how long it takes from then.
type mirrorRun struct {
	at mirrorStart
	t  time.Duration
}

const (
	mirrorLength = 300 * time.Millisecond
	mirrorSlack  = 100 * time.Millisecond // from an end to its record
)

// start takes a start in: none that a mirror tells of begins again, and no task
// of whose end one tells.
func (m *mirrorRig) start(now time.Duration, s Start) {
	m.t.Helper()
	m.starts[s.Index]++
	at := mirrorStart{index: s.Index, attempt: filch.Attempt(s.Nth)}
	if _, ok := m.heard[at]; ok {
		m.t.Errorf("start %d of task %d happens once more", s.Nth, s.Index)
	}
	if _, ok := m.heard[mirrorStart{index: s.Index}]; ok {
		m.t.Errorf("task %d begins again, which had ended", s.Index)
	}
	m.runs = append(m.runs, mirrorRun{at, now})
}

// killed notes what the mirror must tell of an instance, which was up to date
// at a time.
func (m *mirrorRig) killed(flushed time.Duration) {
	for _, r := range m.runs {
		if r.t+mirrorSlack <= flushed {
			m.heard[r.at] = r.t
		}
		if r.t+mirrorLength+mirrorSlack <= flushed {
			m.heard[mirrorStart{index: r.at.index}] = r.t
		}
	}
	m.runs = nil
}

// mirror has the records of a rig mirrored by its writers, each some of them.
func (m *mirrorRig) mirror(r *rig) {
	keys := make([]string, 0, len(r.records))
	for k := range r.records {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for i, k := range keys {
		w := i % len(m.said)
		m.mirrors[w] = m.said[w].Append(m.mirrors[w], k, r.records[k])
	}
}

func TestResumeFinishesTheJob(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		for _, kind := range []string{"bag", "lines", "once", "graph", "once-graph"} {
			t.Run(fmt.Sprintf("%s-seed-%d", kind, seed), func(t *testing.T) { resumeOnce(t, kind, seed) })
		}
	}
}

func resumeOnce(t *testing.T, kind string, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	total := int32(200 + rnd.IntN(900))
	once := kind == "once" || kind == "once-graph"
	sub := submit.Job{Job: 3, Name: "mine", Total: total, Spec: record.Spec{Once: once, Retries: 1}}
	switch kind {
	case "lines":
		sub.Spec.Payloads = true
		for i := range total {
			sub.Lines = append(sub.Lines, fmt.Appendf(nil, "line %d", i))
		}
	case "graph", "once-graph":
		sub.Total = 0
		for i := range total {
			n := record.GraphNode{Name: fmt.Sprint(i)}
			if i > 0 {
				n.Parents = []int32{rnd.Int32N(i)}
			}
			sub.Nodes = append(sub.Nodes, n)
		}
	}
	m := &mirrorRig{t: t, starts: map[int32]int{}, heard: map[mirrorStart]time.Duration{}}
	left := queue.NewRecovered()
	for life := 0; ; life++ {
		if life == 50 {
			t.Fatal("50 allocations did not finish the job")
		}
		r := newRig(t, 1+rnd.IntN(3), 8, policy.Policy{})
		r.length = func(Start) time.Duration { return mirrorLength }
		r.result = func(s Start) End {
			m.start(r.now, s)
			if string(s.Payload) != fmt.Sprintf("line %d", s.Index) && kind == "lines" {
				t.Fatalf("task %d has the line %q", s.Index, s.Payload)
			}
			if once { // what the node does that starts it
				m.mirrors[0] = queue.AppendStart(m.mirrors[0], s.Job, s.Index, s.Attempt, na)
			}
			return End{Run: s.Run, State: filch.OK}
		}
		n := 1 + rnd.IntN(3)
		m.mirrors, m.said = make([][]byte, n), nil
		for range n {
			m.said = append(m.said, queue.NewMirror())
		}
		if life == 0 {
			r.submit(0, sub)
		} else {
			restore(t, r, left)
		}
		limit := r.now + time.Duration(1+rnd.IntN(6000))*time.Millisecond
		flushed := r.now
		for !(r.job(3) != nil && r.job(3).Finished()) && r.step(limit) {
			if life == 0 && flushed == 0 || r.now >= flushed+time.Second {
				m.mirror(r)
				flushed = r.now
			}
		}
		if j := r.job(3); j != nil && j.Finished() {
			m.check(r, j, total, once)
			return
		}
		m.killed(flushed)
		left = m.read(rnd, left, life)
	}
}

// read reads what the writers left, in any order, some of it twice.
func (m *mirrorRig) read(rnd *rand.Rand, old *queue.Recovered, life int) *queue.Recovered {
	var all [][]byte
	for _, b := range m.mirrors {
		if len(b) > 0 {
			all = append(all, linesOf(b)...)
		}
	}
	if life > 0 { // what the life before began with
		for _, r := range old.Jobs() {
			all = append(all, linesOf(r.Append(nil))...)
		}
	}
	all = append(all, all[:len(all)/3]...)
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	left := queue.NewRecovered()
	for _, l := range all {
		if !left.Take(l) {
			m.t.Fatalf("line %q is refused", l)
		}
	}
	for _, r := range left.Jobs() {
		r.Settle()
	}
	return left
}

func restore(t *testing.T, r *rig, left *queue.Recovered) {
	t.Helper()
	for _, j := range left.Jobs() {
		if err := r.nodes[0].Restore(r.now, j, &r.nodes[0].out); err != nil {
			t.Fatal(err)
		}
		r.act(r.nodes[0])
	}
}

// check looks at how all ended.
func (m *mirrorRig) check(r *rig, j *record.Job, total int32, once bool) {
	m.t.Helper()
	lost := int32(0)
	for i := range total {
		k := r.task(3, i)
		switch {
		case once && m.starts[i] > 1:
			m.t.Errorf("task %d runs once and was started %d times", i, m.starts[i])
		case k.State == filch.Lost && once:
			lost++
		case k.State == filch.Skipped && once && m.starts[i] == 0: // of a graph: what it waits for is lost
			lost++
		case k.State != filch.OK || m.starts[i] == 0:
			m.t.Errorf("task %d ended %v after %d starts: %+v", i, k.State, m.starts[i], k)
		}
	}
	if want := (record.Tally{OK: total - lost, Lost: j.Tally().Lost, Skipped: j.Tally().Skipped}); j.Tally() != want || j.Tally().Sum() != total || j.Name != "mine" {
		m.t.Errorf("job %q ended %+v, want %+v", j.Name, j.Tally(), want)
	}
}
