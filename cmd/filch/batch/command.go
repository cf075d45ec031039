package batch

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/pools"
	"github.com/filch-hpc/filch/pool"
)

// Defaults of filch pool add.
const (
	idleUsual   = 3 * time.Minute
	withinUsual = time.Minute
	growUsual   = 64
)

// Command is filch pool.
func Command(g *cli.Global) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "pool",
		GroupID: "nodes",
		Short:   "let the instance ask a batch system for allocations as its work grows",
		Long: `Lists the pools of the instance: what each asked its batch system for, what came of it,
and what the nodes did with their time.

The instance submits an allocation when more work waits than its nodes do soon, and gives
an allocation back that has had no work for the time of --idle. Allocations that wait in the
queue of the batch system count as nodes that come. Any node with the commands of the batch
system can do this, so a pool goes on when nodes die. See docs/pools.md.`,
		Example: `  filch up --nodes 1 --iface eth0          on a login node
  filch pool add slurm --max 8 -- -p short -N 1 -t 1:00:00
  filch submit --array 1-10000 -- ./simulate {}
  filch pool`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			all, err := readAll(c)
			switch {
			case err != nil:
				return err
			case asJSON:
				return ui.PrintJSON(append([]*pool.Pool{}, all...))
			case len(all) == 0:
				ui.Say("no pool is defined: filch pool add slurm --max N -- OPTIONS OF SBATCH")
				return nil
			}
			show(all)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(addCommand(g), removeCommand(g), pauseCommand(g), resumeCommand(g), keepCommand(), beginCommand(), stayCommand(g))
	return c
}

func readAll(c *client.Client) (all []*pool.Pool, err error) {
	known, _, err := pools.List(c)
	for _, name := range known {
		p, _, e := pools.Read(c, name)
		if e != nil {
			return nil, e
		}
		if p != nil && !p.Gone() {
			all = append(all, p)
		}
	}
	return all, err
}

func show(all []*pool.Pool) {
	t := &ui.Table{Head: []string{"POOL", "SYSTEM", "STATE", "MAX", "COMING", "RUN", "ENDING", "SENT", "FAILED", "ASKED", "GRANTED", "WORKED", "IDLE", "HELD BY"}, Right: map[int]bool{3: true, 4: true, 5: true, 6: true, 7: true, 8: true, 9: true, 10: true, 11: true, 12: true}}
	for _, p := range all {
		count := map[pool.State]int{}
		for i := range p.Allocs {
			count[p.Allocs[i].State]++
		}
		state := "on"
		switch {
		case p.Removed:
			state = "removed"
		case p.Paused != "":
			state = "paused"
		}
		sum := p.Cost()
		t.Add(p.Name, p.System, state, strconv.Itoa(p.Max), strconv.Itoa(count[pool.Planned]+count[pool.Queued]+count[pool.Started]),
			strconv.Itoa(count[pool.Joined]), strconv.Itoa(count[pool.Ending]), strconv.FormatInt(p.Totals.Submitted, 10), strconv.FormatInt(p.Totals.Failed, 10),
			askedHours(&sum), hours(sum.Granted), hours(sum.Worked), hours(sum.Idle), string(p.Holder))
	}
	t.Print()
	for _, p := range all {
		note := func(form string, args ...any) { fmt.Println(ui.Clean(p.Name + ": " + fmt.Sprintf(form, args...))) }
		if p.Paused != "" {
			note("paused: %s (filch pool resume %s)", p.Paused, p.Name)
		}
		if p.Trouble != "" && p.Paused == "" {
			note("last trouble: %s", p.Trouble)
		}
		if p.Totals.Failed > 0 && p.System == "slurm" {
			note("the batch scripts print to ~/.filch/INSTANCE/pool-%s-JOB.log", p.Name)
		}
		for i := range p.Allocs {
			if a := &p.Allocs[i]; a.Said != "" && a.State != pool.Ending {
				note("allocation %d, job %s, waits: %s", a.N, a.Job, a.Said)
			}
		}
		if p.Said != "" {
			note("%s", p.Said)
		}
	}
}

// hours prints seconds of nodes as node-hours.
func hours(seconds float64) string { return fmt.Sprintf("%.2f", seconds/3600) }

