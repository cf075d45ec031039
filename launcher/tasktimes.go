package launcher

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// TaskTime is the begin of a stage of a task, by the clock of a node.
type TaskTime struct {
	Stage  string         `json:"stage"` // a Stage constant, or the state of an ended task
	UnixNS int64          `json:"unix_ns"`
	Node   filch.NodeName `json:"node,omitempty"` // has the task, and the clock; "": the node of submission
	From   filch.NodeName `json:"from,omitempty"` // of StageMoved: had the task before
}

// The stages of a task.
const (
	StageSubmitted = "submitted"
	StageQueued    = "queued" // ready: waits for slots, or for its next try
	StageMoved     = "moved"  // queued on another node than before
	StageInputs    = "staging in"
	StageRunning   = "running"
	StageOutputs   = "staging out"
)

// TimesOf lists the stages that the record of an ended task knows.
func TimesOf(e *record.Task) (list []TaskTime) {
	if e.Began == 0 || !e.State.Final() {
		return nil
	}
	add := func(stage string, at time.Duration) {
		list = append(list, TaskTime{Stage: stage, UnixNS: e.Began*1e3 + int64(at), Node: e.By.Node})
	}
	s := record.Stages{}
	if e.Stages != nil {
		s = *e.Stages
	}
	if s.Queued > 0 {
		add(StageQueued, -s.Queued)
	}
	if s.In > 0 {
		add(StageInputs, 0)
	}
	add(StageRunning, s.In)
	if s.Out > 0 {
		add(StageOutputs, e.Took()-s.Out)
	}
	add(e.State.String(), e.Took())
	return list
}

// clockError is more than two times of a node differ since a record has microseconds, and the clock
// of the day is read apart from the clock of the node.
const clockError = int64(time.Millisecond)

// AddTimes adds what nodes remember of the way of the task to Times, by time. A record knows
// when the task was queued last, and a node may know the same: then only the node counts.
func (t *Task) AddTimes(list []TaskTime) {
	known := slices.ContainsFunc(list, func(a TaskTime) bool { return a.Node == t.Node && (a.Stage == StageQueued || a.Stage == StageMoved) })
	if known {
		t.Times = slices.DeleteFunc(t.Times, func(a TaskTime) bool { return a.Stage == StageQueued })
	}
	began := slices.IndexFunc(t.Times, func(a TaskTime) bool { return a.Node == t.Node && a.Stage != StageQueued })
	for _, a := range list {
		// A task comes to a node before the task begins there, whatever two readings of the clock say.
		if began >= 0 && a.Node == t.Node && a.UnixNS-t.Times[began].UnixNS < clockError {
			a.UnixNS = min(a.UnixNS, t.Times[began].UnixNS)
		}
		t.Times = slices.Insert(t.Times, max(began, 0), a)
		if began >= 0 {
			began++
		}
	}
	rank := func(a *TaskTime) int {
		switch a.Stage {
		case StageSubmitted:
			return 0
		case StageQueued, StageMoved, StageInputs, StageRunning, StageOutputs:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(t.Times, func(a, b TaskTime) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.UnixNS, b.UnixNS))
	})
}
