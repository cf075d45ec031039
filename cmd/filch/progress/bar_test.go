package progress

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
)

// The line tells how much, what runs, how fast, when it ends, and what failed.
func TestProgressTellsAll(t *testing.T) {
	p := New(7, false)
	at := time.Now()
	p.marks = []mark{{at.Add(-10 * time.Second), 0}, {at, 25}}
	p.runs(6, 0)
	n := launcher.TaskNews{What: launcher.TasksProgress, Total: 100, Tally: record.Tally{OK: 23, Failed: 2}}
	if got, want := p.line(n, at, 0), "job 7 [#####...............] 25/100, 6 running, 2.5/s, ends in 30s, 2 failed"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	p.runs(6, 61*time.Minute) // the job is older than the command
	if got, want := p.line(n, at, 0), "job 7 [#####...............] 25/100, 6 running, for 1h01m, 2.5/s, ends in 30s, 2 failed"; got != want {
		t.Errorf("of an old job it says %q, want %q", got, want)
	}
	n.What, n.State, n.Tally.OK, p.began = launcher.TasksFinished, filch.Failed, 98, at.Add(-time.Minute)
	if got := p.line(n, at, 0); strings.Contains(got, "running") || !strings.Contains(got, "100/100") || !strings.Contains(got, "done in") {
		t.Errorf("in the end it says %q", got)
	}
}

// On every width the line keeps the rate and the failures. First the bar shrinks, then the
// running tasks, the number of the job, the end and the states of the failures are left out.
func TestProgressKeepsRateAndFailures(t *testing.T) {
	at := time.Now()
	half := launcher.TaskNews{What: launcher.TasksProgress, Total: 100, Tally: record.Tally{OK: 23, Failed: 2}}
	large := launcher.TaskNews{What: launcher.TasksProgress, Total: record.MaxTasks, Tally: record.Tally{OK: 400_000_000, Failed: 1_000_000, Killed: 1_000_000, Lost: 12, Cancelled: 3}}
	over := launcher.TaskNews{What: launcher.TasksFinished, Total: 100, Tally: record.Tally{OK: 98, Failed: 2}}
	for _, c := range []struct {
		name  string
		news  launcher.TaskNews
		width int
		want  string
	}{
		{"no-terminal", half, 0, "job 7 [#####...............] 25/100, 6 running, for 1m, 2.5/s, ends in 30s, 2 failed"},
		{"all", half, 90, "job 7 [#####...............] 25/100, 6 running, for 1m, 2.5/s, ends in 30s, 2 failed"},
		{"short-bar", half, 80, "job 7 [##........] 25/100, 6 running, for 1m, 2.5/s, ends in 30s, 2 failed"},
		{"no-time", half, 70, "job 7 [##........] 25/100, 6 running, 2.5/s, ends in 30s, 2 failed"},
		{"no-bar", half, 60, "job 7 25/100, 6 running, 2.5/s, ends in 30s, 2 failed"},
		{"no-running", half, 50, "job 7 25/100, 2.5/s, ends in 30s, 2 failed"},
		{"no-job", half, 42, "25/100, 2.5/s, ends in 30s, 2 failed"},
		{"forty", half, 40, "25/100, 2.5/s, ends in 30s, 2 failed"},
		{"no-end", half, 30, "25/100, 2.5/s, 2 failed"},
		{"narrow", half, 20, "25%, 2.5/s, 2 bad"},
		{"no-room", half, 10, "25%, 2.5/"},
		{"large-80", large, 80, "402000015/1073741824, 12346/s, ends in 15h07m, 2000015 bad"},
		{"large-60", large, 60, "402000015/1073741824, 12346/s, ends in 15h07m, 2000015 bad"},
		{"large-40", large, 40, "37%, 12346/s, 2000015 bad"},
		{"over-40", over, 40, "100/100, 2.5/s, done in 1m, 2 failed"},
	} {
		p := New(7, false)
		p.began = at.Add(-time.Minute)
		done := int32(25)
		if c.news.Total == record.MaxTasks {
			done = 123456
		}
		p.marks = []mark{{at.Add(-10 * time.Second), 0}, {at, done}}
		p.runs(6, 0)
		got := p.line(c.news, at, c.width)
		if got != c.want {
			t.Errorf("%s: %d columns have %q, want %q", c.name, c.width, got, c.want)
		}
		if c.width > 0 && len(got) >= c.width {
			t.Errorf("%s: the line has %d letters, and the terminal %d columns", c.name, len(got), c.width)
		}
	}
}

func TestRatesHaveNoExponent(t *testing.T) {
	for rate, want := range map[float64]string{1234567: "1234567/s", 98.76: "98.8/s", 2.5: "2.5/s", 0.05: "0.05/s", 0.001: "3.6/h", 0.00001: "0.036/h"} {
		if got := rateText(rate); got != want {
			t.Errorf("%g tasks a second are written %q, want %q", rate, got, want)
		}
	}
}
