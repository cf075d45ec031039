package mtc

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// A record remembers the answers of so many merges only: one that is repeated after
// them is done twice, and its caller hears of the second time. What a node that died
// had goes on all the same.
func TestMergesDoneTwice(t *testing.T) {
	var parents [][]int32
	for i := range int32(60) {
		if i < 20 {
			parents = append(parents, nil)
		} else {
			parents = append(parents, []int32{i - 20})
		}
	}
	for _, graph := range []bool{false, true} {
		for victim := range 3 {
			t.Run(fmt.Sprintf("graph-%v/node-%d", graph, victim), func(t *testing.T) {
				r := newRig(t, 3, 2, policy.Policy{})
				r.length = slow(20 * time.Millisecond)
				r.store.twice = func(record.Proposal) bool { return true }
				s := submit.Job{Job: 1, Total: 60}
				if graph {
					s = submit.Job{Job: 1, Nodes: workflow(parents...)}
				}
				r.submit(1, s)
				r.idle(50 * time.Millisecond)
				r.kill(victim, time.Second)
				if got := r.run(1, time.Minute).Tally(); got.OK != 60 {
					t.Errorf("tally %+v, want 60 ok", got)
				}
				r.checkAttempts(1, 60)
			})
		}
	}
}
