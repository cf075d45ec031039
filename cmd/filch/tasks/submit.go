package tasks

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/deps"
	"github.com/filch-hpc/filch/cmd/filch/licenses"
	"github.com/filch-hpc/filch/cmd/filch/needs"
	"github.com/filch-hpc/filch/cmd/filch/onend"
	"github.com/filch-hpc/filch/cmd/filch/script"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/slurmenv"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// submitFlags are the options of filch submit.
type submitFlags struct {
	sourceFlags
	needFlags
	lifeFlags
	orderFlags
	hookFlags
	stageFlags
	gangFlags
	showFlags
	lengths needs.Lengths
	table   *needs.Table        // of the entries of a list; nil: all tasks take the same
	each    *launcher.GangOrder // what -n makes of each task; nil: a process
	program string              // the first word of the command
	// the shape of a gang as the user gave it, for SLURM_*
	shape  slurmenv.Options
	open   bool   // more tasks are added later
	spread string // to how many nodes the tasks go at once
	hold   bool   // no task starts until filch release
	log    string // the job log
	// The tasks have SLURM_*.
	slurm bool
	to    string // the open job to add the tasks to
}

func SubmitCommand(g *cli.Global) *cobra.Command {
	f := &submitFlags{}
	c := &cobra.Command{
		Use:     "submit [OPTIONS] -- COMMAND [ARGS] [::: VALUE...]",
		GroupID: "run",
		Short:   "run many tasks: commands, lists of commands, arrays",
		Long: `Submits a job of tasks and prints the number of the job. Each task is a process that
takes slots of one node, or with -n a gang of ranks, as of filch run. Idle nodes steal
tasks from busy nodes. The end of each task is recorded once. The job goes on when the
node where it was submitted dies.

  COMMAND alone  one task; options may stand in #FILCH or #SBATCH lines of a script
  --array        one task per index; FILCH_TASK is the index
  --each-line    one task per line of a file; FILCH_LINE is the line; without a
                 COMMAND, sh runs the line
  --from-json    one task per entry of a JSON list
  :::            one task per value, as in GNU parallel: {} {.} {/} {//} {/.} {#}
                 {%} {1} ...; a second ::: combines, :::+ links, :::: reads a file

{} and its relatives are also replaced by indices and lines, and in file names and
--chdir. Without a list, standard input is the list if the command has {} or there
is no COMMAND, unless standard input is a terminal or /dev/null.`,
		Example: `  filch submit --array 1-1000 -- ./simulate
  filch submit --each-line commands.txt --wait --progress
  filch submit -- convert {} {.}.png ::: *.tif
  filch submit --wait --tag -- ./test {} ::: *.in
  filch submit -n 64 --array 1-200%4 -- ./solver case{}.in
  seq 100 | filch submit --each-line - --worker -- ./worker.py`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			in := script.Options{Given: c.Flags(), Declare: (&submitFlags{}).declare, Alike: gpuOptions[:], Never: isGangOption}
			args, err := in.Apply(args)
			if err != nil {
				return ui.Misused(err)
			}
			if c.Flags().Changed("cpus-per-task") {
				f.threads = f.cpus
			}
			if err := f.check(); err != nil {
				return ui.Misused(err)
			}
			if f.to != "" {
				return f.written.Blame(f.add(g, c.Flags(), args))
			}
			return f.written.Blame(f.submit(g, args))
		},
	}
	f.declare(c.Flags())
	return c
}

