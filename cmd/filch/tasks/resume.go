package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Limits of a resumption.
const (
	// earlierMax bounds the jobs whose records are read: a job, and the jobs that the job
	// continues. Tasks of still older jobs run again.
	earlierMax = 64
	// candidatesMax bounds the workflows whose records are read to find the last run of a
	// file.
	candidatesMax = 256
	// reasonsShown bounds the printed reasons for running tasks again.
	reasonsShown = 5
	// inPlaceSlack is how long after the end of a task a file may seem to be written, by the
	// clock of a shared file system.
	inPlaceSlack = 2 * time.Second
)

// earlierRun is the last run of a task in an earlier job.
type earlierRun struct {
	*flow
	at int32 // the index of the task in that job
}

// lineage is a job and the jobs that it continues.
type lineage struct {
	newest *flow
	runs   map[string]earlierRun // by the name of the task
	gone   []filch.JobID         // jobs whose records were dropped
}

// readLineage reads a job, and the jobs that the job continues. For each task the newest
// job with the task counts.
func readLineage(c *client.Client, word string) (*lineage, error) {
	id, err := cli.OneJob(word, cli.LastJob(c))
	if err != nil {
		return nil, cli.OfOption("resume", err)
	}
	p, err := readPast(c, id)
	if err != nil {
		return nil, err
	}
	if !p.Rec.Graph {
		return nil, filch.Errorf(filch.Invalid, "job %d is not a workflow", p.ID).WithHint("filch retry %d runs the failed tasks of a bag again", p.ID)
	}
	l := &lineage{newest: &flow{past: p, index: map[int32]int32{}}, runs: map[string]earlierRun{}}
	if err := l.newest.load(); err != nil {
		return nil, err
	}
	l.add(l.newest)
	earlier := l.newest.order.Graph.Earlier
	for i := len(earlier) - 1; i >= 0 && len(earlier)-i < earlierMax; i-- {
		f := &flow{index: map[int32]int32{}}
		if f.past, err = readRecords(c, earlier[i]); err == nil {
			err = f.load()
		}
		if err != nil {
			l.gone = append(l.gone, earlier[i])
			continue
		}
		l.add(f)
	}
	return l, nil
}

func (l *lineage) add(f *flow) {
	for i := range f.nodes {
		if name := f.nodes[i].Name; l.runs[name].flow == nil {
			l.runs[name] = earlierRun{f, int32(i)}
		}
	}
}

// state is the end of the task; a task that never started was skipped.
func (r earlierRun) state() filch.State {
	if t := r.ended(r.at); t != nil && t.State.Final() {
		return t.State
	}
	return filch.Skipped
}

// lastOf finds the newest job that ran a workflow's file.
func lastOf(c *client.Client, file string, local filch.NodeName) (string, error) {
	jobs, err := cli.QueryJobs(c)
	if err != nil {
		return "", err
	}
	jobs = slices.DeleteFunc(jobs, func(j launcher.JobInfo) bool { return j.Kind != "workflow" })
	slices.SortFunc(jobs, func(a, b launcher.JobInfo) int { return int(min(max(b.Submit-a.Submit, -1), 1)) })
	p := &taskrecords.Job{Conn: c}
	for part := range slices.Chunk(jobs[:min(len(jobs), candidatesMax)], taskrecords.AtOnce) {
		var keys []string
		for i := range part {
			keys = append(keys, record.KeySpec(part[i].ID))
		}
		values, err := p.Read(keys)
		if err != nil {
			return "", err
		}
		for i, v := range values {
			s, err := record.DecodeSpec(v)
			if err != nil {
				continue // dropped
			}
			o, extra, err := wire.DecodeOrder(s.Body)
			if err == nil && o.Graph != nil && o.Graph.Origin == local && extra.File == file {
				return part[i].ID.String(), nil
			}
		}
	}
	return "", filch.Errorf(filch.NotFound, "cannot resume %s: this instance has no record of a run of the file", file).
		WithHint("filch workflow run without --resume runs all tasks; --resume=JOB names the job")
}

// resumption is the decision which tasks of a workflow run again.
type resumption struct {
	*lineage
	run    *runFlags
	w      *workflow.Graph
	c      *client.Client
	live   map[filch.NodeName]bool
	places map[int32]filePlace // of files that tasks wrote
	again  []workflow.Reason
	index  map[int32]int32 // from a task of the file to a task of the new job
}

