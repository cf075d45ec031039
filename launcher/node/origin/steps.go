package origin

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/request"
	"github.com/filch-hpc/filch/stealer"
)

// step is a step's view of the request for slots: the origin of the step is the node of
// its client, and the origin of the parent decides.
type step struct {
	arbiter filch.NodeName
	again   time.Duration
	wait    time.Duration
	behind  filch.JobID
	granted bool
	index   int32 // of the step's task
	number  int32 // in the parent, from 0; set with granted
}

// stepNumber is the number of a step in its parent; 0 for a job.
func (j *job) stepNumber() int32 {
	if j.step == nil {
		return 0
	}
	return j.step.number
}

// renumber continues the numbers of steps after a restart of the launcher. The record does
// not count the steps; the job submitted fewer than one step a millisecond.
func (j *job) renumber(now time.Duration) {
	j.steps = max(j.steps, int32(min((now-j.run.at.began)/time.Millisecond, maxRenumber)))
}

// maxRenumber leaves numbers for later steps.
const maxRenumber = 1 << 30

// guest is a step at the origin of its parent.
type guest struct {
	id     filch.JobID
	from   filch.NodeName
	call   filch.NodeName // where the step was started
	ticket filch.Ticket
	need   stealer.Need
	number int32                // in the parent
	nodes  []launcher.NodeRanks // granted
}

// maxGuests bounds the running and waiting steps of a job.
const maxGuests = 16384

// owed is an unacknowledged StepDone.
type owed struct {
	to    filch.NodeName
	m     *launcher.StepDone
	again time.Duration
	wait  time.Duration
}

// returns holds the slots of ended steps until the parents acknowledge their return. A
// step is in returns at most once.
type returns struct {
	*local.Self
	owed []owed
}

// beginStep asks the origin of the parent for slots of the parent.
func (o *Origin) beginStep(t *local.Turn, j *job) {
	parent := j.req.Parent
	j.step = &step{again: t.Now + repeatMin, wait: repeatMin}
	if l := o.ranks.LaunchIn(parent); l != nil {
		if l.Parent != 0 { // a step of a step uses the job's slots
			j.req.Parent, j.req.Task = l.Parent, l.Task
			if top := o.ranks.LaunchIn(l.Parent); top != nil {
				l = top
			}
		}
		j.step.arbiter = l.Origin
	} else if o.jobs[parent] != nil {
		j.step.arbiter = o.Cfg.Name
		if top := o.jobs[parent].req.Parent; top != 0 {
			j.req.Parent, j.req.Task = top, o.jobs[parent].req.Task
			if l := o.ranks.LaunchIn(top); l != nil {
				j.step.arbiter = l.Origin
			}
		}
	}
	if r := o.tasks.TaskOf(j.req.Parent, j.req.Task); r != nil {
		j.step.arbiter, j.step.index = o.Cfg.Name, r.Index
	} else if j.req.Task != 0 {
		j.step.arbiter = ""
	}
	if j.step.arbiter == "" {
		err := filch.Errorf(filch.NotFound, "cannot start a step of job %d: the job has no ranks on %s", parent, o.Cfg.Name)
		if j.req.Task != 0 {
			err = filch.Errorf(filch.NotFound, "cannot start a step of a task of job %d: the task does not run on %s", j.req.Parent, o.Cfg.Name)
		}
		o.refuse(t, j, err.WithHint("--new-job starts a job of its own"))
		return
	}
	j.clock.say = t.Now + SayAfter
	o.knot.lookFor(t, j)
	o.keep(t, j)
	if j.clock.gates > freeGates {
		// A sibling has slots unknown to the parent's launcher since its restart. The
		// sibling ends, or the parent does.
		j.step.again = t.Now + RepeatMax
		return
	}
	o.askStep(t, j)
}

// freeGates is how often a step failed behind the gate is launched again at once.
const freeGates = 3

func (o *Origin) askStep(t *local.Turn, j *job) {
	t.Send(j.step.arbiter, &launcher.StepAsk{
		Job: j.id, Parent: j.req.Parent, Task: j.req.Task, Ticket: j.ticket, Shape: j.req.Shape, Calling: o.Cfg.Name,
	})
}

