package launcher

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/stealer"
)

// step is a step's side of the asking: its origin is the node of its client,
// the origin of its parent decides.
type step struct {
	arbiter filch.NodeName
	again   time.Duration
	wait    time.Duration
	behind  filch.JobID
	granted bool
	index   int32 // of the task whose step it is
}

// guest is a step at the origin of its parent.
type guest struct {
	id     filch.JobID
	from   filch.NodeName
	call   filch.NodeName // where it was started
	ticket filch.Ticket
	need   stealer.Need
	nodes  []NodeRanks // granted
}

// MaxGuests bounds the steps of a job that run or wait.
const MaxGuests = 16384

// owed is a StepDone that was not acknowledged.
type owed struct {
	to    filch.NodeName
	m     *StepDone
	again time.Duration
	wait  time.Duration
}

// beginStep asks the origin of the parent for slots of the parent.
func (n *Node) beginStep(now time.Duration, j *job, out *Outbox) {
	parent := j.req.Parent
	j.step = &step{again: now + RepeatMin, wait: RepeatMin}
	if p := n.partOf(parent); p != nil {
		if p.launch.Parent != 0 { // a step of a step uses what the job has
			j.req.Parent, j.req.Task = p.launch.Parent, p.launch.Task
		}
		j.step.arbiter = p.launch.Origin
	} else if n.jobs[parent] != nil {
		j.step.arbiter = n.cfg.Name
		if top := n.jobs[parent].req.Parent; top != 0 {
			j.req.Parent, j.req.Task = top, n.jobs[parent].req.Task
			if p := n.partOf(top); p != nil {
				j.step.arbiter = p.launch.Origin
			}
		}
	}
	if r := n.taskOf(j.req.Parent, j.req.Task); r != nil {
		j.step.arbiter, j.step.index = n.cfg.Name, r.index
	} else if j.req.Task != 0 {
		j.step.arbiter = ""
	}
	if j.step.arbiter == "" {
		err := filch.Errorf(filch.NotFound, "cannot start a step of job %d: it has no ranks on %s", parent, n.cfg.Name)
		if j.req.Task != 0 {
			err = filch.Errorf(filch.NotFound, "cannot start a step of a task of job %d: that task does not run on %s", j.req.Parent, n.cfg.Name)
		}
		n.refuse(now, j, err.WithHint("--new-job starts a job of its own"), out)
		return
	}
	j.clock.say = now + SayAfter
	n.lookFor(now, j)
	n.keep(now, j, out)
	if j.clock.gates > freeGates {
		// A sibling has the slots of which the launcher of the parent, since it
		// was restarted, does not know. It ends, or the parent does.
		j.step.again = now + RepeatMax
		return
	}
	n.askStep(j, out)
}

// freeGates is how often a step is launched again at once that failed behind the gate.
const freeGates = 3

func (n *Node) askStep(j *job, out *Outbox) {
	n.send(j.step.arbiter, &StepAsk{
		Job: j.id, Parent: j.req.Parent, Task: j.req.Task, Ticket: j.ticket, Shape: j.req.Shape, Calling: n.cfg.Name,
	}, out)
}

func (n *Node) tickStep(now time.Duration, j *job, out *Outbox) {
	if j.step.again > now {
		return
	}
	if !n.alive(j.step.arbiter) && j.step.wait >= RepeatMax {
		n.refuse(now, j, filch.Errorf(filch.NodeLost, "cannot start a step of job %d: %s, which holds it, is lost", j.req.Parent, j.step.arbiter), out)
		return
	}
	j.step.wait = min(2*j.step.wait, SayEvery)
	j.step.again = now + j.step.wait
	n.askStep(j, out)
}

// stepAsked is the parent's side. A step that is larger than its parent is
// refused at once; others wait for their turn.
func (n *Node) stepAsked(now time.Duration, from filch.NodeName, m *StepAsk, out *Outbox) {
	j := n.host(m.Parent, m.Task)
	if j == nil || j.run == nil || !j.run.going || j.run.halt.level > 0 {
		n.refuseStep(from, m, filch.Errorf(filch.Busy, "cannot start a step of job %d: it is not running", m.Parent), out)
		return
	}
	for _, g := range j.guests {
		if g.id == m.Job {
			n.tellGuest(j, g, out)
			if g.nodes == nil {
				n.remindGuests(j, "", out)
			}
			return
		}
	}
	need, err := needOf(Request{Shape: m.Shape})
	if err == nil {
		shape := m.Shape
		shape.even(&need, func() bool { _, ok := need.Choose(n.stepRooms(j, &need, nil), ""); return ok })
		err = n.stepFits(j, &need)
	}
	if err == nil && len(j.guests) >= MaxGuests {
		err = filch.Errorf(filch.Busy, "cannot start a step of %s: %d steps run or wait already", j.called(), MaxGuests)
	}
	if err != nil {
		n.refuseStep(from, m, err, out)
		return
	}
	g := &guest{id: m.Job, from: from, call: m.Calling, ticket: m.Ticket, need: need}
	j.guests = append(j.guests, g)
	n.seatGuests(now, j, out)
	if g.nodes == nil {
		n.tellGuest(j, g, out)
	}
}

