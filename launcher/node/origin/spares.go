package origin

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// spares keeps room for the ranks of nodes that are lost. A job with spare nodes holds them
// while the job runs, and the room of ended ranks stays with the job. When a node was lost, the
// next attempt is launched in the kept room; the nodes left over stay spares. The end of the
// job gives all kept room back. A lender that does not hear that room is still wanted frees
// the room.
type spares struct {
	*joblist
	attempts *attempts
	between  local.Between
}

// hold keeps the spare nodes of a job that is launched.
func (s *spares) hold(t *local.Turn, j *job, shares []stealer.Share) {
	for _, at := range shares {
		x := local.KeptRoom{Key: j.key(), Node: at.Node, Lease: at.Lease, Ranks: at.Ranks}
		j.spares = append(j.spares, x)
		x.Say(t, s.Cfg.Incarnation)
	}
}

// giveAll gives back all that is kept for a job, with the room of its ended ranks.
func (s *spares) giveAll(t *local.Turn, j *job) {
	s.retain(j)
	j.spares.Give(t)
}

// retain counts the room of the ended ranks of an attempt as kept, but not on a node whose
// launcher is another since: the room is gone with the launcher that granted it.
func (s *spares) retain(j *job) {
	if r := j.run; r != nil && r.launch.Keep {
		j.spares.Retain(&r.launch, func(i int) bool { return r.participants[i].done && !r.participants[i].lost })
		for i := range r.launch.Nodes {
			if m := s.Members.Get(r.launch.Nodes[i].Node); m != nil {
				j.spares.OnGone(*m)
			}
		}
	}
}

// relaunch launches the next attempt of a job in the room kept for the job, and reports
// whether the room suffices. Otherwise all kept room is given back.
func (s *spares) relaunch(t *local.Turn, j *job) bool {
	if len(j.spares) == 0 {
		return false
	}
	shares, ok := j.spares.Place(&j.need, s.Self)
	if !ok {
		s.giveAll(t, j)
		return false
	}
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
	is := func(k *local.Kept) bool { return k.OnGrant(t, s.Cfg.Incarnation, from, m) }
	if j := s.jobs[m.Job]; j != nil {
		if is(&j.spares) {
			return true
		}
		if r := j.run; r != nil && r.launch.Keep && r.uses(from, m.Lease) && m.Held > 0 && r.unsent == nil {
			x := local.KeptRoom{Key: slots.Key{Job: m.Job, Attempt: m.Attempt}, Node: from, Lease: m.Lease, Ranks: m.Held}
			x.Say(t, s.Cfg.Incarnation)
			return true
		}
	}
	return s.between.Each(is)
}

// onGone drops kept room on a node that died, or whose launcher is another.
func (s *spares) onGone(p local.Peer) {
	for _, j := range s.jobs { // in any order: nothing comes out
		j.spares.OnGone(p)
	}
	s.between.Each(func(k *local.Kept) bool { k.OnGone(p); return false })
}

// leave takes in that the run of a gang ended. After the loss of a node the room waits for the
// next start of the task, else the room is given back.
func (s *spares) leave(t *local.Turn, j *job, again bool) {
	if !again {
		s.giveAll(t, j)
		return
	}
	s.retain(j)
	s.between.Leave(t, j.req.Of, j.spares)
}
