package mtc

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// order gives a node an order about a job.
func (r *rig) order(node int, id filch.JobID, o record.Orders) {
	d := r.nodes[node]
	d.Order(r.now, id, o, &d.out)
	r.act(d)
}

func cancels(list ...record.Pick) record.Orders { return record.Orders{Cancels: list} }

// ends are the ends of a job's tasks, in blocks and zones, each counted.
func (r *rig) ends(id filch.JobID) map[int32][]filch.State {
	r.t.Helper()
	ends := map[int32][]filch.State{}
	total := r.job(id).Total
	for i := range total {
		if s := r.task(id, i).State; s != 0 {
			ends[i] = append(ends[i], s)
		}
	}
	for num := int32(0); num*record.ZoneSize < total; num++ {
		z, err := record.DecodeZone(r.records[record.KeyZone(id, num)])
		if err != nil {
			r.t.Fatal(err)
		}
		for _, s := range z.Spans {
			for i := s.Lo; i < s.Hi && s.Void != 0; i++ {
				ends[i] = append(ends[i], s.Void)
			}
		}
	}
	return ends
}

// TestCancelOfWaitingTasks cancels tasks that wait on every node in every kind of queue:
// at once they end cancelled, none starts, and the others run.
func TestCancelOfWaitingTasks(t *testing.T) {
	for _, kind := range []string{"range", "once", "capped", "lines", "failed before"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, 4, 2, policy.Policy{})
			r.length = slow(10 * time.Second)
			s := submit.Job{Job: 1, Total: 1000}
			switch kind {
			case "once":
				s.Spec.Once = true
			case "capped":
				s.Spec.Cap = 3
			case "lines":
				s.Spec.Payloads = true
				for range 1000 {
					s.Lines = append(s.Lines, []byte("x"))
				}
			case "failed before":
				s.Spec.Retries = 1
				r.length = slow(5 * time.Second)
				r.result = func(s Start) End {
					if s.Attempt == 1 {
						return End{Run: s.Run, State: filch.Failed, Code: 1}
					}
					return End{Run: s.Run, State: filch.OK}
				}
			}
			r.submit(0, s)
			r.idle(time.Second)
			began := map[int32]bool{}
			for _, s := range r.started {
				began[s.Index] = true
			}
			gone := map[int32]bool{}
			o := cancels(record.Pick{From: 100, Count: 200}, record.Pick{From: 500, Count: 1}, record.Pick{From: 990, Count: 10})
			want := int32(0)
			for _, p := range o.Cancels {
				for i := p.From; i < p.From+p.Count; i++ {
					gone[i] = true
				}
				want += p.Count
			}
			r.order(2, 1, o)
			r.order(2, 1, o) // a repeated order changes nothing
			r.idle(2 * time.Second)
			if got := r.job(1).Tally().Cancelled; got != want {
				t.Errorf("two seconds after the order %d tasks are cancelled, want %d", got, want)
			}
			r.length = slow(time.Millisecond)
			j := r.run(1, 10*time.Minute)
			if got := j.Tally(); got.Cancelled != want || got.OK != 1000-want {
				t.Errorf("%+v: want %d cancelled and the others ok", got, want)
			}
			if got := j.State(); got != filch.Cancelled {
				t.Errorf("the job is %v, want cancelled", got)
			}
			for i, list := range r.ends(1) {
				if len(list) != 1 || (list[0] == filch.Cancelled) != gone[i] {
					t.Fatalf("task %d has the ends %v, cancelled %v", i, list, gone[i])
				}
				if n := r.onNode[fmt.Sprintf("1.%d", i)]; gone[i] && !began[i] && n > 0 {
					t.Fatalf("task %d was cancelled and started %d times", i, n)
				}
			}
		})
	}
}

