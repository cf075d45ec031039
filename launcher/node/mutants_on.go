//go:build mutants

package node

// Planted faults, switched on singly, for checkers to catch. They exist only under the
// build tag mutants.
var (
	mutantEarlyGo bool // the gate opens when all ranks except the last are ready
	mutantNoLease bool // ranks run on forever without a message of their origin

	mutantNoFenceOff bool // a node that is cut off keeps its ranks of detached jobs
	// A node accepts messages about a job from any sender, whatever the hop.
	mutantHopless     bool
	mutantEagerLaunch bool // a detached job is launched before its record names its owner
	mutantNoHeir      bool // no node takes over the jobs of a dead node
	// A launch waiting for its record is sent although a node took back the slots needed.
	mutantStaleLaunch bool

	mutantRestoreParts bool // a restarted launcher forgets which participants are done
	// A restarted launcher lends slots before its keepers have reported theirs.
	mutantRestoreOpen bool
	mutantRestoreGate bool // a restarted launcher forgets an open gate
	mutantEarlyBook   bool // a record counts as kept when sent
	mutantEntryParts  bool // the record of a job does not say which participants are done
	// The first answer of several operations counts for all of them.
	mutantFirstAnswer bool
	// Records of running jobs are dropped to stay within the quota.
	mutantDropLive  bool
	mutantDropBare  bool // of a dropped job only its own record goes
	mutantMadeAgain bool // a node behind the others recreates records of a dropped job
	// A node taking a job over starts the job again beside the running ranks.
	mutantHeirAnew     bool
	mutantSameBlock    bool // the counter of ids stays unchanged when a block is taken
	mutantDeafOwner    bool // a node goes on with a job taken over by another node
	mutantStepsOutlive bool // the end of a task is told while its steps run
	mutantMuteJobs     bool // nothing is reported of why a gathering job waits
	mutantMuteTasks    bool // nothing is reported of tasks that no node has
	// A job starts again when its lost nodes are back, whatever runs there.
	mutantEarlyFence bool
	mutantTasksStay  bool // a node declared dead goes on with its tasks
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
