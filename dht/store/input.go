package store

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// input is the input that the Store handles now, with what every part needs: the
// identity of the node, the time, the timers and the list of actions.
type input struct {
	cfg   Config
	self  dht.Replica
	began time.Duration // time of the first input; 0: there was none yet
	now   time.Duration
	out   *Out
	dice  filch.Rand
	clock filch.Timeline[func()]
}

func newInput(cfg Config) *input {
	return &input{
		cfg: cfg, self: dht.Replica{Name: cfg.Self, Incarnation: cfg.Incarnation},
		dice: filch.Rand(filch.Mix(cfg.Seed ^ cfg.Self.Hash() ^ filch.Mix(cfg.Incarnation))),
	}
}

// in calls f later.
func (in *input) in(d time.Duration, f func()) { in.clock.Push(in.now+d, f) }

func (in *input) note(n Note) { in.out.Notes = append(in.out.Notes, n) }
