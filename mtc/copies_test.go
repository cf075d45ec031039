package mtc

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// limp makes a rig of four nodes with a slot, of which the second takes ten times as long.
func limp(t *testing.T) *rig {
	r := newRig(t, 4, 1, policy.Policy{})
	r.length = func(Start) time.Duration {
		if r.on == "n2" {
			return 10 * time.Second
		}
		return time.Second
	}
	return r
}

// copied are the starts of copies.
func (r *rig) copied() (list []Start) {
	for _, s := range r.started {
		if s.Copy {
			list = append(list, s)
		}
	}
	return list
}

// TestSlowTaskIsCopied: of a task that takes far longer than the others a copy runs on an idle
// node; the first good end is recorded once, and the other run is stopped.
func TestSlowTaskIsCopied(t *testing.T) {
	for _, nodes := range [][]record.GraphNode{nil, make([]record.GraphNode, 40)} {
		r := limp(t)
		r.submit(0, submit.Job{Job: 1, Total: 40, Nodes: nodes, Spec: record.Spec{Replicas: 1}})
		j := r.run(1, time.Minute)
		if j.Tally() != (record.Tally{OK: 40}) {
			t.Errorf("tally %+v, want 40 ok", j.Tally())
		}
		copies := r.copied()
		if len(copies) == 0 || len(copies) > 2 {
			t.Fatalf("%d copies ran, want one or two: %+v", len(copies), copies)
		}
		if took := r.now; took > 18*time.Second {
			t.Errorf("took %v; 40 tasks of a second take three nodes 14 s", took)
		}
		r.idle(2 * time.Second)
		last := copies[len(copies)-1]
		if k := r.task(1, last.Index); k.By.Node == "n2" || k.Attempt != 1 || k.Crashes != 0 || k.Extra != 0 {
			t.Errorf("the copied task is recorded as %+v, want the end of the copy and no other", k)
		} else if ran, _ := k.RanOn(); !k.Copy || len(k.Rivals) != 1 || k.Rivals[0].Node != "n2" || k.Rivals[0].Over || !slices.Contains(ran, k.Rivals[0].Owner) {
			t.Errorf("copy %v, rivals %+v, ran on %v: want the stopped start on n2", k.Copy, k.Rivals, ran)
		}
		if n := len(r.nodes[1].running); n != 0 || r.nodes[1].stops == 0 {
			t.Errorf("%d tasks run on the slow node, %d were stopped", n, r.nodes[1].stops)
		}
		for _, d := range r.nodes {
			if !d.Idle() {
				t.Errorf("%s still knows job 1", d.cfg.Self)
			}
		}
	}
}

// TestTasksBeforeCopies: a node with free room takes a task that waits on another node before a
// copy of one that runs.
func TestTasksBeforeCopies(t *testing.T) {
	r, waits := limp(t), 0
	usual := r.length
	r.length = func(s Start) time.Duration {
		if s.Copy {
			for _, d := range r.nodes {
				waits += int(d.Queues().Shared)
			}
		}
		return usual(s)
	}
	r.submit(0, submit.Job{Job: 1, Total: 200, Spec: record.Spec{Replicas: 1}})
	r.run(1, 5*time.Minute)
	if n := len(r.copied()); n == 0 || waits > 0 {
		t.Errorf("%d copies began while %d tasks waited, want some and 0", n, waits)
	}
}

// TestNoCopies: of bags without the option, of tasks that run once, and of capped jobs.
func TestNoCopies(t *testing.T) {
	for name, spec := range map[string]record.Spec{
		"bag": {}, "once": {Replicas: 1, Once: true}, "cap": {Replicas: 1, Cap: 100},
	} {
		r := limp(t)
		r.submit(0, submit.Job{Job: 1, Total: 40, Spec: spec})
		r.run(1, 2*time.Minute)
		if list := r.copied(); len(list) > 0 {
			t.Errorf("%s: %d copies ran", name, len(list))
		}
	}
}

// TestCopyThatFailsWinsNothing: the bad end of a copy is in no record, and counts for nothing.
func TestCopyThatFailsWinsNothing(t *testing.T) {
	r := limp(t)
	r.result = func(s Start) End {
		if s.Copy {
			return End{Run: s.Run, State: filch.Failed, Code: 7}
		}
		return End{Run: s.Run, State: filch.OK}
	}
	r.submit(0, submit.Job{Job: 1, Total: 40, Spec: record.Spec{Replicas: 1}})
	j := r.run(1, time.Minute)
	copies := r.copied()
	if len(copies) == 0 {
		t.Fatal("no copy ran")
	}
	if j.Tally() != (record.Tally{OK: 40}) {
		t.Errorf("tally %+v, want 40 ok", j.Tally())
	}
	for _, s := range copies {
		if k := r.task(1, s.Index); k.By.Node != "n2" || k.Attempt != 1 || k.Crashes != 0 {
			t.Errorf("the task is recorded as %+v, want the end of its first start on n2", k)
		} else if ran, _ := k.RanOn(); k.Copy || len(k.Rivals) != 1 || !k.Rivals[0].Over || !slices.Contains(ran, k.Rivals[0].Owner) {
			t.Errorf("copy %v, rivals %+v, ran on %v: want the copy that failed", k.Copy, k.Rivals, ran)
		}
	}
}

