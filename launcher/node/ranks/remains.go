package ranks

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
)

// The terms of a wait.
const (
	// remainsMost bounds a wait: a node may be unable to answer for longer.
	remainsMost = JobTerm
	// remainsAsk is the time between two questions to a node with ranks, or without an answer.
	remainsAsk = 250 * time.Millisecond
	// deadRest is how long ranks of gangs may run on a node after the death of the node was
	// declared: a node is declared dead at least 4.25 s after its last contact (a beat less
	// than [members.DeadAfter]), keepers end their ranks 6.5 s after the death of their
	// launcher, and a launcher that is cut off [GangTerm] and [FailGrace] after its last
	// contact.
	deadRest = 2500 * time.Millisecond
)

// Remains are the waits of this node for ranks of gangs that must end before the task of the
// gang starts again, or counts as lost: ranks whose owner is gone, and ranks on lost nodes.
// This node asks the nodes that may have such ranks. A node that is asked ends these ranks,
// and says when none is left. A dead node counts as a node without ranks after deadRest. The
// number of waits is bounded by the gangs of this node and by the dead nodes.
type Remains struct {
	ranks  *Ranks
	list   []*wait
	deaths map[filch.NodeName]time.Duration // when this node learned of a death
}

// wait is a wait for ranks.
type wait struct {
	ask   launcher.RanksAsk
	nodes []filch.NodeName         // with the ranks; nil: any node
	left  map[filch.NodeName]int32 // ranks of the nodes that answered
	most  time.Duration            // the end of the wait, whatever the answers
	again time.Duration            // the next look
	seen  time.Duration            // the last look
	over  func(t *local.Turn)      // called once
}

// AwaitOwner waits until no node has ranks of the gangs of a dead owner; then over is called.
func (f *Remains) AwaitOwner(t *local.Turn, owner filch.NodeName, incarnation uint64, over func(t *local.Turn)) {
	f.begin(t, &wait{ask: launcher.RanksAsk{Owner: owner, Incarnation: incarnation}, over: over})
}

// AwaitRun waits until the nodes lost by the run of a gang of this node have no rank of the
// run; then over is called.
func (f *Remains) AwaitRun(t *local.Turn, id filch.JobID, last filch.Attempt, nodes []filch.NodeName, over func(t *local.Turn)) {
	f.begin(t, &wait{
		ask:   launcher.RanksAsk{Owner: f.ranks.Cfg.Name, Incarnation: f.ranks.Cfg.Incarnation, Run: id, Attempt: last},
		nodes: nodes, over: over,
	})
}

func (f *Remains) begin(t *local.Turn, x *wait) {
	f.list = slices.DeleteFunc(f.list, func(o *wait) bool { return o.ask == x.ask })
	x.left, x.most = make(map[filch.NodeName]int32), t.Now+remainsMost
	f.list = append(f.list, x)
	f.look(t, x)
}

// Tick does everything due in the waits.
func (f *Remains) Tick(t *local.Turn) {
	for _, x := range slices.Clone(f.list) {
		if x.again <= t.Now {
			f.look(t, x)
		}
	}
}

// at is when Tick is due.
func (f *Remains) at() time.Duration {
	at := filch.Never
	for _, x := range f.list {
		at = min(at, x.again)
	}
	return at
}

// look asks the nodes that may have ranks, and ends the wait if there is none.
func (f *Remains) look(t *local.Turn, x *wait) {
	x.seen, x.again = t.Now, x.most
	open := f.each(x, func(name filch.NodeName) {
		if f.ranks.Alive(name) {
			ask := x.ask
			t.Send(name, &ask)
			x.again = min(x.again, t.Now+remainsAsk)
		} else if at, known := f.deaths[name]; known && at+deadRest > t.Now {
			x.again = min(x.again, at+deadRest)
		}
	}, t.Now)
	if open && x.most > t.Now {
		return
	}
	f.list = slices.DeleteFunc(f.list, func(o *wait) bool { return o == x })
	x.over(t)
}

// each calls see with each node that may have ranks, and reports whether there may be such a
// node.
func (f *Remains) each(x *wait, see func(name filch.NodeName), now time.Duration) (open bool) {
	open = x.nodes == nil && f.ranks.ListPartial
	names := x.nodes
	if names == nil {
		for _, m := range f.ranks.Members.All() {
			names = append(names, m.Name)
		}
	}
	for _, name := range names {
		n, answered := x.left[name]
		switch m := f.ranks.Members.Get(name); {
		case answered && n == 0:
			continue
		case m != nil && m.Standing >= filch.Dead:
			if at, known := f.deaths[name]; !known || at+deadRest <= now {
				continue
			}
		}
		open = true
		see(name)
	}
	return open
}

