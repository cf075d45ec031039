package batch

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/pool"
)

// TestViewCountsGangs: a run that waits takes the slots of all its ranks. How many slots a
// gang of a bag takes is not in the overview; the number of tasks of the bag says nothing.
func TestViewCountsGangs(t *testing.T) {
	over := int32(0)
	run := launcher.JobInfo{ID: 1, Kind: "run", State: filch.Waiting.String(), Ranks: 6, Outlook: &launcher.Outlook{Each: 2}}
	bag := launcher.JobInfo{ID: 2, Kind: "bag", State: filch.Running.String(), Ranks: 1000, Tasks: launcher.TaskCounts{Total: 1000, Ready: 10, Running: 3}}
	held, waits, ended := run, run, run
	held.Held, waits.Dep, ended.Code = "someone", "afterok:1", &over
	v := viewOf(&wire.Overview{Jobs: []wire.OverviewJob{{JobInfo: run}, {JobInfo: held}, {JobInfo: waits}, {JobInfo: ended}, {JobInfo: bag, Gathers: 2}}})
	if want := []pool.Gang{{Slots: 12}, {Nodes: 1}, {Nodes: 1}}; !slices.Equal(v.Gangs, want) {
		t.Errorf("gangs: got %v, want %v", v.Gangs, want)
	}
	if v.Ready != 8 || v.Running != 3 {
		t.Errorf("got %d ready and %d running tasks, want 8 and 3", v.Ready, v.Running)
	}
}
