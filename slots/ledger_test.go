package slots_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/slots"
)

const unbounded = filch.Unbounded

// cpus is a node of n cores, 64 GiB and two GPUs.
func cpus(n int32) Capacity {
	c := Capacity{Slots: n, MemBytes: 64 << 30, GPUs: []string{"g0", "g1"}, Named: "license=6"}
	for i := range n {
		c.Processors = append(c.Processors, filch.Processor{CPUs: []int32{2 * i}, Core: i})
	}
	return c
}

// ask is job's wish for that many ranks of one slot; older jobs have lower
// numbers.
func ask(job, want int32) Ask {
	return Ask{
		Key: Key{Job: filch.JobID(job), Attempt: 1}, Ticket: filch.Ticket{UnixNS: int64(job), Job: filch.JobID(job)},
		Origin: filch.NodeName("o"), Incarnation: 1, Each: filch.Room{Slots: 1}, Want: want, Round: 1,
	}
}

func waiting(a Ask) Ask {
	a.Wait = true
	return a
}

func held(t *testing.T, l *Ledger, job, want int32) Status {
	t.Helper()
	l.Check()
	s := l.Status(ask(job, 0).Key)
	if s.Held != want {
		t.Errorf("job %d holds %d ranks, want %d", job, s.Held, want)
	}
	return s
}

// TestInTheWaySumsGangs shows that the gangs of a bag count as one job in the way.
func TestInTheWaySumsGangs(t *testing.T) {
	l := New(cpus(8), 1)
	l.Ask(0, ask(1, 3), unbounded)
	for id := int32(100); id < 102; id++ {
		a := ask(id, 2)
		a.Of = 7
		l.Ask(0, a, unbounded)
	}
	if job, n, lacks := l.InTheWay(ask(2, 0).Key); job != 7 || n != 4 || lacks != "" {
		t.Errorf("got job %d with %d slots, lacking %q; want job 7 with 4", job, n, lacks)
	}
}

func TestLedgerLendsWhatIsFree(t *testing.T) {
	l := New(cpus(8), 1)
	if s := l.Ask(0, ask(1, 6), unbounded); s.Held != 6 || s.Lease.Serial == 0 || s.Lease.Incarnation != 1 {
		t.Errorf("got %+v, want 6 ranks under a lease of incarnation 1", s)
	}
	if s := l.Ask(0, ask(2, 6), 1); s.Held != 1 {
		t.Errorf("got %d ranks, want the limit of 1", s.Held)
	}
	if s := l.Ask(0, ask(3, 6), unbounded); s.Held != 1 {
		t.Errorf("got %d ranks, want the last one", s.Held)
	}
	if s := l.Ask(0, ask(4, 6), unbounded); s.Held != 0 || s.Lease.Serial != 0 || s.Waiting {
		t.Errorf("got %+v, want nothing and no lease", s)
	}
	l.Check()
}

func TestLedgerAnswersARepeatedAskWithTheSame(t *testing.T) {
	l := New(cpus(8), 1)
	first := l.Ask(0, ask(1, 8), 4)
	again := l.Ask(0, ask(1, 8), 4)
	if again.Held != first.Held || again.Lease != first.Lease {
		t.Errorf("got %+v, want the same as %+v", again, first)
	}
	next := ask(1, 8)
	next.Round = 2
	if s := l.Ask(0, next, 2); s.Held != 6 || s.Lease != first.Lease || s.Version <= first.Version {
		t.Errorf("got %+v, want 6 ranks under the same lease and a later version", s)
	}
	if s := l.Ask(0, ask(1, 8), 8); s.Held != 6 {
		t.Errorf("a late ask of an earlier round changed the hold to %d", s.Held)
	}
}