func (f *submitFlags) declare(p *pflag.FlagSet) {
	p.SetInterspersed(false)
	p.StringVar(&f.eachLine, "each-line", "", "submit one task per line of `FILE` (- is standard input)")
	p.StringVar(&f.fromJSON, "from-json", "", "submit one task per entry of the JSON list in `FILE` (- is standard input)")
	p.StringVar(&f.array, "array", "", "submit one task per index: `1-1000:2%50` is every second, at most 50 at a time")
	p.StringVar(&f.colsep, "colsep", "", "split the values at this `REGEX` into {1}, {2} ...")
	p.StringVar(&f.header, "header", "", "with `:`, the first value or line names the columns: {NAME} is a value")
	p.StringVar(&f.lengths.Option, "length", "", "`TIME` that a task takes, as far as you know: {2} is the second column, 5m is for all tasks; the longest tasks start first")
	p.BoolVar(&f.shuffle, "shuf", false, "start the tasks in random order")
	p.Int32VarP(&f.jobs, "jobs", "j", 0, "run at most `N` of the tasks at a time, over all nodes; 0: no limit")
	p.StringVar(&f.delaySeconds, "delay", "", "add a task every `TIME`: 1 or 1s, 0.5, 2m, M:S; the command stays until the last")
	p.StringVar(&f.haltWhen, "halt", "", "end the job early, `WHEN,WHAT=N` or N%: WHEN is now, or soon to let the running tasks end; WHAT is fail, success or done; waits for the end")
	p.BoolVar(&f.dryRun, "dry-run", false, "print the command of each task, and submit nothing")
	p.StringVar(&f.builtin, "builtin", "", "submit tasks without a process: `noop` or sleep:64ms")
	p.Int32VarP(&f.cpus, "cpus-per-task", "c", 1, "`N` slots per task; sets OMP_NUM_THREADS for the tasks if the variable is not set")
	p.StringVar(&f.mem, "mem", "", "memory that a task takes on its node, of a gang on each of its nodes: `4G`")
	f.gpus.declare(p)
	f.where.declare(p)
	f.declareGang(p)
	p.StringVarP(&f.limit, "time", "t", "", "end a task that runs longer: `90s`, 10m, 1h30m, MIN, MIN:SEC, H:MIN:SEC, DAYS-H, DAYS-H:MIN[:SEC]")
	p.Int32Var(&f.retries, "retries", 0, "retry a failed task up to `N` times")
	f.retryFlags.declare(p)
	f.declareHooks(p)
	p.BoolVar(&f.slurm, "slurm-env", false, "give the tasks SLURM_* variables, as sbatch does; on for a script with #SBATCH lines")
	f.declareStage(p)
	p.StringVar(&f.signal, "signal", "", "send the processes of a task `SIG[@TIME]`, so long before the time limit: 60 or 60s, 10m, M:S (default 60s); B:SIG: only its first process")
	p.BoolVar(&f.once, "once", false, "never start a task twice; when the node dies, the task is lost")
	p.Int32Var(&f.crashes, "crash-limit", record.CrashLimit, "give a task up after `N` starts whose node died")
	p.Int32Var(&f.replicas, "replicas", 0, "run up to `N` copies of a task that takes far longer than the others, on idle nodes; the first good end counts")
	p.StringVar(&f.priority, "priority", "0", "`NUMBER`; jobs with a lower number start first (default 0)")
	f.waitFlags.declare(p)
	p.Lookup("dep").Usage = deps.BagOption
	p.StringVarP(&f.name, "job-name", "J", "", "`NAME` of the job; {} is replaced only where %x puts the name into a file name")
	p.StringVarP(&f.cwd, "chdir", "D", "", "run the tasks in `FOLDER`")
	p.StringArrayVar(&f.env, "env", nil, "set `NAME=VALUE` for the tasks; may be repeated")
	p.StringVar(&f.export, "export", "", "environment of the tasks: `RULE` is ALL, NONE, or NAME,NAME=VALUE,...")
	p.StringVarP(&f.stdin, "input", "i", "", "`FILE` for standard input (%t or %a is the task's number, {1} its first value; in a gang, %t is the rank)")
	p.StringVarP(&f.stdout, "output", "o", "", "file for standard output, like `out.%t` or {1}.txt, or none; missing folders are made; without -o, the nodes keep the output for filch logs")
	p.StringVarP(&f.stderr, "error", "e", "", "the same for standard error, with `FILE`; - joins standard error with standard output")
	p.StringVar(&f.openMode, "open-mode", "", "`MODE` for the files of -o and -e: append or truncate; many tasks can share a file only with append")
	p.StringVar(&f.keep, "keep", "all", "keep the output of `WHICH` tasks without a file: all, failed or none")
	p.BoolVar(&f.worker, "worker", false, "COMMAND is a worker, a process that runs many tasks; see docs/tasks.md")
	p.BoolVar(&f.open, "open", false, "leave the job open: filch submit --to adds tasks until filch close")
	p.StringVar(&f.spread, "spread", "auto", "give the tasks in parts to `NODES` nodes at once: 1, log, sqrt or all of them; idle nodes steal from there. auto is all in an instance of more than 17 nodes, for a bag that does not fit on its node")
	p.BoolVar(&f.hold, "hold", false, "start no task until filch release")
	p.StringVar(&f.to, "to", "", "add the tasks to the open job `JOB`")
	p.BoolVar(&f.wait, "wait", false, "wait for the end; exit with 1 when a task did not end well")
	p.BoolVar(&f.progress, "progress", false, "wait, and show the progress")
	p.StringVar(&f.log, "joblog", "", "with --wait: write GNU parallel's job log to `FILE`, a line for each task that has ended; +FILE keeps the lines in FILE")
	f.declareOutput(p)
	p.StringVar(&f.onEnd, "on-end", "", onend.Help)
	p.BoolVar(&f.asJSON, "json", false, "print the job as JSON")
	cli.Synonyms(p)
}