// askedHours is - if the batch system does not tell what was asked for.
func askedHours(sum *pool.Totals) string {
	if sum.Asked == 0 {
		return "-"
	}
	return hours(sum.Asked)
}

// CostText says what a pool asked for, and what came of it.
func CostText(sum *pool.Totals) string {
	text := filch.Plural(int(sum.Submitted), "allocation") + "; node-hours: "
	if sum.Asked > 0 {
		text += hours(sum.Asked) + " asked for, "
	}
	return text + fmt.Sprintf("%s granted, %s worked, %s idle", hours(sum.Granted), hours(sum.Worked), hours(sum.Idle))
}

type addOptions struct {
	*cli.Global
	spec  pool.Spec
	slots int
	dry   bool
}

func addCommand(g *cli.Global) *cobra.Command {
	o := &addOptions{Global: g}
	c := &cobra.Command{
		Use:   "add slurm|pbs|hooks [OPTIONS] -- OPTIONS OF THE BATCH SYSTEM",
		Short: "define a pool",
		Long: `Defines a pool. What stands behind -- goes to sbatch or qsub for each allocation. A pool
of hooks takes three commands there: the first submits the script on its input under the
name $1 and prints the number of the job; the second prints a line
NUMBER NAME STATE [NODES*TIME] REASON for each job, with the states queued, held, running,
over and cancelled; the third cancels job $1.`,
		Example: `  filch pool add slurm --max 8 --idle 5m -- -p short -N 1 -t 1:00:00
  filch pool add slurm --max 8 --dry-run -- -p short,long -N 1 -t 1:00:00
  filch pool add pbs --via login1 --max 4 -- -q batch -l select=1:ncpus=16,walltime=1:00:00`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.add(args) },
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		e := cli.OptionError(c.Flags(), err)
		if e.Hint == "" {
			e = e.WithHint("options of the batch system go behind --, as in filch pool add slurm --max 8 -- -p short")
		}
		return ui.Misused(e)
	})
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.spec.Name, "name", "", "`NAME` of the pool (default: the name of the batch system)")
	f.IntVar(&o.spec.Max, "max", 0, "at most `N` allocations at a time, queued or running")
	f.IntVar(&o.spec.Min, "min", 0, "at least `N` allocations at a time, also without work")
	cli.TimeVar(f, &o.spec.Idle, "idle", idleUsual, "give an allocation back that has had no work for this `TIME`")
	cli.TimeVar(f, &o.spec.Within, "within", withinUsual, "ask for as many allocations as do the queued work within this `TIME`")
	f.Int64Var(&o.spec.Grow, "grow", growUsual, "when the queue grows by `N` tasks between two looks, ask for a slot for each task; 0: never")
	f.IntVar(&o.slots, "slots", 0, "an allocation has `N` slots (default: as the batch system says, or as the first shows)")
	f.StringVar(&o.spec.Via, "via", "", "run the commands of the batch system on `HOST`, over ssh")
	f.BoolVar(&o.dry, "dry-run", false, "check the pool, let Slurm check the options, and define nothing")
	return c
}

// CheckSystem refuses the name of a batch system that pools do not know.
func CheckSystem(name string) error {
	if systems[name] != nil {
		return nil
	}
	return ui.Misused(filch.Errorf(filch.Invalid, "there is no batch system %.40q", name).WithHint("known are slurm, pbs and hooks"))
}

