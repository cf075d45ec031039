package mtc

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// The tests below show that the rules of mtc/policy decide in the core.

// TestGuessDecidesThePlace: a leader on which no task ended yet takes the tasks for as long as the
// policy guesses. RLDS binds tasks to their input if the input is too much for such a length.
func TestGuessDecidesThePlace(t *testing.T) {
	for guess, want := range map[time.Duration]bool{10 * time.Millisecond: true, 100 * time.Second: false} {
		if got := binds(t, guess, false); got != want {
			t.Errorf("with a guess of %v the leader binds tasks: %t, want %t", guess, got, want)
		}
	}
}

// TestMeanDecidesThePlace: the same by the tasks that ended on the leader, whatever the guess.
func TestMeanDecidesThePlace(t *testing.T) {
	if binds(t, 10*time.Millisecond, true) {
		t.Error("tasks take 50 s here, and the leader binds tasks with 1 MiB of input to n2")
	}
}

// binds reports whether n1 binds tasks with 1 MiB of input to n2, where the input is, under RLDS with
// a threshold of 1 MiB a second. With ends, tasks of 50 s ended on n1 before.
func binds(t *testing.T, guess time.Duration, ends bool) (bound bool) {
	t.Helper()
	r := newRig(t, 2, 2, policy.Policy{Kind: policy.RLDS, Threshold: 1 << 20, Guess: guess})
	r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: 1 << 20} }
	if ends {
		r.length = slow(50 * time.Second)
		r.submit(0, submit.Job{Job: 2, Total: 2})
		r.run(2, 3*time.Minute)
	}
	n1 := r.nodes[0]
	n1.SetRoom(r.now, filch.Room{}, &n1.out)
	r.act(n1)
	r.length = slow(10 * time.Millisecond)
	r.hear = func(from, to filch.NodeName, m message.Message) {
		if o, is := m.(*message.Offer); is && from == "n1" {
			bound = bound || slices.ContainsFunc(o.Tasks, func(i message.TaskItem) bool { return i.Dedicated })
		}
	}
	r.submit(0, submit.Job{Job: 1, Nodes: fatTree(6)})
	r.run(1, 3*time.Minute)
	return bound
}

// TestIdleHourMovesNothing: 200 tasks took a second, and an idle hour followed: FLDS keeps 100
// dedicated tasks that take half a second (MATRIX v2, III.B.3).
func TestIdleHourMovesNothing(t *testing.T) {
	r := newRig(t, 1, 2, policy.Policy{Kind: policy.FLDS, Threshold: 1, LocalTime: 10 * time.Second})
	r.length = slow(10 * time.Millisecond)
	r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: 1 << 30} }
	r.submit(0, submit.Job{Job: 1, Total: 200})
	r.run(1, time.Minute)
	r.idle(time.Hour)
	r.submit(0, submit.Job{Job: 2, Nodes: fatTree(100)})
	r.idle(2*moverPeriod + 20*time.Millisecond)
	if q := r.nodes[0].Queues(); q.Shared > 0 || q.Dedicated == 0 {
		t.Errorf("after an idle hour %+v, want dedicated tasks alone", q)
	}
	r.run(2, time.Minute)
}

// TestStealsInVainRaiseTheBound: tt of FLDS, which halves with each sharing, doubles again with each
// try to steal that failed (MATRIX v2, IV.E).
func TestStealsInVainRaiseTheBound(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{Kind: policy.FLDS, LocalTime: 10 * time.Second})
	d := r.nodes[0]
	for range 3 {
		d.mover.share.Excess(1000, 1)
	}
	if got := d.Policy().LocalTime; got != 10*time.Second/8 {
		t.Fatalf("after three sharings tt is %v, want 1.25s", got)
	}
	r.idle(2 * policy.PollRest)
	if got := d.Policy().LocalTime; got != 10*time.Second {
		t.Errorf("after steals in vain tt is %v, want 10s", got)
	}
}

// TestBoundTasksRunFirst: a node starts the tasks that are bound to the node before those that any
// node may have, however urgent (MATRIX v2, III.B.2).
func TestBoundTasksRunFirst(t *testing.T) {
	r := newRig(t, 1, 1, policy.Policy{})
	r.length = slow(time.Second)
	r.submit(0, submit.Job{Job: 1, Total: 1})
	r.idle(100 * time.Millisecond)
	nodes := make([]record.GraphNode, 4)
	for i := range nodes {
		nodes[i].Length = time.Duration(4-i) * time.Minute
	}
	r.submit(0, submit.Job{Job: 2, Nodes: nodes})
	r.idle(100 * time.Millisecond)
	q := &r.nodes[0].jobs[2].queue
	for _, it := range q.Top(4) {
		q.Hold(&it)
		if it.Index >= 2 {
			q.Dedicated.Push(it)
		} else {
			q.Shared.Push(it)
		}
	}
	r.run(2, time.Minute)
	var order []int32
	for _, s := range r.started[1:] {
		order = append(order, s.Index)
	}
	if want := []int32{2, 3, 0, 1}; !slices.Equal(order, want) {
		t.Errorf("the tasks began in the order %v, want %v: 2 and 3 are bound", order, want)
	}
}