func (o *Origin) tickStep(t *local.Turn, j *job) {
	if j.step.again > t.Now {
		return
	}
	if !o.Alive(j.step.arbiter) && j.step.wait >= RepeatMax {
		o.refuse(t, j, filch.Errorf(filch.NodeLost, "cannot start a step of job %d: the node %s, where the job was submitted, is lost", j.req.Parent, j.step.arbiter))
		return
	}
	j.step.wait = min(2*j.step.wait, SayEvery)
	j.step.again = t.Now + j.step.wait
	o.askStep(t, j)
}

// parents is the other side of steps: jobs of this origin, and tasks running here, as
// lenders of slots to their steps. The grants to the steps of a parent always fit
// together into the parent's own slots.
type parents struct {
	*joblist
	tasks ownTasks
	hosts map[uint64]*job // tasks with steps, by serial
}

// OnStepAsk is the parent's side. A step larger than its parent is refused at once; other
// steps wait for their turn.
func (p *parents) OnStepAsk(t *local.Turn, from filch.NodeName, m *launcher.StepAsk) {
	j := p.host(m.Parent, m.Task)
	if j == nil || j.run == nil || !j.run.going || j.run.halt.level > 0 {
		p.refuseStep(t, from, m, filch.Errorf(filch.Busy, "cannot start a step of job %d: the job is not running", m.Parent))
		return
	}
	for _, g := range j.guests {
		if g.id == m.Job {
			p.tellGuest(t, j, g)
			if g.nodes == nil {
				p.remindGuests(t, j, "")
			}
			return
		}
	}
	need, err := request.NeedOf(launcher.Request{Shape: m.Shape})
	need.Step = true
	if err == nil {
		shape := m.Shape
		request.Even(&shape, &need, func() bool { _, ok := need.Choose(p.stepRooms(j, &need, nil), ""); return ok })
		err = p.stepFits(j, &need)
	}
	if err == nil && len(j.guests) >= maxGuests {
		err = filch.Errorf(filch.Busy, "cannot start a step of %s: %d steps run or wait already", j.called(), maxGuests)
	}
	if err != nil {
		p.refuseStep(t, from, m, err)
		return
	}
	g := &guest{id: m.Job, from: from, call: m.Calling, ticket: m.Ticket, need: need, number: j.steps}
	j.steps++
	j.guests = append(j.guests, g)
	p.grantSteps(t, j)
	if g.nodes == nil {
		p.tellGuest(t, j, g)
	}
}

// remindGuests repeats the grants to steps, of a single origin or of all origins. If a
// step is over and its launcher died before sending the StepDone, the step's origin
// answers the grant with the StepDone.
func (p *parents) remindGuests(t *local.Turn, j *job, from filch.NodeName) {
	for _, g := range j.guests {
		if g.nodes != nil && (from == "" || g.from == from) {
			p.tellGuest(t, j, g)
		}
	}
}

func (p *parents) refuseStep(t *local.Turn, to filch.NodeName, m *launcher.StepAsk, err *filch.Error) {
	t.Send(to, &launcher.StepGrant{Job: m.Job, Parent: m.Parent, Refused: true, Err: *err})
}

// stepFits refuses a step that the parent could never hold.
func (p *parents) stepFits(j *job, need *stealer.Need) *filch.Error {
	offers, sum := p.stepRooms(j, need, nil), int64(0)
	for _, o := range offers {
		sum += int64(o.Ranks)
	}
	if _, ok := need.Choose(offers, ""); ok {
		return nil
	}
	err := filch.Errorf(filch.NoFit, "cannot run a step of %s of %s: %s has room for %d", filch.Plural(need.Ranks, "rank"), local.RoomText(need), j.called(), sum)
	if need.MinNodes > int32(len(j.run.launch.Nodes)) {
		err = filch.Errorf(filch.NoFit, "cannot run a step on %d nodes: %s has %d", need.MinNodes, j.called(), len(j.run.launch.Nodes))
	}
	hint := "--new-job starts a job of its own"
	if j.task != nil {
		hint += "; filch submit -c N gives each task N slots"
	}
	if sum > 0 {
		hint += fmt.Sprintf("; largest step %s%d", launcher.MostRanks, sum)
	}
	return err.WithHint("%s", hint)
}

