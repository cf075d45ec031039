//go:build mutants

package tasks

// Planted faults, switched on singly, for checkers to catch. They exist only under the
// build tag mutants.
var (
	mutantStepsOutlive bool // the end of a task is told while its steps run
	mutantMuteTasks    bool // nothing is reported of tasks that no node has
	mutantTasksStay    bool // a node declared dead goes on with its tasks
	mutantGangUntold   bool // the core is not told that a gang has its slots: they count twice
	mutantGangGoesOn   bool // a gang that is told to stop runs on
	mutantGangEndsTwo  bool // the end of a gang is given twice
	mutantNoWait       bool // a successor begins before the end of the task before it
	mutantOldPolicy    bool // a policy that comes late takes the place of a newer policy
	mutantUnread       bool // a node with tasks does not read the record of the policy
	mutantYields       bool // a node that does not know the present policy cannot write another
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for n, p := range map[string]*bool{ // any order
		"steps-outlive": &mutantStepsOutlive,
		"mute-tasks":    &mutantMuteTasks,
		"tasks-stay":    &mutantTasksStay,
		"gang-untold":   &mutantGangUntold,
		"gang-goes-on":  &mutantGangGoesOn,
		"gang-ends-two": &mutantGangEndsTwo,
		"no-wait":       &mutantNoWait,
		"old-policy":    &mutantOldPolicy,
		"policy-unread": &mutantUnread,
		"policy-yields": &mutantYields,
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
