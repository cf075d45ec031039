package origin

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/ties"
)

// A knot is a set of tasks and runs that hold slots while they wait for runs of their own
// (filch run --new-job), which in turn can get no slots but the slots of the set. No task
// or run of a knot can continue. A node looks for a knot when a run that was started
// inside a task or another run waits: the node collects the ties of all nodes, and
// computes which holders could continue if all untied work ended at once. The other
// holders are a knot. As many of the youngest runs of the knot are refused as needed for
// the oldest to start.

// The times of looks.
const (
	// knotPause is the time between the look that finds a knot and the look that
	// confirms the knot; the nodes are not asked at the same moment.
	knotPause = 2 * time.Second
	// knotWait is how long the answer to a look may take before the look is repeated.
	knotWait = 30 * time.Second
	// maxTies bounds the ties of one node.
	maxTies = 1024
)

// knot looks for a knot, and refuses runs in the knot. A run is refused only when two
// looks, at least knotPause apart, marked the run.
type knot struct {
	*joblist
	origin  refuser
	ranks   ownRanks
	tasks   ownTasks
	line    *gatherqueue
	parents *parents

	at    time.Duration        // the next look
	since time.Duration        // the first look with marks
	marks []filch.JobID        // refused if the next look marks the run, too
	stuck map[filch.JobID]bool // runs in the knot
	text  string               // about the holders of the slots
}

// refuser ends a job that cannot start.
type refuser interface {
	refuse(t *local.Turn, j *job, err *filch.Error)
}

// lookFor schedules a look for a run that waits inside a task or another run.
func (k *knot) lookFor(t *local.Turn, j *job) {
	if j.req.Inside.Job != 0 && !j.req.Detach {
		k.at = min(k.at, t.Now+SayAfter)
	}
}

// TickKnot asks all nodes for their ties when a look is due.
func (k *knot) TickKnot(t *local.Turn) {
	if k.at > t.Now {
		return
	}
	k.at = filch.Never
	for _, j := range k.jobs { // in any order: a single run is enough
		if _, ok := k.waitsInside(j); ok && j.run == nil {
			k.at, t.Out.Look = t.Now+knotWait, true
			return
		}
	}
	k.stuck, k.marks = nil, nil
}

// waitsInside returns the Wait for run j of the holder around j. The result is false for
// a run that may end by itself, or that goes on without its client.
func (k *knot) waitsInside(j *job) (launcher.Wait, bool) {
	switch c := &j.clock; {
	case j.req.Inside.Job == 0 || j.req.Detach || !j.seen.here:
		return launcher.Wait{}, false
	case j.run != nil:
		return launcher.Wait{Job: j.id, Runs: true}, true
	case j.step != nil:
		return k.waitsForSiblings(j)
	case j.gather == nil && !j.lined || c.patient != filch.Never || c.lostUntil != filch.Never:
		return launcher.Wait{}, false
	}
	return launcher.Wait{Job: j.id, Ticket: j.ticket, Need: j.need}, true
}

// waitsForSiblings does the same for a step that waits, if this node grants the step's
// slots.
func (k *knot) waitsForSiblings(j *job) (launcher.Wait, bool) {
	h := k.parents.host(j.req.Parent, j.req.Task)
	if h == nil || h.run == nil || !h.run.going || j.clock.patient != filch.Never {
		return launcher.Wait{}, false
	}
	w := launcher.Wait{Job: j.id, Ticket: j.ticket, Need: j.need, Of: launcher.Inside{Job: j.req.Parent, Task: j.req.Task}}
	for i, at := range h.run.launch.Nodes {
		w.Rooms = append(w.Rooms, filch.Member{Name: at.Node, Total: k.parents.hostRoom(h, i)})
	}
	return w, true
}

