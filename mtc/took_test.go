package mtc

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

func TestTookLimit(t *testing.T) {
	secs := func(from, to int) (list []int) {
		for i := from; i <= to; i++ {
			list = append(list, i)
		}
		return list
	}
	for _, c := range []struct {
		name string
		took []int // seconds
		want int
	}{
		{"nothing", nil, 0},
		{"one", []int{7}, 7},
		{"few: the longest", []int{3, 9, 1}, 9},
		{"nine: the longest", secs(1, 9), 9},
		{"ten: without the longest", secs(1, 10), 9},
		{"sixty-four: without the six longest", secs(1, 64), 58},
		{"a straggler among many", append(secs(1, 20), 1000), 19},
		{"many: the last ones count", append(slices.Repeat([]int{100}, 64), slices.Repeat([]int{2}, 64)...), 2},
	} {
		var took Took
		for _, s := range c.took {
			took.Add(time.Duration(s) * time.Second)
		}
		if got := took.Limit(); got != time.Duration(c.want)*time.Second {
			t.Errorf("%s: got %v, want %ds", c.name, got, c.want)
		}
	}
	var busy Took // asked after each one, as by a node that starts many
	for range 100 {
		busy.Add(time.Second)
		busy.Limit()
	}
	for range 64 + tookStale {
		busy.Add(time.Minute)
		busy.Limit()
	}
	if got := busy.Limit(); got != time.Minute {
		t.Errorf("after all of them changed: got %v, want 1m", got)
	}
	var instant Took
	if instant.Add(0); instant.Limit() <= 0 {
		t.Error("what takes no time at all counts as unknown")
	}
}

func TestHabitsAreBounded(t *testing.T) {
	var h Habits
	h.Add("", time.Second)
	for i := range habitsMax + 1 {
		h.Add(string(rune('a'+i)), time.Second)
	}
	if n := len(h.byName); n != habitsMax || len(h.names) != n {
		t.Errorf("%d names are remembered, want %d", n, habitsMax)
	}
	if h.Limit("a") != 0 || h.Limit("b") != time.Second || h.Limit("") != 0 {
		t.Error("it was not the oldest name that went")
	}
}

func TestWalltimeFits(t *testing.T) {
	stays := Walltime{}
	ends := Walltime{End: 100 * time.Second, Drain: 30 * time.Second}
	late := Walltime{End: 100 * time.Second}
	for _, c := range []struct {
		name      string
		w         Walltime
		now, need int // seconds
		want      bool
	}{
		{"no end", stays, 1_000_000, 1_000_000, true},
		{"known, in time", ends, 10, 80, true},
		{"known, just", ends, 10, 89, true},
		{"known, too long", ends, 10, 90, false},
		{"known, in the drain", ends, 90, 5, true},
		{"unknown, early", ends, 69, 0, true},
		{"unknown, in the drain", ends, 70, 0, false},
		{"unknown, no drain", late, 99, 0, true},
	} {
		if got := c.w.Fits(time.Duration(c.now)*time.Second, time.Duration(c.need)*time.Second); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

// A node that is taken away starts no task that cannot finish on it, as far as
// is known, and all that can.
func TestNoTaskStartsThatCannotFinish(t *testing.T) {
	const end, drain = 20 * time.Second, 6 * time.Second
	for _, c := range []struct {
		name     string
		spec     Spec
		walltime Walltime
		length   time.Duration
		want     int // tasks that are started, on one slot
	}{
		// The first begins at 0, those after it as long as 19 s are not over.
		{"learnt", Spec{}, Walltime{End: end, Drain: drain}, 3 * time.Second, 6},
		{"limited", Spec{Limit: 5 * time.Second}, Walltime{End: end, Drain: drain}, 3 * time.Second, 5},
		{"limited beyond the end", Spec{Limit: time.Minute}, Walltime{End: end, Drain: drain}, 3 * time.Second, 0},
		{"kind known", Spec{Expect: time.Minute}, Walltime{End: end, Drain: drain}, 3 * time.Second, 0},
		{"blind", Spec{Expect: time.Minute}, Walltime{End: end, Drain: drain, Blind: true}, 3 * time.Second, 5},
		{"blind, no drain", Spec{}, Walltime{End: end, Blind: true}, 3 * time.Second, 40},
		{"stays", Spec{}, Walltime{}, 3 * time.Second, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 1, 1, Policy{})
			r.nodes[0].cfg.Walltime = c.walltime
			r.length = func(Start) time.Duration { return c.length }
			r.submit(0, Submission{Job: 1, Spec: c.spec, Total: 40})
			r.idle(2 * time.Minute)
			if got := len(r.started); got != c.want {
				t.Errorf("%d tasks of %v were started before the end at %v, want %d", got, c.length, end, c.want)
			}
			if s, ok := r.nodes[0].Job(1); ok && s.Pace.Late != (c.want < 40) {
				t.Errorf("late is %v", s.Pace.Late)
			}
		})
	}
}