// stepRooms returns the room for ranks of a step on all nodes of the parent.
func (p *parents) stepRooms(j *job, need *stealer.Need, guests []*guest) []stealer.Offer {
	offers := make([]stealer.Offer, len(j.run.launch.Nodes))
	for i := range offers {
		offers[i] = p.stepRoom(j, need, i, guests)
	}
	return offers
}

// stepRoom returns the parent's room for ranks of a step on the parent's node i, without
// the room used there by the listed guests.
func (p *parents) stepRoom(j *job, need *stealer.Need, i int, guests []*guest) stealer.Offer {
	at := &j.run.launch.Nodes[i]
	offer := stealer.Offer{Node: at.Node, Lease: at.Lease}
	if !p.Allows(need, at.Node) || j.run.participants[i].done {
		return offer
	}
	room := p.hostRoom(j, i)
	for _, g := range guests {
		for k := range g.nodes {
			if g.nodes[k].Node == at.Node {
				room = room.Minus(g.need.Base).Minus(g.need.Each.Times(launcher.CountRanks(g.nodes[k].Ranks)))
			}
		}
	}
	offer.Ranks = min(room.Fits(need.Base, need.Each), need.Ranks)
	if need.PerNode > 0 {
		offer.Ranks = min(offer.Ranks, need.PerNode)
	}
	return offer
}

// hostRoom returns the whole room of a parent on its node i.
func (p *parents) hostRoom(j *job, i int) filch.Room {
	at := &j.run.launch.Nodes[i]
	if m := p.Members.Find(at.Node); j.need.Exclusive && m >= 0 {
		return p.Members.At(m).Total
	}
	return j.need.Base.Plus(j.need.Each.Times(launcher.CountRanks(at.Ranks)))
}

// refuseLarge refuses the waiting steps that the parent can hold no more, since its ranks on
// some nodes have ended.
func (p *parents) refuseLarge(t *local.Turn, j *job) {
	j.guests = slices.DeleteFunc(j.guests, func(g *guest) bool {
		if g.nodes != nil {
			return false
		}
		err := p.stepFits(j, &g.need)
		if err != nil {
			t.Send(g.from, &launcher.StepGrant{Job: g.id, Parent: j.id, Refused: true, Err: *err})
		}
		return err != nil
	})
}

// grantSteps grants slots of the parent to waiting steps, strictly in the
// order of their tickets.
func (p *parents) grantSteps(t *local.Turn, j *job) {
	p.refuseLarge(t, j)
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
		chosen, ok := g.need.Choose(p.stepRooms(j, &g.need, j.guests), g.call)
		if !ok {
			return
		}
		for _, s := range g.need.Assign(chosen, g.call) {
			g.nodes = append(g.nodes, launcher.NodeRanks{Node: s.Node, Lease: s.Lease, Ranks: s.Spans})
		}
		p.tellGuest(t, j, g)
	}
}

func (p *parents) tellGuest(t *local.Turn, j *job, g *guest) {
	m := &launcher.StepGrant{Job: g.id, Parent: j.id, Attempt: j.attempt, Nodes: g.nodes, Step: g.number}
	if g.nodes == nil {
		for _, o := range j.guests {
			if o.nodes != nil {
				m.Behind = o.id
				break
			}
		}
	}
	t.Send(g.from, m)
}

