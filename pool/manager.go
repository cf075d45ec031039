package pool

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Manager is the part of one node in one pool.
type Manager struct {
	self     filch.NodeName
	instance string

	beat   int64               // of the record when it last changed
	moved  time.Time           // when the record was seen to change
	wrote  time.Time           // the last change by this node
	asked  time.Time           // the last question to the batch system
	ready  int64               // in the look before
	looked time.Time           // the look before; zero: none as the holder
	idle   map[int64]time.Time // since when an allocation has no work
	spare  time.Time           // since when queued allocations are not needed
	told   []Told
}

// NewManager makes the part of a node in a pool.
func NewManager(self filch.NodeName, instance string) *Manager {
	return &Manager{self: self, instance: instance, idle: map[int64]time.Time{}}
}

// Holds tells whether this node is the holder, or takes the pool over because the record
// has not changed for [HolderLost]. The clocks of two nodes are never compared.
func (m *Manager) Holds(now time.Time, p *Pool) bool {
	if m.moved.IsZero() || p.Beat != m.beat {
		m.beat, m.moved = p.Beat, now
	}
	if p.Holder == m.self {
		return true
	}
	m.looked, m.told = time.Time{}, nil
	clear(m.idle)
	return p.Holder == "" || now.Sub(m.moved) >= HolderLost
}

// AsksBatch tells whether the next look includes the batch system.
func (m *Manager) AsksBatch(now time.Time, p *Pool) bool {
	return len(p.Allocs) > 0 && now.Sub(m.asked) >= BatchEvery
}

// Told takes the answer to a submission. The next look that is stored writes the answer into
// the record.
func (m *Manager) Told(t Told) { m.told = append(m.told, t) }

// Saved says that the record of the last look is stored; the caller carries out the orders
// now. Without Saved the record and the orders are void: another node or a user has changed
// the record.
func (m *Manager) Saved() { m.told = nil }

// Look decides, and changes p; save tells whether p must be stored before the orders are
// carried out.
func (m *Manager) Look(now time.Time, p *Pool, v *View) (orders []Order, save bool) {
	before := string(p.Encode())
	t := turn{m: m, p: p, v: v, now: now}
	if p.Holder != m.self {
		p.Holder = m.self
		t.fresh = true
	}
	t.answers()
	t.count()
	if v.Batch != nil {
		m.asked = now
		t.batch()
	}
	t.nodes()
	t.shrink()
	t.grow()
	m.ready, m.looked = v.Ready, now
	p.Allocs = slices.DeleteFunc(p.Allocs, func(a Alloc) bool { return a.State == Ended })
	save = string(p.Encode()) != before || now.Sub(m.wrote) >= beatEvery
	if save {
		p.Beat++
		m.wrote, m.beat, m.moved = now, p.Beat, now
	}
	return t.orders, save
}

// turn is one look.
type turn struct {
	m      *Manager
	p      *Pool
	v      *View
	now    time.Time
	fresh  bool // this node has just taken the pool over
	blamed bool // a failure has been counted
	orders []Order
}

func (t *turn) order(k OrderKind, a *Alloc) {
	t.orders = append(t.orders, Order{k, a.N, a.Job})
}

func (t *turn) alloc(n int64) *Alloc {
	i := slices.IndexFunc(t.p.Allocs, func(a Alloc) bool { return a.N == n })
	if i < 0 {
		return nil
	}
	return &t.p.Allocs[i]
}

// answers writes the answers to submissions.
func (t *turn) answers() {
	for _, a := range t.m.told {
		al := t.alloc(a.N)
		switch {
		case al == nil || al.State != Planned:
		case a.Err != "":
			t.failed(al, "was refused: "+clip(a.Err))
		default:
			al.State, al.Job = Queued, a.Job
		}
	}
}

// failed ends an allocation that came to nothing.
func (t *turn) failed(a *Alloc, why string) {
	t.blame(a, why)
	t.end(a, why)
}

