package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/workflow"
	"github.com/filch-hpc/filch/mtc/workflow/yaml"
)

func newTestBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{runs: 3, scratch: t.TempDir(), rate: 50 * time.Millisecond, meter: newMeter()}
	t.Cleanup(b.meter.close)
	var err error
	if b.err, err = os.Create(filepath.Join(b.scratch, "stderr")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.err.Close() })
	return b
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []time.Duration
		want time.Duration
	}{
		{[]time.Duration{5}, 5},
		{[]time.Duration{9, 1, 5}, 5},
		{[]time.Duration{8, 2, 4, 6}, 5},
	} {
		s := make([]sample, len(c.in))
		for i, d := range c.in {
			s[i].wall = d
		}
		if got := median(s, func(s sample) time.Duration { return s.wall }); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.in, got, c.want)
		}
	}
}

// A shell that burns CPU in a child that it does not wait for, nor do we: only
// a cgroup sees it.
func TestMeterCountsWhatWasStarted(t *testing.T) {
	b := newTestBench(t)
	burn := []string{"/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"}
	before := b.meter.cpu()
	if _, err := b.once(burn, os.Environ()); err != nil {
		t.Fatal(err)
	}
	if got := b.meter.cpu() - before; got < 10*time.Millisecond || got > 10*time.Second {
		t.Errorf("CPU of 200,000 turns of a shell's loop: got %v, want some tens of ms", got)
	}
}

func TestAlternateGivesUpWhatFails(t *testing.T) {
	b := newTestBench(t)
	medians, errs := b.alternate([]command{
		{argv: []string{"/bin/true"}},
		{argv: []string{"/bin/sh", "-c", "echo no such luck >&2; exit 3"}},
		{},
	})
	if errs[0] != nil || medians[0].wall <= 0 {
		t.Errorf("true: got %v and %v, want a time and no error", medians[0], errs[0])
	}
	if errs[1] == nil || medians[1].wall != 0 {
		t.Errorf("a failing command: got %v and %v, want an error and no time", medians[1], errs[1])
	}
	if errs[2] != nil || medians[2].wall != 0 {
		t.Errorf("nothing to run: got %v and %v, want neither", medians[2], errs[2])
	}
}

func TestRateCountsFailures(t *testing.T) {
	b := newTestBench(t)
	if f := b.rateOf(command{argv: []string{"/bin/true"}}, 2); f.PerSec <= 0 || f.Failed != 0 {
		t.Errorf("true: got %+v, want a rate and no failure", f)
	}
	if f := b.rateOf(command{argv: []string{"/bin/false"}}, 2); f.PerSec != 0 || f.Failed == 0 {
		t.Errorf("false: got %+v, want failures only", f)
	}
}

func TestSpawnLoopCountsFailures(t *testing.T) {
	b := newTestBench(t)
	spawn, err := compile(b.scratch, "gcc", "spawn", spawnLoop)
	if err != nil {
		t.Fatalf("%v: apt-get install -y gcc", err)
	}
	if _, err := b.once([]string{spawn, "20", "3", "/bin/true"}, os.Environ()); err != nil {
		t.Errorf("20 times true: got %v, want no error", err)
	}
	if _, err := b.once([]string{spawn, "20", "3", "/bin/false"}, os.Environ()); err == nil {
		t.Error("20 times false: got no error, want one")
	}
}

// written is a workflow as it is read from the file that write makes.
func written(t *testing.T, write func(file string) error) *workflow.Graph {
	t.Helper()
	file := filepath.Join(t.TempDir(), "w.json")
	if err := write(file); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	g, err := workflow.Load(in, workflow.Options{Name: file, YAML: yaml.JSON})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The applications are workflows that can be read, and each file of stacking has
// as many readers as its locality says.
func TestAppsAreWorkflows(t *testing.T) {
	for _, a := range []*app{stacking(160, 1), stacking(160, 3), stacking(24, 10), allPairs(5)} {
		readers := make([]int, a.files)
		for _, read := range a.reads {
			for _, f := range read {
				readers[f]++
			}
		}
		for f, n := range readers {
			if n != a.locality {
				t.Errorf("%s: %d tasks read file %d, want %d", a.name, n, f, a.locality)
			}
		}
		g := written(t, a.write)
		if want := a.files + len(a.reads) + 2; len(g.Tasks) != want {
			t.Errorf("%s: got %d tasks, want %d", a.name, len(g.Tasks), want)
		}
	}
}

// Each shape is a workflow that can be read, of as many levels as it must have.
func TestShapesAreWorkflows(t *testing.T) {
	const n = 40
	for name, levels := range map[string]int{"bag": 1, "fan-in": 2, "fan-out": 2, "pipeline": n / (shapeLaunchers * shapeSlots)} {
		g := written(t, func(file string) error { return writeWorkflow(file, name, shapesOf(n)[name]) })
		if got := int(slices.Max(g.LevelsOf())) + 1; got != levels || len(g.Tasks) < n {
			t.Errorf("%s: got %d tasks on %d levels, want %d levels", name, len(g.Tasks), got, levels)
		}
	}
}

// TestSlotTime: the parts of the time of two slots, one of which has no task, are the time from the
// first begin to the last end.
func TestSlotTime(t *testing.T) {
	p := slotTimeOf(map[filch.NodeName][]span{
		"n1": {{begin: 3, run: 3.5, out: 5, end: 5.5}, {begin: 1, run: 1.25, out: 2.5, end: 2.75}},
		"n2": {{begin: 2, run: 2, out: 4, end: 4}},
	}, 1)
	want := slotTime{In: 250, Run: 4750.0 / 3, Out: 250, Between: 250.0 / 3, Begin: 1000.0 / 3, Rest: 2000}
	for i, pair := range [][2]float64{{p.In, want.In}, {p.Run, want.Run}, {p.Out, want.Out}, {p.Between, want.Between}, {p.Begin, want.Begin}, {p.Rest, want.Rest}} {
		if math.Abs(pair[0]-pair[1]) > 0.01 {
			t.Errorf("part %d is %.2f ms a task, want %.2f", i, pair[0], pair[1])
		}
	}
}
