package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

const (
	keptDeltas = 64                     // a node further behind gets the whole roster
	tellEvery  = 500 * time.Millisecond // until a child has the roster
	wantEvery  = 250 * time.Millisecond
	treeWidth  = 16   // children of a node in the tree along which a roster spreads
	maxStash   = 4096 // messages waiting for the roster of their senders
)

// rosterSync is the state for sending and receiving chosen rosters.
type rosterSync struct {
	*input
	peers    *peers
	view     *view
	network  *network
	proposer *proposer
	// adopted applies a roster to all other parts; old is the roster before.
	adopted func(old *roster.Roster)

	deltas  []*roster.Delta // the last deltas, each beginning where the delta before ends
	whole   *roster.Delta   // from nothing, made when needed
	stash   []stashed
	wanted  bool   // a timer runs
	telling bool   // a timer runs
	turn    int    // index of the next peer to ask for the roster
	chose   uint64 // epoch of the last chosen proposal of this node
}

type stashed struct {
	from dht.Replica
	m    message.Message
}

// later stashes a message for which this node needs a newer roster, and returns false for
// messages without need of a roster.
func (b *rosterSync) later(p *peer, m message.Message) bool {
	switch m.(type) {
	case *message.Prepare, *message.Promise, *message.Accept, *message.Accepted, *message.Refuse, *message.Install, *message.Roster, *message.Count, *message.Counted:
		return false
	case *message.Want:
		return b.view.roster == nil
	case *message.Ack:
		if mutantNoFence && b.view.roster != nil {
			// Otherwise the newer roster, which the ack announces, would be a fence too.
			return false
		}
	case *message.Have:
		b.want(p)
		return true
	}
	if len(b.stash) < maxStash {
		b.stash = append(b.stash, stashed{p.replica(), m})
	}
	b.want(p)
	return true
}

// want asks for the roster: from the given peer, which has a newer roster, or from the
// live peers in turn.
func (b *rosterSync) want(p *peer) {
	if b.wanted {
		return
	}
	if p == nil {
		n := len(b.peers.order)
		for i := range n {
			x := b.peers.order[(b.turn+i)%n]
			if x.listed && x.state == dht.PeerUp {
				p, b.turn = x, b.turn+i+1
				break
			}
		}
	}
	if p == nil {
		return
	}
	b.wanted = true
	b.network.send(p, &message.Want{}, 0)
	b.in(wantEvery, func() {
		b.wanted = false
		if b.view.roster == nil || len(b.stash) > 0 {
			b.want(nil)
			// An acceptor without a roster from a peer asks the other acceptors.
			b.proposer.wake()
		}
	})
}

func (b *rosterSync) onWant(p *peer, m *message.Want) {
	p.have = m.Roster
	if b.view.roster != nil && b.view.roster.Epoch > m.Roster {
		b.tell(p)
		return
	}
	b.network.send(p, &message.Have{}, 0) // the asker may want to know whether this node lives
}

// tell sends a node the missing part of the roster.
func (b *rosterSync) tell(p *peer) {
	if b.view.roster == nil || p == b.peers.me {
		return
	}
	if i := slices.IndexFunc(b.deltas, func(d *roster.Delta) bool { return d.Base == p.have }); i >= 0 && p.have > 0 {
		b.network.send(p, &message.Roster{Deltas: slices.Clone(b.deltas[i:])}, 0)
		return
	}
	if b.whole == nil || b.whole.Epoch != b.view.roster.Epoch {
		b.whole = b.view.roster.Since(nil)
	}
	b.network.send(p, &message.Roster{Deltas: []*roster.Delta{b.whole}}, 0)
}

func (b *rosterSync) onRoster(p *peer, m *message.Roster) {
	r := b.view.roster
	for _, d := range m.Deltas {
		if r != nil && d.Epoch <= r.Epoch {
			continue
		}
		n := d.Applied(r)
		if n == nil {
			b.wanted = false
			b.want(p)
			break
		}
		r = n
	}
	if r != b.view.roster {
		b.adopt(r)
	}
	b.network.send(p, &message.Have{}, 0)
}

// adopt makes a chosen roster this node's roster. Configs change in no other way.
func (b *rosterSync) adopt(r *roster.Roster) {
	old := b.view.roster
	if old != nil && r.Epoch <= old.Epoch {
		if r.Epoch == old.Epoch && !r.Same(old) {
			panic(fmt.Sprintf("two rosters of epoch %d (I1)", r.Epoch))
		}
		return
	}
	b.view.roster = r
	if old == nil {
		b.deltas = nil
	} else {
		b.deltas = append(b.deltas, r.Since(old))
		if len(b.deltas) > keptDeltas {
			b.deltas = slices.Delete(b.deltas, 0, len(b.deltas)-keptDeltas)
		}
	}
	b.adopted(old)
}

// spread sends a new roster to this node's children in a tree. The root of the tree is
// the proposer of the roster.
func (b *rosterSync) spread() {
	b.children(func(p *peer) {
		if p.have < b.view.roster.Epoch {
			p.owed = true
			b.tell(p)
		}
	})
	b.keepTelling()
}

// children calls tell for this node's children, and for the children of children not
// known to live. The root is the proposer of the roster. A node that got another node's
// proposal chosen is a root too: the first proposer may not know of the success, or be
// gone.
func (b *rosterSync) children(tell func(p *peer)) {
	r := b.view.roster
	by := r.By
	if b.chose == r.Epoch {
		by = b.self.Name
	}
	if r.Member(b.self.Name) == nil {
		return
	}
	r.EachChild(by, b.self.Name, treeWidth, func(m roster.Member) bool {
		if m.Name == b.self.Name {
			return false
		}
		st := b.view.standing(m.Replica)
		if st != roster.Over {
			tell(b.peers.know(m.Name))
		}
		return st != roster.Fine
	})
	if by == b.self.Name {
		for _, p := range b.peers.order {
			if p.owed && p.listed && p.state < dht.PeerDead && !r.Has(p.replica()) {
				tell(p) // a node dropped by this roster receives this roster too
			}
		}
	}
}

// keepTelling repeats the roster to the peers still owed the roster.
func (b *rosterSync) keepTelling() {
	if b.telling || !slices.ContainsFunc(b.peers.order, b.owes) {
		return
	}
	b.telling = true
	b.in(tellEvery, func() {
		b.telling = false
		for _, p := range b.peers.order {
			if b.owes(p) {
				b.tell(p)
			}
		}
		b.keepTelling()
	})
}

func (b *rosterSync) owes(p *peer) bool {
	if p.owed && (p.have >= b.view.roster.Epoch || p.listed && p.state >= dht.PeerDead) {
		p.owed = false
	}
	return p.owed
}
