package mtc

import (
	"fmt"
	"math/bits"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

func TestSingleTaskIsStolen(t *testing.T) {
	if policy.Half(1) != 1 || policy.Half(5) != 3 || policy.Half(0) != 0 {
		t.Errorf("half of 1, 5, 0 is %d, %d, %d; want 1, 3, 0", policy.Half(1), policy.Half(5), policy.Half(0))
	}
	r := newRig(t, 2, 1, policy.Policy{})
	r.length = slow(time.Second)
	r.submit(0, submit.Job{Job: 1, Total: 2})
	r.idle(100 * time.Millisecond)
	if n := len(r.nodes[1].running); n != 1 {
		t.Errorf("%d tasks run on the idle node, want the one that waited", n)
	}
}

func TestStealingNeverEnds(t *testing.T) {
	r := newRig(t, 4, 1, policy.Policy{})
	r.lose = func(m message.Message) bool { return m.Kind() == message.KindNews }
	r.idle(time.Minute)
	before := r.sent[message.KindLoadAsk]
	r.idle(2 * policy.PollRest)
	asks := r.sent[message.KindLoadAsk] - before
	if asks == 0 || asks > 4*2*5 {
		t.Errorf("%d asks in a minute of idleness by 4 nodes: want some, and few", asks)
	}
	r.length = slow(100 * time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 2000})
	r.idle(policy.PollRest * 3 / 2)
	for _, d := range r.nodes {
		if len(d.running) == 0 {
			t.Errorf("%s is idle with %d tasks queued, a minute after it had found none", d.cfg.Self, r.nodes[0].Load())
		}
	}
}

// TestArrivalsAreQuiet has nodes come to an instance without work: were each a
// reason for all others to look for some, the start of a large one would be a
// storm of asks and dials.
func TestArrivalsAreQuiet(t *testing.T) {
	const nodes, late = 32, 32
	r := newRig(t, nodes, 1, policy.Policy{})
	r.idle(policy.PollRest / 3)
	for i := range late {
		for _, d := range r.nodes {
			d.SetMember(r.now, filch.Member{Name: nodeName(nodes + i), Incarnation: 1}, &d.out)
			r.act(d)
		}
		r.idle(100 * time.Millisecond)
	}
	if n := r.sent[message.KindLoadAsk]; n > 0 {
		t.Errorf("%d nodes that had just begun asked %d times because %d came", nodes, n, late)
	}
	r.idle(policy.PollRest)
	if n, most := r.sent[message.KindLoadAsk], nodes*2*filch.Root(nodes+late); n < nodes || n > most {
		t.Errorf("%d nodes asked %d times in their first %v, before there was any work; want at least %d and at most %d", nodes, n, policy.PollRest*4/3, nodes, most)
	}
}

// lateRig is a few nodes of which the last came and went, and found nothing. News of work to that
// node are lost as lost says.
func lateRig(t *testing.T, nodes int, lost func(news int) bool) (r *rig, late *rigNode) {
	r = newRig(t, nodes, 1, policy.Policy{})
	late = r.nodes[nodes-1]
	late.down = true
	for _, d := range r.nodes[:nodes-1] {
		d.SetMember(0, filch.Member{Name: late.cfg.Self, Incarnation: 1, Standing: filch.Dead}, &d.out)
	}
	news := 0
	r.lose = func(m message.Message) bool {
		if m.Kind() != message.KindNews || late.down {
			return false
		}
		news++
		return lost(news)
	}
	r.length = slow(time.Second)
	return r, late
}

// comes has the late node return. It looks no more by itself.
func (r *rig) comes(late *rigNode) {
	late.down, late.mail = false, nil
	late.thief.Rest(time.Hour)
	for _, d := range r.nodes {
		if d != late {
			d.SetMember(r.now, filch.Member{Name: late.cfg.Self, Incarnation: 1}, &d.out)
			r.act(d)
		}
	}
}

