package mtc

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/lines"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
	"github.com/filch-hpc/filch/mtc/submit"
)

func someLines(n int) (lines [][]byte) {
	for i := range n {
		lines = append(lines, fmt.Appendf(nil, "line %d", i))
	}
	return lines
}

// A launcher that dies between the commit of an addition and its lines leaves
// tasks of which nobody knows what they are: they are lost, the others run, and
// the job ends.
func TestAdderDies(t *testing.T) {
	for _, adder := range []int{0, 1} {
		for _, arrive := range []int{0, 1, 4} { // records of lines
			t.Run(fmt.Sprintf("node-%d/records-%d", adder, arrive), func(t *testing.T) { adderDies(t, adder, arrive) })
		}
	}
}

func adderDies(t *testing.T, adder, arrive int) {
	const first, more, third = 5, 70, 20
	r := newRig(t, 4, 2, policy.Policy{})
	r.length = slow(time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: first, Open: true, Lines: someLines(first), Spec: record.Spec{Payloads: true}})
	r.idle(100 * time.Millisecond)
	add := func(node int, token int32, n int) {
		d := r.nodes[node]
		if err := d.Add(r.now, 1, token, int32(n), someLines(n), &d.out); err != nil {
			t.Fatal(err)
		}
		r.act(d)
		r.idle(50 * time.Millisecond)
	}
	seen := 0
	var late []record.Proposal
	r.store.mute = func(p record.Proposal) bool {
		if p.Op != record.OpMerge || p.Kind != record.RecordPayload {
			return false
		}
		if seen++; seen <= arrive {
			return false
		}
		late = append(late, p)
		return true
	}
	add(adder, 1, more)
	r.store.mute = nil
	r.kill(adder, 3*time.Second)
	add(2, 2, third) // part of it in a record that the dead one should have written
	r.idle(2 * time.Second)
	for _, p := range late { // its words were on their way all the time
		r.propose(r.nodes[adder], p)
	}
	d := r.nodes[3]
	d.Close(r.now, 1, &d.out)
	r.act(d)
	j := r.run(1, time.Minute)
	// The first record of the addition begins with three that were submitted.
	have := min(max(arrive*record.PayloadSize-first, 0), more)
	if got, want := j.Tally(), (record.Tally{OK: int32(first + have + third), Lost: int32(more - have)}); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
	for _, s := range r.started {
		want := int(s.Index)
		switch {
		case want >= first+more:
			want -= first + more
		case want >= first:
			want -= first
		}
		if got := string(s.Payload); got != fmt.Sprintf("line %d", want) {
			t.Errorf("task %d was given %q", s.Index, got)
		}
	}
	if k := r.task(1, first+more-1); arrive == 0 && (k.State != filch.Lost || k.Code != filch.ExitNodeLost) {
		t.Errorf("a task without a line is recorded as %+v", k)
	}
}

// One whose lines come after they were given up hears that they did not count.
func TestSlowAdderIsRefused(t *testing.T) {
	r := newRig(t, 2, 2, policy.Policy{})
	r.submit(0, submit.Job{Job: 1, Open: true, Spec: record.Spec{Payloads: true}})
	r.idle(50 * time.Millisecond)
	var late []record.Proposal
	r.store.mute = func(p record.Proposal) bool {
		if p.Op == record.OpMerge && p.Kind == record.RecordPayload {
			late = append(late, p)
			return true
		}
		return false
	}
	d := r.nodes[1]
	if err := d.Add(r.now, 1, 1, 3, someLines(3), &d.out); err != nil {
		t.Fatal(err)
	}
	r.act(d)
	r.idle(time.Second)
	r.store.mute = nil
	r.idle(2 * lines.Wait)
	for _, p := range late {
		r.propose(d, p)
	}
	d.Close(r.now, 1, &d.out)
	r.act(d)
	if j := r.run(1, time.Minute); j.Tally() != (record.Tally{Lost: 3}) {
		t.Errorf("tally %+v, want 3 lost", j.Tally())
	}
	for _, k := range d.tells {
		if k.What == report.TellAdded {
			t.Errorf("lines that came too late count as added: %+v", k)
		}
	}
	if n := len(d.tells); n == 0 || d.tells[n-1].What != report.TellRefused {
		t.Errorf("told %+v, want a refusal", d.tells)
	}
}

