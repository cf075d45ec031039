package launcher

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/stealer"
)

// A knot is tasks and runs that hold slots while they wait for runs of their own
// (filch run --new-job), which in turn can have no other slots than those. Nobody
// in it can go on. A node looks for one when a run that was started inside of
// something waits: it hears from all nodes what is tied there, and works out
// which of it could still get on, if all that is not tied ended at once. What is
// left is a knot, and as many of its youngest runs are refused as it takes for the
// oldest to start.

// The times of looks.
const (
	// KnotPause is between the look that finds a knot and the one that confirms
	// it; the nodes are not asked at one moment.
	KnotPause = 2 * time.Second
	// KnotWait is how long the answer to a look may take before it is done again.
	KnotWait = 30 * time.Second
	// MaxTies bounds what one node tells of itself.
	MaxTies = 1024
)

// Inside is what a client is a process of: a rank of a job, or of Job's tasks
// the one that its node calls Task.
type Inside struct {
	Job  filch.JobID
	Task uint64
}

// Tie is a holder of slots of a node whose clients wait for runs. It is tied if
// it has no processes but these and such as wait for them, which the node's
// daemon knows.
type Tie struct {
	Node    filch.NodeName `json:"node"`
	Inside  Inside         `json:"inside"`
	Of      Inside         `json:"of"` // a step's: whose slots it has; of others nobody's
	Room    Room           `json:"room"`
	Waits   []Wait         `json:"waits"`
	Clients []ClientID     `json:"-"` // of Waits
}

// Wait is a run that a holder waits for.
type Wait struct {
	Job    filch.JobID  `json:"job"`
	Runs   bool         `json:"runs"` // it has its slots: whether it is tied is for its own Tie to say
	Ticket filch.Ticket `json:"ticket"`
	Need   stealer.Need `json:"need"`

	// Of a step: whose slots it waits for, and all that there are, by node.
	Of    Inside           `json:"of"`
	Rooms []stealer.Member `json:"rooms,omitempty"`
}

// knot is what a node knows of one.
type knot struct {
	at    time.Duration        // the next look
	since time.Duration        // the first look that marked
	marks []filch.JobID        // to be refused if the next look says so, too
	stuck map[filch.JobID]bool // runs in it
	text  string               // what holds their slots
}

// lookFor has a look done for a run that waits inside of something.
func (n *Node) lookFor(now time.Duration, j *job) {
	if j.req.Inside.Job != 0 && !j.req.Detach {
		n.knot.at = min(n.knot.at, now+SayAfter)
	}
}

func (n *Node) tickKnot(now time.Duration, out *Outbox) {
	if n.knot.at > now {
		return
	}
	n.knot.at = filch.Never
	for _, j := range n.jobs { // in any order: one is enough
		if _, ok := n.waitsInside(j); ok && j.run == nil {
			n.knot.at, out.Look = now+KnotWait, true
			return
		}
	}
	n.knot.stuck, n.knot.marks = nil, nil
}

// waitsInside is what a holder waits for with this run; false of one that may end
// by itself, or that goes on without its client.
func (n *Node) waitsInside(j *job) (Wait, bool) {
	switch c := &j.clock; {
	case j.req.Inside.Job == 0 || j.req.Detach || !j.seen.here:
		return Wait{}, false
	case j.run != nil:
		return Wait{Job: j.id, Runs: true}, true
	case j.step != nil:
		return n.waitsForSiblings(j)
	case j.gather == nil && !j.lined || c.patient != filch.Never || c.fence != filch.Never:
		return Wait{}, false
	}
	return Wait{Job: j.id, Ticket: j.ticket, Need: j.need}, true
}

// waitsForSiblings is the same of a step that waits, if this node grants its slots.
func (n *Node) waitsForSiblings(j *job) (Wait, bool) {
	h := n.host(j.req.Parent, j.req.Task)
	if h == nil || h.run == nil || !h.run.going || j.clock.patient != filch.Never {
		return Wait{}, false
	}
	w := Wait{Job: j.id, Ticket: j.ticket, Need: j.need, Of: Inside{j.req.Parent, j.req.Task}}
	for i, at := range h.run.launch.Nodes {
		w.Rooms = append(w.Rooms, stealer.Member{Name: at.Node, Total: n.hostRoom(h, i)})
	}
	return w, true
}

// Ties is what may be tied on this node.
func (n *Node) Ties() []Tie {
	var all []Tie
	at := make(map[Inside]int)
	for _, j := range n.sortedJobs() {
		in := j.req.Inside
		if in.Job == 0 || j.req.Detach || !j.seen.here {
			continue
		}
		i, known := at[in]
		if !known {
			i = len(all)
			at[in] = i
			all = append(all, n.holder(in))
		}
		t := &all[i]
		w, ok := n.waitsInside(j)
		if !ok {
			t.Room.Slots = -1
		}
		t.Waits, t.Clients = append(t.Waits, w), append(t.Clients, j.seen.client)
	}
	all = slices.DeleteFunc(all, func(t Tie) bool { return t.Room.Slots < 0 })
	return all[:min(len(all), MaxTies)]
}

