package node

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/node/tasks"
	"github.com/filch-hpc/filch/slots"
)

// Config configures a Node.
type Config = local.Config

// Peer is the overlay's description of a member, including this node.
type Peer = local.Peer

// Node is the core of a launcher. A Node owns four parts and routes inputs to them: the
// origin of the jobs submitted by its clients; the ranks of jobs using its slots; the
// tasks; and the records kept by the instance together. A job submitted and running here
// goes through the same messages, which then never leave the Node. The exported methods
// of the parts are inputs of the Node too.
type Node struct {
	self *local.Self
	*origin
	*ranks.Ranks
	*tasks.Tasks
	*records.Records
}

// New makes a Node without members other than itself. The Node owns the store, which no
// other Node has used.
func New(cfg local.Config, store records.Store) *Node {
	s := local.New(cfg)
	m := records.New(s, store)
	n := &Node{self: s, Records: m, Ranks: ranks.New(s, m), Tasks: tasks.New(s, m)}
	n.origin = newOrigin(s, m, n.Ranks, n.Tasks)
	n.Ranks.Serve(n.Tasks)
	n.Tasks.Serve(n.Ranks, n.origin)
	m.Serve(n.Tasks, n.numbering, n.origin, n.origin)
	s.Settle(n.settle)
	return n
}

// Message handles a message of another node.
func (n *Node) Message(now time.Duration, from filch.NodeName, m launcher.Message, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	n.handle(t, from, m)
	n.settle(t)
}

func (n *Node) handle(t *local.Turn, from filch.NodeName, m launcher.Message) {
	switch m := m.(type) {
	case *launcher.Ask:
		n.Ranks.OnAsk(t, from, m)
	case *launcher.Grant:
		n.origin.onGrant(t, from, m)
	case *launcher.Release:
		if k := (slots.Key{Job: m.Job, Attempt: m.Attempt}); m.Lease.Serial != 0 || n.self.Ledger.Asker(k) == from {
			n.self.Ledger.Release(t.Now, k, m.Lease, m.Round)
		}
	case *launcher.Renew:
		n.Ranks.OnRenew(t, from, m)
	default:
		n.handleRun(t, from, m)
	}
}

func (n *Node) handleRun(t *local.Turn, from filch.NodeName, m launcher.Message) {
	switch m := m.(type) {
	case *launcher.Dispatch:
		n.Ranks.OnDispatch(t, m)
	case *launcher.Proceed:
		n.Ranks.OnProceed(t, m)
	case *launcher.Halt:
		n.Ranks.OnHalt(t, from, m)
	case *launcher.Signals:
		n.Ranks.OnSignals(t, from, m)
	case *launcher.ProgressAck:
		n.Ranks.OnProgressAck(t, from, m)
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
		n.Ranks.OnTakeOver(t, from, m)
	case *launcher.TaskWord:
		n.Tasks.OnTaskWord(t, from, m)
	}
}

// settle ends an input. settle handles the messages of this node to itself and sends
// ledger changes to the origins of claims, until nothing is left.
func (n *Node) settle(t *local.Turn) {
	for {
		for n.self.HasMail() {
			for _, m := range n.self.TakeMail() {
				n.handle(t, n.self.Cfg.Name, m)
			}
		}
		if !n.Ranks.SendGrants(t) && !n.origin.dequeue(t) && !n.Records.Pump(t) && !n.Tasks.Pump(t) {
			n.Records.OnLedgerChanged(t)
			return
		}
	}
}

// Tick does everything due at now.
func (n *Node) Tick(now time.Duration, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	n.self.Ledger.Tick(now)
	if n.self.Opens <= now {
		n.Settled(now, out)
	}
	if n.forgets <= now {
		n.forgetUnheard(t)
	}
	for {
		job, rank := n.origin.timers.Next(), n.Ranks.Next()
		switch {
		case min(job, rank) > now:
			n.tickParts(t)
			n.settle(t)
			return
		case job <= rank:
			n.origin.tickNext(t)
		default:
			n.Ranks.TickNext(t)
		}
		n.settle(t)
	}
}

// tickParts does everything due besides the timers of single jobs and parts.
func (n *Node) tickParts(t *local.Turn) {
	n.origin.tick(t)
	if n.tickWalltime(t) {
		n.LeaveForGood(t)
		n.settle(t)
	}
	n.tickKnot(t)
	n.Records.Tick(t)
	n.tickNumbering(t)
	if n.Records.LoadDue(t.Now) {
		n.Records.Advertise(t, n.Slots())
	}
	n.Ranks.TickCutoff(t)
	n.Tasks.Tick(t)
}

// Deadline is when Tick must be called next.
func (n *Node) Deadline() time.Duration {
	return min(n.self.Ledger.Deadline(), n.self.Opens, n.origin.deadline(), n.Ranks.Deadline(), n.Records.Deadline(), n.Tasks.Deadline())
}

// sortedJobs returns the live jobs of this origin in the order of their ids.
func (s *joblist) sortedJobs() []*job {
	return slices.SortedFunc(maps.Values(s.jobs), func(a, b *job) int { return int(a.id) - int(b.id) })
}
