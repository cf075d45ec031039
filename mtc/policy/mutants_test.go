//go:build mutants

package policy

import (
	"os"
	"os/exec"
	"testing"
)

func init() { plant = Plant }

// TestMutantsAreCaught plants each fault in a process of its own, in which the
// test beside it must fail.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range []struct{ name, test string }{
		{"flds-never", "TestExcessOfThePaper"},
		{"no-estimate", "TestPlaceIsAlgorithm1"},
		{"same-victims", "TestVictimsAreDrawnAnew"},
	} {
		t.Run(m.name+"/"+m.test, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+m.test+"$", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), "MTC_MUTANT="+m.name)
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("the planted fault %s passes %s:\n%s", m.name, m.test, out)
			}
		})
	}
}