// TestBadEndWaitsForTheCopy: a task that fails while its copy runs ends as the copy does.
func TestBadEndWaitsForTheCopy(t *testing.T) {
	for _, copyFails := range []bool{false, true} {
		r := limp(t)
		r.length = func(s Start) time.Duration {
			switch {
			case s.Copy:
				return 5 * time.Second
			case r.on == "n2":
				return 4 * time.Second
			}
			return time.Second
		}
		r.result = func(s Start) End {
			if s.Copy && copyFails || !s.Copy && r.on == "n2" {
				return End{Run: s.Run, State: filch.Failed, Code: 3}
			}
			return End{Run: s.Run, State: filch.OK}
		}
		r.submit(0, submit.Job{Job: 1, Total: 12, Spec: record.Spec{Replicas: 1}})
		j := r.run(1, time.Minute)
		copies := r.copied()
		if len(copies) == 0 {
			t.Fatal("no copy ran")
		}
		last := copies[len(copies)-1]
		want := filch.OK
		if copyFails {
			want = filch.Failed
		}
		if k := r.task(1, last.Index); k.State != want || k.Extra != 0 || k.TookUS > 6e6 {
			t.Errorf("copy fails %v: the task is recorded as %+v, want %v", copyFails, k, want)
		}
		if n := j.Tally().Sum(); n != 12 {
			t.Errorf("%d ends of 12", n)
		}
	}
}

// copying runs until a copy of a task of n2 runs, and returns the start of the copy and the
// number of its node.
func (r *rig) copying() (Start, int) {
	r.t.Helper()
	for r.step(r.now + time.Minute) {
		if list := r.copied(); len(list) > 0 {
			for i, d := range r.nodes {
				for _, u := range d.running {
					if x := d.exec.list.Find(u.end.Run); x != nil && x.copy != nil {
						return list[0], i
					}
				}
			}
		}
	}
	r.t.Fatal("no copy ran")
	return Start{}, 0
}

// TestCopiesAndDeaths: a task goes on after the death of the node of the copy, and after the
// death of its owner, whose crash counts once.
func TestCopiesAndDeaths(t *testing.T) {
	for _, owner := range []bool{false, true} {
		r := limp(t)
		r.submit(0, submit.Job{Job: 1, Total: 40, Spec: record.Spec{Replicas: 1}})
		s, at := r.copying()
		dies, crashes := at, uint8(0)
		if owner {
			dies, crashes = 1, 1
		}
		r.kill(dies, 100*time.Millisecond)
		j := r.run(1, time.Minute)
		if j.Tally() != (record.Tally{OK: 40}) {
			t.Errorf("owner %v: tally %+v, want 40 ok", owner, j.Tally())
		}
		if k := r.task(1, s.Index); k.Crashes != crashes {
			t.Errorf("owner %v: %+v, want %d crashes", owner, k, crashes)
		}
		r.idle(2 * time.Second)
		for _, d := range r.nodes {
			if !d.down && (len(d.running) > 0 || !d.Idle()) {
				t.Errorf("owner %v: %s still runs %d tasks, idle %v", owner, d.cfg.Self, len(d.running), d.Idle())
			}
		}
	}
}

// TestCancelledTaskEndsItsCopy: a cancel ends the task and the copy, and is recorded once.
func TestCancelledTaskEndsItsCopy(t *testing.T) {
	for _, one := range []bool{false, true} {
		r := limp(t)
		r.submit(0, submit.Job{Job: 1, Total: 40, Spec: record.Spec{Replicas: 1, Retries: 3}})
		s, _ := r.copying()
		if one {
			r.nodes[2].Order(r.now, 1, record.Orders{Cancels: []record.Pick{{From: s.Index, Count: 1}}}, &r.nodes[2].out)
		} else {
			r.nodes[2].Cancel(r.now, 1, "", &r.nodes[2].out)
		}
		r.act(r.nodes[2])
		r.run(1, time.Minute)
		if k := r.task(1, s.Index); k.State != filch.Cancelled || k.Attempt != 1 {
			t.Errorf("one %v: the task is recorded as %+v, want cancelled", one, k)
		}
		r.idle(2 * time.Second)
		if n := r.runningAll(); n > 0 {
			t.Errorf("one %v: %d tasks run on", one, n)
		}
	}
}

// TestNoCopyBeginsAfterTheEnd: a thief that asks after the end of the task whether its copy may
// begin is told that nobody needs the copy.
func TestNoCopyBeginsAfterTheEnd(t *testing.T) {
	r := limp(t)
	r.length = func(Start) time.Duration {
		if r.on == "n2" {
			return 6 * time.Second
		}
		return time.Second
	}
	var held []rigMail
	r.lose = func(m message.Message) bool {
		if s, is := m.(*message.CopySay); is && s.State == message.CopyOffered && r.now < 30*time.Second {
			held = append(held, rigMail{m: s})
			return true
		}
		_, answer := m.(*message.CopyAnswer)
		return answer && r.now < 30*time.Second
	}
	r.submit(1, submit.Job{Job: 1, Total: 11, Spec: record.Spec{Replicas: 1}})
	r.run(1, time.Minute)
	if len(held) == 0 {
		t.Fatal("no thief asked for a copy")
	}
	r.now = max(r.now, 30*time.Second)
	r.idle(5 * time.Second)
	if list := r.copied(); len(list) > 0 {
		t.Errorf("%d copies began after the end of their task", len(list))
	}
	for _, d := range r.nodes {
		if !d.Idle() || d.copies.Comes() {
			t.Errorf("%s still has a copy of job 1", d.cfg.Self)
		}
	}
}
