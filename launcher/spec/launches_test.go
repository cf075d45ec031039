package spec

import (
	"strings"
	"testing"
)

func TestLaunches(t *testing.T) {
	for _, c := range []struct {
		command string
		ranks   int32
		want    string
	}{
		{"mpirun -n 4 ./solver", 4, "each of the 4 ranks starts mpirun, which starts ranks of its own; filch starts the ranks: leave mpirun out"},
		{"/usr/bin/mpiexec.hydra ./solver", 2, "each of the 2 ranks starts mpiexec.hydra, which"},
		{"filch run ./solver", 2, "each of the 2 ranks starts filch run, which"},
		{"filch ps", 2, ""},
		{"mpirun ./solver", 1, ""},
		{"./mpirunner", 4, ""},
		{"", 4, ""},
	} {
		if got := Launches(strings.Fields(c.command), c.ranks); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%d ranks of %q: got %q, want %q", c.ranks, c.command, got, c.want)
		}
	}
}
