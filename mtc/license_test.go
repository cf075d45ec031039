package mtc

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// license sets the limit of a resource that the nodes share.
func (r *rig) license(name string, limit int32) {
	op := record.CapOp{Limit: limit, Deed: record.CapLimit}
	v, _, err := record.Merges()[record.RecordCap](r.records[record.KeyLicense(name)], op.Encode())
	if err != nil {
		r.t.Fatal(err)
	}
	r.records[record.KeyLicense(name)] = v
}

// TestPoolIsNeverExceeded runs several bags that take a resource of the instance, on nodes
// with more slots than the resource allows.
func TestPoolIsNeverExceeded(t *testing.T) {
	for _, each := range []int32{1, 2, 3} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			const limit = 7
			r := newRig(t, 5, 4, policy.Policy{})
			r.license("license", limit)
			var ends []time.Duration // of the tasks with licenses
			most := int32(0)
			r.length = func(s Start) time.Duration {
				if s.Spec.License.Name != "" {
					ends = append(slices.DeleteFunc(ends, func(at time.Duration) bool { return at <= r.now }), r.now+time.Second)
					most = max(most, int32(len(ends))*each)
				}
				return time.Second
			}
			for id := filch.JobID(1); id <= 3; id++ {
				r.submit(int(id), submit.Job{Job: id, Total: 40, Spec: record.Spec{License: record.License{Name: "license", Each: each}}})
			}
			r.submit(0, submit.Job{Job: 4, Total: 40})
			began := r.now
			for id := filch.JobID(1); id <= 4; id++ {
				if j := r.run(id, 5*time.Minute); j.Tally().OK != 40 {
					t.Errorf("job %d: %+v", id, j.Tally())
				}
			}
			if most > limit || most < limit/each*each {
				t.Errorf("%d licenses were in use at a time, want %d", most, limit/each*each)
			}
			ideal := time.Duration(120/(limit/each)) * time.Second
			if took := r.now - began; took > ideal*13/10+2*time.Second {
				t.Errorf("took %v, want about %v", took, ideal)
			}
		})
	}
}

// TestPoolOfADeadNode: the tokens of a dead node are free again.
func TestPoolOfADeadNode(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{})
	r.license("license", 2)
	r.length = slow(time.Hour)
	r.submit(2, submit.Job{Job: 1, Total: 2, Spec: record.Spec{License: record.License{Name: "license", Each: 1}}})
	r.idle(time.Second)
	if len(r.started) != 2 {
		t.Fatalf("%d tasks started, want 2", len(r.started))
	}
	r.length = slow(time.Second)
	r.submit(0, submit.Job{Job: 2, Total: 3, Spec: record.Spec{License: record.License{Name: "license", Each: 1}}})
	r.idle(10 * time.Second)
	if len(r.started) != 2 {
		t.Fatalf("%d tasks started under two licenses", len(r.started))
	}
	r.kill(2, time.Second)
	for id := filch.JobID(1); id <= 2; id++ {
		if j := r.run(id, time.Minute); !j.Finished() {
			t.Errorf("job %d: %+v", id, j.Tally())
		}
	}
}