// filePlace is the place of a file that a task wrote earlier: the workflow's folder, or
// the node of the task.
type filePlace struct {
	workflow.Presence
	folder bool
}

// resume decides which tasks run again, from the records of earlier jobs.
func (f *runFlags) resumption(c *client.Client, w *workflow.Graph, marks []workflow.Mark, file string) (*resumption, error) {
	r := &resumption{run: f, w: w, c: c, places: map[int32]filePlace{}, index: map[int32]int32{}}
	live, local, err := liveNodes(c)
	if err != nil {
		return nil, err
	}
	r.live = live
	job := f.resume
	if job == resumeLast {
		if job, err = lastOf(c, file, local); err != nil {
			return nil, err
		}
	}
	if r.lineage, err = readLineage(c, job); err != nil {
		if ui.KindOf(err) == filch.NotFound {
			return nil, filch.Errorf(filch.NotFound, "cannot resume job %s: this instance has no record of the job", ui.Clean(job)).
				WithHint("filch workflow run without --resume runs all tasks")
		}
		return nil, err
	}
	if gr := r.newest.order.Graph; gr.Origin != local && !gr.InPlace {
		return nil, filch.Errorf(filch.Invalid, "the folder of job %d is on node %s: run this command there", r.newest.ID, gr.Origin)
	}
	if f.keepIn == "" && !f.inPlace {
		f.keepIn = r.newest.extra.Results
	}
	before := make([]workflow.Past, len(w.Tasks))
	for i := range w.Tasks {
		if run := r.runs[w.Tasks[i].Name]; run.flow != nil {
			before[i] = workflow.Past{State: run.state(), Mark: run.marks[run.at]}
		}
	}
	start, _ := w.Readers()
	wanted := func(file int32) bool { return f.all || f.inPlace || start[file] == start[file+1] }
	for {
		again, ask := w.Resume(marks, before, wanted, r.presence)
		if len(ask) == 0 {
			r.again = again
			break
		}
		if err := r.ask(ask); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// writer is the earlier run of the task that wrote a file.
func (r *resumption) writer(file int32) earlierRun {
	return r.runs[r.w.Tasks[r.w.Files[file].Writer].Name]
}

// presence tells about a file without asking other nodes.
func (r *resumption) presence(file int32) workflow.Presence {
	if p, ok := r.places[file]; ok {
		return p.Presence
	}
	by := r.writer(file)
	t := by.ended(by.at)
	switch {
	case r.unchanged(r.w.Files[file].Path, by, t) && !r.apart(file):
		r.places[file] = filePlace{workflow.Present, true}
	case r.run.inPlace || by.order.Graph.InPlace || !r.live[t.By.Node]:
		r.places[file] = filePlace{workflow.Missing, false}
	default:
		return workflow.Unasked
	}
	return r.places[file].Presence
}

// apart reports whether a file that a task reads would be in the folder of --keep-in, where
// tasks do not read.
func (r *resumption) apart(file int32) bool {
	start, _ := r.w.Readers()
	return r.run.keepIn != "" && start[file] != start[file+1]
}

// unchanged reports whether the folder has a file as a task left it. A file that filch
// brought has the time of the task's end, to the second where the file system keeps
// seconds.
func (r *resumption) unchanged(path string, by earlierRun, t *record.Task) bool {
	st, err := os.Lstat(filepath.Join(r.run.results(), path))
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	ended := time.UnixMicro(t.Began + t.TookUS)
	if gr := by.order.Graph; gr.InPlace {
		return gr.Folder == r.run.folder && !st.ModTime().After(ended.Add(inPlaceSlack))
	}
	return st.ModTime().UnixMicro() == ended.UnixMicro() || st.ModTime().Equal(ended.Truncate(time.Second))
}

// ask asks the nodes of tasks whether they keep files. A task's outputs count only if
// their sizes add up.
func (r *resumption) ask(files []int32) error {
	byNode := map[filch.NodeName][]int32{} // tasks
	asked := map[int32]bool{}
	for _, file := range files {
		if task := r.w.Files[file].Writer; !asked[task] {
			asked[task] = true
			by := r.writer(file)
			node := by.ranOn(by.at)
			byNode[node] = append(byNode[node], task)
		}
	}
	for node, tasks := range byNode {
		var list []wire.StagedFile
		var of []int32
		for _, task := range tasks {
			by := r.runs[r.w.Tasks[task].Name]
			for _, out := range r.w.Tasks[task].Outputs {
				list = append(list, wire.StagedFile{Job: by.ID, Task: by.at, Path: r.w.Files[out].Path})
				of = append(of, out)
			}
		}
		sizes, err := stagedSizes(r.c, node, list)
		if err != nil {
			return err
		}
		total := map[int32]int64{} // by task; -1 if a file is missing
		for k, out := range of {
			if task := r.w.Files[out].Writer; sizes[k] < 0 || total[task] < 0 {
				total[task] = -1
			} else {
				total[task] += sizes[k]
			}
		}
		for k, out := range of {
			by, sum := r.writer(out), total[r.w.Files[out].Writer]
			whole := sizes[k] >= 0 && (sum < 0 || sum == by.ended(by.at).Bytes)
			if r.places[out] = (filePlace{workflow.Missing, false}); whole {
				r.places[out] = filePlace{workflow.Present, false}
			}
		}
	}
	return nil
}

// stagedSizes are the sizes of files on a node; -1 of a file that is not there.
func stagedSizes(c *client.Client, node filch.NodeName, list []wire.StagedFile) (sizes []int64, err error) {
	for part := range slices.Chunk(list, wire.StagedMax) {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		var some []int64
		if err := cli.Ask(c, cli.QueryWait, &some, wire.VerbStaged, string(node), string(text)); err != nil {
			return nil, err
		}
		if len(some) != len(part) {
			return nil, filch.Errorf(filch.Internal, "node %s told the sizes of %d files, not of %d", node, len(some), len(part))
		}
		sizes = append(sizes, some...)
	}
	return sizes, nil
}

// chosen are the tasks that run again.
func (r *resumption) chosen() (tasks []int32) {
	for i := range r.again {
		if r.again[i].Why != workflow.WhyNot {
			r.index[int32(i)] = int32(len(tasks))
			tasks = append(tasks, int32(i))
		}
	}
	return tasks
}

// place moves a task of the file into the new job: an input of a task that was done comes
// from the folder, or from the earlier job.
func (r *resumption) place(task int32, n *record.GraphNode, item *launcher.TaskItem) {
	n.Parents, n.After = n.ParentsIn(r.index)
	for k, at := range r.w.Tasks[task].Inputs {
		in, writer := &item.Inputs[k], r.w.Files[at].Writer
		if writer < 0 {
			continue
		}
		if now, ok := r.index[writer]; ok {
			in.Writer = now
			continue
		}
		if in.Writer = -1; !r.places[at].folder {
			by := r.writer(at)
			in.Writer, in.Job, in.Node = by.at, by.ID, by.ranOn(by.at)
		}
	}
	for k := range item.Outputs {
		item.Outputs[k].Writer = r.index[task]
	}
}

// before counts the tasks that were done.
func (r *resumption) before(done int) *launcher.TasksBefore {
	return &launcher.TasksBefore{Job: r.newest.ID, Done: int32(done), Total: int32(len(r.w.Tasks)), Earlier: len(r.newest.order.Graph.Earlier) > 0}
}

// tell prints how many tasks were done, and why others run.
func (r *resumption) tell(tasks []int32) {
	done := len(r.w.Tasks) - len(tasks)
	before := ""
	if len(r.newest.order.Graph.Earlier) > 0 {
		before = " and the jobs before"
	}
	if len(tasks) == 0 {
		ui.Say(fmt.Sprintf("all %s were done in job %d%s: nothing to run", filch.Plural(done, "task"), r.newest.ID, before))
	} else {
		ui.Say(fmt.Sprintf("%d of %s were done in job %d%s; %d to run: %s", done, filch.Plural(len(r.w.Tasks), "task"), r.newest.ID, before, len(tasks), r.reasons(tasks)))
	}
	if len(r.gone) > 0 {
		ui.Say(fmt.Sprintf("the records of %s before were dropped: their tasks run again", filch.Plural(len(r.gone), "job")))
	}
	blind := 0
	for i := range r.w.Tasks {
		if r.again[i].Why == workflow.WhyNot && len(r.w.Tasks[i].Inputs) == 0 {
			blind++
		}
	}
	if blind > 0 && !r.w.Replay {
		ui.Hint(fmt.Sprintf("%s of those done %s no inputs in the file: of these, filch compared only the command", filch.Plural(blind, "task"), filch.Agree(blind, "declares", "declare")))
	}
}

// nothing ends a resumption without a task to run: results that are on nodes are brought.
func (r *resumption) nothing(job WorkflowJob) error {
	job.ID = r.newest.ID
	err := r.collect(0, nil)
	if r.run.asJSON {
		err = errors.Join(err, ui.PrintJSON(job))
	}
	return err
}

// reasons names the first tasks to run, with the reason of each; tasks that run for a
// reason of their own come first.
func (r *resumption) reasons(tasks []int32) string {
	own := slices.Clone(tasks)
	slices.SortStableFunc(own, func(a, b int32) int {
		return int(r.again[a].Why/workflow.WhyAfter) - int(r.again[b].Why/workflow.WhyAfter)
	})
	var all []string
	for _, t := range own[:min(len(own), reasonsShown)] {
		all = append(all, ui.Clean(r.w.Tasks[t].Name)+" ("+r.reason(t)+")")
	}
	if len(own) > reasonsShown {
		all = append(all, fmt.Sprintf("and %d more", len(own)-reasonsShown))
	}
	return strings.Join(all, ", ")
}

func (r *resumption) reason(task int32) string {
	switch why := r.again[task]; why.Why {
	case workflow.WhyNew:
		return "not run before"
	case workflow.WhyState:
		return why.Old.String()
	case workflow.WhyFile:
		return ui.Clean(r.w.Files[why.File].Path) + " is missing or was changed"
	case workflow.WhyAfter:
		return "after " + ui.Clean(r.w.Tasks[why.Task].Name)
	}
	t, run := &r.w.Tasks[task], r.runs[r.w.Tasks[task].Name]
	old := &run.items[run.at]
	streams := launcher.Streams{}
	if old.Streams != nil {
		streams = *old.Streams
	}
	switch {
	case run.marks[run.at] == workflow.Mark{}:
		return "job " + run.ID.String() + " did not record its inputs"
	case !r.w.Replay && (!slices.Equal(old.Argv, t.Run.Argv) || !slices.Equal(old.Env, t.Run.Env)):
		return "its command changed"
	case !r.samePaths(old.Inputs, t.Inputs) || !r.samePaths(old.Outputs, t.Outputs) || streams != (launcher.Streams{Stdin: t.Run.Stdin, Stdout: t.Run.Stdout, Stderr: t.Run.Stderr}):
		return "its files changed"
	}
	return "an input, its cpus, gpus or tasks before changed"
}

func (r *resumption) samePaths(old []launcher.TaskFile, now []int32) bool {
	return slices.EqualFunc(old, now, func(a launcher.TaskFile, b int32) bool { return a.Path == r.w.Files[b].Path })
}

// collect brings the results of the new job, and results of earlier jobs that are not in
// the folder; job 0 is no new job.
func (r *resumption) collect(job filch.JobID, ended error) error {
	wanted := map[filch.JobID][]wire.CollectFile{}
	start, _ := r.w.Readers()
	for i := range r.w.Files {
		f := &r.w.Files[i]
		if f.Writer < 0 || !r.run.all && start[i] != start[i+1] {
			continue
		}
		if at, ok := r.index[f.Writer]; ok {
			wanted[job] = append(wanted[job], wire.CollectFile{Task: at, Path: f.Path})
		} else if !r.places[int32(i)].folder {
			by := r.writer(int32(i))
			wanted[by.ID] = append(wanted[by.ID], wire.CollectFile{Task: by.at, Path: f.Path})
		}
	}
	var all error
	for id, files := range wanted {
		if err := bring(r.c, id, r.run.results(), files); err != nil {
			all = err
		}
	}
	if all != nil || ended != nil || job == 0 {
		return all
	}
	return unstage(r.c, append(r.earlier(), job))
}

// earlier are the jobs that the new job continues.
func (r *resumption) earlier() []filch.JobID {
	return append(slices.Clone(r.newest.order.Graph.Earlier), r.newest.ID)
}

// unstage makes all nodes forget the files of jobs.
func unstage(c *client.Client, jobs []filch.JobID) error {
	for _, id := range jobs {
		err := cli.Over(c.Dir, id, fmt.Sprintf("the nodes keep the files of job %d", id), func(c *client.Client) error {
			return cli.Ask(c, cli.QueryWait, nil, wire.VerbUnstage, id.String())
		})
		if err != nil {
			return err
		}
	}
	return nil
}
