package tasks

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/deps"
	"github.com/filch-hpc/filch/cmd/filch/licenses"
	"github.com/filch-hpc/filch/cmd/filch/needs"
	"github.com/filch-hpc/filch/cmd/filch/onend"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
	"github.com/filch-hpc/filch/mtc/workflow/replay"
)

// runFlags are the options of filch workflow run.
type runFlags struct {
	scales
	name, folder, keepIn string
	priority             string
	waitFlags
	keepGoing, inPlace, all bool
	detach, hold            bool
	resume                  string // a job; "" runs all tasks
	replicas                int32
	copies                  bool // --replicas is given
	table                   *needs.Table
	hookFlags
	showFlags
}

// resumeLast, or --resume without a job, is the last run of the file.
const resumeLast = "last"

func workflowRunCommand(g *cli.Global) *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run FILE [--resume [JOB]]",
		Short: "run a workflow",
		Long: `Runs the tasks of a workflow on all nodes. A task starts when the tasks before it have
ended well. No shared file system is needed: each task runs in a folder of its own,
filch copies the inputs there from the nodes that have them, and at the end copies the
files that no task reads to the workflow's folder, or to the folder of --keep-in.

The command waits for the end, and exits with 1 when a task did not end well. Ctrl-C
ends the waiting, not the job; filch workflow collect then brings the files.

With --resume, tasks that ended well in an earlier job do not run again. A task runs
again if its command, its own environment, cpus or gpus, the names of its files, or
the content of an input has changed; if it did not end well; if an output that is
needed is missing or was changed; and if a task before runs again. Only declared
inputs are compared.`,
		Example: `  filch workflow run mosaic.yaml --progress
  filch workflow run --resume 28 mosaic.yaml
  filch workflow run montage.dax --time-scale 0.01 --size-scale 0.001`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := f.words(args)
			if err != nil {
				return err
			}
			f.copies = c.Flags().Changed("replicas")
			return f.run(g, file)
		},
	}
	p := c.Flags()
	p.SortFlags = false
	p.BoolVar(&f.detach, "detach", false, "print the job's number and leave; filch workflow collect brings the files")
	p.BoolVar(&f.hold, "hold", false, "start no task until filch release")
	p.BoolVar(&f.wait, "wait", true, "wait for the end")
	p.BoolVar(&f.progress, "progress", false, "wait, and show the progress")
	f.declareOutput(p)
	p.BoolVarP(&f.keepGoing, "keep-going", "k", false, "when a task fails, run all tasks that do not depend on that task")
	p.BoolVar(&f.all, "all", false, "bring all files at the end, also files that a task reads")
	p.StringVarP(&f.folder, "chdir", "D", "", "`FOLDER` with the files that no task writes, and for the results (default: the folder of FILE; for a replay, a new folder)")
	p.StringVar(&f.keepIn, "keep-in", "", "copy the results to `FOLDER`, which is made if needed, in place of the folder with the inputs; of a replay: make its folder there")
	p.BoolVar(&f.inPlace, "in-place", false, "run the tasks in the folder itself, which all nodes must share, and copy nothing")
	p.Int32Var(&f.replicas, "replicas", 1, "run up to `N` copies of a task that takes far longer than its kind does, on idle nodes; the first good end counts. 0: none; --in-place has none")
	p.StringVarP(&f.name, "job-name", "J", "", "`NAME` of the job (default: the name of the workflow)")
	p.StringVar(&f.priority, "priority", "0", "`NUMBER`; jobs with a lower number start first (default 0)")
	f.waitFlags.declare(p)
	f.scales.declare(p)
	p.StringVar(&f.resume, "resume", "", "run only what has changed since `JOB` (default: the last run of FILE), and what did not end well there")
	p.Lookup("resume").NoOptDefVal = resumeLast
	f.declareHooks(p)
	p.StringVar(&f.onEnd, "on-end", "", onend.Help)
	p.BoolVar(&f.asJSON, "json", false, "print the job as JSON")
	cli.Synonyms(p)
	return c
}

// WorkflowJob is the output of filch workflow run --json.
type WorkflowJob struct {
	ID     filch.JobID `json:"id"`
	Name   string      `json:"name"`
	Tasks  int         `json:"tasks"`
	Folder string      `json:"folder"`
	// Tasks of the file that were done before, and the job with them.
	Done    int         `json:"done,omitempty"`
	Resumes filch.JobID `json:"resumes,omitempty"`
}

