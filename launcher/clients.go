package launcher

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// ReclaimWait is how long after a restart of the launcher the client of an
// attached job may take to come back.
const ReclaimWait = 4 * time.Second

// stoodStill is how late a launcher is with what is due if it did not run meanwhile:
// what its clients said then has not been read yet.
const stoodStill = time.Second

// ClientGone takes in that a local client's connection ended: its attached
// jobs are stopped.
func (n *Node) ClientGone(now time.Duration, client ClientID, out *Outbox) {
	n.forgetUnnumbered(client)
	n.unfollow(now, client)
	ids := slices.Clone(n.clients[client])
	delete(n.clients, client)
	for _, id := range ids {
		j := n.jobs[id]
		if j == nil {
			out.Records = append(out.Records, Record{Key: recordKey(id)}) // it heard the end
			continue
		}
		if j.seen.client == client && j.seen.here {
			j.seen.here = false
			n.clientLost(now, j, out)
		}
	}
	n.settle(now, out)
}

func (n *Node) clientLost(now time.Duration, j *job, out *Outbox) {
	if !j.req.Detach {
		n.end(now, j, Cause{Kind: CauseClientGone, Rank: -1, Text: "the client is gone"}, sigTerm, j.req.Policy.KillWait, out)
	}
}

// Cancel ends a job of this origin on request. By is who asked, "interrupt"
// for a Ctrl-C at its client. The ranks get sig (0: TERM) and KILL after the
// job's kill-wait; KILL goes to them at once.
func (n *Node) Cancel(now time.Duration, id filch.JobID, sig int32, by string, out *Outbox) *filch.Error {
	j := n.jobs[id]
	if j == nil {
		return n.noJob(id)
	}
	n.cancelBy(now, j, sig, by, out)
	n.settle(now, out)
	return nil
}

func (n *Node) cancelBy(now time.Duration, j *job, sig int32, by string, out *Outbox) {
	c := Cause{Kind: CauseCancel, Rank: -1, Text: "cancelled"}
	if by != "" {
		c.Text += " by " + by
	}
	if by == "interrupt" {
		c.Kind, c.Text = CauseInterrupt, "interrupted"
	}
	grace := j.req.Policy.KillWait
	switch sig {
	case 0:
		sig = sigTerm
	case sigKill:
		grace = 0
	}
	n.end(now, j, c, sig, grace, out)
}

func (n *Node) noJob(id filch.JobID) *filch.Error {
	if e := n.past.find(id); e != nil {
		return filch.Errorf(filch.Busy, "job %d has ended already: %s", id, e.info.State)
	}
	return filch.Errorf(filch.NotFound, "there is no job %d", id).WithHint("filch ps lists the jobs")
}

// Signal forwards a signal to all ranks of a job of this origin.
func (n *Node) Signal(now time.Duration, id filch.JobID, sig int32, out *Outbox) *filch.Error {
	j := n.jobs[id]
	switch {
	case j == nil:
		return n.noJob(id)
	case j.run == nil || !j.run.going:
		return filch.Errorf(filch.Busy, "cannot send %s to job %d: it has not started", signalName(sig), id)
	case len(j.run.sigs) >= MaxSignals:
		return filch.Errorf(filch.Busy, "cannot send %s to job %d: %d signals were sent already", signalName(sig), id, MaxSignals)
	}
	n.signalRun(now, j, sig, out)
	n.settle(now, out)
	return nil
}

// MaxSignals bounds the signals forwarded to a run.
const MaxSignals = 4096

func (n *Node) signalRun(now time.Duration, j *job, sig int32, out *Outbox) {
	r := j.run
	r.sigs = append(slices.Clone(r.sigs), sig)
	for i := range r.seats {
		if s := &r.seats[i]; !s.done {
			s.again = min(s.again, now+RepeatMin)
			r.at.again = min(r.at.again, s.again)
			n.sendSignals(j, i, out)
		}
	}
	n.wakeJob(j, j.deadline())
}

func (n *Node) sendSignals(j *job, i int, out *Outbox) {
	r, s := j.run, &j.run.seats[i]
	n.send(r.launch.Nodes[i].Node, &Signals{
		Job: j.id, Attempt: j.attempt, Index: int32(i), Incarnation: n.cfg.Incarnation, First: s.sigs, Sigs: r.sigs[s.sigs:],
	}, out)
}

func (n *Node) signalsTaken(now time.Duration, m *SignalsAck, out *Outbox) {
	j := n.jobs[m.Job]
	if j == nil || j.run == nil || j.attempt != m.Attempt || m.Incarnation != n.cfg.Incarnation || m.Index < 0 || int(m.Index) >= len(j.run.seats) {
		return
	}
	s := &j.run.seats[m.Index]
	s.sigs = max(s.sigs, min(m.Have, int32(len(j.run.sigs))))
}

// Reattach makes a client the owner of a job again whose launcher was
// restarted, and tells it where the job stands.
func (n *Node) Reattach(now time.Duration, client ClientID, id filch.JobID, out *Outbox) *filch.Error {
	j := n.jobs[id]
	if j == nil {
		return n.retell(client, id, out)
	}
	if j.seen.here && j.seen.client != client {
		return filch.Errorf(filch.Busy, "cannot take job %d over: its client is still there", id)
	}
	waits := j.unclaimed() && j.clock.fence == filch.Never
	j.seen.client, j.seen.here = client, true
	j.clock.reclaim = filch.Never
	n.clients[client] = append(n.clients[client], id)
	n.recount(j, client, out)
	switch {
	case !waits:
	case n.birth.opens != filch.Never: // a keeper of a launch that was forgotten may still turn up
		j.clock.fence = n.birth.opens
		n.wakeJob(j, j.deadline())
	default:
		n.begin(now, j, out)
		n.settle(now, out)
	}
	return nil
}

// recount tells one client where a job stands.
func (n *Node) recount(j *job, client ClientID, out *Outbox) {
	say := func(e Event) { out.Replies = append(out.Replies, Reply{client, e}) }
	say(Accepted{Job: j.id, Size: j.need.Ranks})
	if r := j.run; r != nil {
		if r.told {
			say(Started{Job: j.id, Size: j.need.Ranks, Nodes: r.launch.Nodes, Waited: j.waited})
		}
		if r.halt.level > 0 && r.cause.Kind != CauseNone {
			say(Ending{Job: j.id, Text: r.cause.Text})
		}
	}
}

// retell tells a client the end of a job that is over.
func (n *Node) retell(client ClientID, id filch.JobID, out *Outbox) *filch.Error {
	p := n.past.find(id)
	if p == nil {
		return n.noJob(id)
	}
	e := p.end
	out.Replies = append(out.Replies, Reply{client, Ended{Job: id, State: e.State, Code: e.Code, Cause: e.Cause, Ranks: e.Ranks, Bad: e.Bad}})
	return nil
}
