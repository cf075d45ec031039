package mtc

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// gapRig is a node without room for tasks, on which a gang holds slots for long already.
func gapRig(t *testing.T, nodes int, slots int32) *rig {
	r := newRig(t, nodes, 0, policy.Policy{})
	r.length = func(Start) time.Duration { return time.Second }
	r.gap(slots)
	return r
}

func (r *rig) gap(slots int32) {
	d := r.nodes[0]
	d.Fills.SetGap(r.now, policy.Gap{Room: filch.Room{Slots: slots, MemBytes: 1 << 30}, Since: r.now - time.Hour}, &d.out)
	r.act(d)
}

func usual(id filch.JobID, total int32, spec record.Spec) submit.Job {
	spec.Expect = time.Second
	return submit.Job{Job: id, Total: total, Spec: spec}
}

// Tasks wait until the slots were idle for longer than such a task takes.
func TestTasksWaitForTheirTime(t *testing.T) {
	r := gapRig(t, 1, 0)
	d := r.nodes[0]
	d.Fills.SetGap(0, policy.Gap{Room: filch.Room{Slots: 1, MemBytes: 1 << 30}}, &d.out)
	r.submit(0, usual(1, 1, record.Spec{}))
	if r.at(1200 * time.Millisecond); len(r.started) != 0 {
		t.Errorf("a task of a second began after %v", r.now)
	}
	if r.at(1300 * time.Millisecond); len(r.started) != 1 {
		t.Errorf("%d tasks began after %v, want 1", len(r.started), r.now)
	}
}

func TestTasksRunInHeldSlots(t *testing.T) {
	for _, c := range []struct {
		name string
		spec record.Spec
		want int // of three tasks, at once, in two slots
	}{
		{"a task that may start again", record.Spec{Expect: time.Second}, 2},
		{"of unknown length", record.Spec{}, 0},
		{"longer than the slots were held", record.Spec{Expect: 2 * time.Hour}, 0},
		{"started at most once", record.Spec{Expect: time.Second, Once: true}, 0},
		{"a worker", record.Spec{Expect: time.Second, Firm: true}, 0},
		{"a gang", record.Spec{Expect: time.Second, Gang: record.Gang{Ranks: 2}}, 0},
		{"larger than the room", record.Spec{Expect: time.Second, Each: filch.Room{Slots: 3}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := gapRig(t, 1, 2)
			r.submit(0, submit.Job{Job: 1, Total: 3, Spec: c.spec})
			r.at(100 * time.Millisecond)
			if len(r.started) != c.want {
				t.Fatalf("%d tasks began in two held slots, want %d", len(r.started), c.want)
			}
			if d := r.nodes[0]; d.exec.used != (filch.Room{}) {
				t.Errorf("the tasks use %+v of the room of tasks", d.exec.used)
			}
			for _, s := range r.started {
				if !s.Borrows {
					t.Errorf("the start of task %d does not say that the room is borrowed", s.Index)
				}
			}
			if r.at(30 * time.Second); c.want > 0 && len(r.started) != 3 {
				t.Errorf("%d tasks began in the end, want 3", len(r.started))
			}
		})
	}
}

// A task that is stopped for a gang begins again, and neither its retries nor its crashes
// are used up; its record counts the starts.
func TestRecalledTaskIsNotCounted(t *testing.T) {
	for _, c := range []struct {
		name    string
		fails   int // after two recalls
		retries int32
		want    filch.State
		starts  int
	}{
		{"ends well", 0, 0, filch.OK, 3},
		{"fails once", 1, 0, filch.Failed, 3},
		{"fails once, and is tried again", 1, 1, filch.OK, 4},
		{"fails twice", 2, 1, filch.Failed, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := gapRig(t, 1, 1)
			n := 0
			r.result = func(s Start) End {
				switch n++; {
				case n <= 2:
					return End{Run: s.Run, State: filch.Killed, Code: 143, Recalled: true}
				case n <= 2+c.fails:
					return End{Run: s.Run, State: filch.Failed, Code: 1}
				}
				return End{Run: s.Run, State: filch.OK}
			}
			r.submit(0, usual(1, 1, record.Spec{CrashLimit: 1, Retries: c.retries}))
			r.run(1, time.Minute)
			k := r.task(1, 0)
			if k.State != c.want || len(r.started) != c.starts || k.Recalls != 2 || k.Crashes != 0 || int(k.Attempt) != c.starts {
				t.Errorf("after %d starts the record is %+v, want %v after %d starts with 2 recalls", len(r.started), k, c.want, c.starts)
			}
			for i, s := range r.started {
				if int(s.Nth) != i+1 {
					t.Errorf("start %d has the number %d", i+1, s.Nth)
				}
			}
		})
	}
}

// A task that was stopped often enough waits for room of tasks.
func TestTaskIsRecalledSoOften(t *testing.T) {
	r := gapRig(t, 1, 1)
	r.result = func(s Start) End { return End{Run: s.Run, State: filch.Killed, Recalled: s.Borrows} }
	r.submit(0, usual(1, 1, record.Spec{}))
	r.idle(time.Minute)
	if len(r.started) != policy.RecallsMax {
		t.Errorf("%d starts in held slots, want %d", len(r.started), policy.RecallsMax)
	}
	r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK} }
	d := r.nodes[0]
	d.SetRoom(r.now, filch.Room{Slots: 1}, &d.out)
	r.act(d)
	if rec := r.run(1, r.now+time.Minute); rec.Tally().OK != 1 {
		t.Errorf("the task ended as %+v", rec.Tally())
	}
}

// A thief takes the count of recalls with the task.
func TestRecallsMoveWithTheTask(t *testing.T) {
	r := gapRig(t, 2, 1)
	r.result = func(s Start) End {
		if s.Borrows {
			d := r.nodes[1] // from now on the other node has room
			d.SetRoom(r.now, filch.Room{Slots: 1}, &d.out)
			return End{Run: s.Run, State: filch.Killed, Recalled: true}
		}
		return End{Run: s.Run, State: filch.OK}
	}
	r.submit(0, usual(1, 1, record.Spec{}))
	r.run(1, time.Minute)
	if k := r.task(1, 0); k.Recalls != 1 || k.State != filch.OK || r.byNode["n2"] != 1 {
		t.Errorf("the task ended as %+v; starts by node: %v", k, r.byNode)
	}
}

// Tasks of a workflow run in held slots once the length of their kind is known, or where the
// file states the length.
func TestTasksOfAWorkflowRunInHeldSlots(t *testing.T) {
	r := gapRig(t, 1, 2)
	d := r.nodes[0]
	d.Learn("old", time.Second)
	d.Learn("long", 2*time.Hour)
	for i, n := range []record.GraphNode{{Kind: "new"}, {Kind: "old"}, {Kind: "other", Length: time.Second}, {Kind: "long"}} {
		r.submit(0, submit.Job{Job: filch.JobID(i + 1), Nodes: []record.GraphNode{n}})
	}
	r.at(10 * time.Second)
	var began []filch.JobID
	for _, s := range r.started {
		began = append(began, s.Job)
	}
	slices.Sort(began)
	if !slices.Equal(began, []filch.JobID{2, 3}) {
		t.Errorf("the tasks of workflows %v ran in held slots, want those of 2 and 3", began)
	}
}
