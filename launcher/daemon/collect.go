package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// aboutFiles brings files of a workflow to the user, or removes the files.
func (d *Daemon) aboutFiles(q wire.Query, arg func(int) string, local bool) (any, error) {
	job, err := d.parseJob(arg(0))
	if err != nil {
		return nil, err
	}
	if q.Verb == wire.VerbUnstage {
		if local {
			askAll(d.asks, q, func(member, struct{}, error) {}) // a silent node keeps the files until going down
		}
		return struct{}{}, d.stage.forget(job)
	}
	if !local {
		return nil, filch.Errorf(filch.Denied, "files are brought where they are asked for")
	}
	var files []wire.CollectFile
	if err := json.Unmarshal([]byte(arg(2)), &files); err != nil || !filepath.IsAbs(arg(1)) {
		return nil, filch.Errorf(filch.Invalid, "%s takes a job, a folder and files", q.Verb)
	}
	return d.stage.collect(job, arg(1), files)
}

// collect copies files into a folder of the user; each file appears by one rename.
func (g *staging) collect(job filch.JobID, folder string, files []wire.CollectFile) (wire.CollectInfo, error) {
	info := wire.CollectInfo{Missing: []string{}}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return info, filch.Errorf(filch.NotFound, "cannot bring files to %s: %s", folder, plainError(err))
	}
	defer root.Close()
	tasks := map[int32]*launcher.Task{}
	for _, f := range files {
		n, err := g.collectOne(job, root, f, tasks)
		if err != nil {
			info.Missing = append(info.Missing, err.Error())
			continue
		}
		info.Files++
		info.Bytes += n
	}
	return info, nil
}

func (g *staging) collectOne(job filch.JobID, root *os.Root, f wire.CollectFile, tasks map[int32]*launcher.Task) (int64, error) {
	if err := workflow.CheckPath(f.Path); err != nil {
		return 0, filch.Errorf(filch.Invalid, "the file %q is refused: %v", f.Path, err)
	}
	t := tasks[f.Task]
	if t == nil {
		have, err := g.d.task(func(i int) string { return [...]string{job.String(), strconv.Itoa(int(f.Task))}[i] })
		if err != nil {
			return 0, fmt.Errorf("%q: %w", f.Path, err)
		}
		t = have.(*launcher.Task)
		tasks[f.Task] = t
	}
	if t.State != filch.OK.String() {
		return 0, fmt.Errorf("%q: task %d.%d is %s", f.Path, job, f.Task, t.State)
	}
	ctx, cancel := context.WithTimeout(g.d.in.Context(), longest)
	defer cancel()
	part := path.Join(path.Dir(f.Path), fmt.Sprintf(".filch-%d-%d.part", job, f.Task))
	n, err := g.bring(ctx, t.Node, wire.Fetch{Job: job, Writer: f.Task, Path: f.Path}, root, part, f.Path, 0o644)
	if err != nil {
		return 0, fmt.Errorf("cannot get %q, which task %d.%d wrote, from node %s: %w", f.Path, job, f.Task, t.Node, err)
	}
	return n, nil
}

// forget removes the files of a job unless a task of the job runs here.
func (g *staging) forget(job filch.JobID) error {
	busy := false
	if err := g.d.in.Ask(inputs.LoopWait, func(*inputs.Turn) {
		for _, b := range g.boxes {
			busy = busy || b.start.Job == job
		}
	}); err != nil || busy {
		return err
	}
	if err := os.RemoveAll(filepath.Join(g.dir, job.String())); err != nil {
		return filch.Errorf(filch.Internal, "cannot remove the files of job %d on %s: %s", job, g.d.in.Self, err.Error())
	}
	return nil
}
