package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// barRun runs a bag, or a workflow of three stages, on eight nodes of two slots; slow: one of the
// nodes takes ten times as long. Tasks take between half of a second and one and a half. It
// returns the time, and the part of the slot time that copies took.
func barRun(t *testing.T, graph, slow bool) (took time.Duration, copies float64) {
	const nodes, slots, total = 8, 2, 480
	r := newRig(t, nodes, slots, policy.Policy{})
	spent := time.Duration(0)
	r.length = func(s Start) time.Duration {
		d := 500*time.Millisecond + time.Duration(s.Index*7919%1000)*time.Millisecond
		if slow && r.on == "n4" {
			d *= 10
		}
		if s.Copy {
			spent += d
		}
		return d
	}
	job := submit.Job{Job: 1, Total: total, Spec: record.Spec{Replicas: 1}}
	if graph {
		for i := range int32(total) {
			n := record.GraphNode{Kind: "stage" + string(rune('a'+i*3/total))}
			if stage := i * 3 / total; stage > 0 {
				n.Parents = []int32{stage*total/3 - 1, stage*total/3 - 2, i - total/3}
			}
			job.Nodes = append(job.Nodes, n)
		}
	}
	r.submit(0, job)
	if n := r.run(1, time.Hour).Tally(); n.OK != total {
		t.Errorf("graph %v, slow %v: %+v, want %d ok", graph, slow, n, total)
	}
	return r.now, float64(spent) / float64(nodes*slots*r.now)
}

// TestSlowNodeCostsLittle: with one of eight nodes at a tenth of the speed of the others, a job
// with copies takes at most 1.3 times as long as without a slow node. Where no node is slow, copies
// take at most a hundredth of the slot time.
func TestSlowNodeCostsLittle(t *testing.T) {
	for _, graph := range []bool{false, true} {
		best, wasted := barRun(t, graph, false)
		took, copies := barRun(t, graph, true)
		t.Logf("figure: graph %v: %v, with a slow node %v: %.2f; copies take %.4f of the slot time, without a slow node %.4f",
			graph, best, took, float64(took)/float64(best), copies, wasted)
		if float64(took) > 1.3*float64(best) {
			t.Errorf("graph %v: %v with a slow node, %v without", graph, took, best)
		}
		if wasted > 0.01 {
			t.Errorf("graph %v: copies take %.4f of the slot time where no node is slow", graph, wasted)
		}
	}
}
