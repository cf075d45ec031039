package mtc

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
	"github.com/filch-hpc/filch/mtc/submit"
)

// rig is a few cores over a store and a network without faults or delays of
// their own: what is due next happens next.
type rig struct {
	t        *testing.T
	now      time.Duration
	nodes    []*rigNode
	away     *rigNode       // lives, and no record is homed there
	on       filch.NodeName // where what length and result are asked about starts
	records  map[string][]byte
	watches  []rigWatch
	length   func(s Start) time.Duration
	result   func(s Start) End
	stopped  func(s Stop) End // the end of a task that is stopped; nil: by TERM
	started  []Start
	reserved []filch.JobID
	remains  []record.Owner
	gather   bool           // gangs never have slots; else at once
	onNode   map[string]int // starts by "job.index", and by node in byNode
	byNode   map[filch.NodeName]int
	sent     map[message.Kind]int
	merges   int
	peak     int
	began    int // processes and gangs
	last     time.Duration
	spins    int
	lose     func(m message.Message) bool // a message on its way
	hear     func(from, to filch.NodeName, m message.Message)
	store    rigStore
}

// rigStore is what may befall an operation on its way to the store.
type rigStore struct {
	mute  func(p record.Proposal) bool          // it is lost
	slow  func(p record.Proposal) time.Duration // it takes so long
	twice func(p record.Proposal) bool          // a merge is done twice, and the second time is answered
	late  []rigOp
}

// rigOp is an operation of a node that is carried out later.
type rigOp struct {
	at time.Duration
	d  *rigNode
	p  record.Proposal
}

type rigNode struct {
	*Core
	out     Out
	running []rigRun
	tells   []report.Tell
	stops   int
	mail    []rigMail
	down    bool
	gangs   []Start // that have slots, and do not run yet
	opening []Start // likewise, until their start is committed
	waiting []Start // for the end of the run that they succeed
}

type rigRun struct {
	at  time.Duration
	end End
}

type rigMail struct {
	from filch.NodeName
	m    message.Message
	tag  uint64
	a    record.Answer
}

type rigWatch struct {
	node *rigNode
	tag  uint64
	key  string
}

func newRig(t *testing.T, n int, slots int32, p policy.Policy) *rig {
	t.Helper()
	r := &rig{
		t: t, records: map[string][]byte{}, onNode: map[string]int{}, byNode: map[filch.NodeName]int{}, sent: map[message.Kind]int{},
		length: func(Start) time.Duration { return 0 },
		result: func(s Start) End { return End{Run: s.Run, State: filch.OK} },
	}
	for i := range n {
		c := New(Config{Self: nodeName(i), Incarnation: 1, Seed: uint64(i) + 1, Policy: p})
		r.nodes = append(r.nodes, &rigNode{Core: c})
	}
	for _, d := range r.nodes {
		for i := range n {
			d.SetMember(0, filch.Member{Name: nodeName(i), Incarnation: 1}, &d.out)
		}
		d.SetRoom(0, filch.Room{Slots: slots, MemBytes: 1 << 30}, &d.out)
		r.act(d)
	}
	return r
}

func nodeName(i int) filch.NodeName { return filch.NodeName("n" + strconv.Itoa(i+1)) }

