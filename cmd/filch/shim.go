package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
)

// A shim is a link to this binary with the name of another launcher. It takes
// that launcher's command line and starts the program through the instance; what
// it cannot do it says, and hands to the real command.

// shim is one of them.
type shim struct {
	name string
	main func(args []string) int
}

// shims are those that filch shim install makes.
func shims() []shim {
	return []shim{{"srun", srunMain}, {"mpiexec", mpiexecMain}, {"mpirun", mpiexecMain}}
}

// slurmShims come on top with --slurm.
func slurmShims() []shim {
	return []shim{
		{"sbatch", sbatchMain},
		{"squeue", squeueMain},
		{"scancel", scancelMain},
		{"sacct", sacctMain},
		{"scontrol", scontrolMain},
		{"sinfo", sinfoMain},
		{"sacctmgr", sacctmgrMain},
	}
}

// asShim runs the shim that we were called as, if any.
func asShim(argv0 string, args []string) (code int, is bool) {
	name := filepath.Base(argv0)
	if strings.HasPrefix(name, "filch") {
		return 0, false
	}
	for _, s := range append(shims(), slurmShims()...) {
		if s.name == name {
			manner = manners{name: name, fault: 1}
			return s.main(args), true
		}
	}
	return 0, false
}

// handOn becomes the real command, after saying why, unless that is plain.
func handOn(why string) int {
	path, err := realCommand(manner.name)
	if err != nil {
		complain(filch.Errorf(filch.Invalid, "%s", why))
		return manner.fault
	}
	if why != "" {
		say(fmt.Sprintf("%s: left to %s", why, path))
	}
	err = syscall.Exec(path, append([]string{manner.name}, os.Args[1:]...), os.Environ())
	return fail(filch.Errorf(filch.Invalid, "cannot start %s: %s", path, err.Error()))
}

// unreached reports whether err says that no launcher is there to be asked.
func unreached(err error) bool {
	k := kindOf(err)
	return k == filch.Unavailable || k == filch.NotFound
}

// siteCommands are those that make filch at home where other launchers are.
func siteCommands() []*cobra.Command {
	return []*cobra.Command{shimCommand(), sshCommand(), memberCommand(), batchCommand()}
}

func shimCommand() *cobra.Command {
	slurm := false
	c := &cobra.Command{
		Use:     "shim",
		GroupID: "run",
		Short:   "put srun, mpiexec and mpirun in front of the real ones",
		Long: `Scripts that call srun, mpiexec or mpirun run through the instance, unchanged, when
links to filch with these names stand in front of PATH. See docs/shims.md.`,
		Example: "  filch shim install ~/shims",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	install := &cobra.Command{
		Use:   "install DIR",
		Short: "make links to filch with the names of other launchers",
		Long: `Makes links to this filch in a folder, named srun, mpiexec and mpirun. With the
folder in front of PATH, scripts that call them run through the instance, without
a change: with the exit codes, labels and file patterns of the real ones, inside a
job as its steps. What a shim cannot do it says, and hands to the real command. See
docs/shims.md.`,
		Example: `  filch shim install ~/shims
  PATH=~/shims:$PATH filch up -- ./campaign.sh`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !slurm {
				return installShims(args[0], shims())
			}
			if err := installShims(args[0], append(shims(), slurmShims()...)); err != nil {
				return err
			}
			for _, s := range slurmShims() {
				if path, err := realCommand(s.name); err == nil {
					fmt.Printf("note  %s is here too: in front of it, these commands speak of the instance and not of Slurm\n", path)
					break
				}
			}
			return nil
		},
	}
	install.Flags().BoolVar(&slurm, "slurm", false, "also sbatch, squeue, scancel, sacct, scontrol, sinfo and sacctmgr")
	strict(install)
	c.AddCommand(install)
	return c
}

func installShims(dir string, list []shim) error {
	exe, err := os.Executable()
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot tell where this binary is: %s", err.Error())
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return filch.Errorf(filch.Invalid, "cannot make %s: %s", dir, cause(err))
	}
	var made []string
	for _, s := range list {
		path := filepath.Join(dir, s.name)
		if old, err := os.Readlink(path); err == nil && strings.HasPrefix(filepath.Base(old), "filch") {
			_ = os.Remove(path)
		}
		if err := os.Symlink(exe, path); err != nil {
			return filch.Errorf(filch.Invalid, "cannot make %s: %s", path, cause(err)).WithHint("name a folder of its own")
		}
		made = append(made, s.name)
	}
	here, err := filepath.Abs(dir) // a script may change its folder
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot tell where %s is: %s", dir, err.Error())
	}
	fmt.Printf("%s in %s lead to filch now; use them with PATH=%s:$PATH\n", strings.Join(made, ", "), dir, here)
	if !slices.Contains(filepath.SplitList(os.Getenv("PATH")), here) {
		return nil
	}
	fmt.Println("the folder is in PATH already")
	return nil
}
