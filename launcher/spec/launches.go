package spec

import (
	"fmt"
	"path/filepath"
	"slices"
)

// launchers are programs that start ranks themselves.
var launchers = []string{"mpirun", "mpiexec", "mpiexec.hydra", "mpiexec.mpich", "mpirun.mpich", "mpiexec.openmpi", "mpirun.openmpi", "orterun", "prterun", "srun", "aprun", "ibrun", "jsrun"}

// Launches is a warning where each of several ranks would run a launcher, which then starts
// all ranks again; "" elsewhere.
func Launches(argv []string, ranks int32) string {
	if len(argv) == 0 || ranks < 2 {
		return ""
	}
	name := filepath.Base(argv[0])
	if name == "filch" && len(argv) > 1 && argv[1] == "run" {
		name = "filch run"
	} else if !slices.Contains(launchers, name) {
		return ""
	}
	return fmt.Sprintf("each of the %d ranks starts %s, which starts ranks of its own; filch starts the ranks: leave %[2]s out", ranks, name)
}