// TestNewsToAnArrivalAreRepeated: the node that came does not listen to the first news, as its list
// of members is not whole.
func TestNewsToAnArrivalAreRepeated(t *testing.T) {
	r, late := lateRig(t, 2, func(news int) bool { return news <= 3 })
	r.submit(0, submit.Job{Job: 1, Total: 100})
	r.idle(10 * time.Second)
	r.comes(late)
	r.idle(time.Second)
	if len(late.running) == 0 {
		t.Error("a node that came is idle a second later: it did not hear the first news of work")
	}
	before := r.sent[message.KindNews]
	r.idle(20 * time.Second)
	if n := r.sent[message.KindNews] - before; n > 3 {
		t.Errorf("%d news to a node that was heard", n)
	}
}

// TestArrivalHearsOfLaterWork: a node comes while no other has tasks to give, and the node with the
// next work has enough other nodes to tell.
func TestArrivalHearsOfLaterWork(t *testing.T) {
	r, late := lateRig(t, 5, func(int) bool { return false })
	r.submit(0, submit.Job{Job: 1, Total: 20})
	r.run(1, time.Minute)
	r.idle(2 * policy.PollRest) // all look at all, and find nothing
	r.comes(late)
	r.idle(time.Second)
	r.submit(0, submit.Job{Job: 2, Total: 100})
	r.idle(time.Second)
	if len(late.running) == 0 {
		t.Error("a node that came before there was work is idle a second after there was")
	}
}

// TestArrivalHearsOfWork loses what the new node asks: it is told all the same.
func TestArrivalHearsOfWork(t *testing.T) {
	r := newRig(t, 3, 1, policy.Policy{})
	late := r.nodes[2]
	late.down = true
	for _, d := range r.nodes[:2] {
		d.SetMember(0, filch.Member{Name: late.cfg.Self, Incarnation: 1, Standing: filch.Dead}, &d.out)
	}
	r.length = slow(time.Second)
	r.submit(0, submit.Job{Job: 1, Total: 100})
	r.idle(10 * time.Second)
	late.down, late.mail = false, nil
	late.thief.Rest(time.Hour) // it looks no more by itself
	for _, d := range r.nodes[:2] {
		d.SetMember(r.now, filch.Member{Name: late.cfg.Self, Incarnation: 1}, &d.out)
		r.act(d)
	}
	r.idle(time.Second)
	if len(late.running) == 0 {
		t.Error("a node that came is idle a second later, and does not look by itself")
	}
}

func TestNewsWakes(t *testing.T) {
	r := newRig(t, 4, 1, policy.Policy{})
	for _, d := range r.nodes {
		d.cfg.Bounds.StealWait = time.Hour
	}
	r.idle(30 * time.Minute)
	r.length = slow(time.Second)
	r.submit(0, submit.Job{Job: 1, Total: 400})
	r.idle(500 * time.Millisecond)
	if n := r.runningAll(); n != 4 {
		t.Errorf("%d of 4 nodes work half a second after there was something to do", n)
	}
}

// TestBagSpreadsInLogSteps: a bag on one node reaches all nodes in log2(N) steps (MATRIX v1,
// 3.1.2): a thief takes half, and its tasks are stolen in turn.
func TestBagSpreadsInLogSteps(t *testing.T) {
	for _, nodes := range []int{16, 64, 256} {
		r := newRig(t, nodes, 1, policy.Policy{})
		r.length = slow(time.Hour)
		steps, most := map[filch.NodeName]int{"n1": 0}, 0
		r.hear = func(from, to filch.NodeName, m message.Message) {
			if o, ok := m.(*message.Offer); ok && len(o.Ranges) > 0 {
				if _, has := steps[to]; !has {
					steps[to] = steps[from] + 1
					most = max(most, steps[to])
				}
			}
		}
		r.submit(0, submit.Job{Job: 1, Total: int32(nodes) * 64})
		r.idle(5 * time.Second)
		log := bits.Len(uint(nodes)) - 1
		t.Logf("figure: %d nodes: %d have tasks, the last after %d steps; log2 is %d", nodes, len(steps), most, log)
		if len(steps) != nodes || most > log {
			t.Errorf("%d of %d nodes have tasks, the last after %d steps, want at most %d", len(steps), nodes, most, log)
		}
	}
}

