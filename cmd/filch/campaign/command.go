package campaign

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/batch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/spec"
)

// Defaults of filch campaign.
const (
	maxUsual  = 8
	idleUsual = time.Minute
)

// nameBytes bounds the part of a campaign's name that comes from the tasks.
const nameBytes = 20

// options are the options of filch campaign.
type options struct {
	*cli.Global
	pool           string // the batch system and its options
	name           string
	max            int
	idle           time.Duration
	slots          int
	via            string
	iface, address string
}

// Command is filch campaign.
func Command(g *cli.Global) *cobra.Command {
	o := &options{Global: g}
	c := &cobra.Command{
		Use:     "campaign --pool 'SYSTEM OPTIONS' [OPTIONS] -- FILE | COMMAND [ARGS] [::: VALUE...]",
		GroupID: "run",
		Short:   "run tasks from a login node, on allocations that come and go with the work",
		Long: `Runs tasks from a login node. filch campaign starts an instance here, whose launcher has no
slots, defines a pool, submits the tasks, and waits with the progress. The instance asks the
batch system for allocations, as filch pool says. When all tasks have ended, filch campaign
prints their counts and the cost in node-hours, gives all allocations back, and takes the
instance down. The exit code is 0 if all tasks ended well.

One word behind -- is a FILE with a command in each line; sh runs each. What the tasks
print goes to the folder FILE.out: the first line's to FILE.out/0. FILE.out/joblog says how
each ended. Other words go to filch submit: options, a command, values.

Ctrl-C, or the end of the terminal, ends only this command. The same command line in the same
folder comes back to the campaign, also after its end. After the loss of the instance, it
goes on with the tasks that had not ended. With --instance, the campaign uses an instance that
is up, and leaves the instance up.`,
		Example: `  filch campaign --pool 'slurm -p short -t 1:00:00' -- ./commands.txt
  filch campaign --pool 'slurm -p short,long -N 1' --max 20 -- -c 4 -o out/%t ./simulate {} ::: *.in
  filch campaign --pool 'pbs -q batch' --via login1 --iface eth0 -- ./commands.txt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := o.check(args)
			if err != nil {
				return err
			}
			return r.run()
		},
	}
	f := c.Flags()
	f.SetInterspersed(false)
	f.SortFlags = false
	f.StringVar(&o.pool, "pool", "", "the batch system, slurm, pbs or hooks, and its options, in one `TEXT`: 'slurm -p short -t 1:00:00'")
	f.IntVar(&o.max, "max", maxUsual, "at most `N` allocations at a time, queued or running")
	cli.TimeVar(f, &o.idle, "idle", idleUsual, "give an allocation back that has had no work for this `TIME`")
	f.IntVar(&o.slots, "slots", 0, "an allocation has `N` slots (default: as the batch system says, or as the first shows)")
	f.StringVar(&o.via, "via", "", "run the commands of the batch system on `HOST`, over ssh")
	f.StringVar(&o.iface, "iface", "", "network `INTERFACE` of this machine that the allocations reach (default: one with a private address)")
	f.StringVar(&o.address, "address", "", "the same by its `IP` address")
	f.StringVar(&o.name, "name", "", "`NAME` of the campaign, its instance and its job (default: made of the folder and the tasks)")
	return c
}

// check refuses what no campaign can do, before anything is started.
func (o *options) check(words []string) (*run, error) {
	system, err := spec.SplitWords(o.pool)
	if err != nil {
		return nil, ui.Misused(err)
	}
	if len(system) == 0 {
		return nil, ui.Misused(filch.Errorf(filch.Invalid, "a campaign needs a batch system").WithHint("filch campaign --pool 'slurm -p PARTITION -t TIME' -- FILE"))
	}
	if err := batch.CheckSystem(system[0]); err != nil {
		return nil, cli.OfOption("pool", err)
	}
	if err := ours(words); err != nil {
		return nil, ui.Misused(err)
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot find the working folder: %s", ui.Cause(err))
	}
	r := &run{options: o, system: system, words: words, name: cmp.Or(o.name, nameOf(here, words))}
	if err := place.CheckInstance(r.name); err != nil {
		return nil, ui.Misused(cli.OfOption("name", err))
	}
	if len(words) == 1 && words[0] != "-" {
		info, err := os.Stat(words[0])
		if err == nil && !info.Mode().IsRegular() {
			err = filch.Errorf(filch.Invalid, "is no file")
		}
		if err != nil {
			return nil, ui.Misused(filch.Errorf(filch.Invalid, "cannot read the list of commands %s: %s", ui.Clean(words[0]), ui.Cause(err)).
				WithHint("one word behind -- is a file with a command in each line; for one command: -- -- COMMAND"))
		}
		r.folder = words[0] + ".out"
	}
	r.instance = cmp.Or(o.Instance, os.Getenv("FILCH_INSTANCE"))
	if r.own = r.instance == ""; r.own {
		r.instance = r.name
		if in := place.AllocationName(os.Getenv); in != "" {
			return nil, filch.Errorf(filch.Invalid, "a campaign starts its instance on a login node, and this is inside of %s", in).
				WithHint("filch up -- COMMAND uses the nodes of a batch job; filch campaign --instance NAME adds to an instance that is up")
		}
	}
	return r, nil
}

// ours refuses options of filch submit that a campaign sets itself, or that submit no job.
func ours(words []string) error {
	for _, w := range words {
		name, _, _ := strings.Cut(w, "=")
		switch {
		case w == "--":
			return nil
		case strings.HasPrefix(w, "-J"), name == "--job-name", name == "--name":
			return filch.Errorf(filch.Invalid, "the job has the name of the campaign, and %s sets another", ui.Clean(w)).WithHint("filch campaign --name NAME; an option of the command stands behind one more --")
		case name == "--dry-run", name == "--json", name == "--to", name == "--open", name == "--wait", name == "--progress", name == "--tag", name == "--ungroup", name == "--keep-order":
			return filch.Errorf(filch.Invalid, "a campaign submits its tasks at once and waits for them, and takes no %s", ui.Clean(name)).WithHint("an option of the command stands behind one more --")
		}
	}
	return nil
}

// nameOf makes the name of a campaign: readable, and the same for the same tasks in the same
// folder.
func nameOf(folder string, words []string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{folder}, words...), "\x00")))
	base := filepath.Base(words[0])
	base = strings.TrimSuffix(base, filepath.Ext(base))
	base = strings.Trim(strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '_' {
			return r
		}
		return '-'
	}, base), "-")
	return cmp.Or(base[:min(len(base), nameBytes)], "tasks") + "-" + hex.EncodeToString(sum[:3])
}
