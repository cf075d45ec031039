package record

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
)

// merged applies an operation to a job, twice as the store may, and returns the verdict.
func merged(t *testing.T, j *Job, p JobOp) (*Job, Verdict) {
	t.Helper()
	val, reply, err := mergeJob(j.Encode(), EncodeJobOp(p))
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := mergeJob(val, EncodeJobOp(p)); err != nil || string(again) != string(val) {
		t.Errorf("%+v twice is %x, once %x: %v", p, again, val, err)
	}
	v, after, err := DecodeJobReply(reply)
	if err != nil {
		t.Fatal(err)
	}
	return after, v
}

func TestOrders(t *testing.T) {
	cancel := func(list ...Pick) JobOp { return JobOp{Kind: JobOrder, Orders: Orders{Cancels: JoinPicks(list)}} }
	hold := func(on bool, serial uint32) JobOp {
		return JobOp{Kind: JobOrder, Orders: Orders{Held: on, By: "ann", Serial: serial}}
	}
	many := make([]Pick, MaxCancels+1)
	for i := range many {
		many[i] = Pick{int32(2 * i), 1}
	}
	for _, c := range []struct {
		name    string
		had     Orders
		op      JobOp
		verdict Verdict
		want    Orders
	}{
		{"first", Orders{}, cancel(Pick{5, 1}), VerdictDone, Orders{Serial: 1, Cancels: []Pick{{5, 1}}}},
		{"sorted, joined", Orders{}, cancel(Pick{9, 2}, Pick{5, 4}, Pick{7, 3}), VerdictDone, Orders{Serial: 1, Cancels: []Pick{{5, 6}}}},
		{"more", Orders{Serial: 1, Cancels: []Pick{{5, 1}}}, cancel(Pick{0, 2}, Pick{7, 1}), VerdictDone, Orders{Serial: 2, Cancels: []Pick{{0, 2}, {5, 1}, {7, 1}}}},
		{"again", Orders{Serial: 1, Cancels: []Pick{{5, 4}}}, cancel(Pick{6, 2}), VerdictDone, Orders{Serial: 1, Cancels: []Pick{{5, 4}}}},
		{"beyond the end", Orders{}, cancel(Pick{4999, 2}), VerdictInvalid, Orders{}},
		{"too many", Orders{}, cancel(many[:MaxCancels]...), VerdictDone, Orders{Serial: 1, Cancels: many[:MaxCancels]}},
		{"one too many", Orders{Serial: 1, Cancels: many[:MaxCancels]}, cancel(many[MaxCancels]), VerdictOther, Orders{Serial: 1, Cancels: many[:MaxCancels]}},
		{"hold", Orders{Serial: 4}, hold(true, 4), VerdictDone, Orders{Serial: 5, Held: true, By: "ann"}},
		{"hold of a held", Orders{Serial: 4, Held: true, By: "bob"}, hold(true, 4), VerdictDone, Orders{Serial: 4, Held: true, By: "bob"}},
		{"old hold", Orders{Serial: 6}, hold(true, 4), VerdictOther, Orders{Serial: 6}},
		{"release", Orders{Serial: 5, Held: true, By: "bob"}, hold(false, 5), VerdictDone, Orders{Serial: 6}},
	} {
		got, v := merged(t, &Job{Total: 5000, Orders: c.had}, c.op)
		if o := got.Orders; v != c.verdict || o.Serial != c.want.Serial || o.Held != c.want.Held || o.By != c.want.By || !slices.Equal(o.Cancels, c.want.Cancels) {
			t.Errorf("%s: %+v with verdict %v, want %+v with %v", c.name, o, v, c.want, c.verdict)
		}
	}
	for name, j := range map[string]*Job{
		"ended":     {Closed: true},
		"cancelled": {Total: 9, Closed: true, Void: filch.Cancelled},
	} {
		if _, v := merged(t, j, cancel(Pick{1, 1})); v != VerdictEnded {
			t.Errorf("a cancel in a job that has %s: %v", name, v)
		}
	}
	if _, v := merged(t, &Job{Total: 9, Graph: true}, cancel(Pick{1, 1})); v != VerdictDone {
		t.Errorf("a cancel in a workflow: %v", v)
	}
}

// TestReasons keeps with each task the reason of the cancel that named the task first.
func TestReasons(t *testing.T) {
	j := &Job{Total: 5000}
	for k, c := range []struct {
		why   string
		tasks []Pick
	}{{"one", []Pick{{5, 3}, {20, 1}}}, {"", []Pick{{8, 1}}}, {"two", []Pick{{4, 8}, {19, 3}}}} {
		var v Verdict
		if j, v = merged(t, j, JobOp{Kind: JobOrder, Orders: Orders{Cancels: c.tasks, Reason: c.why}}); v != VerdictDone || j.Serial != uint32(k+1) {
			t.Fatalf("order %d: %v, %+v", k, v, j.Orders)
		}
	}
	for i, want := range map[int32]string{3: "", 4: "two", 5: "one", 7: "one", 8: "", 9: "two", 11: "two", 12: "", 19: "two", 20: "one", 21: "two"} {
		if got := j.Why(i); got != want {
			t.Errorf("task %d was cancelled for %q, want %q", i, got, want)
		}
	}
	for k := range int32(2 * maxReasons) {
		j, _ = merged(t, j, JobOp{Kind: JobOrder, Orders: Orders{Cancels: []Pick{{100 + k, 1}}, Reason: "more"}})
	}
	if got := j.LastReason(); len(j.Reasons) != maxReasons || got != "more" || j.Why(5) != "" {
		t.Errorf("%d reasons, the last %q", len(j.Reasons), got)
	}
}

func TestOrdersWithin(t *testing.T) {
	o := Orders{Cancels: []Pick{{5, 3}, {10, 1}}}
	for i, want := range map[int32]bool{0: false, 4: false, 5: true, 7: true, 8: false, 9: false, 10: true, 11: false} {
		if got := o.Cancelled(i); got != want {
			t.Errorf("task %d is cancelled: %v", i, got)
		}
	}
	for _, c := range []struct {
		lo, hi int32
		want   []Pick
	}{{0, 5, nil}, {0, 6, []Pick{{5, 1}}}, {6, 11, []Pick{{6, 2}, {10, 1}}}, {8, 10, nil}, {0, 99, o.Cancels}} {
		if got := o.Within(c.lo, c.hi); !slices.Equal(got, c.want) {
			t.Errorf("%d to %d: %v, want %v", c.lo, c.hi, got, c.want)
		}
	}
}

// TestVoidSaysWhy keeps the reason of a cancel with the job.
func TestVoidSaysWhy(t *testing.T) {
	got, v := merged(t, &Job{Total: 3}, JobOp{Kind: JobVoidWhy, Void: filch.Cancelled, Orders: Orders{Reason: "wrong input"}})
	if v != VerdictDone || got.Void != filch.Cancelled || got.Reason != "wrong input" || got.Serial != 1 {
		t.Errorf("%v, %+v", v, got)
	}
}
