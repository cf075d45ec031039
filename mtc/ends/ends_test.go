package ends

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// rig is a node with a store that answers a merge when the test says so.
type rig struct {
	now     time.Duration
	serial  uint64
	wake    time.Duration
	values  map[string][]byte
	asked   []ask
	sent    []message.Message
	outdone []int32
}

type ask struct {
	key   string
	kind  record.RecordKind
	delta []byte
	then  func(record.Answer)
}

func (r *rig) Now() time.Duration                       { return r.now }
func (r *rig) Wall() int64                              { return int64(r.now) }
func (r *rig) Length() time.Duration                    { return time.Millisecond }
func (r *rig) Rate() int64                              { return 0 }
func (r *rig) Working() int                             { return 1 }
func (r *rig) Self() record.Owner                       { return record.Owner{Node: "n1", Incarnation: 1} }
func (r *rig) Outdone(_ filch.JobID, index int32)       { r.outdone = append(r.outdone, index) }
func (r *rig) Serial() uint64                           { r.serial++; return r.serial }
func (r *rig) Wake(at time.Duration)                    { r.wake = at }
func (r *rig) Warn(filch.JobID, string, ...any)         {}
func (r *rig) Send(_ filch.NodeName, m message.Message) { r.sent = append(r.sent, m) }
func (r *rig) Merge(key string, kind record.RecordKind, delta []byte, then func(record.Answer)) {
	r.asked = append(r.asked, ask{key, kind, delta, then})
}

// answer carries out the oldest merge.
func (r *rig) answer(t *testing.T) {
	t.Helper()
	if len(r.asked) == 0 {
		t.Fatal("no merge is under way")
	}
	p := r.asked[0]
	r.asked = r.asked[1:]
	v, reply, err := record.Merges()[p.kind](r.values[p.key], p.delta)
	if err != nil {
		t.Fatal(err)
	}
	r.values[p.key] = v
	p.then(record.Answer{Value: reply})
}

type rigJob struct {
	pending     Pending
	last, graph bool
	leader      filch.NodeName
	led, looked int
	rec         *record.Job
}

func (j *rigJob) ID() filch.JobID                { return 1 }
func (j *rigJob) Pending() *Pending              { return &j.pending }
func (j *rigJob) Last() bool                     { return j.last }
func (j *rigJob) Graph() bool                    { return j.graph }
func (j *rigJob) Over() bool                     { return false }
func (j *rigJob) Leader() (filch.NodeName, bool) { return j.leader, j.leader == "n1" }
func (j *rigJob) Led(list []message.ToldEnd)     { j.led += len(list) }
func (j *rigJob) Recorded(rec *record.Job)       { j.rec = rec }
func (j *rigJob) Look()                          { j.looked++ }
func (j *rigJob) Forget()                        {}

func newRig(t *testing.T, total int32) (*rig, *Recorder) {
	n := &rig{values: map[string][]byte{}}
	r := New(n, policy.Bounds{}.Defaulted())
	n.Merge(record.KeyJob(1), record.RecordJob, record.EncodeJobOp(record.JobOp{Kind: record.JobCreate, Job: &record.Job{Total: total, Closed: true, Leader: n.Self()}}), func(record.Answer) {})
	n.answer(t)
	return n, &r
}

func ok(i int32) (queue.Item, record.Task) {
	return queue.Item{Index: i, Attempt: record.FirstAttempt}, record.Task{State: filch.OK}
}

// TestEndsWaitForCompany: ends of a block go in one proposal after a wait, further ends in
// the next proposal once the first is answered, and the job's record counts each end once.
func TestEndsWaitForCompany(t *testing.T) {
	n, r := newRig(t, 3)
	j := &rigJob{leader: "n1"}
	for i := range int32(2) {
		r.End(j, queue.Item{Index: i, Attempt: record.FirstAttempt}, record.Task{State: filch.OK})
	}
	if r.Flush(); len(n.asked) != 0 {
		t.Fatalf("%d proposals before the wait of %v is over", len(n.asked), r.At())
	}
	n.now = r.At()
	if r.Flush(); len(n.asked) != 1 || n.asked[0].key != record.KeyBlock(1, 0) {
		t.Fatalf("%d proposals after the wait, want the one of the block", len(n.asked))
	}
	j.last = true
	it, task := ok(2)
	r.End(j, it, task)
	if r.Flush(); len(n.asked) != 1 || r.Unsaid() != 3 || j.pending.Unsaid() != 3 {
		t.Fatalf("%d proposals with %d of %d ends, want 1 with 3", len(n.asked), j.pending.Unsaid(), r.Unsaid())
	}
	for range 10 {
		if len(n.asked) > 0 {
			n.answer(t)
		}
		if at := r.At(); at != filch.Never {
			n.now = max(n.now, at)
		}
		r.Flush()
	}
	if r.Unsaid() != 0 || j.pending.Owed() {
		t.Errorf("%d ends are left, owed %v", r.Unsaid(), j.pending.Owed())
	}
	if j.rec == nil || j.rec.Tally().OK != 3 || !j.rec.Finished() {
		t.Errorf("the record of the job is %+v, want 3 tasks that ended well", j.rec)
	}
}