// OnStepGrant is the step's side of the answer.
func (o *Origin) OnStepGrant(t *local.Turn, from filch.NodeName, m *launcher.StepGrant) {
	j := o.jobs[m.Job]
	switch {
	case j == nil:
		if len(m.Nodes) > 0 {
			// The end of a task also ends the task's steps.
			o.returns.owe(t, from, &launcher.StepDone{Job: m.Job, Parent: m.Parent})
		}
		return
	case j.step == nil || j.run != nil || j.step.granted && j.attempt == 1:
		return
	case m.Refused:
		o.refuse(t, j, &m.Err)
		return
	case len(m.Nodes) == 0 && j.req.Spawner != 0:
		// The slots may be those of the rank that spawns, and waits. The client asks again for
		// slots beyond the job.
		o.refuse(t, j, filch.Errorf(filch.NoFit, "cannot spawn %s within job %d: its steps use the slots", filch.Plural(j.need.Ranks, "rank"), m.Parent))
		return
	case len(m.Nodes) == 0:
		j.step.behind = m.Behind
		j.step.again = t.Now + SayEvery
		o.wakeJob(j, j.deadline())
		return
	}
	j.step.granted, j.step.number = true, m.Step
	o.tell(t, j, launcher.Granted{Job: j.id, Step: m.Step})
	j.step.again = filch.Never
	shares := make([]stealer.Share, len(m.Nodes))
	for i, at := range m.Nodes {
		shares[i] = stealer.Share{Node: at.Node, Lease: at.Lease, Ranks: launcher.CountRanks(at.Ranks), Spans: at.Ranks}
	}
	o.attempts.launch(t, j, shares, nil)
}

// returnSlots gives a step's slots back to its parent.
func (r *returns) returnSlots(t *local.Turn, j *job) {
	if j.step != nil && j.step.arbiter != "" {
		r.owe(t, j.step.arbiter, &launcher.StepDone{Job: j.id, Parent: j.req.Parent, Task: j.req.Task})
	}
}

func (r *returns) owe(t *local.Turn, to filch.NodeName, m *launcher.StepDone) {
	for i := range r.owed {
		if r.owed[i].m.Job == m.Job {
			return
		}
	}
	t.Send(to, m)
	if to != r.Cfg.Name {
		r.owed = append(r.owed, owed{to: to, m: m, again: t.Now + repeatMin, wait: repeatMin})
	}
}

func (r *returns) resendStepDone(t *local.Turn) {
	r.owed = slices.DeleteFunc(r.owed, func(d owed) bool {
		i := r.Members.Find(d.to)
		return i < 0 || r.Members.At(i).Standing >= filch.Dead
	})
	for i := range r.owed {
		if d := &r.owed[i]; d.again <= t.Now {
			d.wait = min(2*d.wait, RepeatMax)
			d.again = t.Now + d.wait
			t.Send(d.to, d.m)
		}
	}
}

// OnStepDoneAck handles the acknowledgement of a StepDone.
func (r *returns) OnStepDoneAck(m *launcher.StepDoneAck) {
	r.owed = slices.DeleteFunc(r.owed, func(o owed) bool { return o.m.Job == m.Job })
}

// OnStepDone handles the end of a step at the origin of its parent.
func (p *parents) OnStepDone(t *local.Turn, from filch.NodeName, m *launcher.StepDone) {
	if from != p.Cfg.Name {
		t.Send(from, &launcher.StepDoneAck{Job: m.Job, Parent: m.Parent})
	}
	j := p.host(m.Parent, m.Task)
	if j == nil {
		return
	}
	j.guests = slices.DeleteFunc(j.guests, func(g *guest) bool { return g.id == m.Job })
	if j.run != nil && j.run.halt.level == 0 {
		p.grantSteps(t, j)
	}
}

// onParentOver refuses the steps still waiting when their parent ended; running steps are
// stopped by the nodes of the parent's slots.
func (p *parents) onParentOver(t *local.Turn, j *job) {
	for _, g := range j.guests {
		if g.nodes == nil {
			t.Send(g.from, &launcher.StepGrant{
				Job: g.id, Parent: j.id, Refused: true,
				Err: *filch.Errorf(filch.Canceled, "cannot start the step: %s ended while it waited", j.called()),
			})
		}
	}
	j.guests = nil
}

// onGuestsLost drops the steps whose origin is dead.
func (p *parents) onGuestsLost(t *local.Turn, name filch.NodeName) {
	for _, j := range p.sortedJobs() {
		if len(j.guests) == 0 {
			continue
		}
		j.guests = slices.DeleteFunc(j.guests, func(g *guest) bool { return g.from == name })
		if j.run != nil && j.run.halt.level == 0 {
			p.grantSteps(t, j)
		}
	}
}