// What cannot finish on the nodes of one allocation is run by those of another.
func TestTasksGoWhereTheyCanFinish(t *testing.T) {
	r := newRig(t, 4, 2, Policy{})
	ends := Walltime{End: 8 * time.Second, Drain: time.Second}
	for _, d := range r.nodes[:2] {
		d.cfg.Walltime = ends
	}
	r.length = func(Start) time.Duration { return 3 * time.Second }
	r.submit(0, Submission{Job: 1, Total: 100})
	r.run(1, 5*time.Minute)
	if j := r.job(1); j == nil || j.Tally().OK != 100 {
		t.Fatalf("not all tasks ended: %+v", j)
	}
	if n := r.byNode["n1"] + r.byNode["n2"]; n != 8 {
		t.Errorf("nodes that end at %v started %d tasks of 3 s on 4 slots, want 8", ends.End, n)
	}
	if r.now > 3*time.Second*100/4 {
		t.Errorf("it took %v with 4 slots that stay", r.now)
	}
}

// What tasks of a kind took is known to the next job of that kind, on all nodes.
func TestKindsAreLearnt(t *testing.T) {
	r := newRig(t, 2, 1, Policy{})
	r.length = func(Start) time.Duration { return 3 * time.Second }
	r.submit(0, Submission{Job: 1, Spec: Spec{Like: "solve"}, Total: 1})
	r.run(1, time.Minute)
	for _, d := range r.nodes {
		d.cfg.Walltime = Walltime{End: r.now + 3*time.Second}
	}
	r.submit(0, Submission{Job: 2, Spec: Spec{Like: "solve"}, Total: 10})
	r.submit(0, Submission{Job: 3, Spec: Spec{Like: "other"}, Total: 10})
	r.idle(time.Second)
	for _, s := range r.started[1:] {
		if s.Job != 3 {
			t.Fatalf("task %d.%d was started, and tasks like it took 3 s", s.Job, s.Index)
		}
	}
	if len(r.started) == 1 {
		t.Error("what is of another kind was not started")
	}
}

func TestRemnantsTellHowLongTasksTook(t *testing.T) {
	at := func(off uint8, state filch.State, secs int64) Task {
		return Task{State: state, Attempt: 1, By: a1, TookUS: secs * 1e6}
	}
	blk := Block{Offs: []uint8{0, 1, 2}, Tasks: []Task{at(0, filch.OK, 4), at(1, filch.OK, 6), at(2, filch.Failed, 60)}}
	for _, finished := range []bool{false, true} {
		job := Job{Total: 300, Closed: true}
		if finished {
			job.Zones = []ZoneTally{{0, Tally{OK: 300}}}
		}
		b := AppendMirrorLine(nil, KeyJob(4), job.Encode())
		b = AppendMirrorLine(b, KeySpec(4), (&Spec{Like: "solve"}).Encode())
		b = AppendMirrorLine(b, KeyBlock(4, 0), blk.Encode())
		r := remains(t, b).Jobs()[0]
		r.Settle()
		again := remains(t, r.Append(nil)).Jobs()[0] // as the next instance begins with
		if got := again.Spec; got.Expect != 6*time.Second || got.Like != "solve" {
			t.Errorf("finished %v: tasks like %q are taken to take %v, want 6s", finished, got.Like, got.Expect)
		}
	}
}

func TestMirrorRun(t *testing.T) {
	var b []byte
	for i := range 70 {
		b = MirrorRun(b, RunTook{"4:solve", int64(1000 - i), time.Duration(i)})
	}
	b = MirrorRun(b, RunTook{"1:a/b c", 5, time.Minute})
	b = append(b, b...) // a writer that says it twice
	runs := remains(t, b).Runs()
	if len(runs) != 65 || runs[0] != (RunTook{"1:a/b c", 5, time.Minute}) {
		t.Fatalf("got %d runs, the first is %+v", len(runs), runs[0])
	}
	if first, last := runs[1], runs[64]; first.Ended != 937 || last.Ended != 1000 {
		t.Errorf("the runs that are kept ended from %d to %d, want the last 64 of them", first.Ended, last.Ended)
	}
	for _, bad := range [][]byte{nil, {1}, {2, 1}, {2, 2, 0}} {
		line := AppendMirrorLine(nil, keyRun+"x", bad)
		if NewRemains().Take(line[:len(line)-1]) {
			t.Errorf("a run of bytes %v is taken", bad)
		}
	}
	if m := NewMirror(); m.Append(nil, keyRun+"x", []byte{2, 2}) != nil {
		t.Error("the mirror takes a record of the store for a run")
	}
}