// TestCancelOfRunningTask stops one of two running tasks, and does not try it again.
func TestCancelOfRunningTask(t *testing.T) {
	r := newRig(t, 1, 2, policy.Policy{})
	r.length = slow(time.Minute)
	r.submit(0, submit.Job{Job: 1, Total: 2, Spec: record.Spec{Retries: 5}})
	r.idle(time.Second)
	r.order(0, 1, cancels(record.Pick{From: 1, Count: 1}))
	r.idle(time.Second)
	if d := r.nodes[0]; d.stops != 1 || len(d.running) != 1 || r.task(1, 1).State != filch.Cancelled {
		t.Fatalf("%d stops, %d run, the task is %+v", d.stops, len(d.running), r.task(1, 1))
	}
	if got := r.run(1, 2*time.Minute).Tally(); got.OK != 1 || got.Cancelled != 1 || len(r.started) != 2 {
		t.Errorf("%+v after %d starts", got, len(r.started))
	}
}

// TestCancelOfATaskThatEndsWell: a task has a handler of TERM, and ends with 0 when its cancel stops
// the task. The task is cancelled, and not ok: its work is not done.
func TestCancelOfATaskThatEndsWell(t *testing.T) {
	for _, all := range []bool{false, true} {
		r := newRig(t, 1, 4, policy.Policy{})
		r.length = slow(10 * time.Second)
		r.stopped = func(s Stop) End { return End{Run: s.Run, State: filch.OK} }
		r.submit(0, submit.Job{Job: 1, Total: 2})
		r.idle(time.Second)
		if all {
			r.nodes[0].Cancel(r.now, 1, "", &r.nodes[0].out)
			r.act(r.nodes[0])
		} else {
			r.order(0, 1, cancels(record.Pick{From: 0, Count: 2}))
		}
		if j := r.run(1, time.Minute); j.Tally() != (record.Tally{Cancelled: 2}) || r.task(1, 1).Code != 0 {
			t.Errorf("the whole job %v: %+v, want 2 cancelled tasks with code 0", all, j.Tally())
		}
	}
}

// TestCancelWhileStolen cancels tasks that are frozen under an offer: the thief, which
// receives the order late or never, or the victim, which takes them back, ends them.
func TestCancelWhileStolen(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("offer lost %v", lost), func(t *testing.T) {
			r := newRig(t, 2, 1, policy.Policy{})
			ordered, late := filch.Never, 0
			r.length = func(s Start) time.Duration {
				if s.Index >= 5 && s.Index < 35 && r.now > ordered {
					late++
				}
				return 3 * time.Second
			}
			offered := false
			r.lose = func(m message.Message) bool {
				_, is := m.(*message.Offer)
				offered = offered || is
				return is && lost
			}
			r.submit(0, submit.Job{Job: 1, Total: 40})
			for !offered && r.step(time.Minute) {
			}
			r.order(0, 1, cancels(record.Pick{From: 5, Count: 30}))
			ordered = r.now
			j := r.run(1, 5*time.Minute)
			// The thief may start one task before the news of the order comes, and stops it.
			if got := j.Tally(); got.Cancelled != 30 || got.OK != 10 || late > 0 || len(r.started) > 11 {
				t.Errorf("%+v after %d starts, %d of them late: want 30 cancelled", got, len(r.started), late)
			}
			for i, list := range r.ends(1) {
				if len(list) != 1 {
					t.Errorf("task %d has the ends %v", i, list)
				}
			}
		})
	}
}

// TestCancelOutlivesItsOwner cancels tasks whose owner dies before it hears of that.
func TestCancelOutlivesItsOwner(t *testing.T) {
	r := newRig(t, 3, 1, policy.Policy{})
	r.length = slow(2 * time.Second)
	r.submit(0, submit.Job{Job: 1, Total: 60})
	r.idle(time.Second)
	r.nodes[0].down = true
	r.order(1, 1, cancels(record.Pick{From: 10, Count: 40}))
	for _, d := range r.nodes[1:] {
		d.SetMember(r.now, filch.Member{Name: "n1", Incarnation: 1, Standing: filch.Dead}, &d.out)
		r.act(d)
	}
	r.idle(3 * time.Second)
	if got := r.job(1).Tally().Cancelled; got < 30 {
		t.Errorf("%d tasks are cancelled three seconds after the death of their owner", got)
	}
	got := r.run(1, 5*time.Minute).Tally()
	if got.Sum() != 60 || got.Cancelled < 38 || got.Cancelled+got.OK != 60 {
		t.Errorf("%+v", got)
	}
	for i, list := range r.ends(1) {
		if len(list) != 1 {
			t.Errorf("task %d has the ends %v", i, list)
		}
	}
}