// Tasks with a line and tasks without one are not mixed: who takes one for the
// other would wait for ever.
func TestAdditionsAreOfOneKind(t *testing.T) {
	for _, lines := range []bool{false, true} {
		r := newRig(t, 1, 1, policy.Policy{})
		s := submit.Job{Job: 1, Open: true, Spec: record.Spec{Payloads: lines}}
		if !lines {
			s.Total = 1
		}
		r.submit(0, s)
		r.idle(50 * time.Millisecond)
		d := r.nodes[0]
		var err error
		if lines {
			err = d.Add(r.now, 1, 1, 2, nil, &d.out)
		} else {
			err = d.Add(r.now, 1, 1, 2, someLines(2), &d.out)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.act(d)
		r.idle(50 * time.Millisecond)
		if n := len(d.tells); n == 0 || d.tells[n-1].What != report.TellRefused {
			t.Errorf("lines %v: told %+v, want a refusal", lines, d.tells)
		}
	}
}

// A submission of which more was to come is cancelled when its launcher dies:
// nobody else has the rest.
func TestPartialSubmissionEnds(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{})
	r.length = slow(time.Millisecond)
	r.submit(0, submit.Job{Job: 1, Total: 20, Open: true, Partial: true, Lines: someLines(20), Spec: record.Spec{Payloads: true}})
	r.submit(0, submit.Job{Job: 2, Total: 20, Open: true, Partial: true, Lines: someLines(20), Spec: record.Spec{Payloads: true}})
	r.idle(100 * time.Millisecond)
	d := r.nodes[0]
	d.Close(r.now, 2, &d.out)
	r.act(d)
	r.idle(100 * time.Millisecond)
	r.kill(0, 3*time.Second)
	if j := r.run(1, time.Minute); j.Void != filch.Cancelled || j.Tally().Sum() != 20 {
		t.Errorf("void %v, tally %+v, want it cancelled", j.Void, j.Tally())
	}
	if j := r.run(2, time.Minute); j.Void != 0 || j.Tally().OK != 20 {
		t.Errorf("void %v, tally %+v, want all that was there to go well", j.Void, j.Tally())
	}
}

// What came to a node of a job while it waited for the answer to an addition is
// not forgotten with that answer.
func TestAnswerOfAnAdditionForgetsNothing(t *testing.T) {
	r := newRig(t, 2, 2, policy.Policy{})
	r.length = slow(time.Second)
	r.submit(0, submit.Job{Job: 1, Total: 40, Open: true, Lines: someLines(40), Spec: record.Spec{Payloads: true}})
	d := r.nodes[1]
	var late []record.Proposal
	r.store.mute = func(p record.Proposal) bool {
		if p.Kind == record.RecordJob && p.Op == record.OpMerge && record.JobOpKind(p.Delta[0]) == record.JobAdd {
			late = append(late, p)
			return true
		}
		return false
	}
	if err := d.Add(r.now, 1, 1, 3, someLines(3), &d.out); err != nil {
		t.Fatal(err)
	}
	r.act(d)
	d.Unfollow(1, &d.out) // forgets what it knows: nothing
	r.act(d)
	r.idle(500 * time.Millisecond)
	if len(d.running) == 0 {
		t.Fatal("nothing was stolen")
	}
	r.store.mute = nil
	for _, p := range late {
		r.propose(d, p)
	}
	r.idle(10 * time.Millisecond)
	if j, ok := d.Job(1); !ok || j.Here.Running == 0 {
		t.Errorf("the node forgot the job of %d tasks that run: %+v", len(d.running), j)
	}
	d.Close(r.now, 1, &d.out)
	r.act(d)
	if j := r.run(1, time.Minute); j.Tally().OK != 43 {
		t.Errorf("tally %+v, want 43 ok", j.Tally())
	}
}