// TestPoolOfNodesCalledDead: nodes that others called dead by mistake, with the same
// incarnation, number their next requests after their entries in the record. Without that,
// the record ignores the nodes, and their tasks wait without an end.
func TestPoolOfNodesCalledDead(t *testing.T) {
	r := newRig(t, 2, 2, policy.Policy{})
	r.license("license", 3)
	spec := record.Spec{License: record.License{Name: "license", Each: 1}}
	r.submit(0, submit.Job{Job: 1, Total: 12, Spec: spec})
	r.run(1, time.Minute)
	r.idle(time.Minute) // the nodes give their tokens back
	key := record.KeyLicense("license")
	c, err := record.DecodeCap(r.records[key])
	if err != nil || len(c.Holders) != 2 || c.Free() != 3 {
		t.Fatalf("got %+v, %v, want the entries of 2 nodes and 3 free tokens", c, err)
	}
	for _, h := range c.Holders {
		op := record.CapOp{Limit: c.Limit, Owner: h.Owner, Deed: record.CapLose}
		if r.records[key], _, err = record.Merges()[record.RecordCap](r.records[key], op.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	r.submit(0, submit.Job{Job: 2, Total: 12, Spec: spec})
	if j := r.run(2, time.Minute); j.Tally().OK != 12 {
		t.Errorf("%+v", j.Tally())
	}
}

// TestPoolAfterAPause: nodes that gave their tokens back take part again in a later bag.
func TestPoolAfterAPause(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{})
	r.license("license", 3)
	r.length = slow(time.Second)
	r.submit(0, submit.Job{Job: 1, Total: 12, Spec: record.Spec{License: record.License{Name: "license", Each: 1}}})
	r.run(1, time.Minute)
	r.idle(time.Minute)
	began := r.now
	r.submit(0, submit.Job{Job: 2, Total: 12, Spec: record.Spec{License: record.License{Name: "license", Each: 1}}})
	r.run(2, time.Minute)
	if took := r.now - began; took > 5500*time.Millisecond {
		t.Errorf("took %v, want about 4s", took)
	}
}

// TestPoolGrows: a person raises the limit while tasks wait, and a resource that nobody
// has defined lets nothing start.
func TestPoolGrows(t *testing.T) {
	r := newRig(t, 2, 2, policy.Policy{})
	r.submit(0, submit.Job{Job: 1, Total: 4, Spec: record.Spec{License: record.License{Name: "seat", Each: 1}}})
	r.submit(0, submit.Job{Job: 2, Total: 4})
	if j := r.run(2, time.Minute); j.Tally().OK != 4 {
		t.Fatalf("the bag behind: %+v", j.Tally())
	}
	r.idle(10 * time.Second)
	if len(r.started) != 4 {
		t.Fatalf("%d tasks started, want 4", len(r.started))
	}
	r.license("seat", 1)
	if j := r.run(1, 10*time.Second); j.Tally().OK != 4 {
		t.Errorf("%+v", j.Tally())
	}
}

// TestPoolServesRuns: runs get their part of a resource before the tasks of their node, and
// in the order of asking.
func TestPoolServesRuns(t *testing.T) {
	r := newRig(t, 2, 4, policy.Policy{})
	r.license("license", 4)
	r.length = slow(time.Second)
	r.submit(0, submit.Job{Job: 1, Total: 40, Spec: record.Spec{License: record.License{Name: "license", Each: 1}}})
	r.idle(500 * time.Millisecond)
	d := r.nodes[0]
	for run := filch.JobID(7); run <= 8; run++ {
		d.Reserve(r.now, run, "license", 3, &d.out)
		r.act(d)
	}
	r.idle(5 * time.Second)
	if !slices.Equal(r.reserved, []filch.JobID{7}) {
		t.Fatalf("%v have their part, want 7", r.reserved)
	}
	d.Unreserve(r.now, 7, "license", &d.out)
	r.act(d)
	r.idle(5 * time.Second)
	if !slices.Equal(r.reserved, []filch.JobID{7, 8}) {
		t.Fatalf("%v have their part, want 7 and 8", r.reserved)
	}
	d.Unreserve(r.now, 8, "license", &d.out)
	r.act(d)
	if j := r.run(1, time.Minute); j.Tally().OK != 40 {
		t.Errorf("%+v", j.Tally())
	}
}

// TestPoolPartGoesBack: a node keeps no part of a resource that is too small for the run
// that waits there, whenever the runs come.
func TestPoolPartGoesBack(t *testing.T) {
	for ms := range 30 {
		pause := time.Duration(ms) * time.Millisecond
		r := newRig(t, 2, 4, policy.Policy{})
		r.license("license", 3)
		d := r.nodes[0]
		reserve := func(run filch.JobID, n int32) {
			d.Reserve(r.now, run, "license", n, &d.out)
			r.act(d)
			r.idle(pause)
		}
		reserve(7, 3)
		r.idle(time.Second)
		d.Unreserve(r.now, 7, "license", &d.out)
		r.act(d)
		r.idle(pause)
		reserve(8, 2)
		reserve(9, 2)
		r.idle(100 * time.Millisecond)
		c, err := record.DecodeCap(r.records[record.KeyLicense("license")])
		if err != nil || c.Free() != 1 || !slices.Equal(r.reserved, []filch.JobID{7, 8}) {
			t.Errorf("pause %v: %v have their part, %+v, %v; want 7 and 8, and 1 license free", pause, r.reserved, c, err)
		}
	}
}

// TestPoolShrinks: a person lowers the limit, to 0 at last, while tasks use the resource.
func TestPoolShrinks(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{})
	r.license("license", 6)
	r.length = slow(300 * time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 2000, Spec: record.Spec{License: record.License{Name: "license", Each: 1}}})
	r.idle(5 * time.Second)
	rate := func() int {
		r.idle(3 * time.Second) // until all nodes have looked
		before := len(r.started)
		r.idle(3 * time.Second)
		return len(r.started) - before
	}
	for _, c := range []struct {
		limit       int32
		least, most int
	}{{6, 50, 60}, {2, 18, 20}, {0, 0, 0}, {3, 26, 30}} {
		r.license("license", c.limit)
		if n := rate(); n < c.least || n > c.most {
			t.Errorf("%d tasks of 300ms started in 3s under a limit of %d, want %d to %d", n, c.limit, c.least, c.most)
		}
	}
}

// amounts is a bag's or a graph's spec whose need i takes amounts[i] licenses.
func amounts(amounts ...int32) record.Spec {
	s := record.Spec{Each: filch.Room{Slots: 1}, License: record.License{Name: "license", Each: amounts[0]}}
	for _, n := range amounts[1:] {
		s.Needs = append(s.Needs, record.Need{Each: s.Each, License: n})
	}
	return s
}