func (o *addOptions) add(args []string) error {
	s := &o.spec
	s.System, s.Args, s.Each = args[0], args[1:], int32(o.slots)
	if s.Name == "" {
		s.Name = s.System
	}
	if err := CheckSystem(s.System); err != nil {
		return err
	}
	if s.Max == 0 {
		return ui.Misused(filch.Errorf(filch.Invalid, "a pool needs a bound on its allocations").WithHint("--max N"))
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	s.Program = program
	p, err := pool.New(*s)
	if err != nil {
		return ui.Misused(err)
	}
	if s.System == "hooks" && len(s.Args) != 3 {
		return ui.Misused(hooksText(len(s.Args)))
	}
	sys, checked := systems[s.System](s), false
	if none := missing(sys); len(none) > 0 {
		ui.Say(fmt.Sprintf("warning: this machine has no %s; another node of the instance must have the commands of the batch system, or use --via HOST", strings.Join(none, ", ")))
	} else if checked, err = o.probe(sys); err != nil {
		return err
	}
	p.Each = s.Each
	if o.dry {
		text := "the batch system takes these options"
		if !checked {
			text = "the pool is right, and nothing has checked the options of the batch system"
		}
		ui.Say(text + "; nothing was submitted and no pool was defined")
		return nil
	}
	c, err := o.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := define(c, p); err != nil {
		return err
	}
	return warnApart(c)
}

// warnApart warns of an instance that nodes of a batch system cannot join.
func warnApart(c *client.Client) error {
	nodes, err := cli.QueryNodes(c)
	if err != nil {
		return err
	}
	if len(cli.Reachable(nodes)) == 0 {
		ui.Say("warning: no launcher of this instance listens on an address that other machines reach, so no allocation can join: start the instance with filch up --nodes 1 --iface INTERFACE")
	}
	return nil
}

// probe lets the batch system check the options, where it can, and asks how many slots an
// allocation has.
func (o *addOptions) probe(sys system) (checked bool, err error) {
	check, ok := sys.(checker)
	if !ok {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookWait)
	defer cancel()
	slots, err := check.check(ctx, o.spec.Args)
	if err != nil {
		return false, filch.Errorf(filch.Unavailable, "the batch system refuses the pool: %s", err.Error())
	}
	if o.spec.Each == 0 {
		o.spec.Each = slots
	}
	return true, nil
}

// checker is a batch system that checks options without a submission.
type checker interface {
	// check returns the slots of an allocation, 0 if the batch system does not say.
	check(ctx context.Context, args []string) (slots int32, err error)
}

// check is sbatch --test-only, which prints the processors that the job would get.
func (s slurm) check(ctx context.Context, args []string) (int32, error) {
	p := slices.Concat([]string{"sbatch", "--test-only"}, args)
	said, err := s.runBoth(ctx, "#!/bin/sh\n", p...)
	if err != nil {
		return 0, err
	}
	n := 0
	if _, text, ok := strings.Cut(said, " using "); ok {
		_, _ = fmt.Sscanf(text, "%d processors", &n)
	}
	return int32(n), nil
}

func define(c *client.Client, p *pool.Pool) error {
	known, _, err := pools.List(c)
	if err != nil {
		return err
	}
	if len(known) >= pool.MostPools && !slices.Contains(known, p.Name) {
		return filch.Errorf(filch.Busy, "cannot define the pool %s: the instance has had %d, the most", p.Name, pool.MostPools)
	}
	old, was, err := pools.Read(c, p.Name)
	switch {
	case err != nil:
		return err
	case old != nil && !old.Gone():
		return filch.Errorf(filch.Busy, "there is a pool %s", p.Name).WithHint("choose another --name, or remove the pool: filch pool rm %s", p.Name)
	case old != nil:
		p.Next = old.Next // the names of its batch jobs stay unique
	}
	err = publish(c, p, was, known)
	if err == nil {
		ui.Say(fmt.Sprintf("the pool %s asks %s for at most %d allocations; filch pool shows them", p.Name, p.System, p.Max))
	}
	return err
}

// onPool is a command that changes one pool.
func onPool(g *cli.Global, use, short string, f func(p *pool.Pool) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = pools.Change(c, args[0], f)
			return err
		},
	}
}

func removeCommand(g *cli.Global) *cobra.Command {
	return onPool(g, "rm POOL", "remove a pool: its allocations drain, and end when nothing runs there", remove)
}

func remove(p *pool.Pool) error {
	p.Removed = true
	return nil
}

// Remove removes a pool. The record stays; its last allocation may end minutes later.
func Remove(c *client.Client, name string) error {
	_, err := pools.Change(c, name, remove)
	return err
}

func pauseCommand(g *cli.Global) *cobra.Command {
	return onPool(g, "pause POOL", "ask for no more allocations", func(p *pool.Pool) error {
		p.Paused = "filch pool pause, by " + cli.Person()
		return nil
	})
}

func resumeCommand(g *cli.Global) *cobra.Command {
	return onPool(g, "resume POOL", "let a paused pool ask again", func(p *pool.Pool) error {
		p.Resume()
		return nil
	})
}
