package slots_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/slots"
	"pgregory.net/rapid"
)

// model is what the ledger must look like from outside: leases by job with
// what each holds, and versions that only grow.
type model struct {
	ledger   *Ledger
	now      time.Duration
	total    int32
	each     map[filch.JobID]int32 // slots a rank
	leases   map[filch.JobID]filch.LeaseID
	versions map[filch.JobID]uint64
	running  map[filch.JobID]int32
	rounds   map[filch.JobID]uint32
	old      []Status // leases that are no more
	tasks    []*taskModel
	steps    []stepModel // of tasks, also of those that have ended
	step     filch.JobID // the last of them
	fills    uint64      // the last task that was let through
	id       map[*taskModel]uint64
	called   map[uint64]bool
	kept     map[filch.JobID]int32 // ranks that no other job may take
}

type taskModel struct {
	TaskLoan
	lent int32 // slots, to steps
}

type stepModel struct {
	key   Key
	lease filch.LeaseID
	slots int32
	task  *taskModel // nil: it has ended
}

// TestLedgerAgainstModel throws random operations at a ledger, stale ones
// among them, and holds every answer against the model.
func TestLedgerAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			total: rapid.Int32Range(1, 12).Draw(t, "slots"),
			each:  map[filch.JobID]int32{}, leases: map[filch.JobID]filch.LeaseID{},
			versions: map[filch.JobID]uint64{}, running: map[filch.JobID]int32{}, id: map[*taskModel]uint64{}, called: map[uint64]bool{}, kept: map[filch.JobID]int32{}, rounds: map[filch.JobID]uint32{},
		}
		m.ledger = New(cpus(m.total), 1)
		t.Repeat(map[string]func(*rapid.T){
			"ask": m.ask, "lock": m.lock, "run": m.run, "release": m.release,
			"end": m.end, "keep": m.keep, "retain": m.retain, "stale": m.stale, "tick": m.tick, "take": m.take,
			"task": m.task, "task-end": m.taskEnd, "tasks-wait": m.tasksWait,
			"permit": m.permit, "fill": m.fill, "task-step": m.taskStep, "task-step-end": m.taskStepEnd, "": m.check,
		})
	})
}

func (m *model) job(t *rapid.T) filch.JobID {
	return filch.JobID(rapid.Int32Range(1, 6).Draw(t, "job"))
}

func (m *model) wish(t *rapid.T, job filch.JobID) Ask {
	if m.each[job] == 0 {
		m.each[job] = rapid.Int32Range(1, 3).Draw(t, "each")
	}
	m.rounds[job]++
	a := ask(int32(job), rapid.Int32Range(1, 8).Draw(t, "want"))
	a.Each.Slots, a.Round = m.each[job], m.rounds[job]
	a.Each.GPUs, a.Each.Named = gpusOf(int32(job)), resourcesOf(int32(job))
	a.Wait = rapid.Bool().Draw(t, "wait")
	return a
}

// gpusOf and resourcesOf are what a rank or task takes beside slots: always the same for
// the ranks of a job.
func gpusOf(n int32) int32 { return []int32{0, 250, 500, filch.GPU, 400, 2 * filch.GPU}[n%6] }

func resourcesOf(n int32) filch.Amounts {
	return []filch.Amounts{"", "", "license=1", "license=3"}[n%4]
}

// hear takes in what the ledger says of a claim.
func (m *model) hear(t *rapid.T, s Status) {
	if s.Version <= m.versions[s.Key.Job] {
		return // no news: a prompt
	}
	m.versions[s.Key.Job] = s.Version
	if old, ok := m.leases[s.Key.Job]; ok && old != s.Lease {
		m.old = append(m.old, Status{Key: s.Key, Lease: old})
	}
	delete(m.leases, s.Key.Job)
	if s.Lease.Serial != 0 {
		m.leases[s.Key.Job] = s.Lease
	}
}

func (m *model) changed(t *rapid.T) {
	for _, s := range m.ledger.Changed(nil) {
		m.hear(t, s)
	}
}

