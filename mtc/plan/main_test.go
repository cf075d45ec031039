package plan

import (
	"os"
	"testing"
)

// plant switches on the fault that the environment names. Only a build with the tag
// mutants has faults.
var plant = func(string) bool { return false }

func TestMain(m *testing.M) {
	if name := os.Getenv("MTC_MUTANT"); name != "" && !plant(name) {
		os.Stderr.WriteString("there is no planted fault " + name + "\n")
		os.Exit(0) // the parent test takes exit code 0 for a fault that no test saw
	}
	os.Exit(m.Run())
}