func TestLateNodeGetsWork(t *testing.T) {
	r := newRig(t, 3, 1, policy.Policy{})
	late := r.nodes[2]
	late.down = true
	r.length = slow(100 * time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 3000})
	r.idle(3 * time.Second)
	late.down, late.mail = false, nil
	r.idle(policy.PollRest)
	if len(late.running) == 0 {
		t.Errorf("a node that heard of nothing is idle %v later", policy.PollRest)
	}
}

func TestLostOfferComesBack(t *testing.T) {
	r := newRig(t, 2, 1, policy.Policy{})
	lost := 0
	r.lose = func(m message.Message) bool {
		o, ok := m.(*message.Offer)
		if ok && len(o.Ranges) > 0 && lost < 3 {
			lost++
			return true
		}
		return false
	}
	r.length = slow(50 * time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 100})
	j := r.run(1, time.Minute)
	if lost == 0 || j.Tally().OK != 100 || len(r.started) != 100 {
		t.Errorf("%d offers lost: %d ok after %d starts, want 100 of both", lost, j.Tally().OK, len(r.started))
	}
}

// TestLateOfferMovesNothing has an offer arrive after its victim took it back:
// whoever only asked whose the tasks are would see the thief's move succeed
// after the thaw, and both would run them.
func TestLateOfferMovesNothing(t *testing.T) {
	r := newRig(t, 2, 1, policy.Policy{})
	var late *message.Offer
	r.lose = func(m message.Message) bool {
		if o, ok := m.(*message.Offer); ok && len(o.Ranges) > 0 && late == nil {
			late = o
			return true
		}
		return late != nil && m.Kind() == message.KindSteal // nobody else takes it meanwhile
	}
	r.length = slow(100 * time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 100})
	r.idle(7 * time.Second) // the victim is in the middle of it again
	if late == nil {
		t.Fatal("nothing was offered")
	}
	d := r.nodes[1]
	d.Message(r.now, "n1", late, &d.out)
	r.act(d)
	r.idle(time.Second)
	r.lose = nil
	r.run(1, time.Minute)
	for i := range int32(100) {
		if n := r.onNode[fmt.Sprintf("1.%d", i)]; n != 1 {
			t.Errorf("task %d was started %d times", i, n)
		}
	}
}

func TestNothingBeginsAboveTheFront(t *testing.T) {
	r := newRig(t, 1, 4, policy.Policy{})
	r.store.mute = func(p record.Proposal) bool { return p.Kind == record.RecordZone }
	r.submit(0, submit.Job{Job: 1, Total: 100})
	r.idle(time.Second)
	if len(r.started) != 0 {
		t.Errorf("%d tasks began although no front was committed", len(r.started))
	}
}

func TestIdleNodeAsksForNoTime(t *testing.T) {
	r := newRig(t, 1, 4, policy.Policy{})
	r.submit(0, submit.Job{Job: 1, Total: 10})
	r.run(1, time.Minute)
	r.idle(time.Second)
	if at := r.nodes[0].Deadline(); at != filch.Never {
		t.Errorf("an idle node without neighbors wants to be called at %v", at)
	}
}

// grouped makes two groups of the nodes of a rig, near to each other, and has
// them choose victims in some way.
func (r *rig) grouped(v policy.Victims) (group func(filch.NodeName) string) {
	of := map[filch.NodeName]string{}
	for i := range r.nodes {
		of[nodeName(i)] = [...]string{"east", "west"}[i*2/len(r.nodes)]
	}
	for _, d := range r.nodes {
		d.cfg.Victims = v
		for name, g := range of {
			d.SetMember(r.now, filch.Member{Name: name, Incarnation: 1, Group: g}, &d.out)
		}
		r.act(d)
	}
	return func(n filch.NodeName) string { return of[n] }
}