func (m *model) ask(t *rapid.T) {
	job := m.job(t)
	a := m.wish(t, job)
	limit := rapid.Int32Range(0, 8).Draw(t, "limit")
	before := m.ledger.Status(a.Key)
	spare := m.ledger.Spare(a)
	s := m.ledger.Ask(m.now, a, limit)
	if before.Lease.Serial == 0 && !a.Wait && s.Held > min(limit, spare) {
		t.Fatalf("lent %d ranks of %d spare under a limit of %d", s.Held, spare, limit)
	}
	if before.State <= Held && s.Held > max(a.Want, before.Held) {
		t.Fatalf("holds %d ranks for a wish of %d, had %d", s.Held, a.Want, before.Held)
	}
	m.hear(t, s)
	m.changed(t)
}

func (m *model) take(t *rapid.T) {
	job := m.job(t)
	a := m.wish(t, job)
	if n, ok := m.ledger.Take(m.now, a); ok {
		if int32(len(n.Slots)) != a.Want*a.Each.Slots {
			t.Fatalf("took %d slots for %d ranks of %d", len(n.Slots), a.Want, a.Each.Slots)
		}
		m.running[job] = a.Want * a.Each.Slots
		m.leases[job] = n.Lease
	}
	m.changed(t)
}

func (m *model) task(t *rapid.T) {
	each := filch.Room{Slots: rapid.Int32Range(1, 3).Draw(t, "slots of a task")}
	kind := rapid.Int32Range(0, 11).Draw(t, "kind of a task")
	each.GPUs, each.Named = gpusOf(kind), resourcesOf(kind)
	room := m.ledger.TaskRoom()
	n, ok := m.ledger.TakeTask(m.now, each)
	held := filch.Room{}
	for _, o := range m.tasks {
		if !o.Borrowed() {
			held = held.Plus(o.Room())
		}
	}
	// Shares may leave each GPU with too little for the task, although the sum suffices.
	if fits := room.Minus(held).Fits(filch.Room{}, each) >= 1; ok && !fits || !ok && fits && each.GPUs == 0 {
		t.Fatalf("a task of %+v: took %v with room for %+v and %+v held", each, ok, room, held)
	}
	if ok {
		if int32(len(n.Slots())) != each.Slots {
			t.Fatalf("took slots %v for a task of %d", n.Slots(), each.Slots)
		}
		m.tasks = append(m.tasks, &taskModel{TaskLoan: n})
	}
	m.changed(t)
}

// permit has an origin let tasks use its hold, or want the hold back.
func (m *model) permit(t *rapid.T) {
	job, on := m.job(t), rapid.Bool().Draw(t, "on")
	m.rounds[job]++
	m.ledger.Backfill.Permit(m.now, Key{Job: job, Attempt: 1}, m.leases[job], m.rounds[job], on, m.now+time.Second)
	m.recalled(t)
	if s := m.ledger.Status(Key{Job: job, Attempt: 1}); !on && s.Lent > 0 {
		for _, n := range m.tasks {
			if m.id[n] != 0 && m.holds(job, m.id[n]) && !n.Recalled() {
				t.Fatalf("task %d in the hold of job %d was not recalled", m.id[n], job)
			}
		}
	}
}

func (m *model) holds(job filch.JobID, id uint64) (is bool) {
	m.ledger.Backfill.Fills(Key{Job: job, Attempt: 1}, func(o uint64) { is = is || o == id })
	return is
}

// recalled looks that each recalled task runs, and was recalled once.
func (m *model) recalled(t *rapid.T) {
	for _, id := range m.ledger.Backfill.Recalled(nil) {
		if m.called[id] {
			t.Fatalf("task %d was recalled twice", id)
		}
		m.called[id] = true
	}
}

