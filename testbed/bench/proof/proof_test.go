package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestReadResult(t *testing.T) {
	r := readResult(strings.NewReader(`
{"Action":"output","Package":"p","Test":"TestA/x","Output":"    a_test.go:9: figure: makespan 500.2 s\n"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"why\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
`))
	if r.passed != 1 || r.skipped != 1 || r.failed != 1 || r.ok() {
		t.Errorf("got %+v, want one of each and not ok", r)
	}
	if want := []string{"makespan 500.2 s"}; !slices.Equal(r.figures, want) {
		t.Errorf("figures: got %q, want %q", r.figures, want)
	}
	if want := []string{"why\n"}; !slices.Equal(r.said, want) {
		t.Errorf("of what failed: got %q, want %q", r.said, want)
	}
	if got, want := r.summary(), "1 of 2 tests failed: TestC"; got != want {
		t.Errorf("summary: got %q, want %q", got, want)
	}
}

// -only names a promise by its number.
func TestEachPromiseHasANumberOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, p := range promises() {
		if other := seen[p.line]; other != "" {
			t.Errorf("%s is the number of %q and of %q", p.line, other, p.what)
		}
		seen[p.line] = p.what
	}
}

func TestNothingRanIsNotOK(t *testing.T) {
	if r := readResult(strings.NewReader("")); r.ok() {
		t.Error("a suite without tests: got ok, want not")
	}
}

func TestLaunchesWithin(t *testing.T) {
	f := &figures{}
	add := func(what, launcher string, ranks int, wall float64) {
		f.Launches = append(f.Launches, struct {
			What         string
			Ranks, Hosts int
			Launcher     string
			WallMS       float64
			Error        string
		}{what, ranks, 1, launcher, wall, ""})
	}
	add("true", "filch", 1, 3)
	add("true", "hydra", 1, 4)
	add("true", "filch", 4, 9)
	add("true", "hydra", 4, 8)
	if v := launchesWithin("hydra", "true", 0, 1)(f); v.ok || !strings.Contains(v.measured, "n=4 on 1: 1.12") {
		t.Errorf("one over the bar: got %+v, want it named", v)
	}
	if v := launchesWithin("hydra", "true", 1, 1.2)(f); !v.ok {
		t.Errorf("none over the bar: got %+v, want ok", v)
	}
	if v := launchesWithin("srun", "true", 0, 1)(f); v.ok {
		t.Errorf("not measured: got %+v, want not ok", v)
	}
}