// Two allocations that work on bags of their own, submitted at one node of each,
// steal inside first.
func TestStealsStayNear(t *testing.T) {
	share := func(v policy.Victims) (near float64, spread int) {
		r := newRig(t, 16, 2, policy.Policy{})
		group := r.grouped(v)
		r.length = slow(50 * time.Millisecond)
		var steals, far int64
		r.hear = func(from, to filch.NodeName, m message.Message) {
			if o, ok := m.(*message.Offer); ok && len(o.Ranges)+len(o.Tasks) > 0 {
				steals++
				if group(from) != group(to) {
					far++
				}
			}
		}
		r.submit(0, submit.Job{Job: 1, Total: 3000})
		r.submit(8, submit.Job{Job: 2, Total: 3000})
		r.run(1, 10*time.Minute)
		r.run(2, 10*time.Minute)
		for i := range r.nodes {
			if r.byNode[nodeName(i)] > 200 {
				spread++
			}
		}
		return float64(steals-far) / float64(steals), spread
	}
	near, spread := share(policy.Hierarchical)
	any, _ := share(policy.Random)
	t.Logf("near steals: %.0f %%, of victims drawn from all %.0f %%", 100*near, 100*any)
	if near < 0.75 || near < any+0.2 {
		t.Errorf("%.0f %% of the steals are near, and %.0f %% of those from victims drawn from all", 100*near, 100*any)
	}
	if spread != 16 {
		t.Errorf("%d of 16 nodes did their part", spread)
	}
}

// Work that is only in the other allocation is found all the same, and soon.
func TestFarWorkIsFound(t *testing.T) {
	r := newRig(t, 16, 2, policy.Policy{})
	r.grouped(policy.Hierarchical)
	r.length = slow(100 * time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 1600})
	j := r.run(1, time.Minute)
	if ideal := 5 * time.Second; r.now > ideal*13/10 {
		t.Errorf("16 nodes took %v, with one of them alone in knowing the work at first; at best %v", r.now, ideal)
	}
	west := 0
	for i := 8; i < 16; i++ {
		west += r.byNode[nodeName(i)]
	}
	if west < 600 || j.Tally().OK != 1600 {
		t.Errorf("the other allocation did %d of %d tasks, want about half", west, j.Tally().OK)
	}
}

// An offer fits in a message, however much its tasks read.
func TestOffersFitInAMessage(t *testing.T) {
	const wide = 1500
	r := newRig(t, 2, 1, policy.Policy{})
	var parents [][]int32
	var all []int32
	for i := range wide {
		parents = append(parents, nil)
		all = append(all, int32(i))
	}
	for range 300 {
		parents = append(parents, all)
	}
	r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: 1 << 40} }
	r.length = func(s Start) time.Duration {
		if s.Index < wide {
			return time.Millisecond
		}
		return 100 * time.Millisecond
	}
	largest := 0
	r.lose = func(m message.Message) bool {
		largest = max(largest, len(message.Encode(m)))
		return false
	}
	r.submit(0, submit.Job{Job: 1, Nodes: workflow(parents...)})
	if got := r.run(1, time.Minute).Tally(); got.OK != wide+300 {
		t.Errorf("%+v, want all ok", got)
	}
	if largest > message.Max {
		t.Errorf("a message of %d bytes, at most %d are taken", largest, message.Max)
	}
}

// Of a zone that is in too many hands already nothing more is stolen, and who has
// the rest does it. It is not tried again and again.
func TestNothingIsStolenOfAFullZone(t *testing.T) {
	r := newRig(t, 2, 1, policy.Policy{})
	r.length = slow(100 * time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 40})
	var z record.Zone
	for i := range int32(4096) { // of which a zone is full
		z.Spans = append(z.Spans, record.Span{Lo: 1000 + 2*i, Hi: 1001 + 2*i, Front: 1001 + 2*i, Owner: record.Owner{Node: "n1", Incarnation: 1}})
	}
	r.records[record.KeyZone(1, 0)] = z.Encode()
	if j := r.run(1, 2*time.Minute); j.Tally().OK != 40 || r.byNode["n2"] > 0 {
		t.Errorf("%+v, %d of them on n2", j.Tally(), r.byNode["n2"])
	}
	if n := r.sent[message.KindSteal]; n == 0 || n > 100 {
		t.Errorf("%d tries to steal in %v", n, r.now)
	}
}
