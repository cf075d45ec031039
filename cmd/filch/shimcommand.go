package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/shims"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/spf13/cobra"
)

func shimCommand() *cobra.Command {
	slurm := false
	c := &cobra.Command{
		Use:     "shim",
		GroupID: "run",
		Short:   "put srun, mpiexec and mpirun in front of the real ones",
		Long: `Unchanged scripts that call srun, mpiexec or mpirun start their programs in the
instance, when a folder with links of these names to filch is first in PATH. See
docs/shims.md.`,
		Example: "  filch shim install ~/shims",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	install := &cobra.Command{
		Use:   "install DIR",
		Short: "make links named srun, mpiexec and mpirun to filch",
		Long: `Makes links named srun, mpiexec and mpirun to this filch in a folder. With the folder
first in PATH, unchanged scripts that call these commands start their programs in the
instance, with the exit codes, labels and file patterns of the real commands; inside
a job, as steps of the job. A shim that meets an option that it cannot serve says so
and starts the real command. See docs/shims.md.`,
		Example: `  filch shim install ~/shims
  PATH=~/shims:$PATH filch up -- ./campaign.sh`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !slurm {
				return installShims(args[0], shims.LauncherShims())
			}
			if err := installShims(args[0], append(shims.LauncherShims(), shims.SlurmShims()...)); err != nil {
				return err
			}
			for _, s := range shims.SlurmShims() {
				if path, err := cli.RealCommand(s.Name); err == nil {
					fmt.Printf("note  %s is on this machine too: with the folder first in PATH, these commands show the instance and not Slurm\n", path)
					break
				}
			}
			return nil
		},
	}
	install.Flags().BoolVar(&slurm, "slurm", false, "also sbatch, squeue, scancel, sacct, scontrol, sinfo and sacctmgr")
	cli.Strict(install)
	c.AddCommand(install, shimOptionsCommand())
	return c
}

func shimOptionsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "options [PROGRAM...]",
		Short: "list what the shims do with every option of the real commands",
		Long: `Lists every option of srun, mpiexec, mpirun, sbatch, squeue, sacct, scancel, scontrol,
sinfo and sacctmgr, and the variables that srun reads, and what the shim of the command does
with each:

  done     the same as the real command
  said     nothing, and the shim says so: no result of the program depends on the option
  left     the shim says so, and starts the real command instead
  refused  the shim refuses the call, and names the option

A shim refuses an option that is not in the list, or leaves the call to the real command.`,
		Example: "  filch shim options srun\n  filch shim options sbatch squeue",
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			t := &ui.Table{Head: []string{"PROGRAM", "OPTION", "FATE", "NOTE"}}
			all := shims.Programs()
			for _, name := range args {
				if name != "mpirun" && !slices.ContainsFunc(all, func(p shims.Program) bool { return p.Name == name }) {
					return filch.Errorf(filch.Invalid, "filch has no shim options for %s", ui.Clean(name)).WithHint("filch shim options lists all")
				}
			}
			for _, p := range all {
				if len(args) > 0 && !slices.Contains(args, p.Name) && (p.Name != "mpiexec" || !slices.Contains(args, "mpirun")) {
					continue
				}
				for _, o := range slices.Concat(p.Options, p.Variables) {
					t.Add(p.Name, o.Option, o.Fate.String(), o.Note)
				}
			}
			return t.Print()
		},
	}
	cli.Strict(c)
	return c
}

func installShims(dir string, list []shims.Shim) error {
	exe, err := os.Executable()
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot find the path of this binary: %s", ui.Cause(err))
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		e := filch.Errorf(filch.Invalid, "cannot make the folder %s: %s", dir, ui.Cause(err))
		if errors.Is(err, fs.ErrNotExist) {
			e.Hint = "make the folder above first: mkdir -p " + filepath.Dir(dir)
		}
		return e
	}
	var made []string
	for _, s := range list {
		path := filepath.Join(dir, s.Name)
		if old, err := os.Readlink(path); err == nil && strings.HasPrefix(filepath.Base(old), "filch") {
			_ = os.Remove(path)
		}
		if err := os.Symlink(exe, path); err != nil {
			return filch.Errorf(filch.Invalid, "cannot make %s: %s", path, ui.Cause(err)).WithHint("name a folder of its own")
		}
		made = append(made, s.Name)
	}
	here, err := filepath.Abs(dir) // a script may change its folder
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot tell where %s is: %s", dir, ui.Cause(err))
	}
	fmt.Printf("made %s in %s, links to filch; to use the links: PATH=%s:$PATH\n", strings.Join(made, ", "), dir, here)
	if !slices.Contains(filepath.SplitList(os.Getenv("PATH")), here) {
		return nil
	}
	fmt.Println("the folder is in PATH already")
	return nil
}