// blame counts a failure. Several failures that one look shows count once: they have one
// cause.
func (t *turn) blame(a *Alloc, why string) {
	p := t.p
	p.Totals.Failed++
	p.Trouble = fmt.Sprintf("allocation %d %s", a.N, why)
	if t.blamed {
		return
	}
	t.blamed = true
	p.Bad++
	p.After = t.now.Add(backOff[min(p.Bad, len(backOff)-1)]).UnixNano()
	if p.Bad >= badMost && p.Paused == "" && !mutantEndless {
		p.Paused = fmt.Sprintf("%d failures in a row; the last: %s", p.Bad, p.Trouble)
	}
}

func (t *turn) end(a *Alloc, how string) {
	a.State, a.Said, a.Over = Ended, how, t.now.UnixNano()
	t.p.Totals.Granted += a.Granted
	t.p.Totals.Worked += a.Worked
	t.p.Totals.Idle += a.Granted - a.Worked
	t.p.Ends = append(t.p.Ends, *a)
	t.p.Ends = t.p.Ends[max(len(t.p.Ends)-keptEnds, 0):]
	delete(t.m.idle, a.N)
}

// count adds the time since the look before to the seconds of nodes.
func (t *turn) count() {
	if t.m.looked.IsZero() {
		return
	}
	secs := t.now.Sub(t.m.looked).Seconds()
	for i := range t.p.Allocs {
		if a := &t.p.Allocs[i]; a.Began != 0 {
			here, busy := t.here(a)
			a.Granted += secs * float64(max(here, a.Nodes, 1))
			a.Worked += secs * float64(busy)
		}
	}
}

// here counts the nodes of an allocation, and the nodes of these that have work.
func (t *turn) here(a *Alloc) (here, busy int) {
	for i := range t.v.Nodes {
		if n := &t.v.Nodes[i]; a.Job != "" && n.Group == a.Job {
			here++
			if n.Busy > 0 {
				busy++
			}
		}
	}
	return here, busy
}

// batch follows the batch jobs.
func (t *turn) batch() {
	b := t.v.Batch
	if b.Err != "" {
		t.p.Trouble = "the batch system does not answer: " + clip(b.Err)
		return
	}
	for i := range t.p.Allocs {
		a := &t.p.Allocs[i]
		if a.State == Planned {
			t.find(a)
			continue
		}
		j, known := b.Jobs[a.Job]
		if known {
			a.Missing = 0
		}
		switch {
		case a.State == Ended:
		case !known:
			t.missing(a)
		case j.State == JobOver:
			t.over(a, j)
		case j.State == JobRunning:
			if a.Began == 0 {
				a.Began = t.now.UnixNano()
			}
			if a.State == Queued {
				a.State, a.Said = Started, ""
			}
		case a.State == Ending && mutantCancelOnce:
		case a.State == Ending:
			t.order(Cancel, a) // the order before was lost, or the batch system is slow
		default:
			a.Said = clip(j.Said)
			if j.State == JobHeld {
				a.Said = "held: " + a.Said
			}
		}
	}
}

// find looks for the batch job of a submission whose answer did not come: the holder died
// or lost the pool before it wrote the answer.
func (t *turn) find(a *Alloc) {
	if id := t.v.Batch.Name[JobName(t.m.instance, t.p.Name, a.N)]; id != "" && !mutantBlindHeir {
		a.State, a.Job = Queued, id
		return
	}
	if mutantHasty || t.now.Sub(time.Unix(0, a.Planned)) >= settle {
		t.end(a, "was never submitted")
	}
}

// missing handles a batch job that the batch system does not know: it ended, and the batch
// system has forgotten it; or the job is lost.
func (t *turn) missing(a *Alloc) {
	if mutantForgets {
		return
	}
	if a.Missing == 0 {
		a.Missing = t.now.UnixNano()
	}
	if here, _ := t.here(a); here == 0 && t.now.Sub(time.Unix(0, a.Missing)) >= lostAfter {
		t.over(a, Job{Said: "is not known to the batch system any more"})
	}
}

// over handles the end of a batch job.
func (t *turn) over(a *Alloc, j Job) {
	how := clip(j.Said)
	lived := time.Duration(0)
	if a.Began != 0 {
		lived = t.now.Sub(time.Unix(0, a.Began))
	}
	switch {
	case a.State == Ending:
		t.end(a, cmp.Or(a.Said, "was given back"))
	case a.Worked > 0 || lived >= diedWithin:
		t.p.Bad = 0
		t.end(a, "ended: "+how)
	case j.Cancelled:
		// A person did this, for a reason that the pool does not know. The work may still
		// need nodes, but not at once.
		t.p.After = t.now.Add(backOff[len(backOff)-2]).UnixNano()
		t.end(a, "was cancelled: "+how)
	case a.Began == 0:
		t.failed(a, "ended before its start: "+how)
	default:
		t.failed(a, fmt.Sprintf("ended after %s without work: %s", filch.ShortTime(lived.Round(time.Second)), how))
	}
}