// act does what a node's Out says.
func (r *rig) act(d *rigNode) {
	for _, p := range d.out.Proposals {
		if r.store.mute != nil && r.store.mute(p) {
			continue
		}
		if r.store.slow != nil {
			if wait := r.store.slow(p); wait > 0 {
				r.store.late = append(r.store.late, rigOp{r.now + wait, d, p})
				continue
			}
		}
		r.propose(d, p)
	}
	r.on = d.cfg.Self
	for _, s := range d.out.Starts {
		r.started = append(r.started, s)
		r.onNode[fmt.Sprintf("%d.%d", s.Job, s.Index)]++
		r.byNode[d.cfg.Self]++
		if s.Gang().Ranks > 0 && s.Spec.CommitsStarts() {
			if !r.gather {
				d.gangs = append(d.gangs, s)
			}
			continue
		}
		r.execs(d, s)
	}
	for _, run := range d.out.Goes {
		for _, s := range d.opening {
			if s.Run == run {
				r.execs(d, s)
			}
		}
	}
	d.stops += len(d.out.Stops)
	r.reserved = append(r.reserved, d.out.Reserved...)
	r.remains = append(r.remains, d.out.Remains...)
	for _, s := range d.out.Stops {
		if i := slices.IndexFunc(d.waiting, func(w Start) bool { return w.Run == s.Run }); i >= 0 {
			d.waiting = slices.Delete(d.waiting, i, i+1)
			d.running = append(d.running, rigRun{r.now, End{Run: s.Run, State: filch.Killed, Unstarted: true}})
		}
		for i := range d.running {
			if d.running[i].end.Run == s.Run {
				d.running[i] = rigRun{r.now, End{Run: s.Run, State: filch.Killed, Code: 143}}
				if r.stopped != nil {
					d.running[i].end = r.stopped(s)
				}
			}
		}
	}
	for _, s := range d.out.Sends {
		m, err := message.Decode(message.Encode(s.Message))
		if err != nil {
			r.t.Fatalf("%T %+v: %v", s.Message, s.Message, err)
		}
		r.sent[m.Kind()]++
		if r.hear != nil {
			r.hear(d.cfg.Self, s.To, m)
		}
		if r.lose != nil && r.lose(m) {
			continue
		}
		to := r.node(s.To)
		if to != nil && !to.down {
			to.mail = append(to.mail, rigMail{from: d.cfg.Self, m: m})
		}
	}
	d.tells = append(d.tells, d.out.Tells...)
	sweep := d.out.Sweep
	d.out.Reset()
	d.Check()
	gangs := d.gangs
	d.gangs = nil
	for _, s := range gangs {
		d.opening = append(d.opening, s)
		if d.Gangs.Launched(r.now, s.Run, &d.out) {
			r.execs(d, s)
		}
	}
	if len(gangs) > 0 {
		r.act(d)
	}
	if sweep {
		r.sweep(d)
	}
}

// execs has a start run for its time. A successor waits for the end of the run before it.
func (r *rig) execs(d *rigNode, s Start) {
	if slices.ContainsFunc(d.running, func(u rigRun) bool { return u.end.Run == s.Succeeds }) {
		d.waiting = append(d.waiting, s)
		return
	}
	r.began++
	d.running = append(d.running, rigRun{r.now + r.length(s), r.result(s)})
	r.peak = max(r.peak, r.runningAll())
}

func (r *rig) runningAll() (n int) {
	for _, d := range r.nodes {
		n += len(d.running)
	}
	return n
}

func (r *rig) node(name filch.NodeName) *rigNode {
	for _, d := range r.nodes {
		if d.cfg.Self == name {
			return d
		}
	}
	return nil
}

// home is the first live node: all records live there.
func (r *rig) home() *rigNode {
	for _, d := range r.nodes {
		if !d.down && d != r.away {
			return d
		}
	}
	return nil
}

