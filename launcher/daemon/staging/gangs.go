package staging

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Gangs brings the files of workflows' gangs to the nodes of their ranks. Of each gang with
// ranks here, this node makes a folder with the inputs before a keeper receives the start,
// and no gate opens before. When the ranks of this node have ended, the outputs wait in
// another folder for the node that owns the task ([Files] fetches them), and the folder of
// the ranks is removed.
//
// Gangs stands between the copies of programs and the keepers.
type Gangs struct {
	in      *inputs.Queue
	files   *Files
	keepers Keepers
	routes  Routes
	parts   map[filch.Ident]*gangPart // the loop's
	found   []string                  // folders of ranks from before this launcher
}

// gangPart is the part of a gang on this node.
type gangPart struct {
	start  launcher.Start
	cancel context.CancelFunc // nil: the part is of an earlier launcher
	given  bool               // a keeper has the start
	void   bool               // no output counts
}

// NewGangs makes the gangs of a node.
func NewGangs(in *inputs.Queue, files *Files, keepers Keepers, routes Routes) *Gangs {
	gs := &Gangs{in: in, files: files, keepers: keepers, routes: routes, parts: map[filch.Ident]*gangPart{}}
	files.gangs = gs
	var err error
	if gs.found, err = filepath.Glob(filepath.Join(files.dir, "*", "run", gangFolder+"*")); err != nil {
		in.Fault("cannot look for the gangs of an earlier launcher", err)
	}
	return gs
}

// gangFolder begins the names of the folders of ranks.
const gangFolder = "gang-"

// Settle removes the folders of an earlier launcher whose keeper is gone.
func (gs *Gangs) Settle() {
	found := gs.found
	gs.found = nil
	for _, p := range gs.parts {
		found = slices.DeleteFunc(found, func(folder string) bool { return folder == p.start.Folder })
	}
	if len(found) == 0 {
		return
	}
	gs.in.Go(func() {
		for _, folder := range found {
			if err := os.RemoveAll(folder); err != nil {
				gs.in.Fault("cannot remove the folder of a gang", err)
			}
		}
	})
}

// Start gives a job to a keeper; if the job is a gang with files, when the inputs are here.
func (gs *Gangs) Start(s launcher.Start) {
	if !s.Launch.Staged {
		gs.keepers.Start(s)
		return
	}
	p := &gangPart{start: s}
	gs.parts[s.Launch.Ident] = p
	ctx, cancel := context.WithTimeout(gs.in.Context(), launcher.PrepareWait+launcher.StageWait)
	p.cancel = cancel
	gs.in.Go(func() {
		defer cancel()
		err := gs.fill(ctx, p)
		gs.in.Post(func(t *inputs.Turn) { gs.onFilled(t, p, err) })
	})
}

// fill makes the folder of the ranks.
func (gs *Gangs) fill(ctx context.Context, p *gangPart) error {
	b, err := gs.attempt(p)
	if err != nil {
		return err
	}
	p.start.Folder = filepath.Join(gs.files.dir, b.start.Job.String(), b.run())
	err = gs.files.fill(ctx, b)
	if errors.Is(err, context.DeadlineExceeded) {
		err = filch.Errorf(filch.Timeout, "the inputs of task %d.%d did not arrive on %s within %v", b.start.Job, b.start.Index, gs.in.Self, launcher.StageWait)
	}
	return err
}

// attempt is the task of a gang as an attempt of this node.
func (gs *Gangs) attempt(p *gangPart) (*Attempt, error) {
	l := &p.start.Launch
	var o launcher.Order
	if err := wire.Unmarshal(l.Order, &o); err != nil {
		return nil, err
	}
	if o.Files == nil || o.Task == nil {
		return nil, filch.Errorf(filch.Invalid, "the order of the gang %s names no files", l.Of)
	}
	b := &Attempt{
		start: launcher.TaskStart{Job: l.Of.Job, Index: l.Of.Index, Attempt: o.Task.Attempt},
		graph: &launcher.TaskGraph{Origin: o.Files.Origin, Folder: o.Files.Folder},
		item:  launcher.TaskItem{Inputs: o.Files.Inputs, Outputs: o.Files.Outputs, AllNodes: o.Files.AllNodes},
		from:  map[int32]filch.NodeName{},
		// Ranks of an earlier owner of the task may be in their last moments.
		folder: fmt.Sprintf("run/%s%d.%d", gangFolder, l.Ident.Job, l.Ident.Attempt),
	}
	for _, in := range o.Files.Inputs {
		b.from[in.Writer] = in.Node
	}
	return b, b.checkPaths()
}

