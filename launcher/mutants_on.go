//go:build mutants

package launcher

// Planted faults, one at a time, that a checker worth its name must catch.
// They exist only under the build tag mutants.
var (
	mutantEarlyGo bool // the gate opens when all but one are ready
	mutantNoLease bool // ranks go on for ever without a word of their origin

	mutantNoFenceOff  bool // a node that is cut off keeps its ranks of detached jobs
	mutantHopless     bool // whoever speaks of a job is heeded, whatever its hop
	mutantEagerLaunch bool // a detached job is launched before its record says who owns it
	mutantNoHeir      bool // nobody takes over the jobs of who is dead
	mutantStaleLaunch bool // a launch that waits for its record goes out although a node took back what it needs

	mutantRestoreParts bool // a launcher that is restarted forgets which participants are done
	mutantRestoreOpen  bool // a launcher that is restarted lends slots before it knows what its keepers have
	mutantRestoreGate  bool // a launcher that is restarted forgets that a gate was open
	mutantEarlyBook    bool // a record counts as kept when it is sent
	mutantEntryParts   bool // the record of a job does not say which participants are done
	mutantFirstAnswer  bool // the first answer of several operations counts for all of them
	mutantStaleRecords bool // an outbox that is used again still has its records
	mutantDropLive     bool // records of jobs that run are dropped to stay within the quota
	mutantDropBare     bool // of a job that is dropped only its own record goes
	mutantMadeAgain    bool // who is behind makes records of a job again that was dropped
	mutantHeirAnew     bool // who takes a job over starts it again beside the ranks that run
	mutantSameBlock    bool // the counter of ids stays where it is when a block is taken
	mutantDeafOwner    bool // a node goes on with a job that another one took over
	mutantStepsOutlive bool // the end of a task is told while its steps run
	mutantMuteJobs     bool // nothing is said of what a job waits for that gathers
	mutantMuteTasks    bool // nothing is said of tasks that no node has
	mutantEarlyFence   bool // a job starts again when the nodes that it lost are back, whatever runs there
	mutantTasksStay    bool // a node that is declared dead goes on with its tasks
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"early-go": &mutantEarlyGo, "no-lease": &mutantNoLease, "no-fence-off": &mutantNoFenceOff,
		"hopless": &mutantHopless, "eager-launch": &mutantEagerLaunch,
		"stale-launch": &mutantStaleLaunch, "no-heir": &mutantNoHeir,
		"restore-parts": &mutantRestoreParts,
		"restore-open":  &mutantRestoreOpen,
		"restore-gate":  &mutantRestoreGate,
		"early-book":    &mutantEarlyBook,
		"entry-parts":   &mutantEntryParts,
		"first-answer":  &mutantFirstAnswer,
		"stale-records": &mutantStaleRecords,
		"drop-live":     &mutantDropLive,
		"drop-bare":     &mutantDropBare,
		"made-again":    &mutantMadeAgain,
		"heir-anew":     &mutantHeirAnew,
		"same-block":    &mutantSameBlock,
		"deaf-owner":    &mutantDeafOwner,
		"steps-outlive": &mutantStepsOutlive,
		"early-fence":   &mutantEarlyFence,
		"tasks-stay":    &mutantTasksStay,
		"mute-jobs":     &mutantMuteJobs,
		"mute-tasks":    &mutantMuteTasks,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
