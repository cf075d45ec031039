//go:build mutants

package records

// Planted faults, switched on singly, for checkers to catch. They exist only under the
// build tag mutants.
var (
	mutantNoHeir    bool // no node takes over the jobs of a dead node
	mutantEarlyBook bool // a record counts as kept when sent
	// The first answer of several operations counts for all of them.
	mutantFirstAnswer bool
	// Records of running jobs are dropped to stay within the quota.
	mutantDropLive  bool
	mutantDropBare  bool // of a dropped job only its own record goes
	mutantMadeAgain bool // a node behind the others recreates records of a dropped job
	mutantSameBlock bool // the counter of ids stays unchanged when a block is taken
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"no-heir":      &mutantNoHeir,
		"early-book":   &mutantEarlyBook,
		"first-answer": &mutantFirstAnswer,
		"drop-live":    &mutantDropLive,
		"drop-bare":    &mutantDropBare,
		"made-again":   &mutantMadeAgain,
		"same-block":   &mutantSameBlock,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
