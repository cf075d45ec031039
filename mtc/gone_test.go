package mtc

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// tell has all others hear how a node stands.
func (r *rig) tell(i int, m filch.Member) {
	d := r.nodes[i]
	m.Name, m.Incarnation = d.cfg.Self, d.cfg.Incarnation
	for _, o := range r.nodes {
		if o != d && !o.down {
			o.SetMember(r.now, m, &o.out)
			r.act(o)
		}
	}
}

// startedBy counts the tasks of job 1 whose committed start is a node's and that
// have no end.
func (r *rig) startedBy(name filch.NodeName, total int32) (n int32) {
	for i := range total {
		if k := r.task(1, i); k.Started && k.State == 0 && k.Owner.Node == name {
			n++
		}
	}
	return n
}

// What a node that is gone owned goes on elsewhere at once. What runs once and
// was started waits until the node is dead.
func TestGoneNodesTasksMove(t *testing.T) {
	const total = 400
	for _, once := range []bool{false, true} {
		for victim := range 3 {
			t.Run(fmt.Sprintf("once-%v/node-%d", once, victim), func(t *testing.T) {
				r := newRig(t, 4, 2, policy.Policy{})
				r.length = slow(20 * time.Millisecond)
				r.submit(0, submit.Job{Job: 1, Total: total, Spec: record.Spec{Once: once}})
				r.idle(500 * time.Millisecond)
				d := r.nodes[victim]
				d.down, d.running, d.mail = true, nil, nil
				r.tell(victim, filch.Member{Standing: filch.Gone})
				// Less than 8 s of work, for six slots.
				r.idle(3 * time.Second)
				j := r.job(1)
				began := r.startedBy(d.cfg.Self, total)
				if got := j.Tally(); got.Lost > 0 || got.OK+began != total || !once && began > 0 {
					t.Fatalf("after 3 s: tally %+v, and %d tasks that were started; want %d ends in all, none lost", got, began, total)
				}
				r.tell(victim, filch.Member{Standing: filch.Dead})
				got := r.run(1, time.Minute).Tally()
				if got.OK+got.Lost != total || got.Lost != began {
					t.Errorf("tally %+v, want %d lost, the others ok", got, began)
				}
				r.checkAttempts(1, total)
			})
		}
	}
}

// A node that is called gone and lives goes on. Nothing of it is lost, what runs
// once is started once, and it works for the job again when it was refuted.
func TestGoneNodeLives(t *testing.T) {
	const total = 400
	for _, once := range []bool{false, true} {
		for victim := range 3 {
			t.Run(fmt.Sprintf("once-%v/node-%d", once, victim), func(t *testing.T) {
				r := newRig(t, 4, 2, policy.Policy{})
				r.away = r.nodes[victim]
				r.length = slow(50 * time.Millisecond)
				r.submit(0, submit.Job{Job: 1, Total: total, Spec: record.Spec{Once: once, CrashLimit: 1}})
				r.idle(300 * time.Millisecond)
				r.tell(victim, filch.Member{Standing: filch.Gone})
				r.idle(500 * time.Millisecond)
				before := r.byNode[nodeName(victim)]
				r.tell(victim, filch.Member{})
				got := r.run(1, time.Minute).Tally()
				if once && got.OK != total {
					t.Errorf("tally %+v, want %d ok", got, total)
				}
				if n := r.byNode[nodeName(victim)]; n == before {
					t.Errorf("the node that was called gone started %d tasks until then, and none later", before)
				}
				for i := range total {
					if n := r.onNode[fmt.Sprintf("1.%d", i)]; once && n != 1 {
						t.Errorf("task %d runs once and was started %d times", i, n)
					}
				}
				r.checkAttempts(1, total)
			})
		}
	}
}

// A submission that goes on is not cancelled because its node is called gone.
func TestGoneLeaderKeepsItsSubmission(t *testing.T) {
	r := newRig(t, 4, 2, policy.Policy{})
	r.away = r.nodes[0]
	r.submit(0, submit.Job{Job: 1, Total: 8, Open: true, Partial: true})
	r.idle(100 * time.Millisecond)
	r.tell(0, filch.Member{Standing: filch.Gone})
	r.idle(3 * time.Second)
	if j := r.job(1); j.Void != 0 || j.Leader.Node != nodeName(0) {
		t.Errorf("job 1 is void with %v, its leader %v; want neither changed", j.Void, j.Leader)
	}
}