// onFilled continues a start when the inputs are here, or cannot be brought.
func (gs *Gangs) onFilled(t *inputs.Turn, p *gangPart, err error) {
	id := p.start.Launch.Ident
	switch {
	case gs.parts[id] != p: // the start was stopped
		gs.in.Go(func() { gs.leave(p) })
	case err != nil:
		delete(gs.parts, id)
		gs.in.Go(func() { gs.leave(p) })
		gs.routes.Unused(id)
		told, is := errors.AsType[*filch.Error](err)
		if !is {
			told = filch.Errorf(filch.Unavailable, "%s", err.Error())
		}
		t.Node.Keeper(t.Now, launcher.KeeperReady{Ident: id, Err: told, Cause: launcher.CauseOurs}, t.Out)
	default:
		p.given = true
		gs.keepers.Start(p.start)
	}
}

// Deed passes a deed on to the keeper. A start still waiting for its inputs is stopped
// here.
func (gs *Gangs) Deed(d *launcher.Deed) {
	id := d.Ident // the deed is the loop's
	p := gs.parts[id]
	switch {
	case p == nil:
	case !p.given && (d.Kind == launcher.DeedStop || d.Kind == launcher.DeedForget):
		delete(gs.parts, id)
		p.void = true
		p.cancel()
		gs.routes.Unused(id)
		if d.Kind == launcher.DeedStop { // as a keeper reports when stopped before ready
			gs.in.Go(func() {
				gs.in.Post(func(t *inputs.Turn) { t.Node.Keeper(t.Now, launcher.KeeperDone{Ident: id}, t.Out) })
			})
		}
		return
	case d.Kind == launcher.DeedForget: // of a keeper that started no rank
		gs.OnGone(id)
	}
	gs.keepers.Deed(d)
}

// OnAdopted takes over the part of a gang from an earlier launcher.
func (gs *Gangs) OnAdopted(s *launcher.Start) {
	if s.Launch.Staged && s.Folder != "" {
		gs.parts[s.Launch.Ident] = &gangPart{start: *s, given: true}
	}
}

// Hold has done called when the outputs of the ranks of this node can be fetched, and the
// folder of the ranks is gone; false: the ranks have no such folder.
func (gs *Gangs) Hold(id filch.Ident, done func()) bool {
	p := gs.parts[id]
	if p == nil {
		return false
	}
	delete(gs.parts, id)
	gs.in.Go(func() {
		gs.leave(p)
		done()
	})
	return true
}

// OnGone removes the folder of ranks whose outputs do not count.
func (gs *Gangs) OnGone(id filch.Ident) {
	if p := gs.parts[id]; p != nil {
		p.void = true
		gs.Hold(id, func() {})
	}
}

// leave moves the outputs of ended ranks to the folder for the owner of the task, and
// removes the folder of the ranks.
func (gs *Gangs) leave(p *gangPart) {
	b, err := gs.attempt(p)
	if err != nil {
		return // no folder was made
	}
	l := &p.start.Launch
	root, err := gs.files.root(b.start.Job)
	if err != nil {
		gs.in.Fault("cannot keep the files of a gang", err)
		return
	}
	defer root.Close()
	if p.given && !p.void && (b.item.AllNodes || hasRankZero(l.Nodes[p.start.Index].Ranks)) {
		for _, f := range b.item.Outputs {
			to := path.Join(leftPath(l.Ident.Job), f.Path)
			err := root.MkdirAll(path.Dir(to), 0o700)
			if err == nil {
				err = root.Rename(path.Join(b.run(), f.Path), to)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) { // the owner looks for each
				gs.in.Fault("cannot keep an output of a gang", err, "task", l.Of.String())
			}
		}
	}
	if err := root.RemoveAll(b.run()); err != nil {
		gs.in.Fault("cannot remove the folder of a gang", err, "task", l.Of.String())
	}
}

// hasRankZero reports whether rank 0 is in spans.
func hasRankZero(spans []launcher.Span) bool {
	return slices.ContainsFunc(spans, func(s launcher.Span) bool { return s.First == 0 && s.Count > 0 })
}

// leftPath is the folder within the job's of the outputs of a run that wait for the owner
// of the task.
func leftPath(run filch.JobID) string { return path.Join("left", run.String()) }

// busy reports whether ranks of a job's gangs are here.
func (gs *Gangs) busy(job filch.JobID) bool {
	for _, p := range gs.parts {
		if p.start.Launch.Of.Job == job {
			return true
		}
	}
	return false
}

// isMissing reports whether the error of a part says that there is no such file.
func isMissing(err *filch.Error) bool {
	return err.Kind == filch.NotFound && err.Text == unix.ENOENT.Error()
}
