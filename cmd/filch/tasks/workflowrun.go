package tasks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/workflow"
	"github.com/filch-hpc/filch/mtc/workflow/replay"
)

// Limits of bringing a workflow's files.
const (
	collectFiles = 64 // per query
	collectWait  = 10 * time.Minute
	lostShown    = 10
)

// runFlags are the options of filch workflow run.
type runFlags struct {
	scales
	name, folder, priority, dep string
	keepGoing, inPlace, all     bool
	detach                      bool
	showFlags
}

func workflowRunCommand(g *cli.Global) *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run FILE",
		Short: "run a workflow",
		Long: `Runs the tasks of a workflow on all nodes. A task starts when the tasks before it have
ended well. No shared file system is needed: each task runs in a folder of its own,
filch copies the inputs there from the nodes that have them, and at the end copies the
files that no task reads to the workflow's folder.

The command waits for the end, and exits with 1 when a task did not end well. Ctrl-C
ends the waiting, not the job; filch workflow collect then brings the files.`,
		Example: `  filch workflow run mosaic.yaml --progress
  filch workflow run montage.dax --time-scale 0.01 --size-scale 0.001`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return f.run(g, args[0]) },
	}
	p := c.Flags()
	p.SortFlags = false
	p.BoolVar(&f.detach, "detach", false, "print the job's number and leave; filch workflow collect brings the files")
	p.BoolVar(&f.wait, "wait", true, "wait for the end")
	p.BoolVar(&f.progress, "progress", false, "show the progress")
	p.BoolVarP(&f.keepGoing, "keep-going", "k", false, "when a task fails, run all tasks that do not depend on that task")
	p.BoolVar(&f.all, "all", false, "bring all files at the end, also files that a task reads")
	p.StringVarP(&f.folder, "folder", "D", "", "`FOLDER` with the files that no task writes, and for the results (default: the folder of FILE; for a replay, a new folder)")
	p.BoolVar(&f.inPlace, "in-place", false, "run the tasks in the folder itself, which all nodes must share, and copy nothing")
	p.StringVarP(&f.name, "name", "J", "", "`NAME` of the job (default: the name of the workflow)")
	p.StringVar(&f.priority, "priority", "0", "`NUMBER`; jobs with a lower number start first")
	p.StringVar(&f.dep, "dep", "", "start after these jobs have ended well: `afterok:ID,ID`")
	f.declare(p)
	p.BoolVar(&f.asJSON, "json", false, "print the job as JSON")
	return c
}

// WorkflowJob is the output of filch workflow run --json.
type WorkflowJob struct {
	ID     filch.JobID `json:"id"`
	Name   string      `json:"name"`
	Tasks  int         `json:"tasks"`
	Folder string      `json:"folder"`
}

func (f *runFlags) run(g *cli.Global, file string) error {
	w, err := f.load(file)
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
	s, o, err := f.submission(w)
	if err != nil {
		return ui.Misused(err)
	}
	if err = f.origin(g, w, s, o); err != nil {
		return err
	}
	c, err := g.Dial()
	if err != nil {
		return err
	}
	if !f.inPlace && !cli.EndOfNode(c.Dir).IsZero() {
		ui.Say("the files of tasks stay on the nodes until the end: if the allocation ends first, filch up --resume starts this workflow from the beginning; with --in-place, in a folder that all nodes share, the workflow continues")
	}
	t, err := send(c, s, nil)
	if err != nil {
		return err
	}
	defer t.Close()
	err = f.submitted(t.Job, WorkflowJob{t.Job, s.Name, len(w.Tasks), f.folder})
	if err != nil || f.detach || !f.wait {
		return err
	}
	ended := followTasks(t, f.progress)
	if _, ran := ended.(ui.ExitStatus); ended != nil && !ran || f.inPlace {
		return ended
	}
	if err := collectWorkflow(g, w, t.Job, f.folder, f.all, ended != nil); err != nil {
		return err
	}
	return ended
}