// words finds the file among the arguments: in `--resume JOB FILE` the job is an argument
// too.
func (f *runFlags) words(args []string) (file string, err error) {
	if len(args) == 1 {
		return args[0], nil
	}
	isJob := func(s string) bool { return s == "last" || ui.AllDigits(s) }
	switch at := slices.IndexFunc(args, isJob); {
	case f.resume != resumeLast || at < 0:
		return "", ui.Misused(filch.Errorf(filch.Invalid, "%s and %s are two files: this command runs one", ui.Clean(args[0]), ui.Clean(args[1])))
	case isJob(args[1-at]):
		return "", ui.Misused(filch.Errorf(filch.Invalid, "%s and %s both name a job", ui.Clean(args[0]), ui.Clean(args[1])).WithHint("filch workflow run --resume=JOB ./FILE"))
	default:
		f.resume = args[at]
		return args[1-at], nil
	}
}

func (f *runFlags) run(g *cli.Global, file string) error {
	if err := f.check(); err != nil {
		return ui.Misused(err)
	}
	w, sum, err := f.load(file)
	if err != nil {
		return err
	}
	if f.name == "" {
		f.name = w.Name
	}
	if f.name == "" {
		f.name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	if err = f.place(w, file); err != nil {
		return err
	}
	marks, err := f.marks(w)
	if err != nil {
		return err
	}
	extra, err := f.extra(&launcher.OrderExtra{})
	if err == nil && w.Replay {
		err = f.processes("a replay plays its tasks")
	}
	if err != nil {
		return ui.Misused(err)
	}
	if file != "-" {
		if extra.File, err = filepath.Abs(file); err != nil {
			return err
		}
		extra.Sum = sum
	}
	c, err := g.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	tasks, job := allTasks(w), WorkflowJob{Name: f.name}
	var r *resumption
	if f.resume != "" {
		if r, err = f.resumption(c, w, marks, extra.File); err != nil {
			return err
		}
		tasks, job.Folder = r.chosen(), f.results()
		job.Done, job.Resumes = len(w.Tasks)-len(tasks), r.newest.ID
		extra.Before = r.before(job.Done)
		if r.tell(tasks); len(tasks) == 0 {
			return r.nothing(job)
		}
	}
	extra.Results, job.Folder = f.keepIn, f.results()
	s, o, err := f.submission(w, tasks, marks, r)
	if err != nil {
		return ui.Misused(err)
	}
	if err = f.origin(c, w, s, o, extra, r); err != nil {
		return err
	}
	return f.submit(g, s, job, func(id filch.JobID, ended error) error {
		if f.inPlace {
			return nil
		}
		if r != nil {
			return r.collect(id, ended)
		}
		return collectWorkflow(c, w, id, f.results(), f.all, ended != nil)
	}, file)
}

// submit submits a job and, unless detached, waits for the end and brings the results.
func (f *runFlags) submit(g *cli.Global, s *submit.Job, job WorkflowJob, bring func(id filch.JobID, ended error) error, file string) error {
	c, err := g.Dial()
	if err != nil {
		return err
	}
	if err := deps.Resolve(c, &f.deps, s.Name, &s.Conditions); err != nil {
		return err
	}
	if !f.inPlace && !cli.EndOfNode(c.Dir).IsZero() {
		ui.Say("the files of tasks stay on the nodes until the end: if the allocation ends first, filch up --resume starts this workflow from the beginning; with --in-place, in a folder that all nodes share, the workflow continues")
	}
	t, err := send(c, s, nil)
	if err != nil {
		return f.table.Blame(err)
	}
	defer t.Close()
	job.ID, job.Tasks = t.Job, int(s.Total)
	err = f.submitted(t, job)
	if err != nil || f.detach || !f.wait {
		return err
	}
	ended := followTasks(t, &f.showFlags)
	if _, ran := ended.(ui.ExitStatus); ended != nil && !ran || ended == ui.Exit(filch.ExitDown) {
		if ui.KindOf(ended) == filch.Unavailable && !f.inPlace { // no launcher is left here
			return unbrought(t.Job, file, nil, ended)
		}
		return ended
	}
	if err := bring(t.Job, ended); err != nil {
		return unbrought(t.Job, file, ended, err)
	}
	if ended != nil {
		f.hintRest(t.Job, file)
	}
	return ended
}

// hintRest tells how to go on after tasks that did not end well.
func (f *runFlags) hintRest(job filch.JobID, file string) {
	kept := "; until then the nodes keep the files of the job"
	if f.inPlace {
		kept = ""
	}
	ui.Hint(fmt.Sprintf("filch retry %d runs the rest%s", job, kept))
	if file != "-" {
		ui.Hint(fmt.Sprintf("after a change of the file: filch workflow run --resume=%d %s", job, ui.Clean(file)))
	}
}

func allTasks(w *workflow.Graph) []int32 {
	tasks := make([]int32, len(w.Tasks))
	for i := range tasks {
		tasks[i] = int32(i)
	}
	return tasks
}

// results is the folder that gets the results.
func (f *runFlags) results() string { return cmp.Or(f.keepIn, f.folder) }

// makeKeepIn makes the folder of --keep-in; the folder above must exist.
func (f *runFlags) makeKeepIn(w *workflow.Graph) error {
	switch {
	case f.folder != "" && w.Replay:
		return ui.Misused(filch.Errorf(filch.Invalid, "--keep-in %s and --chdir %s contradict each other: a replay has one folder", ui.Clean(f.keepIn), ui.Clean(f.folder)))
	case f.inPlace && !w.Replay:
		return ui.Misused(filch.Errorf(filch.Invalid, "--keep-in %s and --in-place contradict each other: tasks in place leave their files in the workflow's folder", ui.Clean(f.keepIn)))
	}
	err := os.Mkdir(f.keepIn, 0o777)
	if errors.Is(err, os.ErrExist) {
		err = cli.LookFolder(f.keepIn)
	}
	if err != nil {
		return filch.Errorf(filch.Invalid, "cannot make the folder %s of --keep-in: %s", ui.Clean(f.keepIn), ui.Cause(err))
	}
	return nil
}

// place finds the workflow's folder, and makes the folder of a replay.
func (f *runFlags) place(w *workflow.Graph, file string) error {
	if f.keepIn != "" {
		if err := f.makeKeepIn(w); err != nil {
			return err
		}
	}
	switch {
	case f.folder != "" && !w.Replay:
		if err := isFolder(f.folder); err != nil {
			return err
		}
	case f.folder != "":
	case w.Replay:
		f.folder, f.keepIn = filepath.Join(f.keepIn, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))+".replay"), ""
	case file != "-":
		f.folder = filepath.Dir(file)
	}
	folder, err := filepath.Abs(f.folder)
	if err != nil {
		return err
	}
	if f.folder = folder; f.keepIn != "" {
		if f.keepIn, err = filepath.Abs(f.keepIn); err != nil {
			return err
		}
	}
	if w.Replay {
		if err = os.MkdirAll(folder, 0o777); err == nil {
			err = replay.Prepare(w, folder)
		}
		if err != nil {
			return filch.Errorf(filch.Denied, "cannot make the files of the replay: %s", ui.Cause(err))
		}
	}
	w.Files, err = w.CheckInputs(f.inputSize)
	return err
}