// nodes follows the nodes of the allocations.
func (t *turn) nodes() {
	for i := range t.p.Allocs {
		a := &t.p.Allocs[i]
		here, slots := 0, int32(0)
		for j := range t.v.Nodes {
			if n := &t.v.Nodes[j]; a.Job != "" && n.Group == a.Job {
				here, slots = here+1, slots+n.Slots
			}
		}
		switch {
		case here > 0 && (a.State == Queued || a.State == Started):
			a.State, a.Joined, a.Said = Joined, t.now.UnixNano(), ""
			if a.Began == 0 {
				a.Began = a.Joined
			}
			t.p.Delay = t.now.Sub(time.Unix(0, a.Planned))
		case a.State == Started && t.now.Sub(time.Unix(0, a.Began)) >= comeWithin:
			t.blame(a, fmt.Sprintf("started, and no node joined within %s", filch.ShortTime(comeWithin)))
			t.giveBack(a, "no node joined")
		}
		if here > 0 && a.State == Joined {
			a.Nodes, a.Slots = max(a.Nodes, here), max(a.Slots, slots)
			t.p.Each = a.Slots
		}
		if a.State == Joined && a.Worked > 0 {
			t.p.Bad = 0
		}
	}
}

// shrink gives back allocations without work.
func (t *turn) shrink() {
	p := t.p
	left := t.left()
	for i := range p.Allocs {
		a := &p.Allocs[i]
		switch {
		case a.State == Ending:
			t.urge(a)
		case a.State == Ended:
		case p.Removed:
			t.giveBack(a, "the pool was removed")
		case a.State == Joined && t.idle(a) && left > p.Min:
			left--
			if a.Worked == 0 && (t.v.Ready > 0 || len(t.v.Gangs) > 0) {
				t.blame(a, fmt.Sprintf("had no work for %s although %d tasks and %d gangs wait: they may not fit on its nodes",
					filch.ShortTime(p.Idle), t.v.Ready, len(t.v.Gangs)))
			}
			t.giveBack(a, "was given back")
		}
	}
}

// left counts the allocations that are not about to end.
func (t *turn) left() (n int) {
	for i := range t.p.Allocs {
		if s := t.p.Allocs[i].State; s != Ending && s != Ended {
			n++
		}
	}
	return n
}

// idle tells whether no node of an allocation has had work for the time of --idle. Nodes of
// a gang that waits for further allocations are not idle.
func (t *turn) idle(a *Alloc) bool {
	_, coming := t.supply()
	if _, busy := t.here(a); busy > 0 || len(t.v.Gangs) > 0 && coming > 0 {
		delete(t.m.idle, a.N)
		return false
	}
	since, ok := t.m.idle[a.N]
	if !ok {
		since, ok = t.m.looked, !t.m.looked.IsZero() // had work in the look before, or had not come
		t.m.idle[a.N] = cmp.Or(since, t.now)
	}
	return ok && t.now.Sub(since) >= t.p.Idle && !mutantKeeps
}

// urge repeats the orders that end an allocation, whose holder may have died.
func (t *turn) urge(a *Alloc) {
	fresh, busy := false, false
	for i := range t.v.Nodes {
		if n := &t.v.Nodes[i]; a.Job != "" && n.Group == a.Job {
			fresh, busy = fresh || !n.Draining, busy || n.Busy > 0
		}
	}
	switch {
	case fresh:
		t.order(Drain, a)
	case !busy && !mutantCancelOnce && t.v.Batch != nil && t.now.Sub(time.Unix(0, a.Ending)) >= settle:
		t.order(Cancel, a) // the batch job should have ended by itself
	}
}

