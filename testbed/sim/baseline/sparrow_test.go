package baseline

import (
	"testing"
	"time"
)

// TestSparrowBesideIdeal: within 12 % of an ideal scheduler with two probes a task, on 110
// machines (Sparrow, 2013, abstract); the default ratio is not as good.
func TestSparrowBesideIdeal(t *testing.T) {
	b, jobs := Stream(110, 4, 2000, 33, 100*time.Millisecond, 0.8, 1)
	ideal := Median(IdealResponses(&b, jobs)).Seconds()
	var medians []float64
	for _, s := range []Sparrow{Sparrow2, Sparrow105} {
		_, list, err := s.Stream(&b, jobs)
		if err != nil {
			t.Fatal(err)
		}
		medians = append(medians, Median(list).Seconds()/ideal)
	}
	t.Logf("figure: median response by the ideal one: %.3f with ratio 2, %.3f with ratio 1.05", medians[0], medians[1])
	if medians[0] > 1.12 || medians[1] < medians[0] {
		t.Errorf("median response by the ideal one: %.3f with ratio 2, %.3f with ratio 1.05; the paper has at most 1.12 with ratio 2", medians[0], medians[1])
	}
}

// TestSparrowHeterogeneous: the paper of CloudKon (III.E, figure 11) has 23 points less with 64
// instances than with one. The policy as printed loses less than one of these, and 8 points if tasks are
// bound to random nodes as they are sent: the rest is not the policy's.
func TestSparrowHeterogeneous(t *testing.T) {
	early := Sparrow{Ratio: 1, Early: true}
	lost := func(s Sparrow) float64 {
		at := func(n int) float64 { return held(t, SubSecond(n, 4, 500, 1), s.Run).Efficiency }
		return 100 * (at(1) - at(64))
	}
	late, bound := lost(Sparrow105), lost(early)
	t.Logf("figure: points lost from 1 to 64 instances: %.1f with late binding, %.1f without, the paper has 23", late, bound)
	if late > 2 || bound < 2*late || bound > 23 {
		t.Errorf("points lost from 1 to 64 instances: %.1f with late binding, %.1f without", late, bound)
	}
}

func TestProbesFallOnAllNodesAlike(t *testing.T) {
	b := Equal(8, 4, 16, 10*time.Millisecond)
	r := &sparrow{world: newWorld(&b, 0), s: Sparrow2, probes: make([][]*request, 8)}
	for i := range r.nodes {
		r.nodes[i].free = 0
	}
	q := &request{home: r.nodes[0], next: make([]int32, 20)}
	r.place(q)
	r.Run(time.Second)
	for i, list := range r.probes {
		if len(list) != 5 {
			t.Errorf("node %d has %d probes of 40 on 8 nodes, want 5", i, len(list))
		}
	}
}
