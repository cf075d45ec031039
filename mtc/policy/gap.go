package policy

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Gap is the room of slots held for a gang that still gathers, in which tasks may run that
// are stopped and queued again when the gang can start. The zero Gap has no room.
type Gap struct {
	Room     filch.Room    // with the room of the tasks that run there
	Since    time.Duration // when the first of the slots was held
	Starts   time.Duration // when the gang is expected to start; 0: not known
	KillWait time.Duration // how long a task may take to end at its limit
}

// RecallsMax bounds how often a task is let through and stopped: further work on the task
// would be lost, too.
const RecallsMax = 8

// Again is when a task that the gap does not admit now may be admitted although nothing else
// changes; [filch.Never] if that never happens.
func (g *Gap) Again(now, usual time.Duration) time.Duration {
	if usual <= 0 {
		return filch.Never
	}
	return g.idle() + patience(usual)
}

// patience is how long slots are idle before a task may run there until a start that nobody
// knows. The slots that the gang still lacks are often with tasks of the same length, some of
// which began when the gang got the others: these tasks are over by then, and the gang starts.
func patience(usual time.Duration) time.Duration {
	if mutantHastyGap {
		return usual
	}
	return usual + max(usual/4, patienceMin)
}

// patienceMin is the least time beside the length of a task: the gang hears of the ends of the
// other tasks, and asks for its slots.
const patienceMin = 20 * time.Millisecond

// Admits reports whether a task may run in the gap. limit is the time limit of the task,
// and usual how long most tasks of the same kind took; 0 is not known. A task of unknown
// length never may. Where the start of the gang is not known, a limit, which is often far
// too long, tells nothing; tasks may run whose usual time is shorter, by a quarter, than the slots
// stood idle already, so that no more work is lost than the slots could have done meanwhile. The
// same goes from the expected start on, if the gang does not start then.
func (g *Gap) Admits(now, limit, usual time.Duration) bool {
	if mutantBlindGap {
		return true
	}
	if g.Starts > now {
		left := g.Starts - now
		return limit > 0 && limit+g.KillWait <= left || usual > 0 && usual <= left
	}
	return usual > 0 && patience(usual) <= now-g.idle()
}

// Fill is what a node with idle slots of a gap may take from other nodes: tasks with a time
// limit up to Limit, or of a usual length up to Usual. The zero Fill takes tasks of any length,
// into room of the node's own.
type Fill struct {
	Limit time.Duration // 0: no limit is short enough
	Usual time.Duration
}

// moveTime is how long a task may take to move before the task starts, at most in most cases.
const moveTime = 100 * time.Millisecond

// Fill is what the gap admits now, less what the move of a task takes.
func (g *Gap) Fill(now time.Duration) (f Fill) {
	if g.Room.Slots <= 0 {
		return f
	}
	if g.Starts > now {
		f.Usual = max(g.Starts-now-moveTime, 0)
		f.Limit = max(f.Usual-g.KillWait, 0)
		return f
	}
	idle := now - g.idle()
	f.Usual = max(min(idle*4/5, idle-patienceMin), 0)
	return f
}

// Held reports whether the bound is of held slots.
func (f Fill) Held() bool { return f.Usual > 0 }

// Admits reports whether a task fits the bound: by the limit of the task, or by its usual
// length; 0 is not known.
func (f Fill) Admits(limit, usual time.Duration) bool {
	return limit > 0 && limit <= f.Limit || usual > 0 && usual <= f.Usual
}

// idle is since when the slots are held longer than was known.
func (g *Gap) idle() time.Duration {
	if g.Starts > 0 {
		return max(g.Since, g.Starts)
	}
	return g.Since
}
