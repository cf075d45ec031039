package staging

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// stagedOutMax bounds the files that a task of a bag leaves.
const stagedOutMax = 16 << 10

// NewBagAttempt makes the attempt of a bag's task with files. The inputs are paths
// relative to the root folder of the bag's origin, the outputs patterns.
func (g *Files) NewBagAttempt(o *launcher.TaskOrder, st *launcher.Stage, s launcher.TaskStart, item launcher.TaskItem) (*Attempt, error) {
	b := &Attempt{start: s, graph: &launcher.TaskGraph{Origin: st.Origin, Folder: "/"}, item: item, bag: true}
	seen := map[string]bool{}
	for i := range item.Inputs {
		f := &item.Inputs[i]
		for _, name := range []string{f.Path, nameOf(f)} {
			if err := workflow.CheckPath(name); err != nil {
				return nil, filch.Errorf(filch.Invalid, "the file %q of task %d.%d is refused: %v", name, s.Job, s.Index, err)
			}
		}
		if seen[nameOf(f)] {
			return nil, filch.Errorf(filch.Invalid, "two inputs of task %d.%d have the name %q", s.Job, s.Index, nameOf(f))
		}
		seen[nameOf(f)] = true
	}
	// Names of streams are relative to the folder of the job: the task's folder is removed.
	streams := launcher.Streams{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr}
	if s.Streams != nil {
		streams.Stdin = cmp.Or(s.Streams.Stdin, streams.Stdin)
		streams.Stdout = cmp.Or(s.Streams.Stdout, streams.Stdout)
		streams.Stderr = cmp.Or(s.Streams.Stderr, streams.Stderr)
	}
	for _, name := range []*string{&streams.Stdin, &streams.Stdout, &streams.Stderr} {
		if *name != "" && *name != "-" && *name != launcher.NoFile && !filepath.IsAbs(*name) {
			*name = filepath.Join(o.Cwd, *name)
		}
	}
	if streams != (launcher.Streams{}) {
		b.start.Streams = &streams
	}
	b.start.Cwd = filepath.Join(g.dir, s.Job.String(), b.run())
	return b, nil
}

// takeMatches takes the outputs of a successful task of a bag, and removes the task's
// folder.
func (g *Files) takeMatches(b *Attempt, e *launcher.TaskEnd) error {
	root, err := g.root(b.start.Job)
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot keep files on %s: %v", g.in.Self, err)
	}
	defer root.Close()
	defer func() { _ = root.RemoveAll(b.run()) }()
	if e.Kind != launcher.CauseNone || len(b.item.Outputs) == 0 {
		return nil
	}
	names, err := matches(root, b)
	if err != nil {
		return err
	}
	// Of an earlier try whose end is not recorded.
	err = root.RemoveAll(path.Join("have", strconv.Itoa(int(b.start.Index))))
	for _, name := range names {
		if err == nil {
			_, err = g.publish(root, b, name)
		}
		if err != nil {
			return g.notTaken(b, name, err)
		}
	}
	return nil
}

// matches lists the files that a task left and that its patterns name. A folder stands for
// all files below, and an input is no output.
func matches(root *os.Root, b *Attempt) ([]string, error) {
	run, err := root.OpenRoot(b.run())
	if err != nil {
		return nil, err
	}
	defer run.Close()
	tree := run.FS()
	found := map[string]bool{}
	inputs := map[string]bool{}
	for i := range b.item.Inputs {
		inputs[nameOf(&b.item.Inputs[i])] = true
	}
	take := func(name string) error {
		if found[name] = true; len(found) > stagedOutMax {
			return filch.Errorf(filch.Invalid, "task %d.%d left more than %d files for --stage-out: pack them with tar", b.start.Job, b.start.Index, stagedOutMax)
		}
		return nil
	}
	for _, f := range b.item.Outputs {
		tops, err := fs.Glob(tree, f.Path)
		if err != nil {
			return nil, err
		}
		before := len(found)
		for _, top := range tops {
			// WalkDir would follow a link at the top.
			if st, err := run.Lstat(top); err != nil || !st.IsDir() {
				if err == nil && !inputs[top] {
					err = take(top)
				}
				if err != nil {
					return nil, err
				}
				continue
			}
			err := fs.WalkDir(tree, top, func(name string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() && !inputs[name] {
					err = take(name)
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		if len(found) == before && !named(found, tops) {
			return nil, filch.Errorf(filch.NotFound, "task %d.%d ended with 0 and wrote no file %q", b.start.Job, b.start.Index, f.Path)
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		if err := workflow.CheckPath(name); err != nil {
			return nil, filch.Errorf(filch.Invalid, "the file %q of task %d.%d is refused: %v", name, b.start.Job, b.start.Index, err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// named reports whether a file among the tops of a pattern, or below, is found already.
func named(found map[string]bool, tops []string) bool {
	for name := range found {
		for _, top := range tops {
			if name == top || strings.HasPrefix(name, top+"/") {
				return true
			}
		}
	}
	return false
}

// Outputs lists files that tasks of a bag wrote on this node, by task and path, after a
// file.
func (g *Files) Outputs(job filch.JobID, task int32, name string) (wire.StagedOut, error) {
	out := wire.StagedOut{Files: []wire.StagedFile{}}
	have := filepath.Join(g.dir, job.String(), "have")
	entries, err := os.ReadDir(have)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return out, filch.Errorf(filch.Internal, "cannot list the files of job %d on %s: %v", job, g.in.Self, err)
	}
	var tasks []int32
	for _, e := range entries {
		if n, err := strconv.ParseInt(e.Name(), 10, 32); err == nil && int32(n) >= task {
			tasks = append(tasks, int32(n))
		}
	}
	slices.Sort(tasks)
	for _, n := range tasks {
		var names []string
		dir := filepath.Join(have, strconv.Itoa(int(n)))
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if rel := strings.TrimPrefix(p, dir+"/"); err == nil && !d.IsDir() && (n > task || rel > name) {
				names = append(names, rel)
			}
			return err
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return out, filch.Errorf(filch.Internal, "cannot list the files of task %d.%d on %s: %v", job, n, g.in.Self, err)
		}
		slices.Sort(names)
		for _, rel := range names {
			if out.More = len(out.Files) == wire.StagedOutMax; out.More {
				return out, nil
			}
			out.Files = append(out.Files, wire.StagedFile{Job: job, Task: n, Path: rel})
		}
	}
	return out, nil
}

// ForgetInputs removes the inputs of a bag without a task here; a task that comes later
// fetches them again.
func (g *Files) ForgetInputs(job filch.JobID) {
	g.in.Go(func() {
		busy := false
		if err := g.in.Ask(inputs.LoopWait, func(*inputs.Turn) {
			for _, b := range g.attempts {
				busy = busy || b.start.Job == job
			}
		}); err != nil || busy {
			return
		}
		dir := filepath.Join(g.dir, job.String())
		err := os.RemoveAll(filepath.Join(dir, "have", "start"))
		for _, empty := range []string{"have", "run", "part", ""} {
			_ = os.Remove(filepath.Join(dir, empty)) // fails if outputs are left
		}
		if err != nil {
			g.in.Fault("cannot remove the inputs of a bag", err)
		}
	})
}