func TestLedgerCountsInWholeRanksOfAllResources(t *testing.T) {
	for _, c := range []struct {
		name string
		each filch.Room
		want int32
	}{
		{"slots", filch.Room{Slots: 3}, 2},
		{"memory", filch.Room{Slots: 1, MemBytes: 20 << 30}, 3},
		{"gpus", filch.Room{Slots: 1, GPUs: filch.GPU}, 2},
		{"half a GPU", filch.Room{Slots: 1, GPUs: 500}, 4},
		{"shares do not cross GPUs", filch.Room{Slots: 1, GPUs: 400}, 4},
		{"licenses", filch.Room{Slots: 1, Named: "license=2"}, 3},
		{"a resource that the node lacks", filch.Room{Slots: 1, Named: "gate=1"}, 0},
		{"never", filch.Room{Slots: 1, GPUs: 3 * filch.GPU}, 0},
	} {
		l := New(cpus(8), 1)
		a := ask(1, 8)
		a.Each = c.each
		if s := l.Ask(0, a, unbounded); s.Held != c.want {
			t.Errorf("%s: got %d ranks, want %d", c.name, s.Held, c.want)
		}
		if c.want > 0 {
			loan, ok := l.Lock(0, a.Key, l.Status(a.Key).Lease, c.want)
			if !ok || int32(len(loan.Processors)) != c.want*c.each.Slots || int32(len(loan.GPUs)) != c.want*((c.each.GPUs+filch.GPU-1)/filch.GPU) || loan.MemBytes != int64(c.want)*c.each.MemBytes {
				t.Errorf("%s: got %+v %t, want room for %d ranks", c.name, loan, ok, c.want)
			}
		}
		l.Check()
	}
}

func TestLedgerServesTheOldestWaiterFirst(t *testing.T) {
	l := New(cpus(4), 1)
	l.Take(0, ask(1, 4))
	run := l.Status(ask(1, 0).Key).Lease
	l.Ask(0, waiting(ask(3, 4)), unbounded)
	l.Ask(0, waiting(ask(2, 3)), unbounded)
	if s := l.Ask(0, ask(4, 1), unbounded); s.Held != 0 || !s.Older {
		t.Errorf("got %+v, want nothing while older requests wait", s)
	}
	l.Changed(nil)
	l.End(sec, ask(1, 0).Key, run, false)
	held(t, l, 2, 3)
	held(t, l, 3, 1)
	got := l.Changed(nil)
	if len(got) != 2 || got[0].Key.Job != 2 || got[1].Key.Job != 3 || !got[1].Waiting {
		t.Errorf("told %+v, want jobs 2 and 3, which still waits", got)
	}
}

const sec = time.Second

func TestLedgerWoundsTheYoungestHoldFirst(t *testing.T) {
	l := New(cpus(6), 1)
	l.Ask(0, ask(5, 2), unbounded)
	l.Ask(0, ask(9, 2), unbounded)
	l.Ask(0, ask(7, 2), unbounded)
	l.Changed(nil)
	if s := l.Ask(0, waiting(ask(6, 3)), unbounded); s.Held != 3 || s.Waiting {
		t.Errorf("got %+v, want 3 ranks taken from younger holds", s)
	}
	held(t, l, 5, 2)
	held(t, l, 7, 1)
	if s := held(t, l, 9, 0); !s.Waiting {
		t.Errorf("got %+v, want the wounded to wait for what it lost", s)
	}
	if got := l.Changed(nil); len(got) != 2 {
		t.Errorf("told %+v, want the two wounded", got)
	}
}

func TestLedgerDoesNotWoundLockedOrRunning(t *testing.T) {
	l := New(cpus(4), 1)
	a, b := l.Ask(0, ask(8, 2), unbounded), l.Ask(0, ask(9, 2), unbounded)
	for _, s := range []Status{a, b} {
		if _, ok := l.Lock(0, s.Key, s.Lease, 2); !ok {
			t.Fatal("cannot lock a hold of 2")
		}
	}
	if !l.Run(b.Key, b.Lease) || l.Run(b.Key, b.Lease) {
		t.Fatal("want the gate to open once")
	}
	if s := l.Ask(0, waiting(ask(1, 4)), unbounded); s.Held != 0 || !s.Waiting {
		t.Errorf("got %+v, want it to wait", s)
	}
	// The launch of 8 is given up behind the gate.
	l.End(0, a.Key, a.Lease, false)
	held(t, l, 1, 2)
	held(t, l, 9, 2)
}

func TestLedgerTakesTheHoldOfASilentOriginBack(t *testing.T) {
	l := New(cpus(4), 1)
	s := l.Ask(0, ask(1, 4), unbounded)
	l.Changed(nil)
	prompts := 0
	for now := time.Duration(0); now < HoldTerm; now = l.Deadline() {
		l.Tick(now)
		prompts += len(l.Changed(nil))
	}
	if prompts < 3 {
		t.Errorf("prompted %d times, want it asked whether the hold is wanted", prompts)
	}
	l.Tick(HoldTerm)
	held(t, l, 1, 0)
	if _, ok := l.Lock(HoldTerm, s.Key, s.Lease, 1); ok || l.Renew(HoldTerm, s.Key, s.Lease) {
		t.Error("a lease that lapsed was renewed or locked")
	}
}