// fill lets a task through, if a hold has room.
func (m *model) fill(t *rapid.T) {
	each := filch.Room{Slots: rapid.Int32Range(1, 3).Draw(t, "slots of a task")}
	gap := m.ledger.Backfill.Gap().Room
	for _, n := range m.tasks {
		if n.Borrowed() {
			gap = gap.Minus(n.Room())
		}
	}
	m.fills++
	n, ok := m.ledger.Backfill.Take(m.now, m.fills, each)
	if ok != (gap.Slots >= each.Slots) {
		t.Fatalf("a task of %d slots was let through: %t, with room for %+v", each.Slots, ok, gap)
	}
	if ok {
		one := &taskModel{TaskLoan: n}
		m.tasks, m.id[one] = append(m.tasks, one), m.fills
	}
	m.changed(t)
}

func (m *model) taskEnd(t *rapid.T) {
	if len(m.tasks) == 0 {
		t.Skip("no task")
	}
	i := rapid.IntRange(0, len(m.tasks)-1).Draw(t, "task")
	m.ledger.EndTask(m.now, m.tasks[i].TaskLoan, false)
	for k := range m.steps {
		if m.steps[k].task == m.tasks[i] {
			m.steps[k].task = nil
		}
	}
	m.tasks = append(m.tasks[:i], m.tasks[i+1:]...)
	m.changed(t)
}

func (m *model) taskStep(t *rapid.T) {
	if len(m.tasks) == 0 {
		t.Skip("no task")
	}
	n := m.tasks[rapid.IntRange(0, len(m.tasks)-1).Draw(t, "task")]
	m.step++
	a := Ask{Key: Key{Job: 1000 + m.step, Attempt: 1}, Each: filch.Room{Slots: 1}, Want: rapid.Int32Range(1, 3).Draw(t, "ranks")}
	loan, ok := m.ledger.SubTask(a, &n.TaskLoan)
	if ok != (n.Room().Slots-n.lent >= a.Want) || ok && int32(len(loan.Slots)) != a.Want {
		t.Fatalf("a step of %d in a task of %d with %d lent: %+v, %t", a.Want, n.Room().Slots, n.lent, loan, ok)
	}
	if ok {
		n.lent += a.Want
		m.steps = append(m.steps, stepModel{a.Key, loan.Lease, a.Want, n})
	}
}

func (m *model) taskStepEnd(t *rapid.T) {
	if len(m.steps) == 0 {
		t.Skip("no step")
	}
	i := rapid.IntRange(0, len(m.steps)-1).Draw(t, "step")
	s := m.steps[i]
	m.steps = append(m.steps[:i], m.steps[i+1:]...)
	if !m.ledger.End(m.now, s.key, s.lease, false) {
		t.Fatalf("the step %+v is not there", s)
	}
	if s.task != nil {
		s.task.lent -= s.slots
	}
	m.changed(t)
}

func (m *model) tasksWait(t *rapid.T) {
	m.ledger.TasksWait(m.now, rapid.Bool().Draw(t, "waiting"), filch.Room{Slots: rapid.Int32Range(1, 3).Draw(t, "next")})
	m.changed(t)
}

func (m *model) lock(t *rapid.T) {
	job := m.job(t)
	n := rapid.Int32Range(1, 6).Draw(t, "ranks")
	k := Key{Job: job, Attempt: 1}
	s := m.ledger.Status(k)
	loan, ok := m.ledger.Lock(m.now, k, m.leases[job], n)
	if want := s.State == Held && s.Held >= n && s.Lease == m.leases[job]; ok != want {
		t.Fatalf("lock of %d ranks on %+v: %t, want %t", n, s, ok, want)
	}
	if ok {
		m.running[job] = n * m.each[job]
		if int32(len(loan.Slots)) != m.running[job] {
			t.Fatalf("locked %d slots, want %d", len(loan.Slots), m.running[job])
		}
	}
	m.changed(t)
}

// keep has an origin keep a hold.
func (m *model) keep(t *rapid.T) {
	job := m.job(t)
	n := rapid.Int32Range(1, 6).Draw(t, "ranks")
	k := Key{Job: job, Attempt: 1}
	s := m.ledger.Status(k)
	ok := m.ledger.Spares.Keep(m.now, k, m.leases[job], n)
	if want := s.Lease == m.leases[job] && (s.State > Held || s.State == Held && s.Held >= n); ok != want {
		t.Fatalf("keeps %d ranks of %+v: %t, want %t", n, s, ok, want)
	}
	if ok && s.State == Held && m.kept[job] == 0 {
		m.kept[job] = n
	}
	m.recalled(t)
	m.changed(t)
}

