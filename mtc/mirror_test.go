package mtc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

func lines(b []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

// remains reads lines; damaged ones fail the test.
func remains(t *testing.T, b []byte) *Remains {
	t.Helper()
	m := NewRemains()
	for _, l := range lines(b) {
		if !m.Take(l) {
			t.Fatalf("line %q is refused", l)
		}
	}
	return m
}

func TestMirrorLine(t *testing.T) {
	for _, value := range [][]byte{{0}, []byte("x\n"), bytes.Repeat([]byte{10, 255}, 70_000)} {
		b := AppendMirrorLine([]byte("before\n"), "j/7/p/3", value)
		line := b[len("before\n") : len(b)-1]
		if bytes.ContainsRune(line, '\n') {
			t.Fatal("a line has an end of a line in it")
		}
		key, got, ok := MirrorLine(line)
		if !ok || key != "j/7/p/3" || !bytes.Equal(got, value) {
			t.Fatalf("got %q, %d bytes, %v; want what was written, %d bytes", key, len(got), ok, len(value))
		}
		for _, at := range []int{0, 7, 8, 9, len(line) / 2, len(line) - 1} {
			for _, bit := range []byte{1, 4, 32} {
				bad := bytes.Clone(line)
				bad[at] ^= bit
				if _, _, ok := MirrorLine(bad); ok && !bytes.EqualFold(bad, line) {
					t.Errorf("a line with a flipped bit at %d is taken: %.40q", at, bad)
				}
			}
		}
		for _, n := range []int{0, 8, 9, len(line) / 2, len(line) - 1} {
			if _, _, ok := MirrorLine(line[:n]); ok {
				t.Errorf("a line torn after %d of %d bytes is taken", n, len(line))
			}
		}
	}
	for _, key := range []string{"", "j/", "k/7", "j/7/x"} {
		b := AppendMirrorLine(nil, key, []byte{1})
		if _, _, ok := MirrorLine(b[:len(b)-1]); ok {
			t.Errorf("a line about %q is taken", key)
		}
	}
}

func TestMirrorSaysWhatIsNew(t *testing.T) {
	blockOf := func(ops ...blockOp) []byte {
		v, _, err := mergeBlock(nil, encodeBlockOps(ops, false))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	one := endOp(3, filch.OK, 1, a1)
	two := endOp(9, filch.Failed, 2, b1)
	moved := blockOp{kind: bMove, off: 5, Task: Task{Attempt: 1, Owner: c1}}
	begun := startOp(5, 1, 1, c1, true)
	m := NewMirror()
	for i, step := range []struct {
		key   string
		value []byte
		want  int // lines
		offs  []uint8
	}{
		{"j/4/b/0", blockOf(one), 1, []uint8{3}},
		{"j/4/b/0", blockOf(one), 0, nil},
		{"j/4/b/0", blockOf(one, moved), 0, nil},
		{"j/4/b/0", blockOf(one, moved, begun, two), 1, []uint8{5, 9}},
		{"j/4/k", []byte{1}, 0, nil},
		{"job/4", []byte{1}, 0, nil},
		{"j/4/s", (&Spec{}).Encode(), 2, nil},
		{"j/4/s", (&Spec{}).Encode(), 0, nil},
		{"j/4", (&Job{Total: 9, Closed: true}).Encode(), 2, nil},
		{"j/4", (&Job{Total: 9, Closed: true, Steward: a1, Hop: 3, Zones: []ZoneTally{{0, Tally{OK: 8}}}}).Encode(), 0, nil},
		{"j/4", (&Job{Total: 9, Closed: true, Zones: []ZoneTally{{0, Tally{OK: 9}}}}).Encode(), 2, nil},
		{"j/4/z/0", (&Zone{Blocks: []BlockTally{{0, Tally{OK: 8}}}}).Encode(), 0, nil},
		{"j/4/z/0", (&Zone{Spans: []Span{{Hi: 9, Front: 4, Owner: a1}}}).Encode(), 1, nil},
		{"j/4/z/0", (&Zone{Spans: []Span{{Hi: 6, Front: 4, Owner: b1}, {Lo: 6, Hi: 9, Front: 6, Owner: c1}}}).Encode(), 0, nil},
	} {
		b := m.Append(nil, step.key, step.value)
		if n := bytes.Count(b, []byte("\n")); n != step.want {
			t.Fatalf("step %d, %s: %d lines, want %d", i, step.key, n, step.want)
		}
		if step.offs == nil {
			continue
		}
		_, v, _ := MirrorLine(lines(b)[0])
		if got, err := DecodeBlock(v); err != nil || !slices.Equal(got.Offs, step.offs) {
			t.Errorf("step %d says %v of the block (%v), want %v", i, got.Offs, err, step.offs)
		}
	}
}

func TestSettle(t *testing.T) {
	job := func(once bool, tasks ...Task) *Remnant {
		var b []byte
		b = AppendMirrorLine(b, KeyJob(4), (&Job{Total: 300, Closed: true}).Encode())
		b = AppendMirrorLine(b, KeySpec(4), (&Spec{Once: once}).Encode())
		b = AppendMirrorLine(b, KeyZone(4, 0), (&Zone{Spans: []Span{{Lo: 290, Hi: 300, Front: 292}}}).Encode())
		blk := Block{}
		for i, k := range tasks {
			blk.Offs, blk.Tasks = append(blk.Offs, uint8(i)), append(blk.Tasks, k)
		}
		b = AppendMirrorLine(b, KeyBlock(4, 0), blk.Encode())
		return remains(t, b).Jobs()[0]
	}
	end := Task{State: filch.OK, Attempt: 1, By: a1}
	run := Task{Attempt: 1, Started: true, Owner: a1}
	again := Task{Attempt: 3, Crashes: 1, Started: true, Owner: a1}
	for _, c := range []struct {
		name string
		once bool
		in   []Task
		want []Task // of the same offsets
		more int    // tasks of other blocks that may have been started

		raised bool // the limit of crashes
		t      RemnantTally
	}{
		{"ended", false, []Task{end}, []Task{end}, 2, false, RemnantTally{Done: 1, Left: 299}},
		{"started", false, []Task{run}, []Task{{Attempt: 2, Crashes: 1}}, 2, true, RemnantTally{Left: 300}},
		{"retried", false, []Task{again}, []Task{{Attempt: 4, Crashes: 2}}, 2, true, RemnantTally{Left: 300}},
		{"waits-again", false, []Task{{Attempt: 2, Owner: a1}}, []Task{{Attempt: 2}}, 2, false, RemnantTally{Left: 300}},
		{"once", true, []Task{end, run}, []Task{end, {State: filch.Lost, Code: filch.ExitNodeLost, Attempt: 1, By: a1}}, 0, false, RemnantTally{Done: 2, Left: 298, Lost: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := job(c.once, c.in...)
			for round := range 2 { // settled again, nothing changes
				got := r.Settle()
				if round > 0 {
					c.t.Lost = 0
				}
				if got != c.t {
					t.Errorf("round %d: %+v, want %+v", round, got, c.t)
				}
				for i, want := range c.want {
					if k := r.tasks[0].Find(uint8(i)); k == nil || *k != want {
						t.Errorf("round %d: task %d is %+v, want %+v", round, i, k, want)
					}
				}
				if b := r.tasks[1]; c.more == 0 && b != nil || c.more > 0 && (b == nil || len(b.Offs) != c.more || b.Tasks[0] != (Task{Attempt: 1, Maybe: true})) {
					t.Errorf("round %d: the tasks below the front are %+v, want %d that may have been started", round, b, c.more)
				}
				if limit := r.Spec.crashes(); (limit == CrashLimit+1) != c.raised {
					t.Errorf("round %d: the limit of crashes is %d", round, limit)
				}
				r = remains(t, r.Append(nil)).Jobs()[0]
			}
		})
	}
}

// mirrorRig runs a job over several instances: each is killed after a while,
// with a mirror that is behind by up to a second, and the next goes on.
type mirrorRig struct {
	t       *testing.T
	mirrors [][]byte // of the writers of this instance
	said    []*Mirror
	starts  map[int32]int
	runs    []mirrorRun // of this instance
	heard   map[stamp]time.Duration
}

// mirrorRun is a start, and mirrorLength how long it takes from then.
type mirrorRun struct {
	at stamp
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
	at := stamp{index: s.Index, attempt: filch.Attempt(s.Nth)}
	if _, ok := m.heard[at]; ok {
		m.t.Errorf("start %d of task %d happens once more", s.Nth, s.Index)
	}
	if _, ok := m.heard[stamp{index: s.Index}]; ok {
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
			m.heard[stamp{index: r.at.index}] = r.t
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
	sub := Submission{Job: 3, Name: "mine", Total: total, Spec: Spec{Once: once, Retries: 1}}
	switch kind {
	case "lines":
		sub.Spec.Payloads = true
		for i := range total {
			sub.Lines = append(sub.Lines, fmt.Appendf(nil, "line %d", i))
		}
	case "graph", "once-graph":
		sub.Total = 0
		for i := range total {
			n := GraphNode{Name: fmt.Sprint(i)}
			if i > 0 {
				n.Parents = []int32{rnd.Int32N(i)}
			}
			sub.Nodes = append(sub.Nodes, n)
		}
	}
	m := &mirrorRig{t: t, starts: map[int32]int{}, heard: map[stamp]time.Duration{}}
	left := NewRemains()
	for life := 0; ; life++ {
		if life == 50 {
			t.Fatal("50 allocations did not finish the job")
		}
		r := newRig(t, 1+rnd.IntN(3), 8, Policy{})
		r.length = func(Start) time.Duration { return mirrorLength }
		r.result = func(s Start) End {
			m.start(r.now, s)
			if string(s.Payload) != fmt.Sprintf("line %d", s.Index) && kind == "lines" {
				t.Fatalf("task %d has the line %q", s.Index, s.Payload)
			}
			if once { // what the node does that starts it
				m.mirrors[0] = MirrorStart(m.mirrors[0], s.Job, s.Index, s.Attempt, a1)
			}
			return End{Run: s.Run, State: filch.OK}
		}
		n := 1 + rnd.IntN(3)
		m.mirrors, m.said = make([][]byte, n), nil
		for range n {
			m.said = append(m.said, NewMirror())
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
func (m *mirrorRig) read(rnd *rand.Rand, old *Remains, life int) *Remains {
	var all [][]byte
	for _, b := range m.mirrors {
		if len(b) > 0 {
			all = append(all, lines(b)...)
		}
	}
	if life > 0 { // what the life before began with
		for _, r := range old.Jobs() {
			all = append(all, lines(r.Append(nil))...)
		}
	}
	all = append(all, all[:len(all)/3]...)
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	left := NewRemains()
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

func restore(t *testing.T, r *rig, left *Remains) {
	t.Helper()
	for _, j := range left.Jobs() {
		if err := r.nodes[0].Restore(r.now, j, &r.nodes[0].out); err != nil {
			t.Fatal(err)
		}
		r.act(r.nodes[0])
	}
}

// check looks at how all ended.
func (m *mirrorRig) check(r *rig, j *Job, total int32, once bool) {
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
	if want := (Tally{OK: total - lost, Lost: j.Tally().Lost, Skipped: j.Tally().Skipped}); j.Tally() != want || j.Tally().Sum() != total || j.Name != "mine" {
		m.t.Errorf("job %q ended %+v, want %+v", j.Name, j.Tally(), want)
	}
}

// FuzzMirror: whatever a line is, and whatever one with a right checksum says
// of a record, it is refused or taken; and what was settled stays as it is.
func FuzzMirror(f *testing.F) {
	f.Add(KeyJob(1), (&Job{Total: 3}).Encode(), []byte("00000000 "))
	f.Add(KeySpec(1), (&Spec{Body: []byte("x")}).Encode(), []byte{})
	f.Add(KeyZone(1, 0), (&Zone{Spans: []Span{{Hi: 3, Front: 2}}}).Encode(), []byte{})
	f.Add(KeyBlock(1, 0), (&Block{Offs: []uint8{7}, Tasks: []Task{{Attempt: 2, Started: true}}}).Encode(), MirrorStart(nil, 1, 300, 1, a1))
	f.Add(KeyPayload(1, 0), (&Payload{Offs: []uint8{1}, Lines: [][]byte{{3}}}).Encode(), []byte{})
	f.Fuzz(func(t *testing.T, key string, value, raw []byte) {
		m := NewRemains()
		for _, l := range [][]byte{
			AppendMirrorLine(nil, KeyJob(1), (&Job{Total: 700}).Encode()), AppendMirrorLine(nil, KeySpec(1), (&Spec{}).Encode()),
			AppendMirrorLine(nil, key, value), raw,
		} {
			l = bytes.TrimSuffix(l, []byte("\n"))
			key, value, ok := MirrorLine(l)
			if !ok && m.Take(l) {
				t.Fatalf("a line that makes no sense is taken: %q", l)
			}
			if !ok {
				continue
			}
			if k, v, ok := MirrorLine(bytes.TrimSuffix(AppendMirrorLine(nil, key, value), []byte("\n"))); !ok || k != key || !bytes.Equal(v, value) {
				t.Fatalf("%q is not the same when written again", l)
			}
			m.Take(l)
		}
		for _, r := range m.Jobs() {
			if r.Whole() && r.Job.Total < 1<<20 {
				once := r.Settle()
				if again := r.Settle(); again.Left != once.Left || again.Done != once.Done {
					t.Fatalf("settled %+v, and again %+v", once, again)
				}
				if again := remains(t, r.Append(nil)).Jobs()[0].Settle(); again.Left != once.Left || again.Done != once.Done {
					t.Fatalf("settled %+v, and read back %+v", once, again)
				}
			}
		}
	})
}
