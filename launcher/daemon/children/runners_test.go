package children

import (
	"math"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/staging"
	"github.com/filch-hpc/filch/launcher/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Orders of jobs that nobody follows are forgotten.
func TestOrdersAreForgotten(t *testing.T) {
	in := inputs.New("n1", watch.Discard())
	rs := NewRunners(in, nil, 4, nil)
	rs.SetFiles(staging.NewFiles(in, t.TempDir(), "filch", nil, rs), t.TempDir())
	for job := range filch.JobID(3 * maxOrders) {
		rs.order(&launcher.TaskOrder{Ident: filch.Ident{Job: job, Attempt: 1}}, &launcher.OrderExtra{})
		rs.orders[job].since = time.Now()
	}
	rs.orders[3*maxOrders-1].tasks = 1
	many := len(rs.orders)
	rs.forgetIdle(0, len(rs.orders))
	if few := len(rs.orders); many != maxOrders || few != 1 {
		t.Errorf("got %d and then %d orders, want %d and 1", many, few, maxOrders)
	}
}

// The output of a job's tasks that did not fit is counted by task, up to a bound.
func TestCutsAreBounded(t *testing.T) {
	var c Cuts
	for i := range cutTasksMax + 1 {
		c.note(launcher.TaskStart{Job: 7, Index: launcher.TaskIndex(i)}, "full", true)
	}
	c.note(launcher.TaskStart{Job: 6}, "too long", false)
	if c.Of(6, 0, math.MaxInt32) != 1 || c.Why(6) != "too long" || c.Count() != cutTasksMax+1 {
		t.Errorf("of a long output %d are noted, %q, and %d of a full disk", c.Of(6, 0, math.MaxInt32), c.Why(6), c.Count())
	}
	if n := c.Of(7, 0, math.MaxInt32); n != cutTasksMax+1 {
		t.Errorf("got %d tasks of the job, want %d", n, cutTasksMax+1)
	}
	if first, last := c.Of(7, 0, 0), c.Of(7, cutTasksMax, cutTasksMax); first != 1 || last != 0 {
		t.Errorf("got %d and %d of the first and the last task, want 1 and 0", first, last)
	}
	for j := range filch.JobID(cutJobsMax) {
		c.note(launcher.TaskStart{Job: 8 + j}, "full", true)
	}
	if c.Of(7, 0, math.MaxInt32) != 0 || len(c.jobs) != cutJobsMax || c.Count() != cutTasksMax+1+cutJobsMax {
		t.Errorf("got %d jobs and %d tasks", len(c.jobs), c.Count())
	}
}

// Tasks on one CPU have one runner, CPUs are shared out evenly, and a task goes to the
// runner of the task before it.
func TestRunnersShareCPUs(t *testing.T) {
	rs := NewRunners(inputs.New("n1", watch.Discard()), nil, 4, nil)
	for range 4 {
		rs.all = append(rs.all, &runnerProcess{tasks: map[uint64]launcher.TaskStart{}})
	}
	used := map[*runnerProcess]int{}
	for _, cpu := range []int32{16, 32, 48, 64, 80, 96, 112, 128} { // of one kind on some machines
		r := rs.choose(&launcher.TaskStart{CPUs: []int32{cpu, cpu + 1}})
		if again := rs.choose(&launcher.TaskStart{CPUs: []int32{cpu}}); again != r {
			t.Errorf("CPU %d has two runners", cpu)
		}
		used[r]++
	}
	for _, r := range rs.all {
		if used[r] != 2 {
			t.Errorf("a runner has %d of 8 CPUs, want 2", used[r])
		}
	}
	rs.bySerial[7] = rs.all[3]
	if r := rs.choose(&launcher.TaskStart{After: 7, CPUs: []int32{16}}); r != rs.all[3] {
		t.Error("a successor has another runner than the task before it")
	}
}

// Where slots are not processors, a runner serves 16 slots, and a task goes to the runner with
// the fewest tasks.
func TestRunnersOfSlotsWithoutCPUs(t *testing.T) {
	for _, c := range []struct{ slots, busy, want int32 }{{1, 0, 0}, {16, 0, 0}, {16, 9, 0}, {17, 3, 1}, {48, 0, 0}, {48, 2, 1}, {1000, 1, 1}} {
		rs := NewRunners(inputs.New("n1", watch.Discard()), nil, c.slots, nil)
		for range min(c.slots, maxRunners) {
			rs.all = append(rs.all, &runnerProcess{tasks: map[uint64]launcher.TaskStart{}})
		}
		for serial := range uint64(c.busy) {
			rs.all[0].tasks[serial] = launcher.TaskStart{}
		}
		if r := rs.choose(&launcher.TaskStart{}); r != rs.all[c.want] {
			t.Errorf("%d slots, the first runner with %d tasks: another runner than number %d has the next task", c.slots, c.busy, c.want)
		}
	}
}
