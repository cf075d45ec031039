package eventlog

import (
	"cmp"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/events"
)

// Ranks keeps the ends of the ranks of one job that the nodes remember: of a run, or of the gangs
// of a job of tasks. A node remembers about 20,000 events, so that the memory is bounded by the
// nodes, not by the job. The zero Ranks is empty.
type Ranks struct {
	began map[nodeTask]int64 // the last begin so far
	wired map[nodeTask]int64 // likewise, of the wire-up after the begin
	ends  map[int32][]RankEnd
}

// OfRun stands for the task of a rank of a run.
const OfRun = -1

type nodeTask struct {
	node filch.NodeName
	task int32
}

// RankEnd is the end of a rank. The times are those given to [Ranks.Take]; Began is 0 if the begin
// is not known, and Wired is 0 if no wire-up is.
type RankEnd struct {
	Node             filch.NodeName
	Rank             int32
	Began, Wired, At int64
	State            filch.State
	Code             int32
	Slots            filch.Slots // of Node; none: shared with other ranks
}

// Take takes in an event of a node, and its time in Unix nanoseconds. The events of a node come in
// their order. Events of other kinds are passed over.
func (l *Ranks) Take(node filch.NodeName, at int64, e *events.Event) {
	task := e.Task
	if e.Tasks == 0 {
		task = OfRun
	}
	switch e.Kind {
	case events.RanksStarted:
		if l.began == nil {
			l.began, l.wired = map[nodeTask]int64{}, map[nodeTask]int64{}
		}
		for n := range max(e.Tasks, 1) {
			l.began[nodeTask{node, task + n}] = at
			delete(l.wired, nodeTask{node, task + n})
		}
	case events.RanksWired:
		for n := range max(e.Tasks, 1) {
			of := nodeTask{node, task + n}
			if began := l.began[of]; began != 0 {
				l.began[of], l.wired[of] = min(began, WireUp(at, e)), at
			}
		}
	case events.RankEnded:
		if l.ends == nil {
			l.ends = map[int32][]RankEnd{}
		}
		slots, _ := filch.ParseSlots(e.Reason)
		of := nodeTask{node, task}
		l.ends[task] = append(l.ends[task], RankEnd{node, int32(e.Count), l.began[of], l.wired[of], at, e.State, e.Code, slots})
	}
}

// WireUp is the begin of the wire-up that an event at a time tells. The begin of the ranks is this
// time or before: a busy launcher may have stamped both events late.
func WireUp(at int64, e *events.Event) int64 { return at - e.Count*1e3 }

// Of returns the ends of the ranks of an attempt of a task by its number for people, or of a run:
// each rank once, by number. The attempt began at begin, and is the last.
func (l *Ranks) Of(task int32, begin int64) []RankEnd {
	list := slices.DeleteFunc(slices.Clone(l.ends[task]), func(e RankEnd) bool { return e.At < begin })
	slices.SortFunc(list, func(a, b RankEnd) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(b.At, a.At)) })
	return slices.CompactFunc(list, func(a, b RankEnd) bool { return a.Rank == b.Rank })
}
