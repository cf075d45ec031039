package mtc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// pool sets the limit of a resource that the nodes share.
func (r *rig) pool(name string, limit int32) {
	op := record.CapOp{Limit: limit, Deed: record.CapLimit}
	v, _, err := record.Merges()[record.RecordCap](r.records[record.KeyPool(name)], op.Encode())
	if err != nil {
		r.t.Fatal(err)
	}
	r.records[record.KeyPool(name)] = v
}

// TestPoolIsNeverExceeded runs several bags that take a resource of the instance, on nodes
// with more slots than the resource allows.
func TestPoolIsNeverExceeded(t *testing.T) {
	for _, each := range []int32{1, 2, 3} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			const limit = 7
			r := newRig(t, 5, 4, policy.Policy{})
			r.pool("license", limit)
			var ends []time.Duration // of the tasks with licenses
			most := int32(0)
			r.length = func(s Start) time.Duration {
				if s.Spec.Pool.Name != "" {
					ends = append(slices.DeleteFunc(ends, func(at time.Duration) bool { return at <= r.now }), r.now+time.Second)
					most = max(most, int32(len(ends))*each)
				}
				return time.Second
			}
			for id := filch.JobID(1); id <= 3; id++ {
				r.submit(int(id), Submission{Job: id, Total: 40, Spec: record.Spec{Pool: record.Pool{Name: "license", Each: each}}})
			}
			r.submit(0, Submission{Job: 4, Total: 40})
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
	r.pool("license", 2)
	r.length = slow(time.Hour)
	r.submit(2, Submission{Job: 1, Total: 2, Spec: record.Spec{Pool: record.Pool{Name: "license", Each: 1}}})
	r.idle(time.Second)
	if len(r.started) != 2 {
		t.Fatalf("%d tasks started, want 2", len(r.started))
	}
	r.length = slow(time.Second)
	r.submit(0, Submission{Job: 2, Total: 3, Spec: record.Spec{Pool: record.Pool{Name: "license", Each: 1}}})
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

// TestPoolAfterAPause: nodes that gave their tokens back take part again in a later bag.
func TestPoolAfterAPause(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{})
	r.pool("license", 3)
	r.length = slow(time.Second)
	r.submit(0, Submission{Job: 1, Total: 12, Spec: record.Spec{Pool: record.Pool{Name: "license", Each: 1}}})
	r.run(1, time.Minute)
	r.idle(time.Minute)
	began := r.now
	r.submit(0, Submission{Job: 2, Total: 12, Spec: record.Spec{Pool: record.Pool{Name: "license", Each: 1}}})
	r.run(2, time.Minute)
	if took := r.now - began; took > 5500*time.Millisecond {
		t.Errorf("took %v, want about 4s", took)
	}
}

// TestPoolGrows: a person raises the limit while tasks wait, and a resource that nobody
// has defined lets nothing start.
func TestPoolGrows(t *testing.T) {
	r := newRig(t, 2, 2, policy.Policy{})
	r.submit(0, Submission{Job: 1, Total: 4, Spec: record.Spec{Pool: record.Pool{Name: "seat", Each: 1}}})
	r.submit(0, Submission{Job: 2, Total: 4})
	if j := r.run(2, time.Minute); j.Tally().OK != 4 {
		t.Fatalf("the bag behind: %+v", j.Tally())
	}
	r.idle(10 * time.Second)
	if len(r.started) != 4 {
		t.Fatalf("%d tasks started, want 4", len(r.started))
	}
	r.pool("seat", 1)
	if j := r.run(1, 10*time.Second); j.Tally().OK != 4 {
		t.Errorf("%+v", j.Tally())
	}
}

// TestPoolServesRuns: runs get their part of a resource before the tasks of their node, and
// in the order of asking.
func TestPoolServesRuns(t *testing.T) {
	r := newRig(t, 2, 4, policy.Policy{})
	r.pool("license", 4)
	r.length = slow(time.Second)
	r.submit(0, Submission{Job: 1, Total: 40, Spec: record.Spec{Pool: record.Pool{Name: "license", Each: 1}}})
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
		r.pool("license", 3)
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
		c, err := record.DecodeCap(r.records[record.KeyPool("license")])
		if err != nil || c.Free() != 1 || !slices.Equal(r.reserved, []filch.JobID{7, 8}) {
			t.Errorf("pause %v: %v have their part, %+v, %v; want 7 and 8, and 1 license free", pause, r.reserved, c, err)
		}
	}
}

// TestPoolShrinks: a person lowers the limit, to 0 at last, while tasks use the resource.
func TestPoolShrinks(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{})
	r.pool("license", 6)
	r.length = slow(300 * time.Millisecond)
	r.submit(0, Submission{Job: 1, Total: 2000, Spec: record.Spec{Pool: record.Pool{Name: "license", Each: 1}}})
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
		r.pool("license", c.limit)
		if n := rate(); n < c.least || n > c.most {
			t.Errorf("%d tasks of 300ms started in 3s under a limit of %d, want %d to %d", n, c.limit, c.least, c.most)
		}
	}
}
