package before

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// bags answers the looks of an Each from the ends of bags.
type bags struct {
	t     *testing.T
	e     *Each
	total int32
	now   time.Duration
	bags  map[filch.JobID]*bag
	looks int
	ready []int32
	never map[int32]string
}

type bag struct {
	ends   []filch.State
	voids  map[int32]filch.State // ended without a start
	closed bool
	void   filch.State
}

func newBags(t *testing.T, total int32, of ...int) *bags {
	t.Helper()
	b := &bags{t: t, total: total, now: sec, bags: map[filch.JobID]*bag{}, never: map[int32]string{}}
	var c record.Conditions
	for k, n := range of {
		id := filch.JobID(k + 7)
		c.After, c.When = append(c.After, id), append(c.When, record.WhenEach)
		b.bags[id] = &bag{ends: make([]filch.State, n), voids: map[int32]filch.State{}, closed: true}
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	b.e = NewEach(&record.Job{Conditions: c, Total: total}, nil)
	return b
}

// run lets time pass.
func (b *bags) run(d time.Duration) {
	b.t.Helper()
	for end, rounds := b.now+d, 0; b.now < end; rounds++ {
		if rounds > 100_000 {
			b.t.Fatal("looks are due at once, again and again")
		}
		b.e.Grow(b.total)
		looks, due := b.e.Step(b.now, Window)
		decided := 0
		for _, p := range due {
			for i := p.Lo; i < p.Hi; i++ {
				if decided++; p.Never != "" {
					b.never[i] = p.Never
				} else {
					b.ready = append(b.ready, i)
				}
			}
		}
		if more, _ := b.e.Step(b.now, 0); len(more) > 0 && len(looks) > 0 {
			b.t.Fatalf("%d looks before the answers to the last", len(more))
		}
		if decided > Window {
			b.t.Fatalf("%d decisions in a step", decided)
		}
		for _, l := range looks {
			b.e.Answered(b.now, &l, b.answers(&l))
		}
		if len(looks) == 0 {
			b.now = min(max(b.e.Next(b.now), b.now+1), end)
		}
	}
}

func (b *bags) answers(l *Look) (list []record.Answer) {
	for _, p := range l.Proposals {
		b.looks++
		key, _ := record.ParseKey(p.Key)
		g := b.bags[key.Job]
		if g == nil {
			list = append(list, record.Answer{Status: record.AnswerAbsent})
			continue
		}
		switch p.Kind {
		case record.RecordBlock:
			list = append(list, record.Answer{Value: g.block(key.Number).Encode()})
		case record.RecordZone:
			list = append(list, record.Answer{Value: g.zone(key.Number).Encode()})
		default:
			j := record.Job{Total: int32(len(g.ends)), Closed: g.closed, Void: g.void}
			for n := range j.Total/record.ZoneSize + 1 {
				if t := g.zone(n).Tally(); t.Sum() > 0 {
					j.Zones = append(j.Zones, record.ZoneTally{Zone: n, Tally: t})
				}
			}
			list = append(list, record.Answer{Value: j.Encode()})
		}
	}
	return list
}

func (g *bag) block(num int32) *record.Block {
	b := &record.Block{}
	for i := num * record.BlockSize; i < min((num+1)*record.BlockSize, int32(len(g.ends))); i++ {
		if s := g.ends[i]; s != 0 && g.voids[i] == 0 {
			b.Offs = append(b.Offs, uint8(i%record.BlockSize))
			b.Tasks = append(b.Tasks, record.Task{State: s, Attempt: 1, By: record.Owner{Node: "n1"}})
		}
	}
	return b
}

func (g *bag) zone(num int32) *record.Zone {
	z := &record.Zone{}
	for n := num * record.ZoneBlocks; n < (num+1)*record.ZoneBlocks && n*record.BlockSize < int32(len(g.ends)); n++ {
		if t := g.block(n).Tally(); t.Sum() > 0 {
			z.Blocks = append(z.Blocks, record.BlockTally{Block: n, Tally: t})
		}
	}
	for i := num * record.ZoneSize; i < min((num+1)*record.ZoneSize, int32(len(g.ends))); i++ {
		if s := g.voids[i]; s != 0 {
			z.Spans = append(z.Spans, record.Span{Lo: i, Hi: i + 1, Front: i + 1, Void: s, Owner: record.Owner{Node: "n1"}})
		}
	}
	return z
}

func (b *bags) want(ready ...int32) {
	b.t.Helper()
	b.run(5 * sec)
	slices.Sort(b.ready)
	if !slices.Equal(b.ready, ready) {
		b.t.Errorf("got the tasks %v ready, want %v", b.ready, ready)
	}
	b.ready = nil
}

func (b *bags) wantNever(i int32, why string) {
	b.t.Helper()
	if got := b.never[i]; got == "" || !strings.Contains(got, why) {
		b.t.Errorf("task %d: got %q, want %q", i, got, why)
	}
}

func TestEachWaitsForItsOwn(t *testing.T) {
	b := newBags(t, 600, 600)
	a := b.bags[7]
	b.want()
	a.ends[3], a.ends[599] = filch.OK, filch.OK
	b.want(3, 599)
	a.ends[4], a.ends[300] = filch.Failed, filch.OK
	b.want(300)
	b.wantNever(4, "task 7.4 did not end well")
	for i := range a.ends {
		if a.ends[i] == 0 {
			a.ends[i] = filch.OK
		}
	}
	b.run(5 * sec)
	if len(b.ready) != 600-4 || b.e.Waiting() != 0 || len(b.never) != 1 {
		t.Errorf("%d tasks are ready at the end, %d wait, %d never begin", len(b.ready), b.e.Waiting(), len(b.never))
	}
	if at := b.e.Next(b.now); at != filch.Never {
		t.Errorf("with all decided, the next look is at %s", at)
	}
}

func TestEachOfDifferentSizes(t *testing.T) {
	b := newBags(t, 5, 3)
	b.want()
	b.wantNever(3, "job 7 has no task 3")
	b.wantNever(4, "job 7 has no task")
	b.bags[7].ends = []filch.State{filch.OK, filch.OK, filch.OK}
	b.want(0, 1, 2)
	b = newBags(t, 2, 300)
	b.bags[7].ends[1], b.bags[7].ends[299] = filch.OK, filch.OK
	b.want(1)
}

func TestEachOfOpenBags(t *testing.T) {
	b := newBags(t, 3, 1)
	a := b.bags[7]
	a.closed = false
	b.want()
	a.ends = append(a.ends, filch.OK)
	b.want(1)
	b.total = 300 // the bag itself grows
	a.ends = append(a.ends, make([]filch.State, 400)...)
	a.ends[2], a.ends[299] = filch.OK, filch.OK
	b.want(2, 299)
	for i := range a.ends {
		a.ends[i] = filch.OK
	}
	a.closed = true
	b.run(5 * sec)
	if len(b.ready) != 300-3 {
		t.Errorf("%d tasks are ready at the end", len(b.ready))
	}
}

func TestEachOfSeveralBags(t *testing.T) {
	b := newBags(t, 4, 4, 4)
	b.bags[7].ends[0], b.bags[7].ends[1], b.bags[7].ends[2] = filch.OK, filch.OK, filch.OK
	b.want()
	b.bags[8].ends[1], b.bags[8].ends[2] = filch.OK, filch.Killed
	b.want(1)
	b.wantNever(2, "task 8.2")
	b.bags[7].ends[3] = filch.OK
	b.bags[8].ends = []filch.State{filch.OK, filch.OK, filch.Killed, filch.OK}
	b.want(0, 3)
}

func TestEachOfEndedBags(t *testing.T) {
	b := newBags(t, 3, 3)
	b.bags[7].ends = []filch.State{filch.OK, filch.Failed, filch.OK}
	b.want(0, 2)
	b.wantNever(1, "task 7.1")
	b = newBags(t, 3, 3) // cancelled: two tasks never had a start
	b.bags[7].ends, b.bags[7].void = []filch.State{filch.OK, filch.Cancelled, filch.Cancelled}, filch.Cancelled
	b.bags[7].voids = map[int32]filch.State{1: filch.Cancelled, 2: filch.Cancelled}
	b.want(0)
	b.wantNever(1, "task 7.1")
	b.wantNever(2, "task 7.")
	b = newBags(t, 3, 3)
	delete(b.bags, 7)
	b.run(absentWait - sec)
	if len(b.never) > 0 {
		t.Errorf("%v while the record may come", b.never)
	}
	b.run(5 * sec)
	b.wantNever(2, "there is no job 7")
}

// Tasks that the caller ends are decided.
func TestEachTakes(t *testing.T) {
	b := newBags(t, 300, 300)
	if got, want := b.e.Take(60, 130, 50), []Due{{60, 110, ""}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	b.e.Took(3)
	for i := range b.bags[7].ends {
		b.bags[7].ends[i] = filch.OK
	}
	b.run(5 * sec)
	if len(b.ready) != 300-51 || slices.Contains(b.ready, 3) || slices.Contains(b.ready, 109) || b.e.Waiting() != 0 {
		t.Errorf("%d tasks are ready, %d wait", len(b.ready), b.e.Waiting())
	}
}

// Tasks that a person cancelled are decided in parts with a pause between, and are never ready.
func TestEachDropsInParts(t *testing.T) {
	b := newBags(t, 300, 300)
	parts := []record.Pick{{From: 10, Count: 20}, {From: 100, Count: 150}}
	if got, want := b.e.Drop(sec, parts, 50), []Due{{10, 30, ""}, {100, 130, ""}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	at := b.e.Drops()
	if got := b.e.Drop(at-1, parts, 50); at <= sec || len(got) > 0 {
		t.Errorf("at %v, before the next part is due at %v: %v", at-1, at, got)
	}
	for i := range b.bags[7].ends {
		b.bags[7].ends[i] = filch.OK
	}
	b.run(5 * sec)
	if len(b.ready) != 300-170 || b.e.Waiting() != 120 {
		t.Errorf("%d tasks are ready, %d wait", len(b.ready), b.e.Waiting())
	}
	if got, want := b.e.Drop(at, parts, 500), []Due{{130, 250, ""}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A million waiting tasks cost less than a byte each, and each end a look at one block.
func TestEachIsSmall(t *testing.T) {
	const n = 1_000_000
	var m0, m1 runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m0)
	b := newBags(t, n, 0)
	runtime.GC()
	runtime.ReadMemStats(&m1)
	if used := int64(m1.HeapAlloc) - int64(m0.HeapAlloc); used > n {
		t.Errorf("%d waiting tasks take %d bytes", n, used)
	}
	b.bags[7].ends = make([]filch.State, n)
	b.run(sec)
	b.looks = 0
	b.bags[7].ends[n/2] = filch.OK
	b.want(n / 2)
	if b.looks > 40 {
		t.Errorf("%d looks for one end", b.looks)
	}
	for i := range b.bags[7].ends {
		b.bags[7].ends[i] = filch.OK
	}
	b.run(10 * sec)
	if len(b.ready) != n-1 {
		t.Errorf("%d tasks are ready at the end", len(b.ready))
	}
}

// TestLongestAreDecidedFirst: the tasks of a bag with lengths come by their lengths, in steps, and
// those of a bag that waits for another come as these end.
func TestLongestAreDecidedFirst(t *testing.T) {
	const total = 5000
	var all []time.Duration
	for i := range time.Duration(total) {
		all = append(all, (1+i*7919%10_007)*time.Second)
	}
	lengths := record.NewLengths(all)
	e := NewEach(&record.Job{Total: total, Long: int32(len(lengths))}, lengths)
	if at := e.Next(sec); at == 0 || e.Waiting() != total || e.Space(0, 3) != Window-3 {
		t.Errorf("next step at %s, %d tasks wait, space for %d", at, e.Waiting(), e.Space(0, 3))
	}
	e.Took(7)
	last, n := time.Duration(1<<62), 0
	for e.Waiting() > 0 {
		_, due := e.Step(sec, 700)
		if len(due) == 0 || len(due) > 700 {
			t.Fatalf("%d decisions in a step", len(due))
		}
		for _, d := range due {
			if n++; d.Lo == 7 || d.Hi != d.Lo+1 || e.Level(d.Lo) > last {
				t.Fatalf("task %d with the level %s comes after %s", d.Lo, e.Level(d.Lo), last)
			}
			last = e.Level(d.Lo)
		}
	}
	if n != total-1 || e.Next(sec) != filch.Never {
		t.Errorf("%d decisions, the next step at %s", n, e.Next(sec))
	}
	b := &record.Block{Offs: []uint8{1, 2, 3}, Tasks: []record.Task{{State: filch.OK}, {Owner: record.Owner{Node: "n2"}}, {Owner: record.Owner{Node: "n1"}}}}
	e = NewEach(&record.Job{Total: total, Long: int32(len(lengths))}, nil)
	e.Read(2, b, record.Owner{Node: "n1"})
	as := []record.Answer{{Status: record.AnswerDone, Value: lengths[0]}}
	if gone := e.Loaded(as); gone != 0 || e.Waits(513) || e.Waits(514) || !e.Waits(515) || e.Level(0).Round(10*time.Millisecond) != time.Second {
		t.Errorf("%d records are gone, 513 waits %t, 514 %t, 515 %t, the level of 0 is %s", gone, e.Waits(513), e.Waits(514), e.Waits(515), e.Level(0))
	}
	as[0].Status = record.AnswerAbsent
	if gone := e.Loaded(as); gone != 1 || e.Level(0) != 1 {
		t.Errorf("%d records are gone, the level of 0 is %s", gone, e.Level(0))
	}
}
