package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// heldRig has one node with two slots held for a gang and no room for tasks, and one with a
// slot for tasks. moved counts the tasks offered to the first.
func heldRig(t *testing.T, starts time.Duration) (r *rig, moved *int64) {
	r, moved = newRig(t, 2, 0, policy.Policy{}), new(int64)
	r.length = func(Start) time.Duration { return time.Second }
	r.hear = func(_, to filch.NodeName, m message.Message) {
		if o, ok := m.(*message.Offer); ok && to == "n1" {
			*moved += int64(len(o.Tasks) + len(o.Copies))
			for _, s := range o.Ranges {
				*moved += int64(s.Hi - s.Lo)
			}
		}
	}
	d := r.nodes[1]
	d.SetRoom(r.now, filch.Room{Slots: 1, MemBytes: 1 << 30}, &d.out)
	r.act(d)
	d = r.nodes[0]
	d.Fills.SetGap(r.now, policy.Gap{Room: filch.Room{Slots: 2, MemBytes: 1 << 30}, Since: r.now - time.Hour, Starts: starts, KillWait: 10 * time.Second}, &d.out)
	r.act(d)
	return r, moved
}

// A node whose slots are all held for a gang takes tasks of other nodes that end in time, as
// many as the slots hold, and no others.
func TestHeldSlotsTakeTasksOfOthers(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name   string
		starts time.Duration
		spec   record.Spec
		want   int // tasks that begin in the two held slots
	}{
		{"a task that may start again", 0, record.Spec{Expect: s}, 2},
		{"by its limit", 60 * s, record.Spec{Limit: 20 * s}, 2},
		{"a limit behind the start", 60 * s, record.Spec{Limit: 51 * s}, 0},
		{"a limit, and a start that nobody knows", 0, record.Spec{Limit: s}, 0},
		{"of unknown length", 0, record.Spec{}, 0},
		{"longer than the slots were held", 0, record.Spec{Expect: 2 * time.Hour}, 0},
		{"usually longer than the wait for the start", 60 * s, record.Spec{Expect: 61 * s}, 0},
		{"started at most once", 0, record.Spec{Expect: s, Once: true}, 0},
		{"a worker", 0, record.Spec{Expect: s, Firm: true}, 0},
		{"a gang", 0, record.Spec{Expect: s, Gang: record.Gang{Ranks: 2}}, 0},
		{"larger than the room", 0, record.Spec{Expect: s, Each: filch.Room{Slots: 3}}, 0},
		{"with a part of a resource", 0, record.Spec{Expect: s, Cap: 5}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, moved := heldRig(t, c.starts)
			r.submit(1, submit.Job{Job: 1, Total: 20, Spec: c.spec})
			r.at(500 * time.Millisecond)
			if got := r.byNode["n1"]; got != c.want || *moved != int64(c.want) {
				t.Errorf("%d tasks moved and %d began in two held slots, want %d", *moved, got, c.want)
			}
			for i := range r.started {
				if s := &r.started[i]; s.Borrows && c.want == 0 {
					t.Errorf("task %d began in a held slot", s.Index)
				}
			}
		})
	}
}

// A victim tells the thief how long its tasks take: the thief has run none.
func TestHeldSlotsTakeTasksOfLearntLength(t *testing.T) {
	r, _ := heldRig(t, 0)
	r.submit(1, submit.Job{Job: 1, Total: 60})
	rec := r.run(1, time.Minute)
	if rec.Tally().OK != 60 || r.byNode["n1"] < 20 {
		t.Errorf("%d of 60 tasks ended well, %d of them in held slots: want all, and at least 20", rec.Tally().OK, r.byNode["n1"])
	}
}

// Tasks that the gang stopped go back to a node with room.
func TestStolenTasksLeaveHeldSlots(t *testing.T) {
	r, _ := heldRig(t, 0)
	r.submit(1, usual(1, 8, record.Spec{CrashLimit: 1}))
	r.at(500 * time.Millisecond)
	d := r.nodes[0]
	d.Fills.SetGap(r.now, policy.Gap{}, &d.out)
	for i := range d.running {
		d.running[i].at, d.running[i].end = r.now, End{Run: d.running[i].end.Run, State: filch.Killed, Code: 143, Recalled: true}
	}
	r.act(d)
	if rec := r.run(1, time.Minute); rec.Tally().OK != 8 || r.byNode["n2"] != 8 {
		t.Errorf("%d of 8 tasks ended well, starts by node: %v, want all on n2 in the end", rec.Tally().OK, r.byNode)
	}
}

// Two nodes whose slots are held do not pass a task to and fro.
func TestHeldNodesKeepTheirTasks(t *testing.T) {
	r, moved := heldRig(t, 0)
	d := r.nodes[1]
	d.SetRoom(r.now, filch.Room{}, &d.out)
	d.Fills.SetGap(r.now, policy.Gap{Room: filch.Room{Slots: 2, MemBytes: 1 << 30}, Since: -time.Hour}, &d.out)
	r.act(d)
	r.submit(1, usual(1, 3, record.Spec{}))
	rec := r.run(1, time.Minute)
	if rec.Tally().OK != 3 || *moved > 1 {
		t.Errorf("%d of 3 tasks ended well, and %d moved, want 1 at most", rec.Tally().OK, *moved)
	}
}
