package launcher

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// Config is what a Node is made with; Name, Incarnation, Capacity and Store must
// be set, the rest has a use as it is.
type Config struct {
	Name        filch.NodeName
	Instance    string // uuid
	Group       string // of nodes near to each other: an allocation; "" unknown
	Incarnation uint64 // grows with every start of the launcher of this name
	Seed        uint64 // of all random choices
	Capacity    slots.Capacity
	After       filch.JobID // ids up to this one are those of an instance before, and are not given out
	Policy      stealer.Policy
	Members     *stealer.Members // shared by a simulator's nodes; nil: one of its own
	Records     Records          // nothing of them was used yet
	Tasks       TaskConfig
	Walltime    mtc.Walltime
	Drain       *Drain // since before the launcher began
}

// Peer is what the overlay says of a member, this node included. Total is an
// amount: what exactly is on a node is the node's own affair.
type Peer = stealer.Member

// Node is the brain of a launcher. It plays two parts: the origin of the jobs
// that its clients submitted, and a participant in jobs that use its slots. A
// job of its own that runs here goes through the same messages, which then
// never leave the Node.
type Node struct {
	cfg     Config
	ledger  *slots.Ledger
	members *stealer.Members
	jobs    map[filch.JobID]*job // as origin, not ended
	parts   map[slots.Key]*part  // as participant
	clients map[ClientID][]filch.JobID
	past    past
	agenda  agenda
	line    line
	seed    uint64    // of the next random number
	loop    []Message // from this node to itself
	changed []slots.Status
	repeats
	fates
	shared
}

// fates is how this node and its neighbors begin and end.
type fates struct {
	graves   graves
	birth    birth
	walltime walltime
	drain    *Drain // nil: the node takes work
	dead     bool   // the others declared it so, and [Node.Reborn] has not come yet
}

// shared is the node's part in what the instance keeps together.
type shared struct {
	meta *meta
	work *work
}

// repeats is what is said again by the clock.
type repeats struct {
	owed    []owed // steps to give back
	renewAt time.Duration
	knot    knot
}

// birth is when the launcher began, and when at the latest it lends although
// keepers of an earlier one may still turn up; Never: it lends.
type birth struct {
	began, opens time.Duration
	unheard      []filch.JobID // ended before, and their clients may not know
	forgets      time.Duration // when these are given up
}

// New makes a Node that knows no member but itself.
func New(cfg Config) *Node {
	n := &Node{
		cfg: cfg, ledger: slots.New(cfg.Capacity, cfg.Incarnation), members: cfg.Members,
		jobs: make(map[filch.JobID]*job), parts: make(map[slots.Key]*part),
		clients: make(map[ClientID][]filch.JobID), seed: cfg.Seed, repeats: repeats{renewAt: filch.Never, knot: knot{at: filch.Never}},
		fates: fates{birth: birth{opens: filch.Never, forgets: filch.Never}, walltime: newWalltime(cfg.Walltime), drain: cfg.Drain},
	}
	n.meta = newMeta(cfg.Records)
	n.work = newWork(&cfg)
	if n.members == nil {
		n.members = stealer.NewMembers()
	}
	n.members.Set(Peer{Name: cfg.Name, Incarnation: cfg.Incarnation, Total: cfg.Capacity.Total(), Group: cfg.Group})
	n.ledger.Drain(0, n.drain != nil)
	return n
}

// Message takes in a message of another node.
func (n *Node) Message(now time.Duration, from filch.NodeName, m Message, out *Outbox) {
	n.handle(now, from, m, out)
	n.settle(now, out)
}

func (n *Node) handle(now time.Duration, from filch.NodeName, m Message, out *Outbox) {
	switch m := m.(type) {
	case *Ask:
		n.asked(now, from, m, out)
	case *Grant:
		n.granted(now, from, m, out)
	case *Release:
		if k := (slots.Key{Job: m.Job, Attempt: m.Attempt}); m.Lease.Serial != 0 || n.ledger.Asker(k) == from {
			n.ledger.Release(now, k, m.Lease, m.Round)
		}
	case *Renew:
		n.renewed(now, from, m, out)
	default:
		n.handleRun(now, from, m, out)
	}
}

