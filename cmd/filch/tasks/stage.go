package tasks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/bcast"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// stageMax bounds the options --stage-in and --stage-out of a job, which go to each node
// with the job.
const stageMax = 256

// stageFlags are the files that nodes copy for each task.
type stageFlags struct {
	in, out []string
}

func (f *stageFlags) declareStage(p *pflag.FlagSet) {
	p.StringArrayVar(&f.in, "stage-in", nil, "copy `FILE[:NAME]` to the folder of each task, under NAME; {} is the value; may be repeated")
	p.StringArrayVar(&f.out, "stage-out", nil, "keep the files that match `PATTERN` in the folder of each task, for filch export; may be repeated")
}

func (f *stageFlags) stages() bool { return len(f.in)+len(f.out) > 0 }

// stagePlaces reports whether the files differ between tasks.
func (f *stageFlags) stagePlaces() bool { return hasPlaces(f.in) || hasPlaces(f.out) }

// stage reads the options; folder is the folder of relative names. Files that all tasks
// read must be there.
func (f *stageFlags) stage(folder string) (*launcher.Stage, error) {
	if len(f.in)+len(f.out) > stageMax {
		return nil, filch.Errorf(filch.Invalid, "%d times --stage-in and --stage-out, at most %d", len(f.in)+len(f.out), stageMax).
			WithHint("pack the files with tar")
	}
	st := &launcher.Stage{Folder: folder, Out: f.out}
	names := map[string]string{}
	for _, text := range f.in {
		i := launcher.StageIn{File: text}
		if at := strings.LastIndexByte(text, ':'); at >= 0 {
			i.File, i.Name = text[:at], text[at+1:]
		}
		st.In = append(st.In, i)
		if hasPlaces([]string{text}) {
			continue
		}
		from, to, err := workflow.StagedIn(folder, i.File, i.Name, nil, 0)
		if err != nil {
			return nil, ofOption("stage-in", err)
		}
		if names[to] != "" {
			return nil, filch.Errorf(filch.Invalid, "--stage-in %s and --stage-in %s have the same name %q in the folder of a task", names[to], text, to).
				WithHint("FILE:NAME gives a file another name")
		}
		names[to] = text
		if err := stageable("/" + from); err != nil {
			return nil, filch.Errorf(filch.Invalid, "cannot stage in %q: %s", i.File, ui.Cause(err)).
				WithHint("FILE:NAME copies FILE as NAME; a FILE with a colon needs a colon at its end")
		}
	}
	for _, text := range f.out {
		if hasPlaces([]string{text}) {
			continue
		}
		if _, err := workflow.StagedOut(text, nil, 0); err != nil {
			return nil, ofOption("stage-out", err)
		}
	}
	return st, nil
}

// stageable opens an input for a test.
func stageable(name string) error {
	st, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return fmt.Errorf("the name is a folder's; pack the folder with tar")
	case !st.Mode().IsRegular():
		return fmt.Errorf("the path is %s, not a file", st.Mode().Type())
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return f.Close()
}

// stageOf returns the files of a task whose values are known here.
func stageOf(st *launcher.Stage, values []string, number int64) (in, out []launcher.TaskFile, err error) {
	for _, i := range st.In {
		from, to, err := workflow.StagedIn(st.Folder, i.File, i.Name, values, number)
		if err != nil {
			return nil, nil, err
		}
		in = append(in, launcher.TaskFile{Path: from, As: to, Writer: -1, Size: -1})
	}
	for _, pattern := range st.Out {
		filled, err := workflow.StagedOut(pattern, values, number)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, launcher.TaskFile{Path: filled})
	}
	return in, out, nil
}

// stageWith refuses options that do not go with files.
func (f *submitFlags) stageWith(command []string, bag *workflow.Bag) error {
	switch {
	case !f.stages():
	case f.worker:
		return filch.Errorf(filch.Invalid, "--stage-in and --stage-out do not go with --worker: a worker runs many tasks in one folder")
	case f.builtin != "":
		return filch.Errorf(filch.Invalid, "--stage-in and --stage-out do not go with --builtin, which starts no process")
	case f.cwd != "":
		return filch.Errorf(filch.Invalid, "--chdir does not go with --stage-in and --stage-out: each task runs in a folder of its own")
	case f.stagePlaces() && bag == nil && !f.lists(command):
		return filch.Errorf(filch.Invalid, "nothing replaces {} and the like in --stage-in and --stage-out: the tasks have no values").
			WithHint("values follow :::, or come from --each-line, --array or standard input")
	}
	return nil
}

// atNode completes the order of a submission with the node of the submission, which has the
// input files and the copy of the program.
func (f *submitFlags) atNode(c *client.Client, s *submit.Job) error {
	if !f.stages() && f.bcast == "" {
		return nil
	}
	o, extra, err := wire.DecodeOrder(s.Spec.Body)
	if err != nil {
		return err
	}
	var nodes []wire.NodeInfo
	if err := cli.Ask(c, cli.QueryWait, &nodes, wire.VerbNodes, wire.OnlyHere); err != nil {
		return err
	}
	i := slices.IndexFunc(nodes, func(n wire.NodeInfo) bool { return n.Local })
	if i < 0 {
		return filch.Errorf(filch.Internal, "the launcher does not say which node it is")
	}
	if f.stages() {
		extra.Stage.Origin = nodes[i].Node
	}
	if f.bcast != "" {
		if extra.Copy, err = bcast.Kept(f.program, f.bcast, o.Cwd, c.Dir); err != nil {
			return err
		}
		extra.Copy.From = nodes[i].Node
	}
	s.Spec.Body, err = wire.EncodeOrder(o, extra)
	return err
}

