package local

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/slots"
)

// Self is the state shared by all parts of a node: its name and incarnation, its ledger,
// the list of members, and whether the node lends. Parts change the list of members only
// through Node.Peer. After dead is set the ledger lends nothing until Node.Reborn.
type Self struct {
	Cfg        Config
	Ledger     *slots.Ledger
	Members    *filch.Members
	dice       filch.Rand
	mailbox    mailbox
	DrainOrder *launcher.Drain // nil: the node takes work
	// The list of members is not whole: see Node.ListPartial.
	ListPartial bool
	// The instance has a pool of allocations: see Node.Grows.
	Grows bool
	// The others declared this node dead, and Node.Reborn has not come yet.
	Dead  bool
	Began time.Duration // when the launcher began, if there was a launcher before
	// The latest time at which the node starts to lend although keepers of an earlier
	// launcher may still be adopted; Never: the node lends already.
	Opens time.Duration
}

// New makes the state of a node without members other than itself.
func New(cfg Config) *Self {
	s := &Self{
		Cfg: cfg, Ledger: slots.New(cfg.Capacity, cfg.Incarnation), Members: cfg.Members, dice: filch.Rand(cfg.Seed),
		mailbox: mailbox{name: cfg.Name}, DrainOrder: cfg.Drain, Opens: filch.Never,
	}
	if s.Members == nil {
		s.Members = filch.NewMembers()
	}
	s.Members.Set(Peer{Name: cfg.Name, Incarnation: cfg.Incarnation, Total: cfg.Capacity.Total(), Group: cfg.Group, Labels: cfg.Labels, Role: cfg.Role})
	s.Ledger.Drain(0, s.DrainOrder != nil)
	return s
}

// Draw returns the next number of the generator of this node.
func (s *Self) Draw() uint64 { return s.dice.Uint64() }

// Alive reports whether a node is a member that was not declared dead.
func (s *Self) Alive(name filch.NodeName) bool {
	i := s.Members.Find(name)
	return i >= 0 && s.Members.At(i).Standing < filch.Dead
}
