package origin

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// spareTerm is how long the room of a gang is kept between two starts of the task: longer than
// a node waits for the ranks on lost nodes. Meanwhile the core may give the task away, cancel
// it or hold its job.
const spareTerm = 12 * time.Second

// spare is room kept for the next attempt of a job: of a spare node, or of ranks that ended.
// Key is of the attempt that gathered the room.
type spare struct {
	key   slots.Key
	node  filch.NodeName
	lease filch.LeaseID
	ranks int32
}

// spares keeps room for the ranks of nodes that are lost. A job with spare nodes holds them
// while the job runs, and the room of ended ranks stays with the job. When a node was lost, the
// next attempt is launched in the kept room; the nodes left over stay spares. The end of the
// job gives all kept room back. A lender that does not hear that room is still wanted frees
// the room.
type spares struct {
	*joblist
	attempts *attempts
	between  []keptGang // of gangs whose task starts again
}

// keptGang is the room kept between two starts of a gang.
type keptGang struct {
	task  launcher.TaskID
	list  []spare
	until time.Duration
}

// hold keeps the spare nodes of a job that is launched.
func (s *spares) hold(t *local.Turn, j *job, shares []stealer.Share) {
	for _, share := range shares {
		x := spare{key: j.key(), node: share.Node, lease: share.Lease, ranks: share.Ranks}
		j.spares = append(j.spares, x)
		s.say(t, x)
	}
}

// say renews the hold of kept room.
func (s *spares) say(t *local.Turn, x spare) {
	r := launcher.Renewal{Job: x.key.Job, Attempt: x.key.Attempt, Index: -1, Lease: x.lease, Keep: x.ranks}
	t.Send(x.node, &launcher.Renew{Incarnation: s.Cfg.Incarnation, Leases: []launcher.Renewal{r}})
}

// give gives kept room back.
func (s *spares) give(t *local.Turn, x spare) {
	t.Send(x.node, &launcher.Release{Job: x.key.Job, Attempt: x.key.Attempt, Lease: x.lease})
}

// giveAll gives back all that is kept for a job, with the room of its ended ranks.
func (s *spares) giveAll(t *local.Turn, j *job) {
	s.retain(j)
	for _, x := range j.spares {
		s.give(t, x)
	}
	j.spares = nil
}

// retain counts the room of the ended ranks of an attempt as kept.
func (s *spares) retain(j *job) {
	if j.run == nil || !j.run.launch.Keep {
		return
	}
	for i := range j.run.participants {
		if p := &j.run.participants[i]; p.done && !p.lost {
			at := &j.run.launch.Nodes[i]
			j.spares = append(j.spares, spare{key: j.key(), node: at.Node, lease: at.Lease, ranks: launcher.CountRanks(at.Ranks)})
		}
	}
}

// relaunch launches the next attempt of a job in the room kept for the job, and reports
// whether the room suffices. Otherwise all kept room is given back.
func (s *spares) relaunch(t *local.Turn, j *job) bool {
	if len(j.spares) == 0 {
		return false
	}
	var offers []stealer.Offer
	for _, x := range j.spares {
		if s.Alive(x.node) {
			offers = append(offers, stealer.Offer{Node: x.node, Lease: x.lease, Ranks: x.ranks})
		}
	}
	chosen, ok := j.need.Choose(offers, s.Cfg.Name)
	if !ok {
		s.giveAll(t, j)
		return false
	}
	shares := j.need.Assign(chosen, s.Cfg.Name)
	j.spares = slices.DeleteFunc(j.spares, func(x spare) bool {
		return slices.ContainsFunc(shares, func(at stealer.Share) bool { return at.Node == x.node })
	})
	s.attempts.launch(t, j, shares, nil)
	return true
}

// fewer lowers the number of spare nodes of a job that waits to what the nodes allow: a job
// does not wait for a spare node that no longer exists.
func (s *spares) fewer(j *job) {
	if j.need.Spare > 0 {
		if k, ok := j.need.Spared(s.Members); ok {
			j.need.Spare = k
		}
	}
}

// onGrant handles the question of a lender about kept room, and reports whether the lease is
// of kept room.
func (s *spares) onGrant(t *local.Turn, from filch.NodeName, m *launcher.Grant) bool {
	is := func(x spare) bool { return x.node == from && x.lease == m.Lease }
	keep := func(list []spare) []spare {
		i := slices.IndexFunc(list, is)
		switch x := list[i]; {
		case m.Held >= x.ranks:
			s.say(t, x)
			return list
		case m.Held > 0:
			s.give(t, x)
		}
		return slices.Delete(list, i, i+1)
	}
	if j := s.jobs[m.Job]; j != nil {
		if slices.ContainsFunc(j.spares, is) {
			j.spares = keep(j.spares)
			return true
		}
		if j.run != nil && j.run.launch.Keep && j.run.uses(from, m.Lease) && m.Held > 0 && j.run.unsent == nil {
			s.say(t, spare{key: slots.Key{Job: m.Job, Attempt: m.Attempt}, node: from, lease: m.Lease, ranks: m.Held})
			return true
		}
	}
	for i := range s.between {
		if b := &s.between[i]; slices.ContainsFunc(b.list, is) {
			b.list = keep(b.list)
			return true
		}
	}
	return false
}

// onGone drops kept room on a node that died, or whose launcher is another.
func (s *spares) onGone(p local.Peer) {
	gone := func(x spare) bool {
		return x.node == p.Name && (p.Standing >= filch.Dead || p.Incarnation > x.lease.Incarnation)
	}
	for _, j := range s.jobs { // in any order: nothing comes out
		j.spares = slices.DeleteFunc(j.spares, gone)
	}
	for i := range s.between {
		s.between[i].list = slices.DeleteFunc(s.between[i].list, gone)
	}
}

// leave takes in that the run of a gang ended. After the loss of a node the room waits for the
// next start of the task, else the room is given back.
func (s *spares) leave(t *local.Turn, j *job, again bool) {
	if !again {
		s.giveAll(t, j)
		return
	}
	if s.retain(j); len(j.spares) > 0 {
		s.between = append(s.between, keptGang{task: j.req.Of, list: j.spares, until: t.Now + spareTerm})
	}
}

// enter gives the run of a gang the room of the task's earlier start.
func (s *spares) enter(j *job) {
	if i := slices.IndexFunc(s.between, func(b keptGang) bool { return b.task == j.req.Of }); i >= 0 {
		j.spares = s.between[i].list
		s.between = slices.Delete(s.between, i, i+1)
	}
}

// at is when tick is due.
func (s *spares) at() time.Duration {
	at := filch.Never
	for i := range s.between {
		at = min(at, s.between[i].until)
	}
	return at
}

// tick gives back the room of gangs that did not start again.
func (s *spares) tick(t *local.Turn) {
	for len(s.between) > 0 && s.between[0].until <= t.Now {
		for _, x := range s.between[0].list {
			s.give(t, x)
		}
		s.between = slices.Delete(s.between, 0, 1)
	}
}

// spareText says which spare nodes a run has of those asked for.
func (j *job) spareText() string {
	switch names := j.spareNodes(); {
	case j.req.Shape.Spare == 0:
		return ""
	case len(names) == 0:
		return "; no spare node is left of " + filch.Plural(j.req.Shape.Spare, "node") + " asked for"
	default:
		return "; holds the spare " + filch.Agree(len(names), "node ", "nodes ") + launcher.ListNames(names)
	}
}

// spareNodes names the nodes that are held as spares while a job runs.
func (j *job) spareNodes() (names []filch.NodeName) {
	for _, x := range j.spares {
		names = append(names, x.node)
	}
	return names
}
