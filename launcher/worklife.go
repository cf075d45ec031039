package launcher

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/stealer"
)

// begin makes the core of another life of this node.
func (w *work) begin(cfg *Config) {
	w.life++
	w.over = false
	w.core = mtc.New(mtc.Config{
		Self: cfg.Name, Incarnation: cfg.Incarnation, Seed: cfg.Seed, WallNS: cfg.Tasks.WallNS,
		Group: cfg.Group, Policy: cfg.Tasks.Policy, Victims: cfg.Tasks.Victims, Walltime: cfg.Walltime, Limit: taskLimit,
	})
	w.out, w.room, w.drains, w.late, w.naps = mtc.Out{}, mtc.Room{}, false, nil, nil
	w.serials = make(map[uint64]uint64)
	clear(w.watches)
}

// endTasks ends all tasks here, since this node leaves, or the others wrote it
// off. They are not reported as killed: whoever looks after them sees that their
// node is gone, and has them started again, or says that they are lost.
func (n *Node) endTasks(now time.Duration, out *Outbox) {
	w := n.work
	w.over = true
	w.life++ // what ends from now on is none of the core's
	for _, serial := range slices.Sorted(maps.Keys(w.runs)) {
		if mutantTasksStay {
			break
		}
		out.TaskStops = append(out.TaskStops, TaskStop{Serial: serial})
	}
	for _, nap := range w.naps {
		n.ledger.EndTask(now, w.runs[nap.run].loan, false)
		delete(w.runs, nap.run)
	}
	w.naps, w.late = nil, nil
}

// rebornWork begins anew after the node was declared dead: what it owned is
// others' now.
func (n *Node) rebornWork(now time.Duration, out *Outbox) {
	w := n.work
	for _, tag := range slices.Sorted(maps.Values(w.watches)) {
		n.unwatch(now, tag)
	}
	for _, id := range slices.Sorted(maps.Keys(w.unsaid)) {
		err := filch.Errorf(filch.Unavailable, "%s was declared dead before all of job %d was recorded", n.cfg.Name, id).
			WithHint("filch info %d says whether there is such a job", id)
		u := w.unsaid[id]
		if u.accept {
			for _, c := range w.follow[id] {
				n.refuseTasks(c, id, err, out)
			}
			delete(w.follow, id)
		}
		for _, a := range u.adding { // they go on waiting for its end, as who only waits
			n.refuseAdded(a.client, id, a.token, err, out)
		}
	}
	clear(w.unsaid)
	clear(w.partial) // who keeps them going now cancels them
	n.resumesEnd()
	w.ruling.at = now
	w.begin(&n.cfg)
	for i := range n.members.Len() {
		n.workMember(now, *n.members.At(int32(i)))
	}
	for _, id := range slices.Sorted(maps.Keys(w.follow)) {
		n.tasks(now).Follow(now, id, &w.out)
	}
}

// workMember tells the core of another node.
func (n *Node) workMember(now time.Duration, p Peer) {
	if p.Name == n.cfg.Name {
		return
	}
	n.tasks(now).SetMember(now, mtc.Member{
		Name: p.Name, Incarnation: p.Incarnation, Up: p.Standing == stealer.Up, Draining: p.Standing == stealer.Draining,
		Gone: p.Standing == stealer.Gone, Dead: p.Standing >= stealer.Dead, Group: p.Group,
	}, &n.work.out)
}

// tickWork does what is due.
func (n *Node) tickWork(now time.Duration, out *Outbox) {
	w := n.work
	w.burst = 0
	for len(w.naps) > 0 && w.naps[0].due <= now {
		n.taskEnded(now, heap.Pop(&w.naps).(nap).run, mtc.End{State: filch.OK}, false)
	}
	if w.core.Deadline() <= now {
		n.tasks(now).Tick(now, &w.out)
	}
	if w.earlyAt <= now {
		n.startEarly(now, out)
	}
	if w.ruling.at <= now {
		n.lookPolicy(now)
	}
	if w.mirror.at <= now {
		n.FlushMirror(out)
	}
}

func (n *Node) workDeadline() time.Duration {
	w := n.work
	d := min(w.core.Deadline(), w.earlyAt, w.ruling.at, w.mirror.at)
	if len(w.naps) > 0 {
		d = min(d, w.naps[0].due)
	}
	return d
}

// unfollow forgets a client that is gone.
func (n *Node) unfollow(now time.Duration, client ClientID) {
	w := n.work
	for id, all := range w.follow { // any order: each job by itself
		all = slices.DeleteFunc(all, func(c ClientID) bool { return c == client })
		if w.follow[id] = all; len(all) == 0 {
			delete(w.follow, id)
			w.core.Unfollow(id, &w.out)
		}
	}
	for id, u := range w.unsaid { // any order: each job by itself
		u.adding = slices.DeleteFunc(slices.Clone(u.adding), func(a adding) bool { return a.client == client })
		w.waitsFor(id, u)
	}
	for _, id := range slices.Sorted(maps.Keys(w.partial)) {
		if w.partial[id].client == client {
			w.partial[id] = partial{gone: true}
			n.cancelPartial(now, id)
		}
	}
	w.early = slices.DeleteFunc(w.early, func(e early) bool { return e.client == client })
}

// cancelPartial cancels a job whose client went before all of it was submitted;
// once more when it is accepted, as before that there is nothing to cancel.
func (n *Node) cancelPartial(now time.Duration, id filch.JobID) {
	w := n.work
	w.out.Notes = append(w.out.Notes, mtc.Note{
		Level: noteWarn, Job: id, Text: fmt.Sprintf("job %d is cancelled: its client went before all of it was submitted", id),
	})
	n.tasks(now).Cancel(now, id, &w.out)
}

// nap is a built-in task that sleeps.
type nap struct {
	due time.Duration
	run uint64 // its serial
}

type naps []nap

func (h naps) Len() int           { return len(h) }
func (h naps) Less(i, j int) bool { return h[i].due < h[j].due }
func (h naps) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *naps) Push(x any)        { *h = append(*h, x.(nap)) }
func (h *naps) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
