package tokens

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// rig is a node with one job, and a store that answers at once.
type rig struct {
	now     time.Duration
	self    record.Owner
	serial  uint64
	wake    time.Duration
	values  map[string][]byte
	granted []filch.JobID
	job     *rigJob
}

func (r *rig) Now() time.Duration       { return r.now }
func (r *rig) Self() record.Owner       { return r.self }
func (r *rig) Next() uint64             { r.serial++; return r.serial }
func (r *rig) Wake(at time.Duration)    { r.wake = at }
func (r *rig) Full() bool               { return false }
func (r *rig) Tell()                    {}
func (r *rig) Reserved(run filch.JobID) { r.granted = append(r.granted, run) }
func (r *rig) Order() iter.Seq[Job]     { return r.Jobs() }
func (r *rig) Jobs() iter.Seq[Job] {
	return func(yield func(Job) bool) { _ = r.job == nil || yield(r.job) }
}

func (r *rig) Merge(key string, kind record.RecordKind, delta []byte, then func(record.Answer)) {
	v, reply, err := record.Merges()[kind](r.values[key], delta)
	if err != nil {
		panic(err)
	}
	r.values[key] = v
	then(record.Answer{Value: reply})
}

type rigJob struct {
	spec    record.Spec
	set     *Set
	queue   queue.Ready
	running int32
	slots   int32
}

func (j *rigJob) ID() filch.JobID     { return 1 }
func (j *rigJob) Spec() *record.Spec  { return &j.spec }
func (j *rigJob) Tokens() *Set        { return j.set }
func (j *rigJob) Queue() *queue.Ready { return &j.queue }
func (j *rigJob) Running() int32      { return j.running }
func (j *rigJob) Wants() int32        { return 1 }
func (j *rigJob) Slots() int32        { return j.slots }
func (j *rigJob) Over() bool          { return false }
func (j *rigJob) Barred() bool        { return false }
func (j *rigJob) MayStart() bool      { return true }
func (j *rigJob) Sticks() bool        { return false }
func (j *rigJob) Forget()             {}

// TestTokensOfACappedJob: of a job with a cap, two nodes get the tokens that their waiting tasks
// can use, together no more than the cap, and a node gives back what it does not need.
func TestTokensOfACappedJob(t *testing.T) {
	for _, c := range []struct {
		cap, waiting, slots int32
		first, second       int32 // tokens of the nodes, which ask one after the other
	}{
		{4, 10, 8, 4, 0},
		{4, 10, 3, 3, 1},
		{4, 2, 8, 2, 2},
		{100, 10, 8, 8, 8},
	} {
		values := map[string][]byte{}
		var nodes []*rig
		var caps []*Caps
		for i, want := range []int32{c.first, c.second} {
			r := &rig{values: values, self: record.Owner{Node: filch.NodeName([]string{"n1", "n2"}[i]), Incarnation: 1}}
			r.job = &rigJob{spec: record.Spec{Cap: c.cap}, slots: c.slots}
			for k := range c.waiting {
				r.job.queue.Shared.Push(queue.Item{Index: k, Attempt: record.FirstAttempt})
			}
			k := New(r)
			r.job.set = k.Of(r.job)
			k.More(r.job, 1)
			if got := r.job.set.Held; got != want {
				t.Errorf("%+v: %s holds %d tokens, want %d", c, r.self.Node, got, want)
			}
			if has := k.More(r.job, 1); has != (want > 0) {
				t.Errorf("%+v: %s may start a task: %v", c, r.self.Node, has)
			}
			nodes, caps = append(nodes, r), append(caps, &k)
		}
		r := nodes[0]
		r.job.queue.Drop()
		caps[0].Linger(r.job)
		if caps[0].TickJob(r.job); r.job.set.Held != c.first {
			t.Errorf("%+v: tokens go back before %v", c, tokenLinger)
		}
		r.now = r.wake
		if caps[0].TickJob(r.job); r.job.set.Held != 0 {
			t.Errorf("%+v: n1 keeps %d tokens that it does not need", c, r.job.set.Held)
		}
		if rec, err := record.DecodeCap(values[record.KeyCap(1)]); err != nil || rec.Free() != c.cap-c.second {
			t.Errorf("%+v: %d tokens are free, %v; want %d", c, rec.Free(), err, c.cap-c.second)
		}
	}
}

// TestRunsGetTokensInOrder: runs get the tokens of a license in the order of asking, and a run that
// ends gives its tokens to the next.
func TestRunsGetTokensInOrder(t *testing.T) {
	r := &rig{values: map[string][]byte{}, self: record.Owner{Node: "n1", Incarnation: 1}}
	r.Merge(record.KeyLicense("seat"), record.RecordCap, record.CapOp{Limit: 5, Deed: record.CapLimit}.Encode(), func(record.Answer) {})
	k := New(r)
	step := func(want ...filch.JobID) {
		t.Helper()
		for range 8 {
			k.Grant()
			r.now += policy.TokenWaitMax
		}
		if !slices.Equal(r.granted, want) {
			t.Errorf("runs with tokens: %v, want %v", r.granted, want)
		}
		k.Check(map[*Set]int32{})
	}
	k.Reserve(7, "seat", 3)
	k.Reserve(8, "seat", 4)
	k.Reserve(9, "seat", 1)
	step(7)
	k.Unreserve(7, "seat")
	step(7, 8, 9)
	if used, _, ok := k.License("seat"); !ok || used != 5 {
		t.Errorf("%d tokens are used, %v; want 5", used, ok)
	}
	k.Unreserve(8, "seat")
	k.Unreserve(9, "seat")
	r.now = r.wake
	k.TickLicenses()
	if rec, err := record.DecodeCap(r.values[record.KeyLicense("seat")]); err != nil || rec.Free() != 5 {
		t.Errorf("%d tokens are free, %v; want 5", rec.Free(), err)
	}
}