func TestWrap(t *testing.T) {
	got := wrap("one two three four", 9)
	if want := []string{"one two", "three", "four"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := wrap("", 9); len(got) != 1 || got[0] != "" {
		t.Errorf("nothing: got %q, want one empty line", got)
	}
}

func TestTagJudge(t *testing.T) {
	line := func(name, worst string) string {
		return "BenchmarkTag/" + name + "-2 \t 10\t 1000 ns/op\t 12.0 ms-mean\t " + worst + " ms-worst\n"
	}
	all := line("ended/node=n1", "90.0") + line("ended/node=n3", "110.0") + line("ungroup/node=n1", "40.0")
	for _, c := range []struct {
		out string
		ok  bool
	}{{all + line("ungroup/node=n3", "199.0"), true}, {all + line("ungroup/node=n3", "201.0"), false}, {all, false}, {"", false}} {
		if v := judgeTag(c.out); v.ok != c.ok {
			t.Errorf("%q gives %v (%s), want %v", c.out, v.ok, v.measured, c.ok)
		}
	}
}

func TestStoreJudges(t *testing.T) {
	f := &figures{Stores: []storeFigure{
		{Store: "filch", What: "lookup", Nodes: 3, Requests: 0.7, CPUUS: 60},
		{Store: "filch", What: "lookup", Nodes: 32, Requests: 0.9, CPUUS: 160},
		{Store: "filch", What: "compare-and-swap", Nodes: 3, Requests: 2.7, CPUUS: 260},
		{Store: "filch", What: "insert, 1000 at once", Nodes: 3, PerSec: 110_000},
		{Store: "filch, durable", What: "insert", Nodes: 3, P50US: 800, CPUUS: 500, PerSec: 2000},
		{Store: "etcd", What: "insert", Nodes: 3, P50US: 900, CPUUS: 900, PerSec: 1900},
	}, StoreIdle: []storeIdle{{Nodes: 32, CPUMean: 0.1}}}
	want := map[string]bool{"12a": true, "12b": false, "12c": false, "12d": true, "12e": true, "12f": true}
	for _, p := range stores() {
		if v := p.bench(f); v.ok != want[p.line] {
			t.Errorf("%s: got %v (%s), want %v", p.line, v.ok, v.measured, want[p.line])
		}
	}
	f.Stores[4].CPUUS = 1000
	if v := besideEtcd(f); v.ok {
		t.Errorf("more CPU than etcd: %s", v.measured)
	}
}

func TestTaskJudges(t *testing.T) {
	f := &figures{Tasks: []taskFigure{
		{What: "process", Tool: "posix_spawn", PerSec: 4000},
		{What: "process", Tool: ourTool, PerSec: 3100},
		{What: "process", Tool: "GNU parallel", PerSec: 500},
		{What: "queued", Tool: ourTool, Tasks: 10_000, PerSec: 3000},
		{What: "queued", Tool: ourTool, Tasks: 100_000, PerSec: 2600},
		{What: "noop", Tool: ourTool, Launchers: 1, PerSec: 300_000},
		{What: "noop", Tool: ourTool, Launchers: 4, PerSec: 250_000},
		{What: "builtin sleep", Tool: ourTool, Slots: 1024, MS: 64, Efficiency: 0.96, Variation: 0.01},
		{What: "builtin sleep", Tool: ourTool, Slots: 1024, MS: 1000, Efficiency: 0.9, Variation: 0.2},
		{What: "wide sleep", Tool: ourTool, Slots: 16, MS: 100, Efficiency: 0.96},
		{What: "wide sleep", Tool: "xargs -P", Slots: 16, MS: 100, Efficiency: 0.98},
		{What: "sleep", Tool: ourTool, Slots: 2, MS: 1, Efficiency: 0.5},
		{What: "bag", Tool: "bag", PerSec: 100, Messages: map[string]float64{"mtc.Told": 1}},
	}, Apps: []appFigure{{App: "stacking", Policy: "mlb", PerTaskMS: 170}}}
	judged := func(want map[string]bool) {
		t.Helper()
		for _, p := range manyTasks() {
			if v := p.bench(f); v.ok != want[p.line] {
				t.Errorf("%s: got %v (%s), want %v", p.line, v.ok, v.measured, want[p.line])
			}
		}
	}
	judged(map[string]bool{"11d": true, "11e": false, "11f": true, "11g": true, "11h": false, "11i": true, "11j": true})
	for i, change := range map[int]taskFigure{1: {PerSec: 2900}, 4: {PerSec: 2800}, 6: {PerSec: 250_000, Wrong: 1}, 7: {Efficiency: 0.96, Variation: 0.06}, 9: {Efficiency: 0.98}} {
		c := &f.Tasks[i]
		c.PerSec, c.Wrong, c.Efficiency, c.Variation = change.PerSec, change.Wrong, change.Efficiency, change.Variation
	}
	f.Tasks[12].Messages = nil
	f.Apps[0].Error = "cut off"
	judged(map[string]bool{"11e": true, "11h": true})
	f.Tasks = append(f.Tasks, taskFigure{What: "wide sleep", Tool: "srun", Error: "not installed"})
	judged(map[string]bool{"11e": true})
	f.Tasks, f.Apps = nil, nil
	judged(nil)
}

func TestRepeatStopsAtAFailure(t *testing.T) {
	if v := repeat(2, "true"); !v.ok || !strings.Contains(v.measured, "2 runs passed") {
		t.Errorf("got %+v, want two runs", v)
	}
	mark := t.TempDir() + "/mark"
	if v := repeat(3, "sh", "-c", "if [ -e "+mark+" ]; then exit 3; fi; touch "+mark); v.ok || v.measured != "run 2 of 3: exit status 3" {
		t.Errorf("got %+v, want the second of three to fail", v)
	}
}

func TestFollowersAreJudgedByTheWorstCase(t *testing.T) {
	const line = "BenchmarkFollow/node=%s/bytes=%d-2 \t 20\t1000123456 ns/op\t %s B/s\t %s %%core\t 61.0 ms-mean\t %s ms-worst\n"
	for _, c := range []struct {
		core, late, silent string
		ok                 bool
	}{{"1.7", "150", "0.1", true}, {"2.4", "150", "0.1", false}, {"1.7", "250", "0.1", false}, {"1.7", "150", "0.6", false}} {
		out := "goos: linux\n" + fmt.Sprintf(line, "n1", 0, "0", "0.05", "0") + fmt.Sprintf(line, "n3", 0, "0", c.silent, "0") + fmt.Sprintf(line, "n1", 1024, "1000", "0.3", "130") + fmt.Sprintf(line, "n1", 1<<20, "1048000", "1.4", "140") +
			fmt.Sprintf(line, "n3", 1024, "1000", "0.4", "135") + fmt.Sprintf(line, "n3", 1<<20, "1048000", c.core, c.late) + "PASS\n"
		if v := judgeFollow(out); v.ok != c.ok || !strings.Contains(v.measured, c.late+" ms late, "+c.core+" %") {
			t.Errorf("with %s %% and %s ms: %+v, want %v", c.core, c.late, v, c.ok)
		}
		if v := judgeFollow("PASS\n"); v.ok {
			t.Errorf("without figures: %+v", v)
		}
	}
}

// TestJudgeStage: a bar is for the median, and a figure that is missing keeps no promise.
func TestJudgeStage(t *testing.T) {
	inputs := stageFigure{What: "inputs", Files: 500, Nodes: 3, MS: []float64{310, 100, 299}}
	replay := stageFigure{What: "replay", Files: 9, MS: []float64{1150}, Bound: 1000}
	slow, late, failed := inputs, replay, replay
	slow.MS, late.MS, failed.Error = []float64{310, 100, 300}, []float64{1151}, "no file"
	for _, c := range []struct {
		list []stageFigure
		what string
		ok   bool
		want string
	}{
		{[]stageFigure{inputs, replay}, "inputs", true, "median 299 ms of 3 runs, 100 to 310"},
		{[]stageFigure{slow}, "inputs", false, "median 300 ms"},
		{[]stageFigure{inputs, replay}, "replay", true, "1.150 x the bound of 1000 ms; 9 files"},
		{[]stageFigure{late}, "replay", false, "1.151 x"},
		{[]stageFigure{failed}, "replay", false, "not measured: no file"},
		{[]stageFigure{inputs}, "replay", false, "not measured"},
		{[]stageFigure{{What: "inputs"}}, "inputs", false, "not measured"},
	} {
		if v := judgeStage(c.list, c.what); v.ok != c.ok || !strings.Contains(v.measured, c.want) {
			t.Errorf("%v: got %+v, want %v with %q", c.list, v, c.ok, c.want)
		}
	}
}