// retain ends a launched job whose room stays.
func (m *model) retain(t *rapid.T) {
	job := m.job(t)
	n, runs := m.running[job]
	if ok := m.ledger.Spares.Retain(m.now, Key{Job: job, Attempt: 1}, m.leases[job]); ok != runs {
		t.Fatalf("retains the room of job %d: %t, want %t", job, ok, runs)
	}
	if runs {
		m.kept[job] = n / m.each[job]
		delete(m.running, job)
	}
	m.changed(t)
}

func (m *model) run(t *rapid.T) {
	job := m.job(t)
	k := Key{Job: job, Attempt: 1}
	s := m.ledger.Status(k)
	if ok, want := m.ledger.Run(k, m.leases[job]), s.State == Locked && s.Lease == m.leases[job]; ok != want {
		t.Fatalf("run of %+v: %t, want %t", s, ok, want)
	}
}

func (m *model) release(t *rapid.T) {
	job := m.job(t)
	if _, runs := m.running[job]; m.ledger.Release(m.now, Key{Job: job, Attempt: 1}, m.leases[job], m.rounds[job]) && runs {
		t.Fatalf("released job %d, which runs", job)
	}
	m.changed(t)
}

func (m *model) end(t *rapid.T) {
	job := m.job(t)
	_, runs := m.running[job]
	if ok := m.ledger.End(m.now, Key{Job: job, Attempt: 1}, m.leases[job], false); ok != runs {
		t.Fatalf("end of job %d: %t, want %t", job, ok, runs)
	}
	delete(m.running, job)
	m.changed(t)
}

// stale repeats what was said of leases that are gone: nothing may change.
func (m *model) stale(t *rapid.T) {
	if len(m.old) == 0 {
		return
	}
	o := m.old[rapid.IntRange(0, len(m.old)-1).Draw(t, "old")]
	free := m.ledger.Free()
	done := m.ledger.Release(m.now, o.Key, o.Lease, 0) || m.ledger.Run(o.Key, o.Lease) ||
		m.ledger.Renew(m.now, o.Key, o.Lease) || m.ledger.End(m.now, o.Key, o.Lease, false)
	if _, ok := m.ledger.Lock(m.now, o.Key, o.Lease, 1); ok || done || m.ledger.Free() != free {
		t.Fatalf("a lease that is no more, %+v, had an effect", o)
	}
}

func (m *model) tick(t *rapid.T) {
	m.now += time.Duration(rapid.Int64Range(0, int64(6*time.Second)).Draw(t, "step"))
	m.ledger.Tick(m.now)
	if d := m.ledger.Deadline(); d <= m.now {
		t.Fatalf("deadline %v after a tick at %v", d, m.now)
	}
	m.changed(t)
}

func (m *model) check(t *rapid.T) {
	m.ledger.Check()
	sum := m.ledger.Free().Slots
	for job := range filch.JobID(7) {
		s := m.ledger.Status(Key{Job: job, Attempt: 1})
		sum += (s.Held + s.Lent) * m.each[job]
		if n := m.kept[job]; s.State != Held || s.Lease.Serial == 0 {
			delete(m.kept, job)
		} else if n > 0 && (s.Held != n || s.Waiting) {
			t.Fatalf("job %d: %+v, and %d ranks are kept", job, s, n)
		}
		if n, runs := m.running[job]; runs != (s.State >= Locked && s.Held > 0) || runs && n != s.Held*m.each[job] {
			t.Fatalf("job %d: %+v, want %d slots running", job, s, n)
		}
	}
	for _, n := range m.tasks {
		sum += n.Room().Slots
	}
	sum -= m.ledger.Backfill.Slots()
	for _, s := range m.steps {
		if s.task == nil {
			sum += s.slots
		}
	}
	if sum != m.total {
		t.Fatalf("free and held make %d slots, want %d", sum, m.total)
	}
}
