package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

func TestHealth(t *testing.T) {
	type end struct {
		job       filch.JobID
		index     int32
		failed    bool
		unstarted bool
		elsewhere int64
	}
	row := func(n int, f func(i int) end) (all []end) {
		for i := range n {
			all = append(all, f(i))
		}
		return all
	}
	for _, c := range []struct {
		name string
		ends []end
		want int
	}{
		{"others end well", row(10, func(i int) end { return end{1, int32(i), true, false, int64(10 + i)} }), 9},
		{"they fail elsewhere too", row(50, func(i int) end { return end{1, int32(i), true, false, 900} }), 0},
		{"one task again and again", row(50, func(i int) end { return end{1, 7, true, false, int64(i)} }), 1},
		{"a success between", append(row(10, func(i int) end { return end{1, int32(i), true, false, int64(i)} }), end{job: 1, index: 20}, end{1, 21, true, false, 30}), 0},
		{"a command that exists nowhere", row(50, func(i int) end { return end{1, int32(i), true, true, 0} }), 1},
		{"a command that exists elsewhere", row(50, func(i int) end { return end{1, int32(i), true, true, int64(i)} }), 49},
		{"nothing of many jobs can be started", row(10, func(i int) end { return end{filch.JobID(i + 1), 0, true, true, 0} }), 10},
		{"many jobs, each fails once", row(10, func(i int) end { return end{filch.JobID(i + 1), 0, true, false, 5} }), 0},
	} {
		var h Health
		for _, e := range c.ends {
			if !e.failed {
				h.Worked()
				continue
			}
			h.Failed(e.job, e.index, 1, !e.unstarted, record.Tally{OK: int32(e.elsewhere)}, 0)
			h.Heard(e.job, record.Tally{OK: int32(e.elsewhere)}, 0)
		}
		got := h.evidence()
		if got != c.want {
			t.Errorf("%s: %d failures are evidence, want %d", c.name, got, c.want)
		}
	}
}

// The evidence is never more than the failed tasks, nor than the successes elsewhere and
// the jobs without a start, and a success ends it.
func TestHealthIsFair(t *testing.T) {
	for seed := range uint64(300) {
		r := filch.Rand(seed + 1)
		var h Health
		failed, jobs, before, now := map[string]bool{}, map[filch.JobID]bool{}, map[filch.JobID]int64{}, map[filch.JobID]int64{}
		for range 500 {
			job, index := filch.JobID(1+r.IntN(4)), int32(r.IntN(60))
			now[job] += int64(r.IntN(2))
			if r.IntN(40) == 0 {
				h.Worked()
				clear(failed)
				clear(jobs)
				clear(before)
				continue
			}
			started := r.IntN(10) > 0
			if _, known := before[job]; !known {
				before[job] = now[job]
			}
			jobs[job] = jobs[job] || !started
			failed[fmt.Sprint(job, index)] = true
			well := 0
			for j, b := range before {
				well += int(now[j] - b)
				if jobs[j] {
					well++
				}
			}
			h.Failed(job, index, 1, started, record.Tally{OK: int32(now[job])}, 0)
			h.Heard(job, record.Tally{OK: int32(now[job])}, 0)
			if n := h.evidence(); n > len(failed) || n > well {
				t.Fatalf("seed %d: %d failures are evidence, of %d failed tasks and %d successes elsewhere", seed, n, len(failed), well)
			}
		}
	}
}

// However many nodes begin at once, a quarter goes on to drain.
func TestAQuarterDrains(t *testing.T) {
	for nodes := range 40 {
		for k := range nodes + 1 {
			var bad []filch.NodeName
			for i := range k {
				bad = append(bad, filch.NodeName(fmt.Sprintf("n%02d", i)))
			}
			stay := 0
			for _, n := range bad {
				if !Yields(n, bad, nodes) {
					stay++
				}
			}
			if want := min(k, nodes/4); stay != want {
				t.Fatalf("%d of %d bad nodes of %d go on to drain, want %d", stay, k, nodes, want)
			}
		}
	}
}

// TestDoubt: after enough failures in a row a node is in doubt about a job, unless more tasks of
// the job failed elsewhere than the nodes that may be bad explain.
func TestDoubt(t *testing.T) {
	for _, c := range []struct {
		failed, nodes int
		well, bad     int32 // elsewhere
		want          bool
	}{
		{9, 4, 0, 0, false},
		{10, 4, 0, 0, true},
		{10, 4, 5, 0, true},
		{10, 4, 0, 10, true},
		{10, 4, 0, 11, false},
		{10, 4, 12, 11, true},
		{10, 2, 0, 0, true},
		{10, 2, 0, 1, false},
		{10, 8, 0, 20, true},
		{10, 8, 0, 21, false},
	} {
		var h Health
		for i := range c.failed {
			h.Failed(1, int32(i), 1, true, record.Tally{}, 0)
		}
		h.Heard(1, record.Tally{OK: c.well, Failed: c.bad + int32(c.failed)}, 0)
		if got := h.Doubts(1, 10, c.nodes); got != c.want {
			t.Errorf("%+v: in doubt %v", c, got)
		}
		if h.Doubts(2, 10, c.nodes) || h.Doubts(1, 0, c.nodes) {
			t.Errorf("%+v: in doubt about another job, or without the setting", c)
		}
	}
}

// TestStartsInDoubt: a node in doubt starts tasks ever more slowly, at least one each 10 s. A
// success ends the doubt, and time alone where failed tasks are tried again.
func TestStartsInDoubt(t *testing.T) {
	var b Backoff
	if b.Start(0) != filch.Never || !b.Doubt(time.Second, true, false) || b.Doubt(time.Second, true, false) {
		t.Fatal("the doubt begins once, after the first doubtful failure")
	}
	now, n := b.Next(), 0
	for ; now < time.Hour; n++ {
		now = b.Start(now)
	}
	if n < 360 || n > 370 {
		t.Errorf("%d starts in an hour, want 360 and few more", n)
	}
	b.Ended(false)
	if b.Next() != filch.Never {
		t.Error("a success does not end the doubt")
	}
	b.Doubt(now, true, true)
	if b.Doubt(now+doubtTries, true, true); b.Next() != filch.Never || b.Until() > now+doubtTries {
		t.Error("the doubt does not end where tasks are tried again")
	}
	if b.Doubt(now+2*doubtTries, true, true); b.Next() != filch.Never {
		t.Error("the doubt begins again")
	}
}
