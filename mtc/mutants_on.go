//go:build mutants

package mtc

// Planted faults, one at a time, that a test worth its name must catch. Most
// are faults that the papers' public code has. They exist only under the build
// tag mutants.
var (
	mutantLastWriter  bool // a later end replaces the first
	mutantStartTwice  bool // a task that runs once may be started by a second node
	mutantTallyBack   bool // a late tally sets the count back
	mutantCapFree     bool // tokens are given without counting those held
	mutantCounter     bool // parents are counted down, not kept as a set
	mutantFLDSNever   bool // the mover of FLDS never runs
	mutantNoEstimate  bool // Algorithm 1 compares bytes, not bytes per second
	mutantAscending   bool // the smallest task goes first
	mutantBlindExit   bool // the exit code is ignored
	mutantStealPops   bool // a victim forgets what it offered
	mutantNoMove      bool // a thief runs what it was offered without committing
	mutantBlindThaw   bool // a victim thaws what was not taken without a new hop
	mutantStealStops  bool // stealing ends for good at the bound
	mutantHalfDown    bool // half of one task is none
	mutantSameVictims bool // all nodes draw the same victims
	mutantDeaf        bool // news of work wakes nobody
	mutantNoLose      bool // what a dead node owned stays its own
	mutantForever     bool // retries have no bound
	mutantNoFront     bool // tasks begin above the committed front
	mutantStorm       bool // each node that comes is a reason to look for work
	mutantWaitForDead bool // lines that a dead node should have written are waited for
	mutantDrainKeeps  bool // a node that drains keeps its queue, and thieves pass it over
	mutantGoneLoses   bool // what runs once on a node that is gone is lost before it is known to be dead
	mutantFertile     bool // a node where all tasks of a job fail goes on to take and start them
	mutantToldOnce    bool // ends that nobody tells a graph's steward are read when a node dies, and never later
	mutantCountMaybe  bool // a start that was not committed counts as one that died with its node
	mutantHeirOnce    bool // who inherits a task that runs once starts it again
	mutantNoAfter     bool // a job begins before the jobs have ended that it waits for
	mutantHeirEnds    bool // who inherits a graph does not read what has ended
	mutantTakeOnce    bool // a take of what a dead node owned that is said again is told of nothing
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"last-writer": &mutantLastWriter, "start-twice": &mutantStartTwice, "tally-back": &mutantTallyBack,
		"cap-free": &mutantCapFree, "parent-counter": &mutantCounter, "flds-never": &mutantFLDSNever,
		"no-estimate": &mutantNoEstimate, "ascending": &mutantAscending, "blind-exit": &mutantBlindExit,
		"steal-pops": &mutantStealPops, "no-move": &mutantNoMove, "blind-thaw": &mutantBlindThaw,
		"steal-stops": &mutantStealStops, "half-down": &mutantHalfDown, "same-victims": &mutantSameVictims,
		"deaf": &mutantDeaf, "no-lose": &mutantNoLose, "retry-forever": &mutantForever, "no-front": &mutantNoFront,
		"storm": &mutantStorm, "wait-for-dead": &mutantWaitForDead, "told-once": &mutantToldOnce,
		"fertile": &mutantFertile, "count-maybe": &mutantCountMaybe, "drain-keeps": &mutantDrainKeeps, "gone-loses": &mutantGoneLoses,
		"heir-once": &mutantHeirOnce, "heir-ends": &mutantHeirEnds, "no-after": &mutantNoAfter,
		"take-once": &mutantTakeOnce,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
