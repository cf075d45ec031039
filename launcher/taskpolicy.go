package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/mtc"
)

// How tasks are placed is the same on all nodes of an instance, and a record of
// it. Who changes it writes the record and tells the other nodes; one that comes
// later, or was not reached, reads it.

// PolicyKey is the key of the policy, as mtc.Policy writes it.
const PolicyKey dht.Key = "policy"

// PolicyLook is how often a node that has to do with tasks reads the record.
const PolicyLook = 10 * time.Second

// Limits of reading and writing the record.
const (
	policyAgain = time.Second // until it is tried again to read it
	policyTries = 8           // writes against others who write at the same time
)

// ruling is what the node knows of that record.
type ruling struct {
	at      time.Duration // of the next look; Never: when there are tasks again
	asking  bool
	version dht.Version
}

// TaskPolicy is the policy of this node, its LocalTime as adapted, and what is
// in the queues.
func (n *Node) TaskPolicy() (mtc.Policy, mtc.Queues) {
	return n.work.core.Policy(), n.work.core.Queues()
}

// WriteTaskPolicy makes p the policy of the instance; then is called with the
// version that tells the others that it is newer than theirs.
func (n *Node) WriteTaskPolicy(now time.Duration, p mtc.Policy, then func(dht.Version, *filch.Error), out *Outbox) {
	n.swapPolicy(now, p, n.work.ruling.version, policyTries, then)
	n.settle(now, out)
}

func (n *Node) swapPolicy(now time.Duration, p mtc.Policy, expect dht.Version, tries int, then func(dht.Version, *filch.Error)) {
	op := dht.Op{Code: dht.OpSwap, Key: PolicyKey, Kind: dht.KindRegister, Value: []byte(p.String()), Expect: expect}
	n.ask(now, []dht.Op{op}, StoreWait, func(now time.Duration, rs []dht.Result, _ *Outbox) {
		r := &rs[0]
		switch {
		case r.Outcome == dht.Done:
			n.rule(now, p, r.Version)
			then(r.Version, nil)
		case (r.Outcome == dht.Mismatch || r.Outcome == dht.Absent) && tries > 1:
			n.swapPolicy(now, p, r.Version, tries-1, then)
		default:
			then(dht.Version{}, filch.Errorf(filch.Unavailable, "cannot write the scheduling policy: %s", r.Outcome).
				WithHint("%s; filch doctor says more", n.storeTrouble()))
		}
	})
}

// TakeTaskPolicy takes in the policy of the instance, unless a newer one is
// known.
func (n *Node) TakeTaskPolicy(now time.Duration, p mtc.Policy, v dht.Version, out *Outbox) {
	n.rule(now, p, v)
	n.settle(now, out)
}

func (n *Node) rule(now time.Duration, p mtc.Policy, v dht.Version) {
	if !n.work.ruling.version.Less(v) {
		return
	}
	n.work.ruling.version = v
	n.cfg.Tasks.Policy = p // of this node's next life too
	n.tasks(now).SetPolicy(now, p, &n.work.out)
}

// mindPolicy has the record read while the node has to do with tasks.
func (n *Node) mindPolicy(now time.Duration) {
	if r := &n.work.ruling; r.at == filch.Never && !r.asking && !n.work.core.Idle() {
		r.at = now + PolicyLook
	}
}

// lookPolicy reads the record: once at first, then as long as there are tasks.
func (n *Node) lookPolicy(now time.Duration) {
	r := &n.work.ruling
	r.at = filch.Never
	if r.asking {
		return
	}
	r.asking = true
	op := dht.Op{Code: dht.OpLookup, Key: PolicyKey, Consistent: true}
	n.ask(now, []dht.Op{op}, StoreWait, func(now time.Duration, rs []dht.Result, out *Outbox) {
		r.asking = false
		switch rs[0].Outcome {
		case dht.Absent:
		case dht.Done:
			p, err := mtc.ReadPolicy(string(rs[0].Value))
			if err != nil {
				note(out, noteWarn, 0, n.cfg.Name, "the record of the scheduling policy makes no sense: %v", err)
				return
			}
			n.rule(now, p, rs[0].Version)
		default:
			r.at = now + policyAgain
		}
	})
}