func (f *submitFlags) submit(g *cli.Global, args []string) error {
	s, lines, err := f.submission(args)
	if err == nil && f.log != "" && !f.follows() {
		err = filch.Errorf(filch.Invalid, "--joblog needs --wait: tasks get their lines as they end").
			WithHint("filch tasks JOB --joblog prints the log later")
	}
	if err != nil {
		return ui.Misused(err)
	}
	if f.dryRun {
		return printCommands(s, lines)
	}
	var log *tasklist.Joblog
	if f.log != "" {
		if log, err = tasklist.OpenJoblog(f.log); err != nil {
			return err
		}
	}
	c, err := g.Dial()
	if err != nil {
		return err
	}
	tell, err := deps.ResolveBag(c, &f.deps, s.Name, &s.Spec, &s.Conditions)
	if err != nil {
		return err
	}
	if err = licenses.SplitTasks(c, &s.Spec); err != nil {
		return err
	}
	if err := f.atNode(c, s); err != nil {
		return err
	}
	t, err := sendEvery(c, s, lines, f.delay)
	if err != nil {
		return f.table.Blame(err)
	}
	defer t.Close()
	tell(s.Total)
	err = f.submitted(t, struct {
		ID   filch.JobID `json:"id"`
		Name string      `json:"name"`
	}{t.Job, s.Name})
	if err != nil || !f.follows() {
		return err
	}
	return log.Around(t, func() error { return followUntil(t, &f.showFlags, f.halt) })
}

// submission reads the options into the request to the launcher, and into the
// source of the payloads, nil for tasks without payloads.
func (f *submitFlags) submission(args []string) (*submit.Job, source, error) {
	if err := f.readList(); err != nil {
		return nil, nil, err
	}
	f.wait = f.wait || f.halt.Set()
	command, bag, err := f.sources(args)
	if err == nil {
		err = f.lengths.Read()
	}
	if err != nil {
		return nil, nil, err
	}
	if f.worker && bag != nil {
		return nil, nil, filch.Errorf(filch.Invalid, "a worker reads lines: --worker does not take the values after :::").
			WithHint("printf '%%s\\n' A B | filch submit --each-line - --worker -- COMMAND")
	}
	if len(command) > 0 && command[0] == "" {
		return nil, nil, filch.Errorf(filch.Invalid, "the name of the command is empty").WithHint("filch submit -- COMMAND; a shell variable in the command may be unset")
	}
	if len(command) == 0 && f.builtin == "" && f.eachLine == "" && f.fromJSON == "" && bag == nil && !f.open {
		return nil, nil, filch.Errorf(filch.Invalid, "there is nothing to run").WithHint("filch submit -- COMMAND")
	}
	if len(command) > 0 {
		f.program = command[0]
	}
	s := &submit.Job{Name: cmp.Or(f.title, f.name), Follow: f.follows(), Total: 1, Open: f.open}
	if s.Spread, err = policy.ParseSpreading(f.spread); err != nil {
		return nil, nil, cli.OfOption("spread", err)
	}
	if f.hold {
		s.HeldBy = cli.Person()
	}
	if s.Name == "" && len(command) > 0 {
		s.Name = command[0][strings.LastIndexByte(command[0], '/')+1:]
	} else if s.Name == "" {
		s.Name = "tasks"
	}
	s.Spec.Like, s.Spec.Firm = spec.Like(f.name, command), f.worker
	if err := f.spec(s, command, bag); err != nil {
		return nil, nil, err
	}
	var src source
	if f.open {
		src, err = f.opened(s, command, bag)
	} else {
		src, err = f.payloads(s, command, bag)
	}
	if err == nil {
		src, err = f.listed(s, src)
	}
	if err == nil {
		src, err = f.ordered(s, src)
	}
	if err == nil {
		err = f.alone(s)
	}
	return s, src, err
}

// sourceFlags are the sources of tasks.
type sourceFlags struct {
	eachLine, fromJSON, array, builtin string
	listFlags
}

// sources finds the command, and the values behind it.
func (f *submitFlags) sources(args []string) (command []string, bag *workflow.Bag, err error) {
	at := slices.IndexFunc(args, func(word string) bool { return workflow.HasSources([]string{word}) })
	if at < 0 {
		at = len(args)
	}
	command = slices.Clone(args[:at])
	if end := slices.Index(args[at:], "--"); at == 0 && end > 0 {
		return nil, nil, commandBehind(args, end)
	}
	if parts := f.colsep != "" || f.header != ""; at < len(args) && parts {
		bag, err = workflow.ParseSources(args[at:], openValues)
	} else if at < len(args) {
		if bag, err = workflow.ParseSources(args, openValues); err == nil {
			command = bag.Template.Words
		}
	}
	if err != nil {
		return nil, nil, err
	}
	ways := 0
	for _, given := range []bool{f.eachLine != "", f.fromJSON != "", f.array != "", bag != nil} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		return nil, nil, filch.Errorf(filch.Invalid, "tasks come from one of --array, --each-line, --from-json and :::, and %d are given", ways)
	}
	if ways == 0 && f.builtin == "" && !f.open && !f.worker {
		f.standardInput(command)
	}
	if f.colsep != "" || f.header != "" {
		bag, err = f.columns(command, bag)
		if err == nil {
			command = bag.Template.Words
		}
	}
	return command, bag, err
}

