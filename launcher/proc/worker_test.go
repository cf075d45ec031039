package proc_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher"
)

// A worker that leaves after an answer, having read of no other task, fails none;
// one that closes its output and stays is not waited for.
func TestRunnerWorkersLeave(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) {
		o.Argv, o.Worker = []string{"sh", "-c", `read -r index attempt text; echo "$index 0"`}, true
	})
	for range 40 { // each is given to a worker that is about to leave
		if e := c.end(c.start(launcher.TaskStart{})); e.Kind != launcher.CauseNone {
			t.Fatalf("got %+v", e)
		}
	}
	c.order(func(o *launcher.TaskOrder) { o.Argv, o.Worker = []string{"true"}, true })
	if e := c.end(c.start(launcher.TaskStart{})); e.Kind != launcher.CauseProtocol {
		t.Errorf("one that does nothing: got %+v", e)
	}
	c.order(func(o *launcher.TaskOrder) { o.Argv, o.Worker = []string{"sh", "-c", "exec >&-; sleep 600"}, true })
	if e := c.end(c.start(launcher.TaskStart{})); e.Kind != launcher.CauseProtocol || !strings.Contains(e.Text, "closed its standard output") {
		t.Errorf("one without an output: got %+v", e)
	}
}

func TestRunnerGivesWorkersLines(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) { o.Argv, o.Worker = []string{"sh", "-c", workerScript}, true })
	first := c.start(launcher.TaskStart{Line: "one\n1 0\n"}, launcher.TaskStart{Line: "two"})
	if e := c.end(first); e.Kind != launcher.CauseOurs || !strings.Contains(e.Text, "more than one line") {
		t.Errorf("got %+v", e)
	}
	if e := c.end(first + 1); e.Kind != launcher.CauseNone {
		t.Errorf("the one after it: got %+v", e)
	}
}
