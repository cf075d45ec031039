package pools

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/pool"
)

// TestViewCountsGangs: a run that waits takes the slots of all its ranks. The number of tasks
// of a bag says nothing about the slots of a gang of the bag.
func TestViewCountsGangs(t *testing.T) {
	over := int32(0)
	run := launcher.JobInfo{ID: 1, Kind: "run", State: filch.Waiting.String(), Ranks: 6, Outlook: &launcher.Outlook{Each: 2}}
	bag := launcher.JobInfo{ID: 2, Kind: "bag", State: filch.Running.String(), Ranks: 1000, Tasks: launcher.TaskCounts{Total: 1000, Ready: 10, Running: 3}}
	held, waits, ended := run, run, run
	held.Held, waits.Dep, ended.Code = "someone", "afterok:1", &over
	v := View(&wire.Overview{Jobs: []wire.OverviewJob{{JobInfo: run}, {JobInfo: held}, {JobInfo: waits}, {JobInfo: ended}, {JobInfo: bag, Gathers: 2}}}, 1)
	if want := []pool.Gang{{Slots: 12}, {Nodes: 1}, {Nodes: 1}}; !slices.Equal(v.Gangs, want) {
		t.Errorf("gangs: got %v, want %v", v.Gangs, want)
	}
	if v.Ready != 8 || v.Running != 3 {
		t.Errorf("got %d ready and %d running tasks, want 8 and 3", v.Ready, v.Running)
	}
}

// TestViewCountsWhatCanRun: tasks that rest, and tasks beyond --jobs, use no slot; a task of
// several slots uses all of these.
func TestViewCountsWhatCanRun(t *testing.T) {
	bag := func(ready, running int32, d wire.Demand) wire.OverviewJob {
		j := launcher.JobInfo{Kind: "bag", State: filch.Running.String(), Tasks: launcher.TaskCounts{Total: 1000, Ready: ready, Running: running}}
		return wire.OverviewJob{JobInfo: j, Demand: d}
	}
	for _, c := range []struct {
		job          wire.OverviewJob
		ready, slots int64
	}{
		{bag(10, 3, wire.Demand{}), 10, 10},
		{bag(10, 3, wire.Demand{Each: 4}), 10, 40},
		{bag(10, 3, wire.Demand{Cap: 5}), 2, 2},
		{bag(10, 5, wire.Demand{Cap: 5}), 0, 0},
		{bag(10, 0, wire.Demand{Resting: 10}), 0, 0},
	} {
		v := View(&wire.Overview{Jobs: []wire.OverviewJob{c.job}}, 1)
		if v.Ready != c.ready || v.Slots != c.slots {
			t.Errorf("%+v: got %d tasks of %d slots, want %d of %d", c.job.Demand, v.Ready, v.Slots, c.ready, c.slots)
		}
	}
}
