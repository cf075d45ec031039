package shims

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// A shim is a link to this binary with the name of another launcher. The shim
// reads the launcher's command line and starts the program through the instance.
// For an unsupported command line the shim prints the reason and runs the real
// command.

// Shim is one shim.
type Shim struct {
	Name string
	main func(args []string) int
}

// LauncherShims are the shims that filch shim install makes.
func LauncherShims() []Shim {
	return []Shim{{"srun", srunMain}, {"mpiexec", mpiexecMain}, {"mpirun", mpiexecMain}}
}

// SlurmShims are the further shims of --slurm.
func SlurmShims() []Shim {
	return []Shim{
		{"sbatch", sbatchMain},
		{"squeue", squeueMain},
		{"scancel", scancelMain},
		{"sacct", sacctMain},
		{"scontrol", scontrolMain},
		{"sinfo", sinfoMain},
		{"sacctmgr", sacctmgrMain},
	}
}

// AsShim runs the shim named by argv0, if any.
func AsShim(argv0 string, args []string) (code int, is bool) {
	name := filepath.Base(argv0)
	if strings.HasPrefix(name, "filch") {
		return 0, false
	}
	for _, s := range append(LauncherShims(), SlurmShims()...) {
		if s.Name == name {
			ui.Self = ui.Voice{Name: name, Fault: 1}
			return s.main(args), true
		}
	}
	return 0, false
}

// handOn becomes the real command, after printing why, unless why is empty.
func handOn(why string) int {
	path, err := cli.RealCommand(ui.Self.Name)
	if err != nil {
		ui.Complain(filch.Errorf(filch.Invalid, "%s", why))
		return ui.Self.Fault
	}
	if why != "" {
		ui.Say(fmt.Sprintf("%s: left to %s", why, path))
	}
	err = syscall.Exec(path, append([]string{ui.Self.Name}, os.Args[1:]...), os.Environ())
	return ui.Fail(filch.Errorf(filch.Invalid, "cannot start %s: %s", path, err.Error()))
}
