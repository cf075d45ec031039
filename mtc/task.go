package mtc

import "github.com/filch-hpc/filch"

// Task is what a block's record knows of one task. A task that is not in the
// record was started once at most, and belongs to the owner of the range.
type Task struct {
	State   filch.State // its end; Waiting until then
	Code    int32
	Attempt filch.Attempt // of the end, or that is to be or was started
	Hop     uint32        // how often it changed hands in this attempt
	Owner   Owner         // none: the owner of the range around it
	Started bool          // the start of this attempt was committed
	Maybe   bool          // before all attempts was a start that was not committed, or none
	Crashes uint8         // committed starts that ended with the death of their node
	Extra   uint8         // ends that came after the first
	Began   int64         // unix microseconds, by the clock of the node that ran it
	TookUS  int64
	Bytes   int64 // of its output
	Cut     bool  // of what it printed some found no room
	By      Owner // the node that ran it
	Take    take  // the take that gave it to its owner, which has done nothing with it since
}

// take is the number of an operation by which a node takes what a dead one owned;
// no two of one life have the same. What was taken keeps it until its owner goes on
// with it: the store may carry a merge out twice and answer the second time only, and
// the node must hear all the same what it has. 0: none.
type take uint64

// again reports whether k is said again, after it took what has the take had.
func (k take) again(had take) bool { return k != 0 && k == had && !mutantTakeOnce }

// Starts is how often the task was started at most, with the one to come if it
// has no end.
func (t *Task) Starts() int32 { return starts(t.Attempt, t.Maybe) }

func starts(a filch.Attempt, maybe bool) int32 {
	if maybe {
		return int32(a) + 1
	}
	return int32(a)
}

// behind reports whether p speaks of an attempt or hop of before.
func (t *Task) behind(a filch.Attempt, h uint32) bool {
	return a < t.Attempt || a == t.Attempt && h < t.Hop
}
