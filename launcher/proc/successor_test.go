package proc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// A successor begins after the end of the task before it, and at once if that task has ended
// already.
func TestRunnerSuccessors(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) { o.Argv = []string{"true"} })
	waited := 0
	for range 20 {
		first := c.start(launcher.TaskStart{})
		second := c.start(launcher.TaskStart{After: first})
		e, next := c.end(first), c.end(second)
		switch {
		case next.Began == 0: // the machine is busy: the first took longer than a successor waits
		case next.Kind != launcher.CauseNone || next.Began < e.Ended:
			t.Errorf("the task before ended at %d; its successor: %+v", e.Ended, next)
		default:
			waited++
		}
	}
	if waited == 0 {
		t.Error("no successor began after the end of the task before it")
	}
}

// A successor behind a task that runs on goes back without having begun, and so does one that
// is stopped, or whose job is forgotten.
func TestRunnerGivesSuccessorsBack(t *testing.T) {
	c := newCrew(t)
	mark := filepath.Join(t.TempDir(), "began")
	long := launcher.TaskStart{Argv: []string{"sleep", "600"}}
	next := func(after uint64) launcher.TaskStart {
		return launcher.TaskStart{Argv: []string{"touch", mark}, After: after}
	}
	var ends []launcher.TaskEnd
	c.order(func(*launcher.TaskOrder) {})
	first := c.start(long)
	ends = append(ends, c.end(c.start(next(first))))
	stopped := c.start(next(first))
	c.send(wire.KindTaskStop, &launcher.TaskStop{Serial: stopped, Signal: launcher.SigTerm})
	ends = append(ends, c.end(stopped))
	forgotten := c.start(next(first))
	c.send(wire.KindTaskForget, &launcher.TaskForget{Job: c.job})
	ends = append(ends, c.end(forgotten))
	for i, e := range ends {
		if e.Kind != launcher.CauseSignal || e.Began != 0 || !strings.HasPrefix(e.Text, "not started: ") {
			t.Errorf("successor %d: got %+v", i, e)
		}
	}
	c.send(wire.KindTaskStop, &launcher.TaskStop{Serial: first, Signal: launcher.SigKill})
	c.end(first)
	if _, err := os.Stat(mark); err == nil {
		t.Error("a successor that went back has run")
	}
}

// A successor is stopped and begins: it is stopped as any task.
func TestRunnerStopsSuccessorThatBegan(t *testing.T) {
	c := newCrew(t)
	c.order(func(*launcher.TaskOrder) {})
	for range 100 { // on a loaded machine the first task may outlast the wait of its successor
		first := c.start(launcher.TaskStart{Argv: []string{"false"}})
		second := c.start(launcher.TaskStart{Argv: []string{"sleep", "600"}, After: first})
		c.end(first)
		c.send(wire.KindTaskStop, &launcher.TaskStop{Serial: second, Signal: launcher.SigKill})
		switch e := c.end(second); {
		case strings.Contains(e.Text, "the task before it runs on"):
			continue
		case e.Kind != launcher.CauseSignal || e.Code != 9 || e.Began == 0:
			t.Errorf("got %+v", e)
		}
		return
	}
	t.Error("no successor began in 100 tries")
}

// A job is forgotten while its tasks, and their successors, wait for their fork: each has an
// end.
func TestRunnerForgetsSuccessorsOfWaitingTasks(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) { o.Argv = []string{"true"} })
	first, starts := c.next+1, []launcher.TaskStart(nil)
	for i := range 100 {
		s := launcher.TaskStart{Serial: c.next + 1, Job: c.job, Index: launcher.TaskIndex(2 * i), Attempt: 1}
		next := launcher.TaskStart{Serial: c.next + 2, Job: c.job, Index: launcher.TaskIndex(2*i + 1), Attempt: 1, After: s.Serial}
		starts, c.next = append(starts, s, next), c.next+2
	}
	if err := c.conn.Write(wire.KindTaskStarts, 0, starts); err != nil {
		t.Fatal(err)
	}
	c.send(wire.KindTaskForget, &launcher.TaskForget{Job: c.job}) // both at once
	for i := range uint64(200) {
		c.end(first + i)
	}
}
