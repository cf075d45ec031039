package node

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/origin"
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
// goes through the same messages, which then never leave the Node. The methods of the
// parts that take the time and an Outbox are inputs of the Node too.
type Node struct {
	self *local.Self
	*origin.Origin
	*ranks.Ranks
	*tasks.Tasks
	*records.Records
}

// New makes a Node without members other than itself. The Node owns the store, which no
// other Node has used.
func New(cfg Config, store records.Store) *Node {
	s := local.New(cfg)
	m := records.New(s, store)
	n := &Node{self: s, Records: m, Ranks: ranks.New(s, m), Tasks: tasks.New(s, m)}
	n.Origin = origin.New(s, m, n.Ranks, n.Tasks, n.Tasks.Gangs)
	n.Ranks.Serve(n.Tasks, n.Tasks.Fills)
	n.Tasks.Serve(n.Ranks, n.Origin, n.Origin.Gangs, &n.Ranks.Remains)
	m.Serve(n.Tasks, n.Origin.OnIDs, n.Tasks.Gangs.OnIDs, n.Origin, n.Origin)
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
		n.Origin.OnGrant(t, from, m)
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
		n.Origin.OnProgress(t, from, m)
	case *launcher.SignalsAck:
		n.Origin.OnSignalsAck(t, m)
	case *launcher.StepAsk:
		n.Origin.OnStepAsk(t, from, m)
	case *launcher.StepGrant:
		n.Origin.OnStepGrant(t, from, m)
	case *launcher.StepDone:
		n.Origin.OnStepDone(t, from, m)
	case *launcher.StepDoneAck:
		n.Origin.OnStepDoneAck(m)
	case *launcher.TakeOver:
		n.Ranks.OnTakeOver(t, from, m)
	case *launcher.TaskWord:
		n.Tasks.OnTaskWord(t, from, m)
	case *launcher.RanksAsk:
		n.Ranks.Remains.OnAsk(t, from, m)
	case *launcher.RanksLeft:
		n.Ranks.Remains.OnLeft(t, from, m)
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
		if !n.Ranks.SendGrants(t) && !n.Origin.Dequeue(t) && !n.Records.Pump(t) && !n.Tasks.Pump(t) {
			n.self.Ledger.Meter.Look(t.Now)
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
	n.Origin.TickUnreceived(t)
	for {
		job, rank := n.Origin.Next(), n.Ranks.Next()
		switch {
		case min(job, rank) > now:
			n.tickParts(t)
			n.settle(t)
			return
		case job <= rank:
			n.Origin.TickNext(t)
		default:
			n.Ranks.TickNext(t)
		}
		n.settle(t)
	}
}

// tickParts does everything due besides the timers of single jobs and parts.
func (n *Node) tickParts(t *local.Turn) {
	n.Origin.Tick(t)
	if n.Origin.TickWalltime(t) {
		n.LeaveForGood(t)
		n.settle(t)
	}
	n.Origin.TickKnot(t)
	n.Records.Tick(t)
	n.Origin.TickNumbering(t)
	n.Ranks.TickCutoff(t)
	n.Ranks.Remains.Tick(t)
	n.Tasks.Tick(t)
}

// Deadline is when Tick must be called next.
func (n *Node) Deadline() time.Duration {
	return min(n.self.Ledger.Deadline(), n.self.Opens, n.Origin.Deadline(), n.Ranks.Deadline(), n.Records.Deadline(), n.Tasks.Deadline())
}