// isFolder refuses a folder of --chdir that is not there.
func isFolder(path string) error {
	if err := cli.LookFolder(path); err != nil {
		return ui.Misused(filch.Errorf(filch.Invalid, "cannot use the folder %s: %s", ui.Clean(path), ui.Cause(err)))
	}
	return nil
}

// inputSize is the size of a file in the workflow's folder.
func (f *runFlags) inputSize(name string) (int64, error) {
	st, err := os.Stat(filepath.Join(f.folder, name))
	if err != nil {
		return 0, err
	}
	if !st.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is no file", filepath.Join(f.folder, name))
	}
	return st.Size(), nil
}

// submission is the job of some tasks without the body, and the order that the body will
// hold. R is nil unless the job continues an earlier job.
func (f *runFlags) submission(w *workflow.Graph, tasks []int32, marks []workflow.Mark, r *resumption) (*submit.Job, *launcher.TaskOrder, error) {
	around, err := cli.Environment()
	if err != nil {
		return nil, nil, err
	}
	s := &submit.Job{Name: f.name, Follow: !f.detach && f.wait}
	if f.hold {
		s.HeldBy = cli.Person()
	}
	life := lifeFlags{priority: f.priority, waitFlags: f.waitFlags}
	if err = life.queues(s); err != nil {
		return nil, nil, err
	}
	f.deps = life.deps
	o, err := (&orderFlags{keep: "all"}).order(around, f.name, nil)
	if err != nil {
		return nil, nil, err
	}
	s.Spec.Each.Slots, s.Spec.CrashLimit = 1, record.CrashLimit
	s.Spec.Payloads, s.Spec.OnFail = true, record.FailStop
	if f.keepGoing {
		s.Spec.OnFail = record.FailSkip
	}
	s.Spec.Retries = 1 // for a task whose inputs could not be brought
	once, table, gangs := 0, needs.New(&s.Spec), needs.Gangs{}
	for _, i := range tasks {
		n, item, err := f.node(w, i, &s.Spec)
		if err == nil {
			item.Gang, _, err = gangs.Of(&w.Tasks[i].Need.Gang)
		}
		if err == nil && r != nil {
			r.place(i, &n, &item)
		}
		if err == nil {
			rule := ownRule(&w.Tasks[i].Need, false)
			if rule != nil {
				s.Spec.Retry = &record.Retry{Tasks: true}
			}
			number, task := 0, "task "+strconv.Quote(w.Tasks[i].Name)
			if number, err = table.Number(&w.Tasks[i].Need, needs.ShapeOf(item.Gang), task); err != nil {
				err = needs.At(task, err)
			} else {
				err = addNode(s, n, item, marks[i], rule, number)
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if w.Tasks[i].Need.Once {
			once++
		}
	}
	if once > 0 && once < len(tasks) {
		return nil, nil, filch.Errorf(filch.Invalid, "%d of %d tasks have once: true: either all tasks or none", once, len(tasks)).
			WithHint("write once: true under defaults")
	}
	if s.Total = int32(len(s.Nodes)); s.Total == 0 {
		return nil, nil, filch.Errorf(filch.Invalid, "the workflow has no tasks")
	}
	s.Spec.Once = once > 0
	if err := f.copied(&s.Spec); err != nil {
		return nil, nil, err
	}
	table.Fill(&s.Spec)
	f.table = table
	return s, &o, nil
}

// kindOf is the kind of a task by which filch learns how long tasks take: as the file
// says, else the program.
func kindOf(t *workflow.Task) string {
	kind := t.Kind
	if kind == "" && len(t.Run.Argv) > 0 {
		kind = filepath.Base(t.Run.Argv[0])
	}
	return strings.ToValidUTF8(kind[:min(len(kind), record.MaxKind)], "")
}

// node is a task of the workflow.
func (f *runFlags) node(w *workflow.Graph, i int32, sp *record.Spec) (n record.GraphNode, item launcher.TaskItem, err error) {
	t := &w.Tasks[i]
	n = record.GraphNode{Name: t.Name, Bytes: w.InitialBytes(i), Output: w.OutputBytes(i), Length: t.Cost, Kind: kindOf(t)}
	n.Parents, n.After = w.ParentsOf(i)
	if f.inPlace { // no file moves
		n.Bytes, n.Output = 0, 0
	}
	need := &t.Need
	item = launcher.TaskItem{Argv: t.Run.Argv, Env: t.Run.Env, Limit: need.TimeLimit, AllNodes: t.AllNodes}
	if t.Run.Stdin+t.Run.Stdout+t.Run.Stderr != "" {
		item.Streams = &launcher.Streams{Stdin: t.Run.Stdin, Stdout: t.Run.Stdout, Stderr: t.Run.Stderr}
	}
	if need.Retries != nil {
		item.Retries = *need.Retries
		sp.Retries = max(sp.Retries, item.Retries)
	}
	if w.Replay {
		item.Own, item.Argv = true, []string{"replay", "--task", t.Name, "--time", t.Cost.String()}
	}
	for k, list := range [][]int32{t.Inputs, t.Outputs} {
		var files []launcher.TaskFile
		for _, at := range list {
			files = append(files, launcher.TaskFile{Path: w.Files[at].Path, Writer: w.Files[at].Writer, Size: w.Files[at].Size})
		}
		if k == 0 {
			item.Inputs = files
		} else {
			item.Outputs = files
		}
	}
	sp.Limits = sp.Limits || item.Limit > 0
	return n, item, nil
}

// origin completes the order with the node that has the folder, and the job with the
// order.
func (f *runFlags) origin(c *client.Client, w *workflow.Graph, s *submit.Job, o *launcher.TaskOrder, extra *launcher.OrderExtra, r *resumption) (err error) {
	var nodes []wire.NodeInfo
	if err := cli.Ask(c, cli.QueryWait, &nodes, wire.VerbNodes); err != nil {
		return err
	}
	o.Graph = &launcher.TaskGraph{Folder: f.folder, InPlace: f.inPlace}
	if r != nil {
		o.Graph.Earlier = r.earlier()
	}
	most := int32(0)
	for i := range nodes {
		if most = max(most, nodes[i].Slots); nodes[i].Local {
			o.Graph.Origin = nodes[i].Node
		}
	}
	if w.Replay && most > 0 {
		// A replay sleeps, and the file's cores are from another machine.
		s.Spec.Each.Slots = min(s.Spec.Each.Slots, most)
		for i := range s.Spec.Needs {
			s.Spec.Needs[i].Each.Slots = min(s.Spec.Needs[i].Each.Slots, most)
		}
	}
	if err = licenses.SplitTasks(c, &s.Spec); err != nil {
		return err
	}
	s.Spec.Body, err = wire.EncodeOrder(o, extra)
	return err
}
