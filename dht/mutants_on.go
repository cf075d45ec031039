//go:build mutants

package dht

// Planted faults, one at a time, that a checker worth its name must catch.
// They exist only under the build tag mutants.
var (
	mutantNaiveHome      bool // when a primary dies any live node takes its place, with what it happens to hold
	mutantParentCounter  bool // an operation that is repeated counts again
	mutantMajorityCommit bool // an operation is done when a majority has it
	mutantNoFence        bool // replicas take what an old primary says
	mutantGrowBlind      bool // a learner is admitted that was not in the circle of acknowledgments
	mutantSeatsForget    bool // a seat restarts without its promises
	mutantNoWriteBack    bool // a new primary shows what perhaps only it has
	mutantDropLearner    bool // a silent learner is left out although its admission is under way
	mutantLocalReads     bool // the primary answers without asking the others
	mutantGoneAlone      bool // a node is called gone without a witness
	mutantGoneForGood    bool // one that is called gone is not told when it is heard
	mutantSeatUnsynced   bool // a seat says what it promised and accepted before its disk has it
	mutantDoneUnsynced   bool // a durable operation is done before disks have it
	mutantRejoinUnsynced bool // a new life takes what the old one logged for synced; no seed within reach shows it
	mutantRejoinSilent   bool // a new life does not answer what the old one was asked
	mutantRejoinBlind    bool // a new life forgets the watches of the old one
	mutantSplitUnlearns  bool // a split wipes what a learner has, although the same change admits it
	mutantSplitEarly     bool // a shard may split in the change that brings it back from a disk
	mutantTwiceMember    bool // a node is taken in although a later life of it is a member
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, m := range map[string]*bool{ // any order
		"naive-home": &mutantNaiveHome, "parent-counter": &mutantParentCounter,
		"majority-commit": &mutantMajorityCommit, "no-fence": &mutantNoFence,
		"grow-without-acks": &mutantGrowBlind, "seats-forget": &mutantSeatsForget,
		"no-write-back": &mutantNoWriteBack, "drop-learner-early": &mutantDropLearner,
		"local-reads": &mutantLocalReads, "gone-alone": &mutantGoneAlone, "gone-for-good": &mutantGoneForGood,
		"seat-unsynced": &mutantSeatUnsynced, "done-unsynced": &mutantDoneUnsynced,
		"rejoin-unsynced": &mutantRejoinUnsynced,
		"rejoin-silent":   &mutantRejoinSilent, "rejoin-blind": &mutantRejoinBlind,
		"split-unlearns": &mutantSplitUnlearns, "split-early": &mutantSplitEarly,
		"twice-a-member": &mutantTwiceMember,
	} {
		*m = n == name
		known = known || *m
	}
	return known
}
