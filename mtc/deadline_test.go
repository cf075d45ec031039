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

// secondsOf is how long the line of a task says that it may take.
func secondsOf(line []byte) time.Duration {
	n := 0
	fmt.Sscanf(string(line), "%d", &n)
	return time.Duration(n) * time.Second
}

// limitRig is one where tasks have limits of their own, and take as long.
func limitRig(t *testing.T, n int, slots int32, w ...policy.Walltime) *rig {
	r := newRig(t, n, slots, policy.Policy{})
	for i, d := range r.nodes {
		d.cfg.Limit = secondsOf
		if i < len(w) {
			d.cfg.Walltime = w[i]
		}
	}
	r.length = func(s Start) time.Duration {
		line := s.Payload
		if n, err := record.DecodeGraphNode(line); err == nil && len(n.Body) > 0 {
			line = n.Body
		}
		return max(secondsOf(line), time.Second)
	}
	return r
}

func limitLines(secs ...int) (list [][]byte) {
	for _, s := range secs {
		list = append(list, fmt.Appendf(nil, "%d", s))
	}
	return list
}

func (r *rig) startedTasks() (list []int32) {
	for _, s := range r.started {
		list = append(list, s.Index)
	}
	return list
}

// A task whose own limit is beyond the end of the node is not started, and keeps
// none from it that can finish.
func TestTasksWithLimitsOfTheirOwn(t *testing.T) {
	ends := policy.Walltime{End: 20 * time.Second, Drain: 5 * time.Second}
	for _, c := range []struct {
		name  string
		spec  record.Spec
		w     policy.Walltime
		lines [][]byte
		want  string
		aside int64
	}{
		{"long ones stay", record.Spec{}, ends, limitLines(60, 2, 60, 3, 60), "[1 3]", 3},
		{"what is unknown is started before the drain", record.Spec{}, ends, limitLines(60, 0, 2), "[1 2]", 1},
		{"what is known to finish is started in the drain", record.Spec{}, ends, limitLines(15, 0, 0, 2), "[0 3]", 2},
		{"it is in place of the job's", record.Spec{Limit: time.Minute}, ends, limitLines(3, 0, 60, 4), "[0 3]", 2},
		{"a node that stays", record.Spec{}, policy.Walltime{}, limitLines(60, 2), "[0 1]", 0},
		{"once", record.Spec{Once: true}, ends, limitLines(60, 2), "[1]", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := limitRig(t, 1, 1, c.w)
			c.spec.Payloads, c.spec.Limits = true, true
			r.submit(0, submit.Job{Job: 1, Spec: c.spec, Total: int32(len(c.lines)), Lines: c.lines})
			r.idle(2 * time.Minute)
			if got := fmt.Sprint(r.startedTasks()); got != c.want {
				t.Errorf("started %s, want %s", got, c.want)
			}
			if s, ok := r.nodes[0].Job(1); c.aside > 0 && (!ok || s.Pace.Aside != c.aside || s.Here.Shared != c.aside) {
				t.Errorf("the status is %+v, want %d aside", s, c.aside)
			}
		})
	}
}

// A cancel ends what is kept aside, too.
func TestCancelOfWhatCannotFinish(t *testing.T) {
	r := limitRig(t, 1, 1, policy.Walltime{End: 20 * time.Second})
	r.submit(0, submit.Job{Job: 1, Spec: record.Spec{Payloads: true, Limits: true}, Total: 3, Lines: limitLines(60, 2, 60)})
	r.idle(5 * time.Second)
	r.nodes[0].Cancel(r.now, 1, "", &r.nodes[0].out)
	r.act(r.nodes[0])
	r.run(1, 10*time.Second)
	if y := r.job(1).Tally(); y.OK != 1 || y.Cancelled != 2 {
		t.Errorf("got %+v, want one that ended and two that are cancelled", y)
	}
}

