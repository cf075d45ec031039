package launcher

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// What becomes of a job here when its record says that another node has had the last
// word, or has it from now on.

// fenced takes in that the record of a job of this node says something else.
func (n *Node) fenced(now time.Duration, j *job, e *JobEntry, out *Outbox) {
	if e.Owner == n.cfg.Name && e.Incarnation == n.cfg.Incarnation && e.Hop == j.kept.hop && !e.ended() {
		if e.Cancel != nil && j.kept.cancel == nil {
			j.kept.cancel = e.Cancel
			n.cancelBy(now, j, e.Cancel.Signal, e.Cancel.By, out)
		}
		return
	}
	if mutantDeafOwner && !e.ended() {
		return
	}
	note(out, noteWarn, j.id, n.cfg.Name, "%s has taken the job over", e.Owner)
	switch {
	case !e.ended():
		n.giveUp(now, j)
	case !j.req.Detach:
		n.wasLost(now, j, e, out)
		return
	}
	n.abandon(now, j, out)
}

// giveUp has this node say nothing more about a detached job that another one
// decides about, or will: what its participants know is for that one. Later they
// are told that the job is over, should that one have missed them.
func (n *Node) giveUp(now time.Duration, j *job) {
	given := n.meta.given
	maps.DeleteFunc(given, func(_ filch.JobID, until time.Duration) bool { return until <= now })
	if j.req.Detach {
		given[j.id] = now + HeirWait
	}
}

func (n *Node) gaveUp(now time.Duration, id filch.JobID) bool {
	return now < n.meta.given[id]
}

// abandon forgets a job that another node decides about now. Its ranks here wait for
// a word of that node.
func (n *Node) abandon(now time.Duration, j *job, out *Outbox) {
	err := filch.Errorf(filch.Unavailable, "another node decides about job %d now", j.id).WithHint("filch attach %d follows it", j.id)
	n.tell(j, Refused{Err: *err, Code: filch.ExitOurs}, out)
	out.Records = append(out.Records, Record{Key: recordKey(j.id)})
	n.disown(now, j, out)
	for _, p := range n.sortedParts() {
		if p.key.Job == j.id && n.mine(p) && !p.over() {
			p.until, p.pull = now+JobTerm, filch.Never
			n.wakePart(p, p.until)
		}
	}
}

// wasLost ends an attached job whose record says that it was lost with this node: the
// others did not see it for a while. Whoever asked has been told that end, so it is
// the one that the client hears, and the ranks of the job go.
func (n *Node) wasLost(now time.Duration, j *job, e *JobEntry, out *Outbox) {
	end := n.lostEnd(e)
	if r := j.run; r != nil {
		before := r.halt.level
		n.halt(now, j, sigTerm, min(FailGrace, j.req.Policy.KillWait), end.Cause.Text, out)
		if r.halt.level == before {
			n.haltAgain(j, out)
		}
	}
	n.tell(j, Ended{Job: j.id, State: end.State, Code: end.Code, Cause: end.Cause}, out)
	n.remember(now, j, e.Told(), end, out)
	n.disown(now, j, out)
	n.stepOver(now, j, out)
}

func (n *Node) lostEnd(e *JobEntry) EndRecord {
	return EndRecord{State: filch.Lost, Code: *e.Info.Code, Cause: Cause{Kind: CauseNodeLost, Rank: -1, Node: n.cfg.Name, Text: e.Info.Cause}}
}

// endedElsewhere takes in that the record has another end of a job that is over here:
// that one counts. The client of an attached job may not be back yet to hear of it.
func (n *Node) endedElsewhere(id filch.JobID, e *JobEntry, out *Outbox) {
	p := n.past.find(id)
	attached := p != nil && !p.info.Detached
	n.past.forget(id)
	if !attached || !e.ended() {
		return
	}
	end := n.lostEnd(e)
	for _, old := range n.past.add(e.Told(), end) {
		out.Records = append(out.Records, Record{Key: recordKey(old)})
	}
	if slices.Contains(n.birth.unheard, id) {
		r := &JobRecord{Job: id, Attempt: e.Info.Attempt, Size: e.Info.Ranks, State: end.State, Ended: &end, Request: Request{Name: e.Info.Name}}
		out.Records = append(out.Records, Record{Key: recordKey(id), Job: r})
	}
}

// disown forgets a job whose record is another node's.
func (n *Node) disown(now time.Duration, j *job, out *Outbox) {
	if j.run != nil && j.run.unsent != nil {
		n.unlaunch(now, j, out)
	}
	n.letGo(now, j, nil, out)
	j.lined = false
	out.Records = append(out.Records, j.seatRecords()...)
	delete(n.jobs, j.id)
	n.endWatch(now, j)
	delete(n.meta.book.due, j.id)
	n.dropClient(j, out)
	n.guestsOver(j, out)
}
