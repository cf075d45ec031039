package mtc

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// Only listed codes are tried again; a task that could not be run at all is, too.
func TestRetryCodes(t *testing.T) {
	r := newRig(t, 2, 2, policy.Policy{})
	r.result = func(s Start) End {
		e := End{Run: s.Run, State: filch.Failed, Code: s.Index}
		switch {
		case s.Index == 0:
			e.State = filch.OK
		case s.Index == 137:
			e.State = filch.Killed
		case s.Index == 125:
			e.Ours = true
		}
		return e
	}
	rule := &record.Retry{Codes: []record.CodeRange{{From: 75, To: 75}, {From: 100, To: 110}, {From: 137, To: 137}}}
	r.submit(0, submit.Job{Job: 1, Total: 200, Spec: record.Spec{Retries: 2, Retry: rule}})
	r.run(1, time.Minute)
	for code := range int32(200) {
		want := 1
		if code == 75 || code >= 100 && code <= 110 || code == 137 || code == 125 {
			want = 3
		}
		if n := r.onNode[fmt.Sprintf("1.%d", code)]; n != want {
			t.Errorf("a task with code %d was started %d times, want %d", code, n, want)
		}
	}
}

// Every wait is twice the wait before, up to the cap, and no thief ends a wait.
func TestRetryDelayGrows(t *testing.T) {
	r := newRig(t, 3, 2, policy.Policy{})
	var starts []time.Duration
	r.result = func(s Start) End {
		if s.Index != 3 {
			return End{Run: s.Run, State: filch.OK}
		}
		starts = append(starts, r.now)
		return End{Run: s.Run, State: filch.Failed, Code: 1}
	}
	r.submit(0, submit.Job{Job: 1, Total: 20, Spec: record.Spec{Retries: 5, Retry: &record.Retry{Delay: 2 * time.Minute}}})
	if got, want := r.run(1, 2*time.Hour).Tally(), (record.Tally{OK: 19, Failed: 1}); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
	if len(starts) != 6 {
		t.Fatalf("the task was started %d times, want 6", len(starts))
	}
	for i, want := range []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, record.RetryDelayCap, record.RetryDelayCap} {
		if got := starts[i+1] - starts[i]; got < want || got > want+5*time.Second {
			t.Errorf("retry %d came after %v, want %v", i+1, got, want)
		}
	}
	r.checkAttempts(1, 20)
}

func TestRetryWait(t *testing.T) {
	for _, c := range []struct {
		delay time.Duration
		n     int32
		want  time.Duration
	}{
		{0, 1, 0},
		{0, 9, 0},
		{time.Second, 1, time.Second},
		{time.Second, 4, 8 * time.Second},
		{time.Second, 1 << 30, record.RetryDelayCap},
		{time.Hour, 1, time.Hour},
		{time.Hour, 7, time.Hour},
		{record.RetryDelayMax, 3, record.RetryDelayMax},
	} {
		if got := (&record.Retry{Delay: c.delay}).Wait(c.n); got != c.want {
			t.Errorf("delay %v, retry %d: got %v, want %v", c.delay, c.n, got, c.want)
		}
	}
}

// A task's own rule goes before the rule of the job.
func TestRetryRuleOfATask(t *testing.T) {
	r := newRig(t, 1, 4, policy.Policy{})
	rules := map[string]*record.Retry{"never": {Times: 1}, "often": {Times: 5, Codes: []record.CodeRange{{From: 7, To: 7}}}}
	for _, d := range r.nodes {
		d.cfg.Retry = func(line []byte) *record.Retry { return rules[string(line)] }
	}
	r.result = func(s Start) End { return End{Run: s.Run, State: filch.Failed, Code: 7} }
	r.submit(0, submit.Job{
		Job: 1, Total: 3, Lines: [][]byte{[]byte("never"), []byte("often"), []byte("plain")},
		Spec: record.Spec{Retries: 1, Payloads: true, Retry: &record.Retry{Tasks: true}},
	})
	r.run(1, time.Minute)
	for i, want := range []int{1, 5, 2} {
		if n := r.onNode[fmt.Sprintf("1.%d", i)]; n != want {
			t.Errorf("task %d was started %d times, want %d", i, n, want)
		}
	}
}

// A task that waits for its next try is ended by a cancel, leaves a draining node at
// once, and survives the death of its node.
func TestRetryDelayEnds(t *testing.T) {
	for _, how := range []string{"cancel", "drain", "death"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, 3, 1, policy.Policy{})
			var last filch.NodeName
			r.result = func(s Start) End {
				last = r.on
				if s.Attempt > 1 && how != "death" {
					return End{Run: s.Run, State: filch.OK}
				}
				return End{Run: s.Run, State: filch.Failed, Code: 1}
			}
			r.submit(0, submit.Job{Job: 1, Total: 1, Spec: record.Spec{Retries: 1, Retry: &record.Retry{Delay: time.Hour}}})
			r.idle(time.Minute)
			d := r.node(last)
			if s, _ := d.Job(1); s.Pace.Resting != 1 || len(r.started) != 1 {
				t.Fatalf("%d tasks wait for a retry after %d starts, want 1 and 1", s.Pace.Resting, len(r.started))
			}
			if s, _ := d.Job(1); s.Pace.Again <= r.now || s.Pace.Again > r.now+time.Hour {
				t.Errorf("the next try is due at %v, want within an hour after %v", s.Pace.Again, r.now)
			}
			want := record.Tally{OK: 1}
			switch how {
			case "cancel":
				d.Cancel(r.now, 1, "", &d.out)
				r.act(d)
				want = record.Tally{Cancelled: 1}
			case "drain":
				d.Drain(r.now, true, &d.out)
				r.act(d)
			case "death":
				r.kill(int(last[1]-'1'), time.Second)
				want = record.Tally{Failed: 1}
			}
			if j := r.run(1, 2*time.Hour); j.Tally() != want {
				t.Errorf("tally %+v, want %+v", j.Tally(), want)
			}
			if how == "drain" && r.started[1].Attempt != 2 {
				t.Errorf("the retry is attempt %d", r.started[1].Attempt)
			}
		})
	}
}

// TestRetryUnderACap: a task of a capped job fails on a node, and other nodes have free slots. One
// of them tries the task again at once: the node that leaves the task to others for a while leaves
// its token to others, too.
func TestRetryUnderACap(t *testing.T) {
	for _, limit := range []int32{0, 3} {
		r := newRig(t, 4, 1, policy.Policy{})
		failed, most := map[int32]time.Duration{}, time.Duration(0)
		r.length = func(s Start) time.Duration {
			if at, ok := failed[s.Index]; ok {
				most = max(most, r.now-at)
			}
			if s.Index < 2 && s.Attempt < 3 {
				failed[s.Index] = r.now + 200*time.Millisecond
				return 200 * time.Millisecond
			}
			return 1500 * time.Millisecond
		}
		r.result = func(s Start) End {
			if s.Index < 2 && s.Attempt < 3 {
				return End{Run: s.Run, State: filch.Failed, Code: 3}
			}
			return End{Run: s.Run, State: filch.OK}
		}
		r.idle(100 * time.Millisecond)
		r.submit(0, submit.Job{Job: 1, Total: 3, Spec: record.Spec{Cap: limit, Retries: 2}})
		if j := r.run(1, time.Minute); j.Tally().OK != 3 {
			t.Errorf("cap %d: %+v, want 3 ok", limit, j.Tally())
		}
		if most > 100*time.Millisecond {
			t.Errorf("cap %d: a failed task was tried again after %v, with free slots on other nodes", limit, most)
		}
	}
}