// TestLostOrderComesBack loses the first news of an order.
func TestLostOrderComesBack(t *testing.T) {
	r := newRig(t, 2, 1, policy.Policy{})
	r.length = slow(time.Minute)
	r.submit(0, submit.Job{Job: 1, Total: 2})
	r.idle(time.Second)
	if len(r.nodes[1].running) != 1 {
		t.Fatalf("n2 runs %d tasks", len(r.nodes[1].running))
	}
	lost := 0
	r.lose = func(m message.Message) bool {
		if _, is := m.(*message.Ordered); is {
			lost++
		}
		return lost == 1
	}
	r.order(0, 1, cancels(record.Pick{From: 0, Count: 2}))
	if got := r.run(1, 10*time.Second).Tally(); got.Cancelled != 2 {
		t.Errorf("%+v", got)
	}
	r.idle(time.Minute)
	if n := r.sent[message.KindOrdered]; n > 4 {
		t.Errorf("%d messages about one order", n)
	}
}

// TestHoldAndRelease holds a bag: running tasks go on, none starts, the node is free for
// other jobs, and the release starts the rest on all nodes.
func TestHoldAndRelease(t *testing.T) {
	r := newRig(t, 3, 1, policy.Policy{})
	r.length = slow(3 * time.Second)
	r.submit(0, submit.Job{Job: 1, Total: 30})
	r.idle(time.Second)
	r.order(1, 1, record.Orders{Held: true, By: "ann", Serial: r.job(1).Serial})
	r.idle(time.Second)
	before := len(r.started)
	r.idle(time.Minute)
	if got := r.job(1); got.Tally().OK != 3 || !got.Held || got.By != "ann" || len(r.started) != before {
		t.Fatalf("%+v, %d starts after %d", got, len(r.started), before)
	}
	r.submit(1, submit.Job{Job: 2, Total: 9})
	if r.run(2, time.Minute); r.byNode["n1"] < 2 || r.byNode["n3"] < 2 {
		t.Errorf("starts %v: a held job keeps nodes from other work", r.byNode)
	}
	r.order(2, 1, record.Orders{Serial: 0}) // an old order, repeated
	r.idle(time.Second)
	if !r.job(1).Held {
		t.Fatal("an order of an older serial released the job")
	}
	r.order(2, 1, record.Orders{Serial: r.job(1).Serial})
	if got := r.run(1, 2*time.Minute); got.Tally().OK != 30 || got.Held || got.By != "" {
		t.Errorf("%+v", got)
	}
	if took := len(r.started); took != 39 || r.byNode["n3"] < 5 {
		t.Errorf("%d starts, %v", took, r.byNode)
	}
}

// TestHeldFromTheStart submits a held bag, which outlives the death of its leader.
func TestHeldFromTheStart(t *testing.T) {
	r := newRig(t, 3, 1, policy.Policy{})
	r.submit(0, submit.Job{Job: 1, Total: 5, HeldBy: "ann"})
	r.idle(time.Second)
	r.nodes[0].down = true
	for _, d := range r.nodes[1:] {
		d.SetMember(r.now, filch.Member{Name: "n1", Incarnation: 1, Standing: filch.Dead}, &d.out)
		r.act(d)
	}
	r.idle(time.Minute)
	if len(r.started) != 0 || r.job(1).Leader.Node == "n1" || r.job(1).By != "ann" {
		t.Fatalf("%d starts, %+v", len(r.started), r.job(1))
	}
	r.order(1, 1, record.Orders{Serial: r.job(1).Serial})
	if got := r.run(1, time.Minute).Tally(); got.OK != 5 {
		t.Errorf("%+v", got)
	}
}