// TestPoolAmountsDiffer runs tasks that take different amounts of a resource, on nodes with
// more slots than the resource allows.
func TestPoolAmountsDiffer(t *testing.T) {
	for name, takes := range map[string][]int32{"some-take-none": {0, 3, 1, 0}, "all-take-some": {1, 3, 2, 4}} {
		for _, graph := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/graph=%v", name, graph), func(t *testing.T) {
				const limit = 4
				r := newRig(t, 3, 4, policy.Policy{})
				r.license("license", limit)
				type use struct {
					at time.Duration
					n  int32
				}
				var uses []use
				most, sum, wrong := int32(0), int32(0), 0
				r.length = func(s Start) time.Duration {
					if int32(s.Need) != s.Index%4 {
						wrong++
					}
					uses = append(slices.DeleteFunc(uses, func(u use) bool { return u.at <= r.now }), use{r.now + time.Second, takes[s.Need]})
					now := int32(0)
					for _, u := range uses {
						now += u.n
					}
					most, sum = max(most, now), sum+takes[s.Need]
					return time.Second
				}
				needs := make([]byte, 40)
				for i := range needs {
					needs[i] = byte(i % 4)
				}
				r.differ(1, 1, graph, amounts(takes...), needs)
				began := r.now
				if j := r.run(1, 5*time.Minute); j.Tally().OK != 40 || wrong > 0 {
					t.Errorf("%+v, %d starts with another need", j.Tally(), wrong)
				}
				if most > limit {
					t.Errorf("%d licenses were in use at a time, the limit is %d", most, limit)
				}
				ideal := time.Duration(sum) * time.Second / limit
				if took := r.now - began; took > ideal*18/10+2*time.Second {
					t.Errorf("took %v; if no license were idle, %v", took, ideal)
				}
			})
		}
	}
}

// TestPoolKeepsNoOthersWaiting: tasks that take nothing of a resource start while tasks before
// them wait for the resource; the waiting tasks start in their order.
func TestPoolKeepsNoOthersWaiting(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		r := newRig(t, nodes, 2, policy.Policy{})
		r.license("license", 1)
		r.length = slow(time.Second)
		needs := append(bytes.Repeat([]byte{1}, 10), bytes.Repeat([]byte{0}, 20)...)
		r.differ(0, 1, false, amounts(0, 1), needs)
		r.idle(11*time.Second + 500*time.Millisecond)
		var with []int32
		free := 0
		for _, s := range r.started {
			if s.Need == 1 {
				with = append(with, s.Index)
			} else {
				free++
			}
		}
		if least := min(20, 11*(2*nodes-1)-3); free < least {
			t.Errorf("%d nodes: %d of the tasks without a license started, want %d", nodes, free, least)
		}
		if len(with) < 9 || nodes == 1 && !slices.IsSorted(with) {
			t.Errorf("%d nodes: tasks %v with a license started, want 9 at least, in order on one node", nodes, with)
		}
		if j := r.run(1, time.Minute); j.Tally().OK != 30 {
			t.Errorf("%d nodes: %+v", nodes, j.Tally())
		}
	}
}

// TestPoolWaitersAreTasksLikeOthers: tasks that wait for a resource are cancelled, given away
// by a draining node, and taken over from a dead node.
func TestPoolWaitersAreTasksLikeOthers(t *testing.T) {
	begin := func(t *testing.T) *rig {
		r := newRig(t, 3, 2, policy.Policy{})
		r.length = slow(time.Second)
		r.license("license", 0)
		r.differ(1, 1, false, amounts(0, 1), slices.Concat(bytes.Repeat([]byte{1}, 8), bytes.Repeat([]byte{0}, 8)))
		r.idle(20 * time.Second)
		if len(r.started) != 8 {
			t.Fatalf("%d tasks started without a license, want 8", len(r.started))
		}
		return r
	}
	t.Run("cancel", func(t *testing.T) {
		r := begin(t)
		r.nodes[0].Cancel(r.now, 1, "", &r.nodes[0].out)
		r.act(r.nodes[0])
		if j := r.run(1, time.Minute); j.Tally().Cancelled != 8 || j.Tally().OK != 8 {
			t.Errorf("%+v, want 8 cancelled", j.Tally())
		}
	})
	t.Run("drain", func(t *testing.T) {
		r := begin(t)
		for _, d := range r.nodes[:2] {
			d.Drain(r.now, true, &d.out)
			r.act(d)
		}
		r.idle(5 * time.Second)
		r.license("license", 2)
		if j := r.run(1, time.Minute); j.Tally().OK != 16 || r.byNode["n3"] < 8 {
			t.Errorf("%+v, starts %v: want 16 ok, 8 of them on n3 at least", j.Tally(), r.byNode)
		}
	})
	t.Run("death", func(t *testing.T) {
		r := begin(t)
		r.kill(1, time.Second)
		r.license("license", 2)
		if j := r.run(1, time.Minute); j.Tally().OK != 16 {
			t.Errorf("%+v, want 16 ok", j.Tally())
		}
	})
}
