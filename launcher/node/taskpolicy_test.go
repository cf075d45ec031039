package node_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/tasks"
	"github.com/filch-hpc/filch/mtc/policy"
)

// policyOf is the kind of a node's policy.
func (w *net) policyOf(name filch.NodeName) policy.Kind {
	p, _, _ := w.nodes[name].node.TaskPolicy()
	return p.Kind
}

// setPolicy writes the policy at a node and waits until it is the instance's.
func (w *net) setPolicy(name filch.NodeName, p policy.Policy) (version dht.Version) {
	w.t.Helper()
	h, done := w.nodes[name], false
	h.input(func(out *launcher.Outbox) {
		h.node.WriteTaskPolicy(w.Now(), p, func(v dht.Version, err *filch.Error) {
			if err != nil {
				w.t.Errorf("the policy is refused: %v", err)
			}
			version, done = v, true
		}, out)
	})
	w.until("the policy to be written", 10*time.Second, func() bool { return done })
	return version
}

// A node that was not told of a policy reads it while it has tasks, keeps it
// when it is declared dead, and has it again when it is started again.
func TestPolicyReachesEveryNode(t *testing.T) {
	w := newNet(t, 3, 2)
	w.chores.lasts = sec
	w.run(5 * sec)
	w.setPolicy("n1", policy.Policy{Kind: policy.MDL})
	if got := w.policyOf("n2"); got != policy.MLB {
		t.Fatalf("n2 has %s and nobody told it", got)
	}
	id := w.bag("n2", 1, 200, nil)
	w.until("all to read it", tasks.PolicyLook+5*sec, func() bool {
		return w.policyOf("n1") == policy.MDL && w.policyOf("n2") == policy.MDL && w.policyOf("n3") == policy.MDL
	})
	w.split("n3")
	w.heal("n3")
	if got := w.policyOf("n3"); got != policy.MDL {
		t.Errorf("n3 has %s after it was declared dead", got)
	}
	w.tally(id, 5*time.Minute)
	w.crash("n2", true)
	w.declare("n2", filch.Dead)
	w.run(10 * sec)
	w.restart("n2")
	w.until("n2 to read it again", 30*sec, func() bool { return w.policyOf("n2") == policy.MDL })
}

// Of two that are written at the same time one stays, everywhere; an old word
// that comes late changes nothing.
func TestTheLastPolicyStays(t *testing.T) {
	w := newNet(t, 3, 2)
	w.run(5 * sec)
	old := w.setPolicy("n1", policy.Policy{Kind: policy.RLDS})
	newer := w.setPolicy("n2", policy.Policy{Kind: policy.FLDS})
	if !old.Less(newer) {
		t.Fatalf("the second has version %v, the first %v", newer, old)
	}
	h := w.nodes["n3"]
	h.input(func(out *launcher.Outbox) {
		h.node.TakeTaskPolicy(w.Now(), policy.Policy{Kind: policy.FLDS}, newer, out)
	})
	h.input(func(out *launcher.Outbox) { h.node.TakeTaskPolicy(w.Now(), policy.Policy{Kind: policy.RLDS}, old, out) })
	if got := w.policyOf("n3"); got != policy.FLDS {
		t.Errorf("n3 has %s, want flds", got)
	}
}
