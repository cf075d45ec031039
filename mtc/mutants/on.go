//go:build mutants

package mutants

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
	BlindExit     bool // the exit code is ignored
	StealPops     bool // a victim forgets its offers
	NoMove        bool // a thief runs offered tasks without a commit
	BlindThaw     bool // a victim thaws the rest of an offer without a new hop
	NoLose        bool // the tasks of a dead node stay with the dead node
	Forever       bool // retries have no bound
	NoFront       bool // tasks begin above the committed front
	Hasty         bool // a free slot does not wait for the next task of a chain
	OldLevels     bool // queued tasks keep the levels of old estimates
	DrainKeeps    bool // a draining node keeps its queue, and thieves pass it over
	GoneLoses     bool // tasks with Once are lost before their gone node is known dead
	ToldOnce      bool // a leader reads unreported ends at a node's death, never later
	HeirOnce      bool // the heir of a task with Once starts the task again
	NoAfter       bool // a job begins before the jobs that it waits for have ended
	HeirEnds      bool // the heir of a graph does not read the recorded ends
	MuteOrders    bool // a leader tells no other node of cancelled tasks and holds
	OneRoom       bool // every task takes the room of the first need
	TakesAll      bool // a node starts tasks that may run on other nodes only
	NoRest        bool // gangs of a dead owner go on, or are lost, beside their ranks
	GangEarly     bool // ranks of a gang begin before its start is committed
	RecallTries   bool // a task that was stopped for a gang counts as failed
	FillOnce      bool // a task with Once runs in slots held for a gang
	BlindFill     bool // a victim gives tasks of any length into slots held for a gang
	CancelLate    bool // a cancelled task that waits is started all the same
	SparesRest    bool // a cancelled task runs on where the rest of its job is skipped
	BadCopyWins   bool // the bad end of a copy is recorded
	LoserRuns     bool // of a task and its copies, the ones that lost run on
	FreeSuccessor bool // a successor takes no room
	SuccessorLost bool // the task of a successor that never began is forgotten
	CopyCounts    bool // a copy that fails counts as a crash of the task
	TakerKeeps    bool // a node keeps the tasks that it takes over from a dead node
	StealsOn      bool // a node looks for tasks where nobody shall steal
	OldPlaces     bool // tasks that wait keep their places when auto changes its choice
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for _, plant := range []func(string) bool{before.Plant, record.Plant, policy.Plant, graph.Plant, queue.Plant, search.Plant, replica.Plant, lines.Plant, plan.Plant} {
		known = plant(name) || known
	}
	for n, p := range map[string]*bool{ // any order
		"blind-exit": &BlindExit,
		"steal-pops": &StealPops, "no-move": &NoMove, "blind-thaw": &BlindThaw,
		"no-lose": &NoLose, "retry-forever": &Forever, "no-front": &NoFront,
		"hasty": &Hasty, "old-levels": &OldLevels,
		"told-once": &ToldOnce, "drain-keeps": &DrainKeeps, "gone-loses": &GoneLoses,
		"heir-once": &HeirOnce, "heir-ends": &HeirEnds, "no-after": &NoAfter,
		"mute-orders": &MuteOrders, "cancel-late": &CancelLate, "spares-rest": &SparesRest,
		"no-rest":      &NoRest,
		"gang-early":   &GangEarly,
		"recall-tries": &RecallTries, "fill-once": &FillOnce, "blind-fill": &BlindFill,
		"takes-all": &TakesAll, "one-room": &OneRoom,
		"bad-copy-wins": &BadCopyWins, "loser-runs": &LoserRuns, "copy-counts": &CopyCounts, "taker-keeps": &TakerKeeps, "old-places": &OldPlaces, "steals-on": &StealsOn, "free-successor": &FreeSuccessor, "successor-lost": &SuccessorLost,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