func (n *Node) handleRun(now time.Duration, from filch.NodeName, m Message, out *Outbox) {
	switch m := m.(type) {
	case *Dispatch:
		n.dispatched(now, m, out)
	case *Proceed:
		n.proceed(now, m, out)
	case *Halt:
		n.halted(now, from, m, out)
	case *Signals:
		n.signaled(from, m, out)
	case *ProgressAck:
		n.acknowledged(now, from, m, out)
	case *Progress:
		n.progress(now, from, m, out)
	case *SignalsAck:
		n.signalsTaken(now, m, out)
	case *StepAsk:
		n.stepAsked(now, from, m, out)
	case *StepGrant:
		n.stepGranted(now, from, m, out)
	case *StepDone:
		n.stepDone(now, from, m, out)
	case *StepDoneAck:
		n.stepPaid(m)
	case *TakeOver:
		n.takenOver(now, from, m, out)
	case *TaskWord:
		n.taskWord(now, from, m, out)
	}
}

// send queues a message; one to this node is handled before the input that
// caused it ends.
func (n *Node) send(to filch.NodeName, m Message, out *Outbox) {
	if to == n.cfg.Name {
		n.loop = append(n.loop, m)
		return
	}
	out.Sends = append(out.Sends, Send{To: to, Message: m})
}

// settle ends an input: it handles what the node told itself and tells the
// origins of claims what changed, until nothing is left.
func (n *Node) settle(now time.Duration, out *Outbox) {
	for {
		for len(n.loop) > 0 {
			loop := n.loop
			n.loop = nil
			for _, m := range loop {
				n.handle(now, n.cfg.Name, m, out)
			}
		}
		n.changed = n.ledger.Changed(n.changed[:0])
		if len(n.changed) == 0 && !n.callNext(now, out) && !n.pump(now, out) && !n.pumpWork(now, out) {
			n.ledgerChanged(now)
			return
		}
		for _, s := range n.changed {
			n.send(s.Origin, n.grant(s), out)
		}
	}
}

// Tick does what is due at now.
func (n *Node) Tick(now time.Duration, out *Outbox) {
	n.ledger.Tick(now)
	if n.birth.opens <= now {
		n.Settled(now, out)
	}
	if n.birth.forgets <= now {
		n.forgetUnheard(now, out)
	}
	for {
		e, ok := n.agenda.due(now)
		if !ok {
			break
		}
		n.tickEntry(now, e, out)
		n.settle(now, out)
	}
	if n.renewAt <= now {
		n.renew(now, out)
	}
	n.payAgain(now, out)
	n.tickWalltime(now, out)
	n.tickKnot(now, out)
	n.tickMeta(now, out)
	n.tickWork(now, out)
	n.settle(now, out)
}

func (n *Node) tickEntry(now time.Duration, e entry, out *Outbox) {
	if e.part {
		if p := n.parts[e.key]; p != nil && p.due == e.at {
			p.due = filch.Never
			n.tickPart(now, p, out)
		}
		return
	}
	if j := n.jobs[e.key.Job]; j != nil && j.due == e.at {
		j.due = filch.Never
		n.tickJob(now, j, out)
	}
}

// stale reports whether an entry's job or part is over or looked at earlier.
func (n *Node) stale(e entry) bool {
	if e.part {
		p := n.parts[e.key]
		return p == nil || p.due != e.at
	}
	j := n.jobs[e.key.Job]
	return j == nil || j.due != e.at
}

// Deadline is when Tick must be called next.
func (n *Node) Deadline() time.Duration {
	for len(n.agenda.heap) > 0 && n.stale(n.agenda.heap[0]) {
		n.agenda.due(filch.Never)
	}
	d := min(n.ledger.Deadline(), n.agenda.next(), n.renewAt, n.knot.at, n.birth.opens, n.birth.forgets, n.walltime.drainAt, n.metaDeadline(), n.workDeadline())
	for i := range n.owed {
		d = min(d, n.owed[i].again)
	}
	return d
}

// sortedJobs is the live jobs of this origin in the order of their ids.
func (n *Node) sortedJobs() []*job {
	return slices.SortedFunc(maps.Values(n.jobs), func(a, b *job) int { return int(a.id) - int(b.id) })
}

func (n *Node) sortedParts() []*part {
	return slices.SortedFunc(maps.Values(n.parts), func(a, b *part) int {
		if a.key.Job != b.key.Job {
			return int(a.key.Job) - int(b.key.Job)
		}
		return int(a.key.Attempt) - int(b.key.Attempt)
	})
}

// draw is the next number of the node's own generator (splitmix64).
func (n *Node) draw() uint64 {
	n.seed += 0x9e3779b97f4a7c15
	z := n.seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func note(out *Outbox, level int8, job filch.JobID, node filch.NodeName, format string, args ...any) {
	out.Notes = append(out.Notes, Note{Level: level, Text: fmt.Sprintf(format, args...), Job: job, Node: node})
}

// The levels of notes, as slog has them.
const (
	noteDebug = -4
	noteInfo  = 0
	noteWarn  = 4
	noteError = 8
)