// Ties returns the holders on this node that may be tied.
func (k *knot) Ties() []launcher.Tie {
	var all []launcher.Tie
	at := make(map[launcher.Inside]int)
	for _, j := range k.sortedJobs() {
		in := j.req.Inside
		if in.Job == 0 || j.req.Detach || !j.seen.here {
			continue
		}
		i, known := at[in]
		if !known {
			i = len(all)
			at[in] = i
			all = append(all, k.holder(in))
		}
		t := &all[i]
		w, ok := k.waitsInside(j)
		if !ok {
			t.Room.Slots = -1
		}
		t.Waits, t.Clients = append(t.Waits, w), append(t.Clients, j.seen.client)
	}
	all = slices.DeleteFunc(all, func(t launcher.Tie) bool { return t.Room.Slots < 0 })
	return all[:min(len(all), maxTies)]
}

// holder returns the Tie of a holder with slots on this node and clients inside. The
// slots are negative if the holder may end by itself.
func (k *knot) holder(in launcher.Inside) launcher.Tie {
	t := launcher.Tie{Node: k.Cfg.Name, Inside: in, Room: filch.Room{Slots: -1}}
	if in.Task != 0 {
		if r := k.tasks.TaskOf(in.Job, in.Task); r != nil {
			t.Room = r.Loan.Room()
		}
		return t
	}
	if l := k.ranks.RunsAlone(in.Job); l != nil {
		t.Of, t.Room = launcher.Inside{Job: l.Parent, Task: l.Task}, l.Base.Plus(l.Each)
	}
	return t
}

// Knot handles the ties of all nodes that answered.
func (k *knot) Knot(now time.Duration, all []launcher.Tie, out *launcher.Outbox) {
	t := k.Turn(now, out)
	k.at = now + SayEvery
	tied := ties.Knot(k.Members, all)
	k.stuck = nil
	if len(tied) == 0 {
		k.marks = nil
		return
	}
	k.at, k.stuck = now+knotPause, make(map[filch.JobID]bool)
	held := int32(0)
	for i := range tied {
		if tied[i].Of == (launcher.Inside{}) {
			held += tied[i].Room.Slots
		}
		for _, w := range tied[i].Waits {
			k.stuck[w.Job] = true
		}
	}
	k.text = fmt.Sprintf("%d slots are held by %d tasks and runs, which wait for runs that they started", held, len(tied))
	confirmed := k.marks
	if now < k.since+knotPause {
		confirmed = nil
	}
	if len(k.marks) == 0 {
		k.since = now
	}
	k.marks = ties.Youngest(k.Members, tied)
	for _, id := range k.marks {
		if j := k.jobs[id]; j != nil && j.run == nil && slices.Contains(confirmed, id) {
			k.untie(t, j)
		}
	}
	t.End()
}

// untie refuses a run so other runs can start.
func (k *knot) untie(t *local.Turn, j *job) {
	err := filch.Errorf(filch.Busy, "cannot start job %d: deadlock: %s; job %[1]d is one of these runs, and no other slots are left for it", j.id, k.text)
	err = err.WithHint("%s", untieHint(j))
	k.line.releaseHolds(t, j, nil)
	k.origin.refuse(t, j, err)
}

// TiedTasks counts the runs of this node that tasks of a job wait for: runs in the knot,
// and all jobs of their own without slots.
func (k *knot) TiedTasks(id filch.JobID) (tied, waiting int64) {
	for _, j := range k.jobs { // in any order: sums
		if j.req.Inside.Job != id || j.req.Inside.Task == 0 {
			continue
		}
		if k.stuck[j.id] {
			tied++
		}
		if j.run == nil && j.req.Parent == 0 && !j.req.Detach {
			waiting++
		}
	}
	return tied, waiting
}

// untieHint says how to start the work of a run in a knot without a deadlock.
func untieHint(j *job) string {
	if j.step != nil {
		return "the step that started this run has the slots that the run needs; --new-job starts a job of its own"
	}
	return fmt.Sprintf("start fewer tasks at a time, or give each task the slots of its run: filch submit -c %d -- filch run ..., without --new-job",
		j.need.Ranks*max(j.need.Each.Slots, 1))
}