func TestLedgerKeepsARenewedHold(t *testing.T) {
	l := New(cpus(4), 1)
	s := l.Ask(0, ask(1, 4), unbounded)
	prompts := 0
	for now := time.Duration(0); now < 10*time.Minute; now = l.Deadline() {
		l.Tick(now)
		for range l.Changed(nil) {
			prompts++
			l.Renew(now, s.Key, s.Lease)
		}
	}
	held(t, l, 1, 4)
	if prompts > 62 {
		t.Errorf("prompted %d times in ten minutes, want about one every %v", prompts, PromptMax)
	}
}

func TestLedgerReleasesByLease(t *testing.T) {
	l := New(cpus(4), 1)
	old := l.Ask(0, ask(1, 4), unbounded)
	l.Release(0, old.Key, old.Lease, 0)
	b := l.Ask(0, ask(2, 4), unbounded)
	if l.Release(0, old.Key, old.Lease, 0) {
		t.Error("a lease was released twice")
	}
	again := ask(1, 4)
	again.Round = 7
	l.Release(0, b.Key, b.Lease, 0)
	l.Ask(0, again, unbounded)
	if l.Release(0, old.Key, old.Lease, 0) {
		t.Error("a late release of an old lease hit a new one of the same job")
	}
	if l.Release(0, old.Key, filch.LeaseID{}, 6) {
		t.Error("a release of round 6 hit a hold asked for in round 7")
	}
	held(t, l, 1, 4)
	if !l.Release(0, old.Key, filch.LeaseID{}, 7) {
		t.Error("a release of all up to round 7 did nothing")
	}
	held(t, l, 1, 0)
}

func TestLedgerRunsOnlyWhatIsHeldAndGivesTheRestBack(t *testing.T) {
	l := New(cpus(8), 1)
	s := l.Ask(0, ask(1, 8), unbounded)
	if _, ok := l.Lock(0, s.Key, s.Lease, 9); ok {
		t.Error("ran 9 ranks on a hold of 8")
	}
	if _, ok := l.Lock(0, s.Key, filch.LeaseID{Incarnation: 1, Serial: 999}, 1); ok {
		t.Error("ran on a lease that was never given")
	}
	loan, ok := l.Lock(0, s.Key, s.Lease, 5)
	if !ok || len(loan.Processors) != 5 || loan.Processors[4].CPUs[0] != 8 || l.Free().Slots != 3 {
		t.Errorf("got %+v with %d free, want the five lowest cores and 3 free", loan, l.Free().Slots)
	}
	if _, ok := l.Lock(0, s.Key, s.Lease, 5); ok {
		t.Error("ran twice on one lease")
	}
	if l.Release(0, s.Key, s.Lease, 0) {
		t.Error("a message released what runs")
	}
	if !l.End(0, s.Key, s.Lease, false) || l.End(0, s.Key, s.Lease, false) || l.Free().Slots != 8 {
		t.Error("want the lease to end once, with all slots free")
	}
}

func TestLedgerExclusiveIsTheWholeNode(t *testing.T) {
	l := New(cpus(4), 1)
	x := waiting(ask(2, 2))
	x.Exclusive = true
	a, _ := l.Take(0, ask(1, 1))
	if s := l.Ask(0, x, unbounded); s.Held != 0 {
		t.Errorf("got %d ranks of a node in use, want none", s.Held)
	}
	if s := l.Ask(0, waiting(ask(3, 1)), unbounded); s.Held != 0 {
		t.Errorf("a younger job got %d ranks before the whole node was had", s.Held)
	}
	l.End(0, ask(1, 0).Key, a.Lease, false)
	held(t, l, 2, 2)
	if l.Free() != (filch.Room{}) {
		t.Errorf("free is %+v beside an exclusive hold, want nothing", l.Free())
	}
	loan, ok := l.Lock(0, x.Key, l.Status(x.Key).Lease, 2)
	if !ok || len(loan.Processors) != 4 || len(loan.GPUs) != 2 {
		t.Errorf("got %+v, want all of the node", loan)
	}
	l.Check()
}

