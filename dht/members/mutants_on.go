//go:build mutants

package members

// Planted faults of the list, one at a time, for a checker to catch. The faults
// exist only under the build tag mutants.
var (
	mutantGoneAlone   bool // a node is called gone without a witness
	mutantGoneForGood bool // a gone node is not pinged when heard
)

// Plant switches on the named fault and the others off; "" is none.
func Plant(name string) bool {
	mutantGoneAlone = name == "gone-alone"
	mutantGoneForGood = name == "gone-for-good"
	return name == "" || mutantGoneAlone || mutantGoneForGood
}
