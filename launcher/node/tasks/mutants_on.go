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
	} {
		*p = n == name
		known = known || *p
	}
	return known
}
