//go:build mutants

package policy

// Planted faults, switched on singly, for tests to catch. The faults exist only under the
// build tag mutants.
var (
	mutantNoEstimate  bool // Algorithm 1 compares bytes, not bytes per second
	mutantFLDSNever   bool // the mover of FLDS never runs
	mutantSameVictims bool // all nodes draw the same victims
	mutantIdleCounts  bool // FLDS takes idle time for slow work
	mutantOrderless   bool // DVS takes the most loaded node
	mutantOwnSource   bool // DVS: all nodes take themselves for the source
	mutantAlike       bool // all nodes count as equally fast
	mutantPrinted     bool // ADAGE, listing 3 as printed: the node with the least input
	mutantLoadBlind   bool // ADAGE: the load of nodes counts for nothing
	mutantNoCopies    bool // input that a node fetched does not count as there
	mutantHalfDown    bool // half of a single task is none
	mutantDrainKeeps  bool // thieves pass over a draining node
	mutantAnyNode     bool // thieves take tasks that do not suit their node
	mutantHomely      bool // no node takes tasks of a better class while it has its own
	mutantBlindGap    bool // any task may run in the slots held for a gang
	mutantHastyGap    bool // tasks run in held slots as soon as the slots were idle for the time of a task
	mutantRestless    bool // thieves with lifelines go on to ask
	mutantUnfed       bool // the first work is told to no node with a lifeline
	mutantRoleless    bool // nodes for gangs take tasks, and nodes for tasks gangs
	mutantGivesAll    bool // work giving: a node that is not the most loaded gives, too
	mutantKeepsAll    bool // ADAGE keeps tasks that wait longer than their input takes
	mutantGreedy      bool // a thief takes half of a workflow's ready tasks
	mutantNarrow      bool // a thief asks as many nodes after failures as before
	mutantEager       bool // the wait after a failure does not double
	mutantUnset       bool // the settings of waits and bundles count for nothing
	mutantAutoMesh    bool // auto takes DVS for its thieves
	mutantCrowds      bool // auto binds tasks to an output that many tasks read
	mutantNoLeap      bool // leapfrog: a thief does not ask the node that stole from it
	mutantSameNext    bool // sequential: a thief asks the same nodes after a failure
	mutantUnfixed     bool // fixed: a thief draws its neighbors anew
	mutantFarFirst    bool // near: a thief begins with nodes of any group
	mutantToAndFro    bool // work giving: half of the tasks go, however busy the other node is
	mutantUnspread    bool // a bag stays on the node of its submission
	mutantTreeStops   bool // a node keeps all that the tree of a bag gives to it and to others
	mutantPushedTwice bool // a node keeps what it pushes to others
	mutantUnkept      bool // thieves get the tasks of a bag that is on its way down the tree
	mutantMLBBinds    bool // mlb binds a task to its input
	mutantMDLShares   bool // mdl shares a task with input
	mutantGuessStays  bool // the mean of ended tasks counts for nothing
	mutantTTFalls     bool // tt of FLDS never rises again
	mutantBothGive    bool // nobody steals where nodes may steal and give
	mutantFewTold     bool // the leader of a workflow tells few nodes of ready tasks
	mutantFertile     bool // a node where all tasks of a job fail goes on to take more
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"no-estimate":  &mutantNoEstimate,
		"flds-never":   &mutantFLDSNever,
		"same-victims": &mutantSameVictims,
		"idle-counts":  &mutantIdleCounts,
		"orderless":    &mutantOrderless,
		"own-source":   &mutantOwnSource,
		"alike":        &mutantAlike,
		"printed":      &mutantPrinted,
		"load-blind":   &mutantLoadBlind,
		"no-copies":    &mutantNoCopies,
		"half-down":    &mutantHalfDown,
		"any-node":     &mutantAnyNode,
		"drain-keeps":  &mutantDrainKeeps,
		"fertile":      &mutantFertile,
		"greedy":       &mutantGreedy,
		"keeps-all":    &mutantKeepsAll,
		"roleless":     &mutantRoleless,
		"gives-all":    &mutantGivesAll,
		"restless":     &mutantRestless,
		"unfed":        &mutantUnfed,
		"homely":       &mutantHomely,
		"blind-gap":    &mutantBlindGap,
		"hasty-gap":    &mutantHastyGap,
		"unset":        &mutantUnset,
		"narrow":       &mutantNarrow,
		"eager":        &mutantEager,
		"auto-dvs":     &mutantAutoMesh,
		"crowds":       &mutantCrowds,
		"no-leap":      &mutantNoLeap,
		"same-next":    &mutantSameNext,
		"unfixed":      &mutantUnfixed,
		"far-first":    &mutantFarFirst,
		"unspread":     &mutantUnspread,
		"to-and-fro":   &mutantToAndFro,
		"tree-stops":   &mutantTreeStops,
		"pushed-twice": &mutantPushedTwice,
		"unkept":       &mutantUnkept,
		"mlb-binds":    &mutantMLBBinds,
		"mdl-shares":   &mutantMDLShares,
		"both-give":    &mutantBothGive,
		"guess-stays":  &mutantGuessStays,
		"tt-falls":     &mutantTTFalls,
		"few-told":     &mutantFewTold,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
