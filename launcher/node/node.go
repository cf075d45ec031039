package node

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// Config configures a Node. Name, Incarnation, Capacity and Store must be set; the zero
// value of the other fields is usable.
type Config struct {
	Name        filch.NodeName
	Instance    string // uuid
	Group       string // of nodes near to each other: an allocation; "" unknown
	Incarnation uint64 // grows with every start of the launcher of this name
	Seed        uint64 // of all random choices
	Capacity    slots.Capacity
	// Ids up to this id belong to an earlier instance, and are not given out.
	After  filch.JobID
	Policy stealer.Policy
	// Shared by a simulator's nodes; nil: the node makes its own list.
	Members  *stealer.Members
	Records  Records // not used yet by another Node
	Tasks    TaskConfig
	Walltime policy.Walltime
	Drain    *launcher.Drain // since before the launcher began
}

// Peer is the overlay's description of a member, including this node. Total is only an
// amount: the exact cores and GPUs of a node concern that node alone.
type Peer = stealer.Member

// Node is the core of a launcher. A Node owns four parts and routes inputs to them: the
// origin of the jobs submitted by its clients; the ranks of jobs using its slots; the
// tasks; and the records kept by the instance together. A job submitted and running here
// goes through the same messages, which then never leave the Node. The exported methods
// of the parts are inputs of the Node too.
type Node struct {
	*self
	*origin
	*ranks
	*tasks
	*records
}

// New makes a Node without members other than itself.
func New(cfg Config) *Node {
	s := newSelf(cfg)
	m := newRecords(s)
	n := &Node{self: s, records: m, ranks: newRanks(s, m), tasks: newTasks(s, m)}
	n.origin = newOrigin(s, m, n.ranks, n.tasks)
	n.ranks.tasks = n.tasks
	n.tasks.ranks, n.tasks.origin = n.ranks, n.origin
	m.serve(n, n.origin, n.origin)
	s.mailbox.settle = n.settle
	return n
}

// Message handles a message of another node.
func (n *Node) Message(now time.Duration, from filch.NodeName, m launcher.Message, out *launcher.Outbox) {
	t := n.turn(now, out)
	n.handle(t, from, m)
	n.settle(t)
}

func (n *Node) handle(t *Turn, from filch.NodeName, m launcher.Message) {
	switch m := m.(type) {
	case *launcher.Ask:
		n.ranks.onAsk(t, from, m)
	case *launcher.Grant:
		n.origin.onGrant(t, from, m)
	case *launcher.Release:
		if k := (slots.Key{Job: m.Job, Attempt: m.Attempt}); m.Lease.Serial != 0 || n.ledger.Asker(k) == from {
			n.ledger.Release(t.Now, k, m.Lease, m.Round)
		}
	case *launcher.Renew:
		n.ranks.onRenew(t, from, m)
	default:
		n.handleRun(t, from, m)
	}
}

func (n *Node) handleRun(t *Turn, from filch.NodeName, m launcher.Message) {
	switch m := m.(type) {
	case *launcher.Dispatch:
		n.ranks.onDispatch(t, m)
	case *launcher.Proceed:
		n.ranks.onProceed(t, m)
	case *launcher.Halt:
		n.ranks.onHalt(t, from, m)
	case *launcher.Signals:
		n.ranks.onSignals(t, from, m)
	case *launcher.ProgressAck:
		n.ranks.onProgressAck(t, from, m)
	case *launcher.Progress:
		n.origin.onProgress(t, from, m)
	case *launcher.SignalsAck:
		n.origin.onSignalsAck(t, m)
	case *launcher.StepAsk:
		n.origin.onStepAsk(t, from, m)
	case *launcher.StepGrant:
		n.origin.onStepGrant(t, from, m)
	case *launcher.StepDone:
		n.origin.onStepDone(t, from, m)
	case *launcher.StepDoneAck:
		n.origin.onStepDoneAck(m)
	case *launcher.TakeOver:
		n.ranks.onTakeOver(t, from, m)
	case *launcher.TaskWord:
		n.tasks.onTaskWord(t, from, m)
	}
}

// settle ends an input. settle handles the messages of this node to itself and sends
// ledger changes to the origins of claims, until nothing is left.
func (n *Node) settle(t *Turn) {
	for {
		for len(n.mailbox.loop) > 0 {
			for _, m := range n.mailbox.take() {
				n.handle(t, n.cfg.Name, m)
			}
		}
		if !n.ranks.tellChanged(t) && !n.origin.dequeue(t) && !n.records.pump(t) && !n.tasks.pumpTasks(t) {
			n.records.ledgerChanged(t)
			return
		}
	}
}

// Tick does everything due at now.
func (n *Node) Tick(now time.Duration, out *launcher.Outbox) {
	t := n.turn(now, out)
	n.ledger.Tick(now)
	if n.opens <= now {
		n.Settled(now, out)
	}
	if n.forgets <= now {
		n.forgetUnheard(t)
	}
	for {
		job, part := n.origin.agenda.next(), n.ranks.agenda.next()
		switch {
		case min(job, part) > now:
			n.tickParts(t)
			n.settle(t)
			return
		case job <= part:
			n.origin.tickNext(t)
		default:
			n.ranks.tickNext(t)
		}
		n.settle(t)
	}
}

// tickParts does everything due besides the timers of single jobs and parts.
func (n *Node) tickParts(t *Turn) {
	n.origin.tick(t)
	if n.tickWalltime(t) {
		n.leaveForGood(t)
		n.settle(t)
	}
	n.tickKnot(t)
	n.tickRecords(t)
	n.tickNumbering(t)
	if n.load.at <= t.Now {
		n.advertise(t, n.Slots())
	}
	if n.fence.at <= t.Now {
		n.fenceOff(t)
	}
	n.tickWork(t)
}

// Deadline is when Tick must be called next.
func (n *Node) Deadline() time.Duration {
	return min(n.ledger.Deadline(), n.opens, n.origin.deadline(), n.ranks.deadline(), n.records.deadline(), n.tasks.deadline())
}

// sortedJobs returns the live jobs of this origin in the order of their ids.
func (s *joblist) sortedJobs() []*job {
	return slices.SortedFunc(maps.Values(s.jobs), func(a, b *job) int { return int(a.id) - int(b.id) })
}

func (h *ranks) sortedParts() []*part {
	return slices.SortedFunc(maps.Values(h.parts), func(a, b *part) int {
		if a.key.Job != b.key.Job {
			return int(a.key.Job) - int(b.key.Job)
		}
		return int(a.key.Attempt) - int(b.key.Attempt)
	})
}