// stagedJob is the records of a bag whose files are exported.
type stagedJob struct{ *taskrecords.Job }

// ExportStaged copies the files that some tasks of a bag left on the nodes into a folder, as
// TASK/PATH, and returns the number of files. With remove, the nodes then remove all files
// of the job, which must have ended.
func ExportStaged(g *cli.Global, spans []cli.JobSpan, folder string, remove bool) (int, error) {
	c, err := g.Dial() // a connection of its own: the other may have read output
	if err != nil {
		return 0, err
	}
	defer c.Close()
	records, err := taskrecords.Open(c, spans[0].Job)
	if err != nil {
		return 0, err
	}
	p := stagedJob{records}
	_, extra, err := wire.DecodeOrder(p.Spec.Body)
	if err != nil { // of a builtin
		extra = &launcher.OrderExtra{}
	}
	switch {
	case p.Rec.Graph && remove:
		return 0, filch.Errorf(filch.Invalid, "job %d is a workflow, and --remove is for bags", p.ID).
			WithHint("filch workflow collect %d FILE copies the files, and removes them from the nodes", p.ID)
	case p.Rec.Graph, extra.Stage == nil && !remove:
		return 0, nil
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return 0, err
	}
	files, err := stagedFiles(c, spans)
	if err == nil && extra.Stage != nil && len(extra.Stage.Out) > 0 {
		err = p.noneLost(spans, files)
	}
	if err == nil {
		again := fmt.Sprintf("the nodes keep the files: filch export %d FOLDER tries again; filch submit runs again the tasks whose files are lost with a node", p.ID)
		err = bringOr(c, p.ID, folder, files, again)
	}
	if err != nil || !remove {
		return len(files), err
	}
	return len(files), cli.Ask(c, cli.QueryWait, nil, wire.VerbUnstage, p.ID.String())
}

// within reports whether a task is in one of some spans.
func within(spans []cli.JobSpan, task int32) bool {
	return slices.ContainsFunc(spans, func(s cli.JobSpan) bool { return s.First <= task && task <= s.Last })
}

// stagedFiles lists the files of tasks on all nodes, by task.
func stagedFiles(c *client.Client, spans []cli.JobSpan) ([]wire.CollectFile, error) {
	var nodes []wire.NodeInfo
	if err := cli.Ask(c, cli.QueryWait, &nodes, wire.VerbNodes); err != nil {
		return nil, err
	}
	seen := map[wire.CollectFile]bool{}
	var files []wire.CollectFile
	for i := range nodes {
		if nodes[i].State == "dead" || nodes[i].State == "left" {
			continue
		}
		last := wire.StagedFile{Task: -1}
		for more := true; more; {
			var some wire.StagedOut
			if err := cli.Ask(c, cli.QueryWait, &some, wire.VerbOutputs, string(nodes[i].Node), spans[0].Job.String(), strconv.Itoa(int(last.Task)), last.Path); err != nil {
				return nil, err
			}
			for _, file := range some.Files {
				to := wire.CollectFile{Task: file.Task, Path: file.Path, To: strconv.Itoa(int(file.Task)) + "/" + file.Path}
				if last = file; within(spans, file.Task) && !seen[to] {
					seen[to] = true
					files = append(files, to)
				}
			}
			more = some.More && len(some.Files) > 0
		}
	}
	slices.SortStableFunc(files, func(a, b wire.CollectFile) int { return int(a.Task - b.Task) })
	return files, nil
}

// noneLost warns about tasks that ended well and whose files no node has.
func (p *stagedJob) noneLost(spans []cli.JobSpan, files []wire.CollectFile) error {
	has := map[int32]bool{}
	for _, f := range files {
		has[f.Task] = true
	}
	lost, first, node := 0, int32(0), filch.NodeName("")
	for n := range p.Rec.Blocks() {
		if !slices.ContainsFunc(spans, func(s cli.JobSpan) bool {
			return s.First/record.BlockSize <= n && n <= s.Last/record.BlockSize
		}) {
			continue
		}
		if err := p.Load([]int32{n}); err != nil {
			return err
		}
		for k, off := range p.Blocks[n].Offs {
			i, t := n*record.BlockSize+int32(off), &p.Blocks[n].Tasks[k]
			if t.State != filch.OK || has[i] || !within(spans, i) {
				continue
			}
			if lost++; lost == 1 {
				first, node = i, t.By.Node
			}
		}
		delete(p.Blocks, n)
	}
	if lost > 0 {
		ui.Warn(fmt.Sprintf("no node has the files of %s that ended well, as of task %d.%d on %s", filch.Plural(lost, "task"), p.ID, first, ui.Clean(string(node))))
		ui.Hint("files are lost with their node, or were removed by an earlier filch export --remove")
	}
	return nil
}