func TestLedgerDrains(t *testing.T) {
	l := New(cpus(4), 1)
	s := l.Ask(0, ask(1, 2), unbounded)
	l.Take(0, ask(2, 2))
	l.Ask(0, waiting(ask(3, 1)), unbounded)
	l.Changed(nil)
	l.Drain(0, true)
	if got := l.Changed(nil); len(got) != 1 || got[0].Key.Job != 3 || !got[0].Refused || got[0].Waiting {
		t.Errorf("told %+v, want that job 3 waits in vain", got)
	}
	if g := l.Ask(0, ask(4, 1), unbounded); !g.Refused {
		t.Errorf("got %+v, want a refusal", g)
	}
	if _, ok := l.Lock(0, s.Key, s.Lease, 1); !ok {
		t.Error("a hold of before the drain cannot be launched")
	}
	if l.Spare(ask(5, 1)) != 0 {
		t.Error("a drained node has spare room")
	}
	l.Drain(0, false)
	if l.Spare(ask(5, 1)) != 1 {
		t.Error("a node that is drained no more has no spare room")
	}
}

func TestLedgerStepsUseWhatTheirParentHas(t *testing.T) {
	l := New(cpus(4), 1)
	p, _ := l.Take(0, ask(1, 3))
	pk := ask(1, 0).Key
	a, ok := l.Sub(ask(2, 2), pk, p.Lease)
	if !ok || len(a.Processors) != 2 || l.Free().Slots != 1 {
		t.Errorf("got %+v, want two of the parent's cores", a)
	}
	if _, ok := l.Sub(ask(3, 2), pk, p.Lease); ok {
		t.Error("two steps have four of three slots")
	}
	b, ok := l.Sub(ask(4, 1), pk, p.Lease)
	if !ok || b.Processors[0].CPUs[0] == a.Processors[0].CPUs[0] || b.Processors[0].CPUs[0] == a.Processors[1].CPUs[0] {
		t.Errorf("got %+v beside %+v, want the third core", b, a)
	}
	l.Check()
	l.End(0, ask(2, 0).Key, a.Lease, false)
	if l.Free().Slots != 1 {
		t.Errorf("%d free, want the step's slots back with its parent", l.Free().Slots)
	}
	// The parent ends first: what the step uses is free when the step ends.
	l.End(0, pk, p.Lease, false)
	l.Check()
	if l.Free().Slots != 3 {
		t.Errorf("%d free, want 3 while a step still runs", l.Free().Slots)
	}
	l.End(0, ask(4, 0).Key, b.Lease, false)
	l.Check()
	if l.Free().Slots != 4 {
		t.Errorf("%d free, want all", l.Free().Slots)
	}
}

func TestLedgerKeepsUnkillableSlotsOutOfService(t *testing.T) {
	l := New(cpus(4), 1)
	p, _ := l.Take(0, ask(1, 3))
	l.End(0, ask(1, 0).Key, p.Lease, true)
	l.Check()
	if stuck := l.Counts().Stuck; stuck != 3 || l.Free().Slots != 1 {
		t.Errorf("%d stuck and %d free, want 3 and 1", stuck, l.Free().Slots)
	}
	l.End(0, ask(1, 0).Key, p.Lease, false)
	if l.Free().Slots != 4 {
		t.Errorf("%d free, want 4 once they are gone", l.Free().Slots)
	}
}

func TestLedgerForgetsAnOrigin(t *testing.T) {
	l := New(cpus(4), 1)
	s := l.Ask(0, ask(1, 1), unbounded)
	l.Lock(0, s.Key, s.Lease, 1)
	l.Ask(0, ask(2, 1), unbounded)
	l.Ask(0, waiting(ask(3, 4)), unbounded)
	young := ask(4, 1)
	young.Incarnation = 2
	l.Ask(0, waiting(young), unbounded)
	l.Forget(0, "o", 2)
	held(t, l, 1, 1)
	held(t, l, 2, 0)
	held(t, l, 3, 0)
	held(t, l, 4, 1)
}

func TestLedgerAdoptsWhatStillRuns(t *testing.T) {
	l := New(cpus(4), 2)
	old := filch.LeaseID{Incarnation: 1, Serial: 7}
	n := Loan{Lease: old, Ranks: 2, Slots: []int32{1, 3}, GPUs: []string{"g1"}, MemBytes: 1 << 30}
	if !l.Adopt(ask(1, 2), n) {
		t.Fatal("cannot adopt on an empty node")
	}
	l.Check()
	if l.Adopt(ask(2, 2), n) {
		t.Error("adopted the same slots twice")
	}
	loan, _ := l.Take(0, ask(3, 2))
	if len(loan.Processors) != 2 || loan.Processors[0].CPUs[0] != 0 || loan.Processors[1].CPUs[0] != 4 {
		t.Errorf("got %+v, want the other two cores", loan)
	}
	if !l.End(0, ask(1, 0).Key, old, false) || l.Free().Slots != 2 {
		t.Error("the old lease does not end")
	}
	l.Check()
}

