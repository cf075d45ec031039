//go:build mutants

package mtc

import (
	"github.com/filch-hpc/filch/mtc/before"
	"github.com/filch-hpc/filch/mtc/graph"
	"github.com/filch-hpc/filch/mtc/lines"
	"github.com/filch-hpc/filch/mtc/plan"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/replica"
	"github.com/filch-hpc/filch/mtc/search"
)

// Planted faults, switched on singly, for tests to catch. Most are faults of the papers'
// public code. The faults exist only under the build tag mutants.
var (
	mutantBlindExit   bool // the exit code is ignored
	mutantStealPops   bool // a victim forgets its offers
	mutantNoMove      bool // a thief runs offered tasks without a commit
	mutantBlindThaw   bool // a victim thaws the rest of an offer without a new hop
	mutantNoLose      bool // the tasks of a dead node stay with the dead node
	mutantForever     bool // retries have no bound
	mutantNoFront     bool // tasks begin above the committed front
	mutantHasty       bool // a free slot does not wait for the next task of a chain
	mutantOldLevels   bool // queued tasks keep the levels of old estimates
	mutantDrainKeeps  bool // a draining node keeps its queue, and thieves pass it over
	mutantGoneLoses   bool // tasks with Once are lost before their gone node is known dead
	mutantToldOnce    bool // a leader reads unreported ends at a node's death, never later
	mutantHeirOnce    bool // the heir of a task with Once starts the task again
	mutantNoAfter     bool // a job begins before the jobs that it waits for have ended
	mutantHeirEnds    bool // the heir of a graph does not read the recorded ends
	mutantMuteOrders  bool // a leader tells no other node of cancelled tasks and holds
	mutantOneRoom     bool // every task takes the room of the first need
	mutantTakesAll    bool // a node starts tasks that may run on other nodes only
	mutantNoRest      bool // gangs of a dead owner go on, or are lost, beside their ranks
	mutantGangEarly   bool // ranks of a gang begin before its start is committed
	mutantRecallTries bool // a task that was stopped for a gang counts as failed
	mutantFillOnce    bool // a task with Once runs in slots held for a gang
	mutantBlindFill   bool // a victim gives tasks of any length into slots held for a gang
	mutantCancelLate  bool // a cancelled task that waits is started all the same
	mutantSparesRest  bool // a cancelled task runs on where the rest of its job is skipped
	mutantBadCopyWins bool // the bad end of a copy is recorded
	mutantLoserRuns   bool // of a task and its copies, the ones that lost run on
	mutantCopyCounts  bool // a copy that fails counts as a crash of the task
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for _, plant := range []func(string) bool{before.Plant, record.Plant, policy.Plant, graph.Plant, queue.Plant, search.Plant, replica.Plant, lines.Plant, plan.Plant} {
		known = plant(name) || known
	}
	for n, p := range map[string]*bool{ // any order
		"blind-exit": &mutantBlindExit,
		"steal-pops": &mutantStealPops, "no-move": &mutantNoMove, "blind-thaw": &mutantBlindThaw,
		"no-lose": &mutantNoLose, "retry-forever": &mutantForever, "no-front": &mutantNoFront,
		"hasty": &mutantHasty, "old-levels": &mutantOldLevels,
		"told-once": &mutantToldOnce, "drain-keeps": &mutantDrainKeeps, "gone-loses": &mutantGoneLoses,
		"heir-once": &mutantHeirOnce, "heir-ends": &mutantHeirEnds, "no-after": &mutantNoAfter,
		"mute-orders": &mutantMuteOrders, "cancel-late": &mutantCancelLate, "spares-rest": &mutantSparesRest,
		"no-rest":      &mutantNoRest,
		"gang-early":   &mutantGangEarly,
		"recall-tries": &mutantRecallTries, "fill-once": &mutantFillOnce, "blind-fill": &mutantBlindFill,
		"takes-all": &mutantTakesAll, "one-room": &mutantOneRoom,
		"bad-copy-wins": &mutantBadCopyWins, "loser-runs": &mutantLoserRuns, "copy-counts": &mutantCopyCounts,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