// OnMember notes when a node died. This node may learn of a death long after the death.
func (f *Remains) OnMember(t *local.Turn, p local.Peer) {
	if p.Standing < filch.Dead {
		delete(f.deaths, p.Name)
	} else if _, known := f.deaths[p.Name]; !known {
		f.deaths[p.Name] = t.Now
	}
}

// OnAsk answers the question of another node, after ending the ranks in question.
func (f *Remains) OnAsk(t *local.Turn, from filch.NodeName, m *launcher.RanksAsk) {
	h := f.ranks
	if h.Dead || h.Opens != filch.Never || m.Run == 0 && !f.replaced(m.Owner, m.Incarnation) && !mutantNoneLeft {
		return // keepers may be adopted, or this node does not know yet that the owner is gone
	}
	if m.Run != 0 && from == m.Owner {
		for a := range m.Attempt { // a late launch of the run must start nothing
			k := slots.Key{Job: m.Run, Attempt: a + 1}
			if h.participants[k] == nil {
				h.Ledger.Release(t.Now, k, filch.LeaseID{}, math.MaxUint32)
				h.tombstones.add(k)
			}
		}
	}
	left := int32(0)
	for _, p := range h.sorted() {
		l := p.launch
		switch {
		case p.over() || l.Of.Job == 0 || mutantNoneLeft:
			continue
		case m.Run != 0 && (l.Ident.Job != m.Run || l.Origin != from):
			continue
		case m.Run == 0 && !f.replaced(l.Origin, l.Life):
			continue
		}
		left += max(launcher.CountRanks(l.Nodes[p.index].Ranks)-int32(len(p.ends)), 1)
		if p.level == 0 {
			h.stop(t, p, launcher.SigTerm, min(FailGrace, l.KillWait), "its origin "+string(l.Origin)+" gave the ranks up, or is gone")
		}
	}
	t.Send(from, &launcher.RanksLeft{Owner: m.Owner, Incarnation: m.Incarnation, Run: m.Run, Left: left})
}

// replaced reports whether the incarnation of a node is dead, or another is there since; as
// far as this node knows.
func (f *Remains) replaced(name filch.NodeName, incarnation uint64) bool {
	m := f.ranks.Members.Get(name)
	switch {
	case m == nil:
		return false
	case m.Incarnation > incarnation && incarnation != 0:
		return true
	}
	return m.Standing >= filch.Dead && (incarnation == 0 || m.Incarnation == incarnation)
}

// OnLeft takes in the answer of a node.
func (f *Remains) OnLeft(t *local.Turn, from filch.NodeName, m *launcher.RanksLeft) {
	for _, x := range slices.Clone(f.list) {
		if a := &x.ask; a.Owner == m.Owner && a.Incarnation == m.Incarnation && a.Run == m.Run {
			if n, answered := x.left[from]; answered && n == 0 {
				continue
			}
			if x.left[from] = m.Left; m.Left == 0 {
				f.look(t, x)
			}
		}
	}
}

// OwnerText says which nodes the wait for the ranks of a dead owner waits for; "" without such
// a wait.
func (f *Remains) OwnerText(owner filch.NodeName, incarnation uint64) string {
	return f.text(func(a *launcher.RanksAsk) bool {
		return a.Run == 0 && a.Owner == owner && a.Incarnation == incarnation
	})
}

// RunText is OwnerText for a run of this node.
func (f *Remains) RunText(id filch.JobID) string {
	return f.text(func(a *launcher.RanksAsk) bool { return a.Run == id })
}

func (f *Remains) text(is func(a *launcher.RanksAsk) bool) string {
	i := slices.IndexFunc(f.list, func(x *wait) bool { return is(&x.ask) })
	if i < 0 {
		return ""
	}
	x := f.list[i]
	var parts []string
	f.each(x, func(name filch.NodeName) {
		switch n, answered := x.left[name]; {
		case !f.ranks.Alive(name):
			parts = append(parts, string(name)+", which is dead, may still have ranks")
		case answered:
			parts = append(parts, fmt.Sprintf("%s ends %s", name, filch.Plural(n, "rank")))
		default:
			parts = append(parts, string(name)+" has not answered")
		}
	}, x.seen)
	if more := len(parts) - launcher.MaxBehind; more > 0 {
		parts = append(parts[:launcher.MaxBehind], fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}