// The keeper of a step may turn up before that of the run that it is a step of. (The
// run's slots were taken then, its ranks were ended, and its slots lent meanwhile.)
func TestLedgerAdoptsARunAfterItsStep(t *testing.T) {
	l := New(cpus(4), 2)
	old := filch.LeaseID{Incarnation: 1, Serial: 7}
	run := Loan{Lease: old, Ranks: 3, Slots: []int32{0, 1, 2}, GPUs: []string{"g1"}, MemBytes: 3 << 30}
	step := Loan{Lease: old, Ranks: 1, Slots: []int32{1}, GPUs: []string{"g1"}, MemBytes: 1 << 30}
	other := Loan{Lease: old, Ranks: 1, Slots: []int32{3}}
	if !l.Adopt(ask(2, 1), step) || !l.Adopt(ask(3, 1), other) {
		t.Fatal("cannot adopt on an empty node")
	}
	if l.Adopt(ask(1, 3), run) || l.Adopt(ask(1, 3), run, ask(3, 1).Key) {
		t.Fatal("adopted a run whose slots another one has")
	}
	free := l.Free()
	if !l.Adopt(ask(1, 3), run, ask(2, 1).Key) {
		t.Fatal("cannot adopt the run of a step")
	}
	l.Check()
	if got := l.Free(); got.Slots != free.Slots-2 || got.MemBytes != free.MemBytes-2<<30 {
		t.Errorf("free are %+v, were %+v; want two slots and 2 GiB less", got, free)
	}
	l.End(0, ask(2, 0).Key, old, false)
	if got := l.Free(); got.Slots != free.Slots-2 {
		t.Errorf("%d slots are free when the step is over, want %d", got.Slots, free.Slots-2)
	}
	l.End(0, ask(1, 0).Key, old, false)
	l.End(0, ask(3, 0).Key, old, false)
	if got := l.Free(); got.Slots != 4 {
		t.Errorf("%d slots are free in the end, want 4", got.Slots)
	}
	l.Check()
}

// A step whose ranks have ended gave its slots to the next one, and its keeper is still
// there when the launcher is restarted.
func TestLedgerAdoptsAStepThatIsOver(t *testing.T) {
	for _, first := range []int{2, 3} {
		l := New(cpus(4), 2)
		old := filch.LeaseID{Incarnation: 1, Serial: 7}
		over := Loan{Lease: old, Ranks: 2, Slots: []int32{0, 1}, MemBytes: 2 << 30}
		runs := Loan{Lease: old, Ranks: 2, Slots: []int32{1, 2}, MemBytes: 2 << 30}
		l.Adopt(ask(1, 3), Loan{Lease: old, Ranks: 3, Slots: []int32{0, 1, 2}, MemBytes: 3 << 30})
		for _, job := range []int{first, 5 - first} {
			if job == 2 {
				l.AdoptSub(ask(2, 2), over, ask(1, 0).Key, true)
			} else {
				l.AdoptSub(ask(3, 2), runs, ask(1, 0).Key, false)
			}
			l.Check()
		}
		l.End(0, ask(2, 0).Key, old, false)
		l.Check()
		if loan, ok := l.Sub(ask(4, 2), ask(1, 0).Key, old); ok {
			t.Errorf("step %d first: lent %v to another step, and the one that runs has two of three slots", first, loan.Slots)
		}
	}
}

func TestLedgerWaitListIsBounded(t *testing.T) {
	l := New(cpus(1), 1)
	l.Take(0, ask(1, 1))
	for i := range int32(MaxWaiting) {
		l.Ask(0, waiting(ask(i+2, 1)), unbounded)
	}
	if s := l.Ask(0, waiting(ask(MaxWaiting+2, 1)), unbounded); s.Waiting || !s.Refused {
		t.Errorf("got %+v, want a refusal", s)
	}
}

func TestUnboundSlotsNameNoCore(t *testing.T) {
	l := New(Capacity{Slots: 8, Processors: []filch.Processor{{}, {Core: 1}}}, 1)
	loan, ok := l.Take(0, ask(1, 5))
	if !ok || len(loan.Slots) != 5 || len(loan.Processors) != 0 {
		t.Errorf("got %+v, want five slots and no core", loan)
	}
}