// spec fills in the properties that all tasks have in common.
func (f *submitFlags) spec(s *submit.Job, command []string, bag *workflow.Bag) error {
	around, err := cli.Environment()
	if err != nil {
		return err
	}
	sp := &s.Spec
	if f.gangs() {
		if err := f.noGang(command); err != nil {
			return err
		}
	}
	if err := f.stageWith(command, bag); err != nil {
		return err
	}
	if err := f.starts(sp); err != nil {
		return err
	}
	if err := f.needs(sp); err != nil {
		return err
	}
	if err := f.queues(s); err != nil {
		return err
	}
	if f.builtin != "" {
		if len(command) > 0 || f.worker {
			return builtinAlone(f.builtin)
		}
		if err := f.commands(); err != nil {
			return err
		}
		if sp.Body, err = builtin(f.builtin); err != nil || !f.open {
			if err == nil {
				err = f.processes("--builtin starts no process")
			}
			return err
		}
	}
	o, err := f.order(around, s.Name, command)
	if err != nil {
		return err
	}
	many, err := f.makesMany(bag)
	if err == nil {
		if f.fillsOnNodes(command, bag) {
			o.Fill, o.FillCwd = true, f.cwdPattern()
			if _, err := workflow.NewTemplate(append(slices.Clip(command), f.cwd), 1, false); err != nil {
				return err
			}
		}
		names := f.patterns(bag, o.Fill)
		names.gangs = f.gangs()
		err = f.files(&o, many || f.open, names)
	}
	if err == nil {
		sp.Body, err = f.body(sp, &o, around)
	}
	return err
}

// commands refuses options that count for tasks with a command only.
func (f *submitFlags) commands() error {
	option := "--signal"
	switch {
	case !f.worker && f.builtin == "":
		return nil
	case f.slurm:
		option = "--slurm-env"
	case f.signal == "":
		return nil
	}
	return filch.Errorf(filch.Invalid, "%s is for tasks that run a command each, and goes neither with --worker nor with --builtin", option)
}

// body is the body of the job.
func (f *submitFlags) body(sp *record.Spec, o *launcher.TaskOrder, around spec.Context) ([]byte, error) {
	if err := f.commands(); err != nil {
		return nil, err
	}
	gang, err := f.gang(around, sp)
	if err != nil {
		return nil, err
	}
	f.each = gang
	if gang != nil {
		if w := spec.Launches(o.Argv, gang.Shape.Ranks); w != "" {
			ui.Warn(w)
		}
	}
	switch {
	case f.worker:
		if err := f.processes("a worker runs many"); err != nil {
			return nil, err
		}
	case f.builtin != "":
		if err := f.processes("--builtin starts no process"); err != nil {
			return nil, err
		}
	}
	extra, err := f.extra(nil)
	if err == nil {
		extra, err = f.warning(extra, sp.Limit)
	}
	if err == nil && f.slurm {
		extra, err = f.slurmExtra(o, extra, around)
	}
	if extra == nil && (gang != nil || f.stages()) {
		extra = &launcher.OrderExtra{}
	}
	if gang != nil {
		extra.Gang = gang
	}
	if err == nil && f.stages() {
		extra.Stage, err = f.stage(o.Cwd)
	}
	if err != nil {
		return nil, err
	}
	return wire.EncodeOrder(o, extra)
}

func builtinAlone(name string) error {
	return filch.Errorf(filch.Invalid, "--builtin %s starts no process, and goes neither with a command nor with --worker", name)
}

// builtin reads noop and sleep:TIME.
func builtin(s string) ([]byte, error) {
	if s == "noop" {
		return []byte{launcher.BodyNoop}, nil
	}
	if text, ok := strings.CutPrefix(s, "sleep:"); ok {
		d, err := filch.ReadTime(text)
		return binary.BigEndian.AppendUint64([]byte{launcher.BodySleep}, uint64(d)), cli.OfOption("builtin", err)
	}
	return nil, filch.Errorf(filch.Invalid, "--builtin %q is neither noop nor sleep:TIME, as in sleep:64ms", s)
}
