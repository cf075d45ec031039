package mtc

import (
	"os"
	"testing"
)

// plant switches on a fault that the environment names; it does so only in a
// build with the tag mutants.
var plant = func(string) bool { return false }

func TestMain(m *testing.M) {
	if name := os.Getenv("MTC_MUTANT"); name != "" && !plant(name) {
		os.Stderr.WriteString("there is no planted fault " + name + "\n")
		os.Exit(0) // which the caller takes for a fault that no test saw
	}
	os.Exit(m.Run())
}
