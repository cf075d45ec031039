//go:build mutants

package origin

// Planted faults, switched on singly, for checkers to catch. They exist only under the
// build tag mutants.
var (
	mutantEarlyGo bool // the gate opens when all ranks except the last are ready
	// A job that lost ranks starts again beside the ranks of a node that is cut off.
	mutantNoFenceOff  bool
	mutantEagerLaunch bool // a detached job is launched before its record names its owner
	// A launch waiting for its record is sent although a node took back the slots needed.
	mutantStaleLaunch  bool
	mutantRestoreParts bool // a restarted launcher forgets which participants are done
	// A restarted launcher lends slots before its keepers have reported theirs.
	mutantRestoreOpen bool
	mutantRestoreGate bool // a restarted launcher forgets an open gate
	mutantEntryParts  bool // the record of a job does not say which participants are done
	// A node taking a job over starts the job again beside the running ranks.
	mutantHeirAnew  bool
	mutantDeafOwner bool // a node goes on with a job taken over by another node
	mutantMuteJobs  bool // nothing is reported of why a gathering job waits
	// A job starts again when its lost nodes are back, whatever runs there.
	mutantEarlyFence bool
	mutantHalfGang   bool // of a task that is a gang, only the ranks of the first node begin
	mutantSpawnWaits bool // a spawn waits for its slots without a limit
	mutantSpawnEarly bool // a spawn is judged before the keepers of the launcher before are found
	mutantSpawnTwice bool // a client that lost its launcher has its ranks spawned again
	mutantSpawnStays bool // spawned ranks go on without their client
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"early-go":      &mutantEarlyGo,
		"no-fence-off":  &mutantNoFenceOff,
		"eager-launch":  &mutantEagerLaunch,
		"stale-launch":  &mutantStaleLaunch,
		"restore-parts": &mutantRestoreParts,
		"restore-open":  &mutantRestoreOpen,
		"restore-gate":  &mutantRestoreGate,
		"entry-parts":   &mutantEntryParts,
		"heir-anew":     &mutantHeirAnew,
		"deaf-owner":    &mutantDeafOwner,
		"mute-jobs":     &mutantMuteJobs,
		"early-fence":   &mutantEarlyFence,
		"half-gang":     &mutantHalfGang,
		"spawn-waits":   &mutantSpawnWaits,
		"spawn-early":   &mutantSpawnEarly,
		"spawn-twice":   &mutantSpawnTwice,
		"spawn-stays":   &mutantSpawnStays,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
