package node

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// self is the state shared by all parts of a node: its name and incarnation, its ledger,
// the list of members, and whether the node lends. Parts change the list of members only
// through [Node.Peer]. After dead is set the ledger lends nothing until [Node.Reborn].
type self struct {
	cfg     Config
	ledger  *slots.Ledger
	members *stealer.Members
	dice    filch.Rand
	mailbox mailbox
	drain   *launcher.Drain // nil: the node takes work
	// The others declared this node dead, and [Node.Reborn] has not come yet.
	dead  bool
	began time.Duration // when the launcher began, if there was a launcher before
	// The latest time at which the node starts to lend although keepers of an earlier
	// launcher may still be adopted; Never: the node lends already.
	opens time.Duration
}

func newSelf(cfg Config) *self {
	s := &self{
		cfg: cfg, ledger: slots.New(cfg.Capacity, cfg.Incarnation), members: cfg.Members, dice: filch.Rand(cfg.Seed),
		mailbox: mailbox{name: cfg.Name}, drain: cfg.Drain, opens: filch.Never,
	}
	if s.members == nil {
		s.members = stealer.NewMembers()
	}
	s.members.Set(Peer{Name: cfg.Name, Incarnation: cfg.Incarnation, Total: cfg.Capacity.Total(), Group: cfg.Group})
	s.ledger.Drain(0, s.drain != nil)
	return s
}