// TestBoundTasksAreNoLoad: a node does not count tasks that are bound to the node among the tasks
// that thieves may have (MATRIX v2, III.B.2).
func TestBoundTasksAreNoLoad(t *testing.T) {
	r := newRig(t, 3, 1, policy.Policy{Kind: policy.MDL})
	r.length = slow(100 * time.Millisecond)
	r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: 1 << 30} }
	r.submit(0, submit.Job{Job: 1, Nodes: fatTree(40)})
	r.idle(200 * time.Millisecond)
	at := r.node(r.task(1, 0).By.Node)
	told := int64(0)
	r.hear = func(from, _ filch.NodeName, m message.Message) {
		if s, is := m.(*message.LoadSay); is && from == at.cfg.Self {
			told = max(told, s.Load)
		}
	}
	r.idle(time.Second)
	if q := at.Queues(); q.Dedicated < 20 || at.Load() != 0 || told != 0 {
		t.Errorf("%d tasks are bound to %s, whose load is %d, and thieves heard %d; want 0", q.Dedicated, at.cfg.Self, at.Load(), told)
	}
	at.SetPolicy(r.now, policy.Policy{Kind: policy.MLB}, &at.out)
	r.act(at)
	if at.Load() < 20 {
		t.Errorf("with mlb the load is %d, want all that waits", at.Load())
	}
	r.run(1, time.Minute)
}

// asksOf runs a bag of three tasks on n1, with a slot, of which other nodes steal two that take long,
// and returns whom n1 asks, round by round, once it has no task, and who stole from n1 last.
func asksOf(t *testing.T, v policy.Victims) (rounds [][]filch.NodeName, robber filch.NodeName) {
	t.Helper()
	r := newRig(t, 9, 1, policy.Policy{Victims: v})
	r.length = func(Start) time.Duration {
		if r.on == "n1" {
			return time.Second
		}
		return time.Hour
	}
	last := uint32(0)
	r.hear = func(from, to filch.NodeName, m message.Message) {
		switch m := m.(type) {
		case *message.Offer:
			if from == "n1" && m.Ask > 0 && len(m.Ranges)+len(m.Tasks) > 0 {
				robber = to
			}
		case *message.LoadAsk:
			if from != "n1" {
				return
			}
			if m.Round != last {
				last, rounds = m.Round, append(rounds, nil)
			}
			rounds[len(rounds)-1] = append(rounds[len(rounds)-1], to)
		}
	}
	r.submit(0, submit.Job{Job: 1, Total: 3})
	r.idle(time.Minute)
	if robber == "" || len(rounds) < 2 {
		t.Fatalf("%q stole from n1, which asked %v; want a thief, and two rounds", robber, rounds)
	}
	return rounds, robber
}

// TestVictimsOfALeapfrog: a node without tasks asks the node that stole from it first.
func TestVictimsOfALeapfrog(t *testing.T) {
	if rounds, robber := asksOf(t, policy.Leapfrog); !slices.Equal(rounds[0], []filch.NodeName{robber}) {
		t.Errorf("n1 asks %v first, want %s, which stole from n1", rounds[0], robber)
	}
}

// TestVictimsInTheOrderOfNames: sequential thieves ask the next nodes by name, then the nodes behind
// these.
func TestVictimsInTheOrderOfNames(t *testing.T) {
	rounds, _ := asksOf(t, policy.Sequential)
	if want := []filch.NodeName{"n2", "n3", "n4"}; !slices.Equal(rounds[0], want) {
		t.Errorf("n1 asks %v first, want %v", rounds[0], want)
	}
	if slices.Contains(rounds[1], "n2") {
		t.Errorf("after a failure n1 asks %v, want nodes behind n4", rounds[1])
	}
}

// TestJobRecordComesLast: the specification and the tasks of a job are committed before the job's
// record, so that a node that sees the record sees the whole job.
func TestJobRecordComesLast(t *testing.T) {
	const tasks = 40
	r := newRig(t, 2, 1, policy.Policy{})
	r.length = slow(time.Millisecond)
	created := false
	r.store.slow = func(p record.Proposal) time.Duration {
		switch {
		case p.Op != record.OpMerge || created:
		case p.Key == record.KeyJob(1):
			created = true
			if r.records[record.KeySpec(1)] == nil {
				t.Error("the record of the job is written before the specification")
			}
			for part := range int32(tasks / record.PayloadSize) {
				if r.records[record.KeyPayload(1, part)] == nil {
					t.Errorf("the record of the job is written before the tasks of part %d", part)
				}
			}
		case strings.HasPrefix(p.Key, record.KeyJob(1)+"/"):
			return time.Duration(len(r.records)%5+1) * time.Second
		}
		return 0
	}
	r.submit(0, submit.Job{Job: 1, Nodes: fatTree(tasks - 1)})
	r.run(1, time.Minute)
	if !created {
		t.Error("the job has no record")
	}
}