// place finds the workflow's folder, and makes the folder of a replay.
func (f *runFlags) place(w *workflow.Graph, file string) error {
	switch {
	case f.folder != "":
	case w.Replay:
		f.folder = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) + ".replay"
	case file != "-":
		f.folder = filepath.Dir(file)
	}
	folder, err := filepath.Abs(f.folder)
	if err != nil {
		return err
	}
	f.folder = folder
	if w.Replay {
		if err = os.MkdirAll(folder, 0o777); err == nil {
			err = replay.Prepare(w, folder)
		}
		if err != nil {
			return filch.Errorf(filch.Denied, "cannot make the files of the replay: %s", err.Error())
		}
	}
	w.Files, err = w.CheckInputs(func(name string) (int64, error) {
		st, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			return 0, err
		}
		if !st.Mode().IsRegular() {
			return 0, fmt.Errorf("%s is no file", filepath.Join(folder, name))
		}
		return st.Size(), nil
	})
	return err
}

// submission is the job without the body, and the order that the body will hold.
func (f *runFlags) submission(w *workflow.Graph) (*mtc.Submission, *launcher.TaskOrder, error) {
	around, err := cli.Environment()
	if err != nil {
		return nil, nil, err
	}
	s := &mtc.Submission{Name: f.name, Follow: !f.detach && f.wait}
	life := lifeFlags{priority: f.priority, dep: f.dep}
	if err = life.queues(s); err != nil {
		return nil, nil, err
	}
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
	once := 0
	for i := range w.Tasks {
		n, err := f.node(w, int32(i), &s.Spec)
		if err != nil {
			return nil, nil, err
		}
		if w.Tasks[i].Need.Once {
			once++
		}
		s.Nodes = append(s.Nodes, n)
	}
	if once > 0 && once < len(w.Tasks) {
		return nil, nil, filch.Errorf(filch.Invalid, "%d of %d tasks have once: true: either all tasks or none", once, len(w.Tasks)).
			WithHint("write once: true under defaults")
	}
	if s.Total = int32(len(s.Nodes)); s.Total == 0 {
		return nil, nil, filch.Errorf(filch.Invalid, "the workflow has no tasks")
	}
	s.Spec.Once = once > 0
	return s, &o, nil
}

