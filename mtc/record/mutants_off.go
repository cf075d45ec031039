//go:build !mutants

package record

// The planted faults, all off; see mutants_on.go.
const (
	mutantCountMaybe = false
	mutantLastWriter = false
	mutantStartTwice = false
	mutantTallyBack  = false
	mutantCapFree    = false
	mutantStaged     = false
	mutantTakeOnce   = false
)
