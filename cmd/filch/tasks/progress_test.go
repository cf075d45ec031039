package tasks

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
	p := newProgress(7, false)
	at := time.Now()
	p.marks = []mark{{at.Add(-10 * time.Second), 0}, {at, 25}}
	p.runs(6)
	n := launcher.TaskNews{What: launcher.TasksProgress, Total: 100, Tally: record.Tally{OK: 23, Failed: 2}}
	if got, want := p.line(n, at), "job 7 [#####...............] 25/100, 6 running, 2.5/s, ends in 30s, 2 failed"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	n.What, n.State, n.Tally.OK, p.began = launcher.TasksFinished, filch.Failed, 98, at.Add(-time.Minute)
	if got := p.line(n, at); strings.Contains(got, "running") || !strings.Contains(got, "100/100") || !strings.Contains(got, "done in") {
		t.Errorf("in the end it says %q", got)
	}
}