// TestBundleOfEnds: as many ends as a bundle has go at once, the rest with the next bundle;
// fewer ends wait as long as the bound says, for tasks of any length.
func TestBundleOfEnds(t *testing.T) {
	n, _ := newRig(t, 200)
	r := New(n, policy.Bounds{Ends: 10, EndsWait: time.Microsecond}.Defaulted())
	j := &rigJob{leader: "n1"}
	for i := range int32(9) {
		it, task := ok(i)
		r.End(j, it, task)
	}
	if r.Flush(); len(n.asked) != 0 || r.At() != n.now+time.Microsecond {
		t.Fatalf("9 ends: %d proposals, the next at %v", len(n.asked), r.At())
	}
	for i := int32(9); i < 25; i++ {
		it, task := ok(i)
		r.End(j, it, task)
	}
	var sizes []int
	for left := r.Unsaid(); left > 0; left = r.Unsaid() {
		if r.Flush(); len(n.asked) == 0 {
			n.now = r.At()
			continue
		}
		if n.answer(t); left > r.Unsaid() {
			sizes = append(sizes, int(left-r.Unsaid()))
		}
	}
	if !slices.Equal(sizes, []int{10, 10, 5}) {
		t.Errorf("bundles of %d ends, want 10, 10 and 5", sizes)
	}
}

// TestReportComesAgain: a report about a graph's task goes to the leader again until the
// leader has acknowledged the report, or this node leads.
func TestReportComesAgain(t *testing.T) {
	n, r := newRig(t, 1)
	j := &rigJob{leader: "n2", graph: true}
	it, task := ok(0)
	r.End(j, it, task)
	r.Flush()
	n.answer(t)
	told := func() (serials []uint64) {
		for _, m := range n.sent {
			serials = append(serials, m.(*message.Told).Serial)
		}
		return serials
	}
	if got := told(); !slices.Equal(got, []uint64{1}) || !j.pending.Tells() {
		t.Fatalf("reports %v, want the one with the number 1", got)
	}
	if next := r.Again(j); next != n.now+ToldAgain || len(n.sent) != 1 {
		t.Fatalf("the next report is due at %v, %d were sent", next, len(n.sent))
	}
	n.now += ToldAgain
	if r.Again(j); !slices.Equal(told(), []uint64{1, 1}) || j.looked != 1 {
		t.Errorf("reports %v after %d looks at the record, want the same one again after a look", told(), j.looked)
	}
	j.pending.Acknowledged(2)
	if j.pending.Acknowledged(1); j.pending.Tells() {
		t.Error("an acknowledged report is left")
	}
	r.Lost(j, []int32{0}, "n1")
	j.leader = "n1"
	if next := r.Again(j); j.led != 1 || next != filch.Never || j.pending.Tells() {
		t.Errorf("the new leader took %d ends in, the next report is due at %v", j.led, next)
	}
}

// TestVoidGoesWithTheTally: a void part of a zone counts in the job's record, and a
// repeated tally counts once.
func TestVoidGoesWithTheTally(t *testing.T) {
	n, r := newRig(t, 300)
	j := &rigJob{leader: "n1", last: true}
	r.Void(j, 0, record.ZoneOp{Kind: record.ZoneVoid, Lo: 0, Hi: 300, Owner: n.Self(), Void: filch.Cancelled})
	for range 2 {
		r.Flush()
		n.answer(t)
		n.answer(t)
		if j.rec == nil || j.rec.Tally().Cancelled != 300 || j.pending.Owed() {
			t.Fatalf("the record of the job is %+v, want 300 cancelled tasks", j.rec)
		}
		r.Retell(j, 0)
	}
}

// TestCopyThatCameSecond: the end of a copy goes to the record at once; of a task that has another
// end the caller learns the recorded end, and that the files of the copy are in vain.
func TestCopyThatCameSecond(t *testing.T) {
	for _, second := range []bool{false, true} {
		n, r := newRig(t, 1)
		j := &rigJob{leader: "n1", graph: true}
		if second {
			op := record.BlockOp{Kind: record.BlockEnd, Task: record.Task{State: filch.OK, Attempt: 1, Owner: record.Owner{Node: "n2", Incarnation: 1}, Began: 5}}
			n.Merge(record.KeyBlock(1, 0), record.RecordBlock, record.EncodeBlockOps([]record.BlockOp{op}, false), func(record.Answer) {})
			n.answer(t)
		}
		it, task := ok(0)
		task.Began = 7
		var got *record.Task
		r.EndCopy(j, it, task, func(k *record.Task) { got = k })
		n.answer(t)
		by := filch.NodeName("n1")
		if second {
			by = "n2"
		}
		if got == nil || got.By.Node != by || (len(n.outdone) > 0) != second || j.led != 1 {
			t.Errorf("second %v: the record is %+v, outdone %v, told %d", second, got, n.outdone, j.led)
		}
	}
}