// remindGuests repeats what was granted to steps, of one origin or of all: one
// that is over, and whose launcher died before it could say so, says it then.
func (n *Node) remindGuests(j *job, from filch.NodeName, out *Outbox) {
	for _, g := range j.guests {
		if g.nodes != nil && (from == "" || g.from == from) {
			n.tellGuest(j, g, out)
		}
	}
}

func (n *Node) refuseStep(to filch.NodeName, m *StepAsk, err *filch.Error, out *Outbox) {
	n.send(to, &StepGrant{Job: m.Job, Parent: m.Parent, Refused: true, Err: *err}, out)
}

// stepFits refuses what the parent could never hold.
func (n *Node) stepFits(j *job, need *stealer.Need) *filch.Error {
	offers, sum := n.stepRooms(j, need, nil), int64(0)
	for _, o := range offers {
		sum += int64(o.Ranks)
	}
	if _, ok := need.Choose(offers, ""); ok {
		return nil
	}
	err := filch.Errorf(filch.NoFit, "cannot run a step of %d ranks of %s: %s has room for %d", need.Ranks, roomText(need), j.called(), sum)
	if need.MinNodes > int32(len(j.run.launch.Nodes)) {
		err = filch.Errorf(filch.NoFit, "cannot run a step on %d nodes: %s has %d", need.MinNodes, j.called(), len(j.run.launch.Nodes))
	}
	hint := "--new-job starts a job of its own"
	if j.task != nil {
		hint += "; filch submit -c N gives each task N slots"
	}
	if sum > 0 {
		hint += fmt.Sprintf("; largest step that fits: -n %d", sum)
	}
	return err.WithHint("%s", hint)
}

// stepRooms is the room for ranks of a step on all nodes of the parent.
func (n *Node) stepRooms(j *job, need *stealer.Need, guests []*guest) []stealer.Offer {
	offers := make([]stealer.Offer, len(j.run.launch.Nodes))
	for i := range offers {
		offers[i] = n.stepRoom(j, need, i, guests)
	}
	return offers
}

// stepRoom is the room for ranks of a step that the parent has on its node i,
// without what the guests listed use there.
func (n *Node) stepRoom(j *job, need *stealer.Need, i int, guests []*guest) stealer.Offer {
	at := &j.run.launch.Nodes[i]
	o := stealer.Offer{Node: at.Node, Lease: at.Lease}
	if !need.Allows(at.Node) || j.run.seats[i].done {
		return o
	}
	room := n.hostRoom(j, i)
	for _, g := range guests {
		for k := range g.nodes {
			if g.nodes[k].Node == at.Node {
				room = room.Minus(g.need.Base).Minus(g.need.Each.Times(count(g.nodes[k].Ranks)))
			}
		}
	}
	o.Ranks = min(room.Fits(need.Base, need.Each), need.Ranks)
	if need.PerNode > 0 {
		o.Ranks = min(o.Ranks, need.PerNode)
	}
	return o
}

// hostRoom is all that a parent has on its node i.
func (n *Node) hostRoom(j *job, i int) Room {
	at := &j.run.launch.Nodes[i]
	if m := n.members.Find(at.Node); j.need.Exclusive && m >= 0 {
		return n.members.At(m).Total
	}
	return j.need.Base.Plus(j.need.Each.Times(count(at.Ranks)))
}

// seatGuests grants slots of the parent to waiting steps, strictly in the
// order of their tickets.
func (n *Node) seatGuests(now time.Duration, j *job, out *Outbox) {
	slices.SortStableFunc(j.guests, func(a, b *guest) int {
		switch {
		case a.ticket.Older(b.ticket):
			return -1
		case b.ticket.Older(a.ticket):
			return 1
		}
		return 0
	})
	for _, g := range j.guests {
		if g.nodes != nil {
			continue
		}
		chosen, ok := g.need.Choose(n.stepRooms(j, &g.need, j.guests), g.call)
		if !ok {
			return
		}
		for _, s := range g.need.Assign(chosen, g.call) {
			g.nodes = append(g.nodes, NodeRanks{Node: s.Node, Lease: s.Lease, Ranks: s.Spans})
		}
		n.tellGuest(j, g, out)
	}
}

