package tasks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
)

// The policy of placing tasks is the same on all nodes of an instance, and stored as a
// record. A node changing the policy writes the record and sends the policy to the other
// nodes. Nodes that join later, or were not reached, read the record.

// policyKey is the key of the policy; the value is in the format of policy.Policy.
const policyKey dht.Key = "policy"

// PolicyLook is how often a node with tasks reads the record.
const PolicyLook = 10 * time.Second

// Limits of reading and writing the record.
const (
	policyAgain = time.Second // pause before the next read
	policyTries = 8           // writes in competition with other writers
)

// policyState is this node's knowledge of the policy record.
type policyState struct {
	at      time.Duration // of the next look; Never: when there are tasks again
	asking  bool
	version dht.Version
}

// TaskPolicy returns the policy of this node, with LocalTime as adapted, the contents of the
// queues, and the policies that [policy.Auto] chose for the workflows that this node leads.
func (w *Tasks) TaskPolicy() (policy.Policy, queue.Counts, map[filch.JobID]policy.Choice) {
	chosen := make(map[filch.JobID]policy.Choice)
	for id := range w.core.Look().Live() {
		if c, ok := w.core.Look().Choice(id); ok {
			chosen[id] = c
		}
	}
	return w.core.Policy(), w.core.Queues(), chosen
}

// WriteTaskPolicy makes p the policy of the instance, and calls then with the version by
// which the other nodes recognize the newer policy.
func (w *Tasks) WriteTaskPolicy(now time.Duration, p policy.Policy, then func(dht.Version, *filch.Error), out *launcher.Outbox) {
	t := w.Turn(now, out)
	w.swapPolicy(t, p, w.policy.version, policyTries, then)
	t.End()
}

func (w *Tasks) swapPolicy(t *local.Turn, p policy.Policy, expect dht.Version, tries int, then func(dht.Version, *filch.Error)) {
	op := dht.Op{Code: dht.OpSwap, Key: policyKey, Kind: dht.KindRegister, Value: []byte(p.String()), Expect: expect}
	w.records.Ask(t, []dht.Op{op}, records.StoreWait, func(t *local.Turn, rs []dht.Result) {
		r := &rs[0]
		switch {
		case r.Outcome == dht.Done:
			w.setPolicy(t, p, r.Version)
			then(r.Version, nil)
		case (r.Outcome == dht.Mismatch || r.Outcome == dht.Absent) && tries > 1 && !mutantYields:
			w.swapPolicy(t, p, r.Version, tries-1, then)
		default:
			then(dht.Version{}, filch.Errorf(filch.Unavailable, "cannot write the scheduling policy: %s", r.Outcome).
				WithHint("%s; filch doctor says more", w.records.StoreTrouble()))
		}
	})
}

// TakeTaskPolicy adopts the policy of the instance, unless a newer policy is known.
func (w *Tasks) TakeTaskPolicy(now time.Duration, p policy.Policy, v dht.Version, out *launcher.Outbox) {
	t := w.Turn(now, out)
	w.setPolicy(t, p, v)
	t.End()
}

func (w *Tasks) setPolicy(t *local.Turn, p policy.Policy, v dht.Version) {
	if !w.policy.version.Less(v) && !mutantOldPolicy {
		return
	}
	if w.Cfg.Tasks.Policy != p {
		t.Event(events.Event{Kind: events.PolicyChanged, Reason: p.String()})
	}
	w.policy.version = v
	w.Cfg.Tasks.Policy = p // of this node's next life too
	w.ready(t).SetPolicy(t.Now, p, &w.out)
}

// scheduleRead schedules reads of the record while the node has tasks.
func (w *Tasks) scheduleRead(t *local.Turn) {
	if r := &w.policy; r.at == filch.Never && !r.asking && !w.core.Idle() && !mutantUnread {
		r.at = t.Now + PolicyLook
	}
}

// readPolicy reads the record: once at first, then as long as there are tasks.
func (w *Tasks) readPolicy(t *local.Turn) {
	r := &w.policy
	r.at = filch.Never
	if r.asking {
		return
	}
	r.asking = true
	op := dht.Op{Code: dht.OpLookup, Key: policyKey, Consistent: true}
	w.records.Ask(t, []dht.Op{op}, records.StoreWait, func(t *local.Turn, rs []dht.Result) {
		r.asking = false
		switch rs[0].Outcome {
		case dht.Absent:
		case dht.Done:
			p, err := policy.Read(string(rs[0].Value))
			if err != nil {
				t.Note(local.NoteWarn, 0, w.Cfg.Name, "the record of the scheduling policy makes no sense: %v", err)
				return
			}
			w.setPolicy(t, p, rs[0].Version)
		default:
			r.at = t.Now + policyAgain
		}
	})
}