// holder is what has slots on this node and clients inside of it; with fewer than
// none where it may end by itself.
func (n *Node) holder(in Inside) Tie {
	t := Tie{Node: n.cfg.Name, Inside: in, Room: Room{Slots: -1}}
	if in.Task != 0 {
		if r := n.taskOf(in.Job, in.Task); r != nil {
			t.Room = r.loan.Room
		}
		return t
	}
	if p := n.partOf(in.Job); p != nil && p.phase == PhaseStarted && p.level == 0 && p.launch.Size == 1 && !p.launch.Timed {
		t.Of, t.Room = Inside{p.launch.Parent, p.launch.Task}, p.launch.Base.Plus(p.launch.Each)
	}
	return t
}

// Knot takes in what is tied on all nodes, as far as they answered.
func (n *Node) Knot(now time.Duration, ties []Tie, out *Outbox) {
	k := &n.knot
	k.at = now + SayEvery
	tied := n.tied(ties)
	k.stuck = nil
	if len(tied) == 0 {
		k.marks = nil
		return
	}
	k.at, k.stuck = now+KnotPause, make(map[filch.JobID]bool)
	held := int32(0)
	for i := range tied {
		if tied[i].Of == (Inside{}) {
			held += tied[i].Room.Slots
		}
		for _, w := range tied[i].Waits {
			k.stuck[w.Job] = true
		}
	}
	k.text = fmt.Sprintf("%d slots are held by %d tasks and runs that wait for runs of their own", held, len(tied))
	confirmed := k.marks
	if now < k.since+KnotPause {
		confirmed = nil
	}
	if len(k.marks) == 0 {
		k.since = now
	}
	k.marks = n.youngest(tied)
	for _, id := range k.marks {
		if j := n.jobs[id]; j != nil && j.run == nil && slices.Contains(confirmed, id) {
			n.untie(now, j, out)
		}
	}
	n.settle(now, out)
}

// untie refuses a run so that others can start.
func (n *Node) untie(now time.Duration, j *job, out *Outbox) {
	err := filch.Errorf(filch.Busy, "cannot start job %d: it waits for itself: %s, this one included, and what is left has no room for any of these", j.id, n.knot.text)
	if j.step != nil {
		err = err.WithHint("it needs slots that the step has in which it was started; --new-job starts a job of its own")
	} else {
		err = err.WithHint("start fewer at a time, or give them the slots that their runs need: filch submit -c %d -- filch run ..., without --new-job", j.need.Ranks*max(j.need.Each.Slots, 1))
	}
	n.letGo(now, j, nil, out)
	n.refuse(now, j, err, out)
}

// tied is those of the ties none of which can get on, even if all that is not
// among them ended.
func (n *Node) tied(ties []Tie) []Tie {
	tied := slices.Clone(ties)
	for {
		left := n.without(tied)
		runs := make(map[filch.JobID]bool)
		for i := range tied {
			if tied[i].Inside.Task == 0 {
				runs[tied[i].Inside.Job] = true
			}
		}
		before := len(tied)
		tied = slices.DeleteFunc(tied, func(t Tie) bool {
			return slices.ContainsFunc(t.Waits, func(w Wait) bool {
				if w.Runs {
					return !runs[w.Job]
				}
				from := left
				if w.Of != (Inside{}) {
					from = remain(w.Rooms, w.Of, tied)
				}
				ranks, nodes := w.Need.Ceiling(from)
				return ranks >= int64(w.Need.Ranks) && nodes >= w.Need.MinNodes
			})
		})
		if len(tied) == before {
			return tied
		}
	}
}

// without is the members with what is not tied on them.
func (n *Node) without(tied []Tie) *stealer.Members {
	all := make([]stealer.Member, n.members.Len())
	for i := range all {
		all[i] = *n.members.At(int32(i))
	}
	return remain(all, Inside{}, tied)
}

// remain is what is not tied of rooms that belong to nobody, or to a parent of
// steps.
func remain(rooms []stealer.Member, of Inside, tied []Tie) *stealer.Members {
	left := stealer.NewMembers()
	for _, m := range rooms {
		left.Set(m)
	}
	for i := range tied {
		if m := left.Find(tied[i].Node); m >= 0 && tied[i].Of == of {
			p := left.At(m)
			p.Total = p.Total.Minus(tied[i].Room)
		}
	}
	return left
}

// youngest is the runs that have to go until the oldest can start.
func (n *Node) youngest(tied []Tie) (out []filch.JobID) {
	slices.SortStableFunc(tied, func(a, b Tie) int {
		v, w := a.last(), b.last()
		switch {
		case v == nil && w == nil:
			return 0
		case v == nil || w != nil && v.Ticket.Older(w.Ticket):
			return -1
		case w == nil || w.Ticket.Older(v.Ticket):
			return 1
		}
		return 0
	})
	i := slices.IndexFunc(tied, func(t Tie) bool { return t.last() != nil })
	if i < 0 {
		return nil
	}
	oldest := tied[i].last().Job
	for {
		w := tied[len(tied)-1].last()
		out = append(out, w.Job)
		tied = n.tied(tied[:len(tied)-1])
		if !slices.ContainsFunc(tied, func(t Tie) bool { return t.last() != nil && t.last().Job == oldest }) {
			return out
		}
	}
}

// last is the youngest run that the holder waits for and that has no slots yet.
func (t *Tie) last() (w *Wait) {
	for i := range t.Waits {
		if v := &t.Waits[i]; !v.Runs && (w == nil || w.Ticket.Older(v.Ticket)) {
			w = v
		}
	}
	return w
}
