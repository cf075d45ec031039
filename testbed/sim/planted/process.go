package planted

import (
	"os"
	"os/exec"
	"testing"
)

// MustFail takes pairs of a planted fault and the test of the same package that catches
// the fault. The fault is planted in a process of its own, by an environment variable.
// The test runs there, within a minute, and must fail.
func MustFail(t *testing.T, variable string, pairs [][2]string) {
	for _, p := range pairs {
		fault, test := p[0], p[1]
		t.Run(fault+"/"+test, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+test+"$", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), variable+"="+fault)
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("the planted fault %s passes %s:\n%s", fault, test, out)
			}
		})
	}
}