// TestCancelOfWorkflowTasks cancels single tasks of a graph: a task that waits for parents
// ends at once, a running task is stopped, their dependents are skipped, and the rest of
// the graph ends well, also where the leader dies after the order.
func TestCancelOfWorkflowTasks(t *testing.T) {
	for k := range 6 {
		dies, mode := k%2 == 1, record.FailMode(k/2)
		t.Run(fmt.Sprintf("leader dies %v mode %d", dies, mode), func(t *testing.T) {
			r := newRig(t, 3, 2, policy.Policy{})
			r.length = slow(5 * time.Second)
			// Task 0 runs first; 1 and 2 wait for 0; 3 for 1; 4 for 2 and 6; 5 runs first; 6 for 5.
			r.submit(0, submit.Job{Job: 1, Spec: record.Spec{OnFail: mode}, Nodes: workflow(nil, []int32{0}, []int32{0}, []int32{1}, []int32{2, 6}, nil, []int32{5})})
			r.idle(time.Second)
			r.order(1, 1, cancels(record.Pick{From: 1, Count: 1}, record.Pick{From: 5, Count: 1}))
			if dies {
				r.kill(0, time.Second)
			}
			r.idle(2 * time.Second)
			if !dies {
				for i, want := range map[int32]filch.State{1: filch.Cancelled, 3: filch.Skipped, 5: filch.Cancelled, 6: filch.Skipped, 4: filch.Skipped} {
					if got := r.task(1, i).State; got != want {
						t.Errorf("two seconds after the order task %d is %v, want %v", i, got, want)
					}
				}
			}
			j := r.run(1, 5*time.Minute)
			if got := j.Tally(); got.OK != 2 || got.Cancelled != 2 || got.Skipped != 3 {
				t.Errorf("%+v: want 2 ok, 2 cancelled, 3 skipped", got)
			}
			if got := j.State(); got != filch.Cancelled {
				t.Errorf("the job is %v, want cancelled", got)
			}
			for i, list := range r.ends(1) {
				if len(list) != 1 {
					t.Errorf("task %d has the ends %v", i, list)
				}
			}
			for _, s := range r.started {
				if s.Index != 0 && s.Index != 2 && s.Index != 5 {
					t.Errorf("task %d started", s.Index)
				}
			}
		})
	}
}

// TestCancelOfStoppedWorkflow cancels what still runs of a graph of which a task failed: the
// rest is skipped already, and the graph would wait for the end of its long task.
func TestCancelOfStoppedWorkflow(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel func(r *rig)
		state  filch.State
	}{
		{"task", func(r *rig) { r.order(1, 1, cancels(record.Pick{From: 0, Count: 3})) }, filch.Failed},
		{"job", func(r *rig) {
			d := r.nodes[1]
			d.Cancel(r.now, 1, "enough", &d.out)
			r.act(d)
		}, filch.Cancelled},
	} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, leader dies %v", c.name, dies), func(t *testing.T) {
				r := newRig(t, 3, 1, policy.Policy{})
				r.length = func(s Start) time.Duration {
					if s.Index == 1 {
						return time.Second
					}
					return time.Hour
				}
				r.result = func(s Start) End { return End{Run: s.Run, State: filch.Failed, Code: 1} }
				r.submit(0, submit.Job{Job: 1, Spec: record.Spec{OnFail: record.FailStop}, Nodes: workflow(nil, nil, []int32{0}, nil)})
				r.idle(5 * time.Second)
				if j := r.job(1); j.Void != filch.Skipped || r.task(1, 1).State != filch.Failed || r.runningAll() != 2 {
					t.Fatalf("%+v, %d tasks run", j, r.runningAll())
				}
				if dies {
					r.kill(0, time.Second)
					r.idle(2 * time.Second)
				}
				c.cancel(r)
				r.idle(2 * time.Second)
				if n := r.runningAll(); c.name == "task" && n > 1 || c.name == "job" && n > 0 {
					t.Errorf("%d tasks run two seconds after the cancel", n)
				}
				if got := r.task(1, 0).State; !dies && got != filch.Cancelled {
					t.Errorf("the task that ran is %v", got)
				}
				if c.name == "task" {
					r.order(2, 1, cancels(record.Pick{From: 3, Count: 1}))
				}
				j := r.run(1, time.Minute)
				if got := j.Tally(); j.State() != c.state || got.Failed != 1 || got.Sum() != 4 || !dies && got.Cancelled != 2 {
					t.Errorf("the job is %v, %+v", j.State(), got)
				}
				for i, list := range r.ends(1) {
					if len(list) != 1 {
						t.Errorf("task %d has the ends %v", i, list)
					}
				}
			})
		}
	}
}