// node is a task of the workflow; every task gets the largest need of any task.
func (f *runFlags) node(w *workflow.Graph, i int32, sp *record.Spec) (record.GraphNode, error) {
	t := &w.Tasks[i]
	n := record.GraphNode{Name: t.Name, Parents: t.Parents, Bytes: w.InitialBytes(i)}
	need := &t.Need
	sp.Each.Slots, sp.Each.MemBytes = max(sp.Each.Slots, need.CPUs), max(sp.Each.MemBytes, need.MemBytes)
	if need.GPUs != "" {
		count, err := spec.Positive(need.GPUs)
		if err != nil {
			return n, filch.Errorf(filch.Invalid, "task %q: gpus: %s", t.Name, err.Error())
		}
		sp.Each.GPUs = max(sp.Each.GPUs, count)
	}
	item := launcher.TaskItem{Argv: t.Run.Argv, Env: t.Run.Env, Limit: need.TimeLimit}
	if t.Run.Stdin+t.Run.Stdout+t.Run.Stderr != "" {
		item.Streams = &launcher.Streams{Stdin: t.Run.Stdin, Stdout: t.Run.Stdout, Stderr: t.Run.Stderr}
	}
	if need.Retries != nil {
		item.Retries = *need.Retries
		sp.Retries = max(sp.Retries, item.Retries)
	}
	if w.Replay {
		item.Own = true
		item.Argv = []string{"replay", "--task", t.Name, "--time", t.Cost.String()}
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
	return graphNode(n, item)
}

// origin completes the order with the node that has the folder, and the job with the
// order.
func (f *runFlags) origin(g *cli.Global, w *workflow.Graph, s *mtc.Submission, o *launcher.TaskOrder) error {
	c, err := g.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	var nodes []wire.NodeInfo
	if err := cli.Ask(c, cli.QueryWait, &nodes, wire.VerbNodes); err != nil {
		return err
	}
	o.Graph = &launcher.TaskGraph{Folder: f.folder, InPlace: f.inPlace}
	most := int32(0)
	for i := range nodes {
		if most = max(most, nodes[i].Slots); nodes[i].Local {
			o.Graph.Origin = nodes[i].Node
		}
	}
	if w.Replay && most > 0 {
		// A replay sleeps, and the file's cores are from another machine.
		s.Spec.Each.Slots = min(s.Spec.Each.Slots, most)
	}
	s.Spec.Body, err = body(o)
	return err
}

func workflowCollectCommand(g *cli.Global) *cobra.Command {
	all, folder := false, ""
	c := &cobra.Command{
		Use:   "collect JOB FILE",
		Short: "copy the files of a detached workflow to its folder",
		Long: `Copies the files that no task of a workflow reads from the nodes to the workflow's
folder. When the job has ended, all nodes then remove the files of the job. FILE is
the workflow of the job.`,
		Example: "  filch workflow collect 12 mosaic.yaml",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			var j launcher.JobInfo
			if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, args[0]); err != nil {
				return err
			}
			w, err := scales{1, 1}.load(args[1])
			if err != nil {
				return err
			}
			if j.Kind != "workflow" || int(j.Tasks.Total) != len(w.Tasks) {
				return filch.Errorf(filch.Invalid, "job %d is not a run of the workflow %s", j.ID, ui.Clean(args[1]))
			}
			if j.Code == nil {
				return filch.Errorf(filch.Busy, "job %d has not ended", j.ID).WithHint("filch wait %d", j.ID)
			}
			f := runFlags{folder: folder}
			if f.folder == "" {
				f.folder = filepath.Dir(args[1])
			}
			if f.folder, err = filepath.Abs(f.folder); err != nil {
				return err
			}
			return collectWorkflow(g, w, j.ID, f.folder, all, false)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "bring all files, also files that a task reads")
	c.Flags().StringVarP(&folder, "folder", "D", "", "copy the files to `FOLDER` (default: the folder of FILE)")
	return c
}

// collectWorkflow brings the files of an ended job. The nodes forget the other
// files unless a file could not be brought, or keep is set.
func collectWorkflow(g *cli.Global, w *workflow.Graph, job filch.JobID, folder string, all, keep bool) error {
	c, err := g.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	start, _ := w.Readers()
	var files []wire.CollectFile
	for i := range w.Files {
		if f := &w.Files[i]; f.Writer >= 0 && (all || start[i] == start[i+1]) {
			files = append(files, wire.CollectFile{Task: f.Writer, Path: f.Path})
		}
	}
	if err := bring(c, job, folder, files); err != nil {
		return err
	}
	if keep {
		ui.Hint(fmt.Sprintf("filch retry %d runs the rest; until then the nodes keep the files of the job", job))
		return nil
	}
	return cli.Ask(c, cli.QueryWait, nil, wire.VerbUnstage, job.String())
}

// bring brings files that tasks of a job wrote. Tasks that did not end well have
// no files.
func bring(c *client.Client, job filch.JobID, folder string, files []wire.CollectFile) error {
	var lost []string
	for len(files) > 0 {
		n := min(len(files), collectFiles)
		list, err := json.Marshal(files[:n])
		if err != nil {
			return err
		}
		var info wire.CollectInfo
		if err := cli.Ask(c, collectWait, &info, wire.VerbCollect, job.String(), folder, string(list)); err != nil {
			return err
		}
		for _, m := range info.Missing {
			if strings.HasPrefix(m, "cannot get ") {
				lost = append(lost, m)
			}
		}
		files = files[n:]
	}
	for i, m := range lost {
		if i == lostShown {
			ui.Say(fmt.Sprintf("error: and %s more", ui.Plural(len(lost)-i, "file")))
			break
		}
		ui.Say("error: " + ui.Clean(m))
	}
	if len(lost) > 0 {
		ui.Hint(fmt.Sprintf("the nodes keep the files: filch workflow collect %d FILE tries again; filch retry %d runs again the tasks whose files are lost with a node", job, job))
		return ui.Exit(1)
	}
	return nil
}
