package tasks

import (
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// hookFlags are what a node does around each task.
type hookFlags struct{ launcher.Hooks }

func (f *hookFlags) declareHooks(p *pflag.FlagSet) {
	p.BoolVar(&f.PrivateTmp, "private-tmp", false, "give each task a new folder as TMPDIR, and remove the folder with the task")
	p.StringVar(&f.Prolog, "prolog", "", "run `COMMAND` with a shell before each task; lines like export NAME=VALUE that it prints set the task's environment")
	p.StringVar(&f.Epilog, "epilog", "", "run `COMMAND` with a shell after each task, with FILCH_EXIT_CODE")
}

// extra adds the options to the extra of an order, which may be nil.
func (f *hookFlags) extra(extra *launcher.OrderExtra) (*launcher.OrderExtra, error) {
	if *f == (hookFlags{}) {
		return extra, nil
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	if extra == nil {
		extra = &launcher.OrderExtra{}
	}
	extra.Hooks = f.Hooks
	return extra, nil
}

// processes refuses the options for tasks that are no processes of their own.
func (f *hookFlags) processes(what string) error {
	if *f == (hookFlags{}) {
		return nil
	}
	return filch.Errorf(filch.Invalid, "--private-tmp, --prolog and --epilog are for tasks that run a command each: %s", what)
}