func (n *Node) tellGuest(j *job, g *guest, out *Outbox) {
	m := &StepGrant{Job: g.id, Parent: j.id, Attempt: j.attempt, Nodes: g.nodes}
	if g.nodes == nil {
		for _, o := range j.guests {
			if o.nodes != nil {
				m.Behind = o.id
				break
			}
		}
	}
	n.send(g.from, m, out)
}

// stepGranted is the step's side of the answer.
func (n *Node) stepGranted(now time.Duration, from filch.NodeName, m *StepGrant, out *Outbox) {
	j := n.jobs[m.Job]
	switch {
	case j == nil:
		if len(m.Nodes) > 0 {
			n.owe(now, from, &StepDone{Job: m.Job, Parent: m.Parent}, out) // a task's end takes its steps along
		}
		return
	case j.step == nil || j.run != nil || j.step.granted && j.attempt == 1:
		return
	case m.Refused:
		n.refuse(now, j, &m.Err, out)
		return
	case len(m.Nodes) == 0:
		j.step.behind = m.Behind
		j.step.again = now + SayEvery
		n.wakeJob(j, j.deadline())
		return
	}
	j.step.granted = true
	j.step.again = filch.Never
	shares := make([]stealer.Share, len(m.Nodes))
	for i, at := range m.Nodes {
		shares[i] = stealer.Share{Offer: stealer.Offer{Node: at.Node, Lease: at.Lease, Ranks: count(at.Ranks)}, Spans: at.Ranks}
	}
	n.launch(now, j, shares, nil, out)
}

// stepOver gives a step's slots back to its parent.
func (n *Node) stepOver(now time.Duration, j *job, out *Outbox) {
	if j.step != nil && j.step.arbiter != "" {
		n.owe(now, j.step.arbiter, &StepDone{Job: j.id, Parent: j.req.Parent, Task: j.req.Task}, out)
	}
}

func (n *Node) owe(now time.Duration, to filch.NodeName, m *StepDone, out *Outbox) {
	for i := range n.owed {
		if n.owed[i].m.Job == m.Job {
			return
		}
	}
	n.send(to, m, out)
	if to != n.cfg.Name {
		n.owed = append(n.owed, owed{to: to, m: m, again: now + RepeatMin, wait: RepeatMin})
	}
}

func (n *Node) payAgain(now time.Duration, out *Outbox) {
	n.owed = slices.DeleteFunc(n.owed, func(o owed) bool {
		i := n.members.Find(o.to)
		return i < 0 || n.members.At(i).Standing >= stealer.Dead
	})
	for i := range n.owed {
		if o := &n.owed[i]; o.again <= now {
			o.wait = min(2*o.wait, RepeatMax)
			o.again = now + o.wait
			n.send(o.to, o.m, out)
		}
	}
}

func (n *Node) stepPaid(m *StepDoneAck) {
	n.owed = slices.DeleteFunc(n.owed, func(o owed) bool { return o.m.Job == m.Job })
}

func (n *Node) stepDone(now time.Duration, from filch.NodeName, m *StepDone, out *Outbox) {
	if from != n.cfg.Name {
		n.send(from, &StepDoneAck{Job: m.Job, Parent: m.Parent}, out)
	}
	j := n.host(m.Parent, m.Task)
	if j == nil {
		return
	}
	j.guests = slices.DeleteFunc(j.guests, func(g *guest) bool { return g.id == m.Job })
	if j.run != nil && j.run.halt.level == 0 {
		n.seatGuests(now, j, out)
	}
}

// guestsOver refuses the steps that still waited when their parent ended;
// those that ran are stopped where the parent's slots are.
func (n *Node) guestsOver(j *job, out *Outbox) {
	for _, g := range j.guests {
		if g.nodes == nil {
			n.send(g.from, &StepGrant{
				Job: g.id, Parent: j.id, Refused: true,
				Err: *filch.Errorf(filch.Canceled, "cannot start the step: %s ended while it waited", j.called()),
			}, out)
		}
	}
	j.guests = nil
}

// guestsOf drops the steps whose origin is dead.
func (n *Node) guestsOf(now time.Duration, name filch.NodeName, out *Outbox) {
	for _, j := range n.sortedJobs() {
		if len(j.guests) == 0 {
			continue
		}
		j.guests = slices.DeleteFunc(j.guests, func(g *guest) bool { return g.from == name })
		if j.run != nil && j.run.halt.level == 0 {
			n.seatGuests(now, j, out)
		}
	}
}
