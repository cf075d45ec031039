package tasks

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// hookMax bounds the text of a prolog or an epilog.
const hookMax = 16 << 10

// hookFlags are what a node does around each task.
type hookFlags struct {
	tmp            bool
	prolog, epilog string
}

func (f *hookFlags) declareHooks(p *pflag.FlagSet) {
	p.BoolVar(&f.tmp, "private-tmp", false, "give each task a new folder as TMPDIR, and remove the folder with the task")
	p.StringVar(&f.prolog, "prolog", "", "run `COMMAND` with a shell before each task; lines like export NAME=VALUE that it prints set the task's environment")
	p.StringVar(&f.epilog, "epilog", "", "run `COMMAND` with a shell after each task, with FILCH_EXIT_CODE")
}

// extra adds the options to the extra of an order, which may be nil.
func (f *hookFlags) extra(extra *launcher.OrderExtra) (*launcher.OrderExtra, error) {
	if *f == (hookFlags{}) {
		return extra, nil
	}
	for _, text := range []string{f.prolog, f.epilog} {
		if len(text) > hookMax || strings.IndexByte(text, 0) >= 0 {
			return nil, filch.Errorf(filch.Invalid, "--prolog and --epilog have at most %d bytes each, without NUL; %d are given", hookMax, len(text)).WithHint("put the commands into a script")
		}
	}
	if extra == nil {
		extra = &launcher.OrderExtra{}
	}
	extra.PrivateTmp, extra.Prolog, extra.Epilog = f.tmp, f.prolog, f.epilog
	return extra, nil
}

// processes refuses the options for tasks that are no processes of their own.
func (f *hookFlags) processes(what string) error {
	if *f == (hookFlags{}) {
		return nil
	}
	return filch.Errorf(filch.Invalid, "--private-tmp, --prolog and --epilog are for tasks that run a command each: %s", what)
}
