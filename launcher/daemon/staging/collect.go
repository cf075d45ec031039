package staging

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Collect copies files into a folder of the user; each file appears by one rename.
func (g *Files) Collect(job filch.JobID, folder string, files []wire.CollectFile, find func(index int32) (*launcher.Task, error)) (wire.CollectInfo, error) {
	info := wire.CollectInfo{Missing: []string{}}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return info, filch.Errorf(filch.Invalid, "cannot bring files to %s: %s", folder, plainError(err))
	}
	defer root.Close()
	tasks := map[int32]*launcher.Task{}
	have := func(index int32) (t *launcher.Task, err error) {
		if t = tasks[index]; t == nil {
			t, err = find(index)
			tasks[index] = t
		}
		return t, err
	}
	for _, f := range files {
		n, err := g.collectOne(job, root, f, have)
		if errors.Is(err, errPresent) {
			info.Present = append(info.Present, f.Path)
			continue
		}
		if err != nil {
			info.Missing = append(info.Missing, err.Error())
			continue
		}
		info.Files++
		info.Bytes += n
	}
	return info, nil
}

// errPresent says that a file in the folder has the time of the end of its task: an
// earlier collect brought the file, and nobody has changed the file since.
var errPresent = errors.New("the file is there")

func (g *Files) collectOne(job filch.JobID, root *os.Root, f wire.CollectFile, find func(index int32) (*launcher.Task, error)) (int64, error) {
	if err := workflow.CheckPath(f.Path); err != nil {
		return 0, filch.Errorf(filch.Invalid, "the file %q is refused: %v", f.Path, err)
	}
	t, err := find(f.Task)
	var why *filch.Error
	if errors.As(err, &why) && why.Kind == filch.NotFound { // the task never ran
		return 0, fmt.Errorf("%q: %w", f.Path, err)
	}
	if err != nil { // the client must not let the nodes forget the file
		return 0, fmt.Errorf("cannot get %q: %w", f.Path, err)
	}
	if t.State != filch.OK.String() {
		return 0, fmt.Errorf("%q: task %d.%d is %s", f.Path, job, f.Task, t.State)
	}
	if st, err := root.Lstat(f.Path); err == nil && st.Mode().IsRegular() && st.ModTime().UnixMicro() == t.Ended().UnixMicro() {
		return 0, errPresent
	}
	ctx, cancel := context.WithTimeout(g.in.Context(), collectWait)
	defer cancel()
	to := f.Path
	if f.To != "" {
		to = f.To
	}
	if err := workflow.CheckPath(to); err != nil {
		return 0, filch.Errorf(filch.Invalid, "the file %q is refused: %v", to, err)
	}
	if err := vacant(root, to); err != nil {
		return 0, fmt.Errorf("cannot get %q, which task %d.%d wrote: %w", f.Path, job, f.Task, err)
	}
	part := path.Join(path.Dir(to), fmt.Sprintf(".filch-%d-%d.part", job, f.Task))
	n, err := g.fetchFile(ctx, t.Node, wire.Fetch{Job: job, Writer: f.Task, Path: f.Path}, root, part, to, 0o644)
	if err != nil {
		return 0, fmt.Errorf("cannot get %q, which task %d.%d wrote, from node %s: %w", f.Path, job, f.Task, t.Node, err)
	}
	// By this time filch workflow run --resume sees that nobody has changed the file. A
	// file that keeps the present time counts as changed.
	if err := root.Chtimes(to, time.Time{}, t.Ended()); err != nil {
		g.in.Watch.Log().Warn("cannot set the time of a file", "path", f.Path, "err", err)
	}
	return n, nil
}

// vacant returns an error when a file cannot get its name, since a folder has the name, or a
// file has the name of a folder above.
func vacant(root *os.Root, name string) error {
	at := func(name string) string { return filepath.Join(root.Name(), name) }
	if st, err := root.Lstat(name); err == nil && st.IsDir() {
		return fmt.Errorf("%s is a folder", at(name))
	}
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		if st, err := root.Stat(above); err == nil && !st.IsDir() {
			return fmt.Errorf("%s is a file, not a folder", at(above))
		}
	}
	return nil
}

// Sizes returns the sizes of files that tasks of workflows wrote, -1 for files that are
// not on this node.
func (g *Files) Sizes(files []wire.StagedFile) []int64 {
	sizes := make([]int64, len(files))
	for i, f := range files {
		sizes[i] = -1
		if workflow.CheckPath(f.Path) != nil || f.Job <= 0 || f.Task < 0 {
			continue
		}
		root, err := os.OpenRoot(filepath.Join(g.dir, f.Job.String()))
		if err != nil {
			continue
		}
		if st, err := root.Lstat(keptPath(f.Task, f.Path)); err == nil && st.Mode().IsRegular() {
			sizes[i] = st.Size()
		}
		_ = root.Close()
	}
	return sizes
}

// collectWait bounds the copy of one file.
const collectWait = 10 * time.Minute

// Unpublish removes the outputs of a task here that ended after another end of the task was
// recorded: tasks and users read the files of that end. A task that reads one is given it anew.
func (g *Files) Unpublish(job filch.JobID, task int32) {
	root, err := os.OpenRoot(filepath.Join(g.dir, job.String()))
	if err != nil {
		return // the files of the job are gone
	}
	defer root.Close()
	if err := root.RemoveAll(path.Dir(keptPath(task, "x"))); err != nil {
		g.in.Fault("cannot remove the files of a task that came second", err)
	}
}

// Forget removes the files of a job unless a task of the job runs here. The removal may
// end later.
func (g *Files) Forget(job filch.JobID) error {
	var failed error
	if err := g.in.Ask(inputs.LoopWait, func(*inputs.Turn) {
		busy := g.gangs.busy(job)
		for _, b := range g.attempts {
			busy = busy || b.start.Job == job
		}
		if !busy {
			failed = g.runners.Discard(filepath.Join(g.dir, job.String()))
		}
	}); err != nil {
		return err
	}
	if failed != nil {
		return filch.Errorf(filch.Internal, "cannot remove the files of job %d on %s: %s", job, g.in.Self, failed.Error())
	}
	return nil
}