// What is kept aside on a node that is taken away is run by one that stays, and
// does not go round among those that cannot finish it.
func TestTasksWithLimitsGoWhereTheyCanFinish(t *testing.T) {
	ends := policy.Walltime{End: 30 * time.Second, Drain: 5 * time.Second}
	for _, graph := range []bool{false, true} {
		t.Run(fmt.Sprintf("graph %v", graph), func(t *testing.T) {
			r := limitRig(t, 3, 1, ends, ends)
			r.nodes[2].SetRoom(0, filch.Room{}, &r.nodes[2].out)
			s := submit.Job{Job: 1, Spec: record.Spec{Payloads: true, Limits: true}}
			for i := range 40 {
				line := limitLines([]int{60, 1}[i%2])[0]
				if graph {
					s.Nodes = append(s.Nodes, record.GraphNode{Name: fmt.Sprint("t", i), Body: line})
				} else {
					s.Lines = append(s.Lines, line)
				}
			}
			s.Total = 40
			r.submit(0, s)
			r.idle(60 * time.Second)
			if len(r.started) != 20 {
				t.Errorf("%d tasks were started by nodes that end after %v, want the 20 that can finish", len(r.started), ends.End)
			}
			if n := r.sent[message.KindOffer]; n > 60 {
				t.Errorf("%d offers were made of 40 tasks", n)
			}
			r.nodes[2].SetRoom(r.now, filch.Room{Slots: 4}, &r.nodes[2].out)
			r.act(r.nodes[2])
			r.run(1, 20*time.Minute)
			if r.byNode["n3"] != 20 {
				t.Errorf("the node that stays started %d tasks, want 20", r.byNode["n3"])
			}
		})
	}
}

// What is kept aside is bounded.
func TestAsideIsBounded(t *testing.T) {
	r := limitRig(t, 1, 1, policy.Walltime{End: 20 * time.Second})
	list := limitLines(60)
	for range policy.LateMax + 1000 {
		list = append(list, list[0])
	}
	r.submit(0, submit.Job{Job: 1, Spec: record.Spec{Payloads: true, Limits: true}, Total: int32(len(list)), Lines: list})
	r.idle(time.Minute)
	if s, _ := r.nodes[0].Job(1); s.Pace.Aside != policy.LateMax || !s.Pace.Late {
		t.Errorf("%d are kept aside, late is %v; want %d", s.Pace.Aside, s.Pace.Late, policy.LateMax)
	}
}

// A task that runs once, came in a range that was stolen, and cannot finish
// where it came, goes on to a node where it can.
func TestAStolenTaskThatRunsOnceGoesOn(t *testing.T) {
	r := limitRig(t, 3, 1, policy.Walltime{}, policy.Walltime{End: 30 * time.Second})
	r.nodes[2].SetRoom(0, filch.Room{}, &r.nodes[2].out)
	var secs []int
	for range 12 {
		secs = append(secs, 60)
	}
	r.submit(0, submit.Job{Job: 1, Spec: record.Spec{Payloads: true, Limits: true, Once: true}, Total: int32(len(secs)), Lines: limitLines(secs...)})
	r.idle(5 * time.Second)
	if s, _ := r.nodes[1].Job(1); s.Pace.Aside == 0 {
		t.Fatal("no task is kept aside on the node that ends")
	}
	r.nodes[2].SetRoom(r.now, filch.Room{Slots: 4}, &r.nodes[2].out)
	r.act(r.nodes[2])
	if got := r.run(1, time.Hour).Tally(); got.OK != 12 {
		t.Errorf("%+v, want 12 ok", got)
	}
}

// A node that starts no more tasks of a capped job gives its tokens to those who
// can.
func TestTokensGoWhereTasksCanFinish(t *testing.T) {
	for _, each := range []bool{false, true} {
		r := limitRig(t, 2, 2, policy.Walltime{End: 100 * time.Second})
		s := submit.Job{Job: 1, Spec: record.Spec{Cap: 2, Limit: time.Minute}, Total: 30}
		if each {
			s.Spec.Limits, s.Spec.Payloads = true, true
			for range s.Total {
				s.Lines = append(s.Lines, limitLines(60)...)
			}
		}
		r.length = slow(10 * time.Second)
		r.submit(0, s)
		if got := r.run(1, time.Hour).Tally(); got.OK != 30 {
			t.Errorf("%+v, want 30 ok", got)
		}
		if r.peak > 2 {
			t.Errorf("%d ran at a time under a cap of 2", r.peak)
		}
		if r.now > 400*time.Second {
			t.Errorf("it took %v", r.now)
		}
	}
}
