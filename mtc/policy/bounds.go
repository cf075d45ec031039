package policy

import (
	"time"

	"github.com/filch-hpc/filch/mtc/record"
)

// Bounds are the settings of a node for its thief and its bundles. The zero value of a field
// is the default.
type Bounds struct {
	StealWait time.Duration // of the doubling wait of a thief
	EndsWait  time.Duration // of the wait of an end for more ends of its block
	Ends      int           // ends in a change of a record
	Offer     int           // single tasks in an offer
}

// Defaults, which for bundles are the largest values, too. MATRIX v2 doubles the wait up to
// 50 s. A bundle has up to 10 tasks in CloudKon, and up to 100 in the code of MATRIX v1.
const (
	EndsWaitMax = 50 * time.Millisecond
	EndsMax     = record.BlockSize
	OfferMax    = 1024
)

// The largest waits that a setting may state. Ends that are not recorded are lost with the
// node.
const (
	StealWaitMost = time.Minute
	EndsWaitMost  = 10 * time.Second
)

// CoolTime is how long a node leaves a failed task to other nodes before its own next try.
const CoolTime = 500 * time.Millisecond

// BacklogMax bounds the ends that wait to be recorded: above the bound the node starts nothing.
const BacklogMax = 1 << 20

// LateMax bounds the tasks of a job that a node keeps aside, because they cannot finish there. At the
// bound the node starts no more tasks of the job: few other nodes know the durations of these tasks.
const LateMax = 4096

// LackMax bounds the tasks of a job that wait apart for a resource. At the bound the node starts no
// task behind them.
const LackMax = 4096

// Defaulted has the defaults in place of zero values.
func (b Bounds) Defaulted() Bounds {
	or := func(p, preset time.Duration) time.Duration {
		if p <= 0 {
			return preset
		}
		return p
	}
	if mutantUnset {
		b = Bounds{}
	}
	b.StealWait, b.EndsWait = or(b.StealWait, PollMax), or(b.EndsWait, EndsWaitMax)
	if b.Ends <= 0 || b.Ends > EndsMax {
		b.Ends = EndsMax
	}
	if b.Offer <= 0 || b.Offer > OfferMax {
		b.Offer = OfferMax
	}
	return b
}
