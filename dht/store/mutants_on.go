//go:build mutants

package store

import "github.com/filch-hpc/filch/dht/roster"

// Planted faults, for a checker to catch. At most a single fault is on. The faults exist
// only under the build tag mutants.
var (
	mutantParentCounter  bool // a repeated operation counts again
	mutantMajorityCommit bool // an operation is done when a majority has the change
	mutantNoFence        bool // replicas accept items from an old primary
	// A learner is admitted without having acknowledged operations.
	mutantGrowBlind       bool
	mutantAcceptorsForget bool // an acceptor restarts without promises
	// A new primary shows records perhaps missing on all other replicas.
	mutantNoWriteBack      bool
	mutantDropLearner      bool // a silent learner is dropped during its admission
	mutantLocalReads       bool // the primary answers without asking the others
	mutantAcceptorUnsynced bool // an acceptor answers before its disk has the entry
	mutantDoneUnsynced     bool // a durable operation is done before disks have the change
	// A new life takes the old life's unsynced entries for synced; no seed within reach
	// shows this fault.
	mutantRejoinUnsynced bool
	mutantRejoinSilent   bool // a new life leaves the old life's operations unanswered
	mutantRejoinBlind    bool // a new life forgets the watches of the old life
	// A split wipes the records of a learner admitted by the same change.
	mutantSplitUnlearns bool
)

// Plant switches on the named fault, of the roster too, and the others off; "" is none.
func Plant(name string) bool {
	known := roster.Plant(name)
	for n, m := range map[string]*bool{ // any order
		"parent-counter":  &mutantParentCounter,
		"majority-commit": &mutantMajorityCommit, "no-fence": &mutantNoFence,
		"grow-without-acks": &mutantGrowBlind, "acceptors-forget": &mutantAcceptorsForget,
		"no-write-back": &mutantNoWriteBack, "drop-learner-early": &mutantDropLearner,
		"local-reads":       &mutantLocalReads,
		"acceptor-unsynced": &mutantAcceptorUnsynced, "done-unsynced": &mutantDoneUnsynced,
		"rejoin-unsynced": &mutantRejoinUnsynced,
		"rejoin-silent":   &mutantRejoinSilent, "rejoin-blind": &mutantRejoinBlind,
		"split-unlearns": &mutantSplitUnlearns,
	} {
		*m = n == name
		known = known || *m
	}
	return known
}
