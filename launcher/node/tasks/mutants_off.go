//go:build !mutants

package tasks

// The planted faults, all off; see mutants_on.go.
const (
	mutantStepsOutlive = false
	mutantMuteTasks    = false
	mutantTasksStay    = false
	mutantGangUntold   = false
	mutantGangGoesOn   = false
	mutantGangEndsTwo  = false
	mutantNoWait       = false
	mutantOldPolicy    = false
	mutantUnread       = false
	mutantYields       = false
)
