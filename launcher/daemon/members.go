package daemon

import (
	"slices"
	"strings"
	"sync"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/stealer"
)

// Member is what the overlay knows of a node.
type Member struct {
	launcher.Peer
	Addrs []string
	Index int32 // decides whose job an id is; -1 unknown
	Build string
}

// members is the list of nodes, for queries; the brain has its own.
type members struct {
	d *Daemon

	mu     sync.Mutex // guards what follows
	byName map[filch.NodeName]Member
}

func newMembers(d *Daemon) *members {
	return &members{d: d, byName: map[filch.NodeName]Member{}}
}

// begin makes the node a member of its own list.
func (ms *members) begin(t *turn) {
	cfg := &ms.d.cfg
	own := Member{
		Peer:  launcher.Peer{Name: ms.d.self, Incarnation: cfg.Node.Incarnation, Standing: stealer.Up, Total: cfg.Node.Capacity.Total()},
		Index: cfg.Node.IDs.Index, Build: cfg.Build,
	}
	if cfg.Addr != "" {
		own.Addrs = []string{cfg.Addr}
	}
	ms.set(own)
	t.node.Peer(t.now, own.Peer, t.out)
}

// Member takes news of a node from the overlay.
func (d *Daemon) Member(m Member) {
	d.members.set(m)
	d.watch.Log().Info("member", "peer", string(m.Name), "state", m.Standing.String(), "incarnation", m.Incarnation)
	d.post(func(t *turn) {
		t.node.Peer(t.now, m.Peer, t.out)
		if m.Standing >= stealer.Dead {
			d.routes.lost(m.Name)
		}
	})
}

func (ms *members) set(m Member) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.byName[m.Name] = m
}

func (ms *members) find(n filch.NodeName) (Member, bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m, ok := ms.byName[n]
	return m, ok
}

// list is all members ever seen, by name.
func (ms *members) list() []Member {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	all := make([]Member, 0, len(ms.byName))
	for _, m := range ms.byName {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Member) int {
		if c := place.NaturalOrder(string(a.Name), string(b.Name)); c != 0 {
			return c
		}
		return strings.Compare(string(a.Name), string(b.Name))
	})
	return all
}

// others are the live members but this one.
func (ms *members) others() []Member {
	return slices.DeleteFunc(ms.list(), func(m Member) bool {
		return m.Name == ms.d.self || m.Standing >= stealer.Dead
	})
}

// owner is the live member whose ids j is among.
func (ms *members) owner(j filch.JobID) (filch.NodeName, bool) {
	index := ms.d.cfg.Node.IDs.Owner(j)
	for _, m := range ms.list() {
		if m.Index == index && m.Standing < stealer.Dead {
			return m.Name, true
		}
	}
	return "", false
}