func (r *rig) sweep(d *rigNode) {
	if d != r.home() {
		return
	}
	var list []record.Stored
	for k, v := range r.records {
		list = append(list, record.Stored{Key: k, Value: v})
	}
	slices.SortFunc(list, func(a, b record.Stored) int { return compare(a.Key, b.Key) })
	d.Homed(r.now, list, &d.out)
	r.act(d)
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func (r *rig) propose(d *rigNode, p record.Proposal) {
	a := record.Answer{Value: r.records[p.Key]}
	if a.Value == nil {
		a.Status = record.AnswerAbsent
	}
	switch p.Op {
	case record.OpWatch:
		r.watches = append(r.watches, rigWatch{d, p.Tag, p.Key})
	case record.OpUnwatch:
		r.watches = slices.DeleteFunc(r.watches, func(w rigWatch) bool { return w.node == d && w.tag == p.Tag })
		return
	case record.OpMerge:
		r.merges++
		val, reply, err := record.Merges()[p.Kind](r.records[p.Key], p.Delta)
		if err == nil && r.store.twice != nil && r.store.twice(p) {
			val, reply, err = record.Merges()[p.Kind](val, p.Delta)
		}
		a = record.Answer{Value: reply}
		if err != nil {
			a = record.Answer{Status: record.AnswerInvalid}
		} else {
			r.records[p.Key] = val
			for _, w := range r.watches {
				if w.key == p.Key {
					w.node.mail = append(w.node.mail, rigMail{tag: w.tag, a: record.Answer{Value: val}})
				}
			}
		}
	}
	d.mail = append(d.mail, rigMail{tag: p.Tag, a: a})
}

// step delivers all mail, or else moves time to what is due next; false: there
// is nothing more before limit.
func (r *rig) step(limit time.Duration) bool {
	busy := false
	if r.spins++; r.now > r.last {
		r.spins, r.last = 0, r.now
	}
	if r.spins > 100_000 {
		for _, d := range r.nodes {
			r.t.Logf("%s: %+v thief rests %v at %v waits %v", d.cfg.Self, d.Queues(), d.thief.Resting(), d.Deadline(), d.waits.at)
			for _, m := range d.mail {
				r.t.Logf("  mail from %s: %T %+v", m.from, m.m, m.m)
			}
		}
		r.t.Fatalf("no end of things to do at %v", r.now)
	}
	for _, d := range r.nodes {
		mail := d.mail
		d.mail = nil
		for _, m := range mail {
			busy = true
			if d.down {
				continue
			}
			if m.m != nil {
				d.Message(r.now, m.from, m.m, &d.out)
			} else {
				d.Answered(r.now, m.tag, m.a, &d.out)
			}
			r.act(d)
		}
	}
	if busy {
		return true
	}
	next := filch.Never
	for _, o := range r.store.late {
		next = min(next, o.at)
	}
	for _, d := range r.nodes {
		if d.down {
			continue
		}
		next = min(next, d.Deadline())
		for _, u := range d.running {
			next = min(next, u.at)
		}
	}
	if next > limit {
		return false
	}
	r.now = max(r.now, next)
	r.arrive()
	for _, d := range r.nodes {
		if !d.down {
			r.due(d)
		}
	}
	return true
}

// arrive carries out the operations that took until now.
func (r *rig) arrive() {
	late := r.store.late
	r.store.late = nil
	for _, o := range late {
		if o.at > r.now {
			r.store.late = append(r.store.late, o)
			continue
		}
		r.propose(o.d, o.p)
	}
}

func (r *rig) due(d *rigNode) {
	running := d.running
	d.running = nil
	var ended []End
	for _, u := range running {
		if u.at <= r.now {
			ended = append(ended, u.end)
		} else {
			d.running = append(d.running, u)
		}
	}
	for _, e := range ended {
		if i := slices.IndexFunc(d.waiting, func(s Start) bool { return s.Succeeds == e.Run }); i >= 0 {
			s := d.waiting[i]
			d.waiting = slices.Delete(d.waiting, i, i+1)
			r.execs(d, s)
		}
		d.Ended(r.now, e, &d.out)
	}
	if d.Deadline() <= r.now {
		d.Tick(r.now, &d.out)
	}
	r.act(d)
}

// run goes on until the job is finished, at most that long.
func (r *rig) run(id filch.JobID, most time.Duration) *record.Job {
	r.t.Helper()
	limit := r.now + most
	for r.step(limit) {
		if j := r.job(id); j != nil && j.Finished() {
			return j
		}
	}
	if j := r.job(id); j == nil || !j.Finished() {
		r.t.Fatalf("job %d is not finished after %v: %+v", id, most, j)
	}
	return r.job(id)
}

// idle goes on for a while.
func (r *rig) idle(d time.Duration) {
	limit := r.now + d
	for r.step(limit) {
	}
	r.now = limit
}

func (r *rig) job(id filch.JobID) *record.Job {
	v := r.records[record.KeyJob(id)]
	if v == nil {
		return nil
	}
	j, err := record.DecodeJob(v)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

func (r *rig) task(id filch.JobID, i int32) record.Task {
	b, err := record.DecodeBlock(r.records[record.KeyBlock(id, i/record.BlockSize)])
	if err != nil {
		r.t.Fatal(err)
	}
	if t := b.Find(uint8(i % record.BlockSize)); t != nil {
		return *t
	}
	return record.Task{}
}

func (r *rig) submit(node int, s submit.Job) {
	r.t.Helper()
	d := r.nodes[node]
	if s.Ticket == (filch.Ticket{}) {
		s.Ticket = filch.Ticket{UnixNS: int64(r.now), Job: s.Job}
	}
	if s.Spec.Each == (filch.Room{}) {
		s.Spec.Each.Slots = 1
	}
	if err := d.Submit(r.now, s, &d.out); err != nil {
		r.t.Fatal(err)
	}
	r.act(d)
}