// giveBack ends an allocation that has no work.
func (t *turn) giveBack(a *Alloc, why string) {
	switch a.State {
	case Planned: // the submission may be under way: the batch system shows the job later
	case Queued, Started:
		a.State, a.Ending, a.Said = Ending, t.now.UnixNano(), why
		t.order(Cancel, a)
	case Joined:
		a.State, a.Ending, a.Said = Ending, t.now.UnixNano(), why
		t.order(Drain, a)
	}
}

// grow asks for allocations.
func (t *turn) grow() {
	p := t.p
	want, most, why := t.want()
	have, coming := t.supply()
	each := max(p.Each, 1)
	live := 0 // the batch system has all these
	for i := range p.Allocs {
		if p.Allocs[i].State != Ended {
			live++
		}
	}
	missing := want - have - int64(coming)*int64(each)
	n := 0
	if missing > 0 {
		n = int((missing + int64(each) - 1) / int64(each))
	}
	if p.Each == 0 {
		n = min(n, max(1-coming, 0)) // the first shows how many slots an allocation has
	}
	n = min(max(n, p.Min-t.left()), p.Max-live)
	if n <= 0 || p.Removed {
		t.tooMany((have + int64(coming)*int64(each) - most) / int64(each))
		return
	}
	t.m.spare = time.Time{}
	if p.Paused != "" || t.now.UnixNano() < p.After || t.fresh {
		return
	}
	p.Said = fmt.Sprintf("asked for %d: %s; %d slots are there, %d allocations were coming", n, why, have, coming)
	for range n {
		p.Allocs = append(p.Allocs, Alloc{N: p.Next, State: Planned, Planned: t.now.UnixNano()})
		t.order(Submit, &p.Allocs[len(p.Allocs)-1])
		p.Next++
		p.Totals.Submitted++
	}
}

// want is the number of slots that would end the queued work within the time of the pool;
// most is the number of slots for which there is work at all.
func (t *turn) want() (slots, most int64, why string) {
	v := t.v
	length := v.Length
	if length <= 0 {
		length = guess
	}
	tasks := int64(math.Ceil(float64(v.Ready) * length / t.p.Within.Seconds()))
	if t.p.Grow > 0 && !t.m.looked.IsZero() && v.Ready-t.m.ready >= t.p.Grow {
		tasks = v.Ready
	}
	tasks = min(tasks, v.Ready)
	gangs, busy := int64(0), t.busy()
	for _, g := range v.Gangs {
		gangs += max(int64(g.Slots), int64(g.Nodes)*int64(max(t.p.Each, 1)))
	}
	most = v.Ready + gangs + busy
	if slots = tasks + gangs; slots > 0 {
		slots += busy
	}
	return slots, most, fmt.Sprintf("%d tasks of %.3g s and %d gangs of %d slots wait", v.Ready, length, len(v.Gangs), gangs)
}

func (t *turn) busy() (n int64) {
	for i := range t.v.Nodes {
		n += int64(t.v.Nodes[i].Busy)
	}
	return n
}

// supply counts the slots that are there for longer than a new allocation takes to come,
// and the allocations that are on their way.
func (t *turn) supply() (slots int64, coming int) {
	for i := range t.v.Nodes {
		n := &t.v.Nodes[i]
		if !n.Draining && (n.Left == 0 || n.Left > t.p.Delay+time.Duration(t.v.Length*float64(time.Second))) {
			slots += int64(n.Slots)
		}
	}
	for i := range t.p.Allocs {
		switch t.p.Allocs[i].State {
		case Planned, Queued, Started:
			if mutantQueuedFree {
				continue
			}
			coming++
		}
	}
	return slots, coming
}

// tooMany cancels allocations on their way that were not needed for the time of --idle: the
// last ones first.
func (t *turn) tooMany(spare int64) {
	p := t.p
	if spare <= 0 {
		t.m.spare = time.Time{}
		return
	}
	if t.m.spare.IsZero() {
		t.m.spare = t.now
	}
	if t.now.Sub(t.m.spare) < p.Idle {
		return
	}
	live := t.left()
	for i := len(p.Allocs) - 1; i >= 0 && spare > 0 && live > p.Min; i-- {
		if a := &p.Allocs[i]; a.State == Queued {
			t.giveBack(a, "was not needed")
			spare, live = spare-1, live-1
		}
	}
}
