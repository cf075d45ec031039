package staging

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of copies.
const (
	copyHold  = 20 * time.Second       // a child waits for an archive on its way to the parent
	copyPause = 200 * time.Millisecond // before asking a node again that could not answer
)

// Copies holds the archives of programs (--bcast) on this node: archives of jobs
// submitted here, until no launch of the job needs the archive, and archives fetched
// for a part of a job, until the gate of the attempt opens. When the archive is here, a
// keeper receives the start and unpacks the archive. Archives of gangs of tasks stay for the
// next gangs: see kept.go.
//
// The archives lie in a folder of the node's own; nobody else can read or write the
// folder.
type Copies struct {
	in      *inputs.Queue
	files   *Files
	keepers Keepers
	routes  Routes
	base    string // the folder of the user's choice, for hints
	dir     string
	found   []string                 // file names from before this launcher's clients
	parts   map[filch.Ident]*archive // fetched, or being fetched; the loop's
	made    int                      // so far; the loop's

	mu     sync.Mutex // guards byFile, homes and users
	byFile map[string]*archive
	homes  map[filch.JobID]*archive // of jobs submitted here
	users  map[string]int           // parts here that need a kept archive, by its file
}

// archive is the archive of one program on this node.
type archive struct {
	copy  *launcher.Copy
	path  string
	done  chan struct{} // closed when the archive is here, or cannot be
	err   error
	again bool // the job may be launched once more after its start

	// Of a fetched archive; the loop's.
	start  launcher.Start
	cancel context.CancelFunc
	given  bool // a keeper has the start
}

// Keepers starts ranks.
type Keepers interface {
	Start(s launcher.Start)
	Deed(d *launcher.Deed)
}

// Routes is the data plane of jobs.
type Routes interface{ Unused(id filch.Ident) }

// Offer is the archive of a submission that is not a job yet.
type Offer struct{ archive *archive } // guarded by Copies.mu

// NewCopies makes the copies of a node; files carries archives between nodes.
func NewCopies(in *inputs.Queue, dir place.Dir, files *Files, keepers Keepers, routes Routes) *Copies {
	cs := &Copies{
		in: in, files: files, keepers: keepers, routes: routes, base: dir.Base, dir: dir.Bcast(),
		parts:  map[filch.Ident]*archive{},
		byFile: map[string]*archive{}, homes: map[filch.JobID]*archive{}, users: map[string]int{},
	}
	files.copies = cs
	entries, err := os.ReadDir(cs.dir)
	if err != nil {
		in.Fault("cannot look for copies of an earlier launcher", err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() { // the folders belong to keepers
			cs.found = append(cs.found, e.Name())
		}
	}
	return cs
}

// newHome makes the archive that a client of this node has put into the folder.
func (cs *Copies) newHome(c *launcher.Copy, again bool) *archive {
	a := &archive{copy: c, path: filepath.Join(cs.dir, c.File+launcher.ArchiveEnd), done: make(chan struct{}), again: again}
	close(a.done)
	return a
}

// OnOffer registers the archive of a request, before the Node receives the request.
func (cs *Copies) OnOffer(o *Offer, r *launcher.Request) error {
	if r.Copy == nil || r.Copy.Kept || r.Copy.Check() != nil { // the Node refuses an invalid copy
		return nil
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if o.archive != nil || cs.byFile[r.Copy.File] != nil {
		return filch.Errorf(filch.Invalid, "a client offers the archive %s, and has offered one before", r.Copy.File)
	}
	o.archive = cs.newHome(r.Copy, r.Policy.Requeue)
	cs.byFile[r.Copy.File] = o.archive
	return nil
}

// OnAccepted assigns the archive of a client's request to the job made from the request.
func (cs *Copies) OnAccepted(j filch.JobID, o *Offer) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if o.archive != nil {
		cs.homes[j] = o.archive
		o.archive = nil
	}
}

// OnClientGone handles the end of a client: an archive without a job is removed.
func (cs *Copies) OnClientGone(o *Offer) {
	cs.mu.Lock()
	a := o.archive
	o.archive = nil
	cs.mu.Unlock()
	if a != nil {
		cs.remove(a)
	}
}

// OnStarted handles the start of all ranks of a job of this node.
func (cs *Copies) OnStarted(j filch.JobID) {
	cs.mu.Lock()
	a := cs.homes[j]
	cs.mu.Unlock()
	if a != nil && !a.again {
		cs.OnEnded(j)
	}
}

// OnEnded handles the end of a job of this node.
func (cs *Copies) OnEnded(j filch.JobID) {
	cs.mu.Lock()
	a := cs.homes[j]
	delete(cs.homes, j)
	cs.mu.Unlock()
	if a != nil {
		cs.remove(a)
	}
}

// Restore keeps the archives of jobs that continue, and removes all other archives of
// the launcher before this one.
func (cs *Copies) Restore(records []launcher.Record) {
	keep := map[string]bool{}
	cs.mu.Lock()
	for _, r := range records {
		if j := r.Job; j != nil && j.Ended == nil && j.Request.Copy != nil && j.Request.Copy.From == cs.in.Self && j.Request.Copy.Check() == nil {
			a := cs.newHome(j.Request.Copy, true)
			cs.homes[j.Job], cs.byFile[j.Request.Copy.File] = a, a
			keep[filepath.Base(a.path)] = true
		}
	}
	cs.mu.Unlock()
	for _, name := range cs.found {
		if !keep[name] && !isKept(name) {
			cs.erase(filepath.Join(cs.dir, name))
		}
	}
	cs.in.Go(func() { cs.trimKept(0) })
}

// remove forgets an archive and removes the file, which may be large, on a goroutine of
// its own. A read that has begun continues.
func (cs *Copies) remove(a *archive) {
	cs.mu.Lock()
	if cs.byFile[a.copy.File] == a {
		delete(cs.byFile, a.copy.File)
	}
	if a.copy.Kept {
		cs.leaveKept(a.copy.File)
		cs.mu.Unlock()
		return
	}
	cs.mu.Unlock()
	cs.in.Go(func() { cs.erase(a.path) })
}

func (cs *Copies) erase(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		cs.in.Fault("cannot remove the archive of a program", err)
	}
}

func (cs *Copies) find(file string) *archive {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.byFile[file]
}

// Start gives a job to a keeper when the archive of the job is here.
func (cs *Copies) Start(s *launcher.Start) {
	l := &s.Launch
	if l.Copy == nil {
		cs.keepers.Start(*s)
		return
	}
	if a := cs.find(l.Copy.File); a != nil && a.cancel == nil {
		s.Archive = a.path
		cs.keepers.Start(*s)
		return
	}
	if err := l.Copy.Check(); err != nil {
		cs.report(launcher.KeeperReady{Ident: l.Ident, Err: err, Cause: launcher.CauseOurs})
		return
	}
	if l.Copy.Kept {
		cs.bring(s, cs.keptPath(l.Copy.File), cs.bringKept)
		return
	}
	cs.made++
	// Each attempt has a file of its own: an ended attempt may still be writing its
	// part.
	name := fmt.Sprintf("%s.%d.%d%s", l.Ident.Job, l.Ident.Attempt, cs.made, launcher.ArchiveEnd)
	cs.bring(s, filepath.Join(cs.dir, name), cs.fetch)
}

// bring starts the fetch of the archive of a part; the path is where the archive will be.
func (cs *Copies) bring(s *launcher.Start, path string, fetch func(ctx context.Context, a *archive, index int32) error) {
	l := &s.Launch
	a := &archive{copy: l.Copy, path: path, done: make(chan struct{}), start: *s}
	ctx, cancel := context.WithTimeout(cs.in.Context(), launcher.PrepareWait+l.Copy.Wait())
	a.cancel, a.start.Archive = cancel, a.path
	cs.parts[l.Ident] = a
	cs.mu.Lock()
	if l.Copy.Kept {
		cs.users[l.Copy.File]++
	} else {
		cs.byFile[l.Copy.File] = a
	}
	cs.mu.Unlock()
	cs.in.Go(func() {
		defer cancel()
		a.err = fetch(ctx, a, s.Index)
		close(a.done)
		cs.in.Post(func(t *inputs.Turn) { cs.onArrived(t, a) })
	})
}

// onArrived continues a start when its archive has arrived or cannot arrive.
func (cs *Copies) onArrived(t *inputs.Turn, a *archive) {
	id := a.start.Launch.Ident
	switch {
	case cs.parts[id] != a: // the start was stopped
		cs.remove(a)
	case a.err != nil:
		cs.drop(id)
		cs.routes.Unused(id)
		t.Node.Keeper(t.Now, launcher.KeeperReady{Ident: id, Err: cs.failure(a), Cause: launcher.CauseOurs}, t.Out)
	default:
		a.given = true
		cs.keepers.Start(a.start)
	}
}

// failure names the program, the node and the reason of a copy that failed.
func (cs *Copies) failure(a *archive) *filch.Error {
	text := plainError(a.err)
	if e, ok := errors.AsType[*filch.Error](a.err); ok {
		text = e.Text
	}
	err := filch.Errorf(filch.Unavailable, "cannot copy %s (%d bytes) to %s: %s", a.copy.Name, a.copy.Bytes, cs.in.Self, text)
	if errors.Is(a.err, unix.ENOSPC) || errors.Is(a.err, unix.EDQUOT) {
		err = err.WithHint("%s needs twice this size of free space", cs.base) // archive and files in the archive
	}
	return err
}

// drop forgets a fetched archive.
func (cs *Copies) drop(id filch.Ident) {
	if a := cs.parts[id]; a != nil {
		delete(cs.parts, id)
		cs.remove(a)
	}
}

// Deed passes a deed on to the keeper. A start still waiting for its archive is
// stopped here. When the gate opens, the start needs the archive no more; neither do
// the node's children in the tree of launches, since the children are ready.
func (cs *Copies) Deed(d *launcher.Deed) {
	a := cs.parts[d.Ident]
	switch {
	case a == nil:
	case a.given:
		if d.Kind == launcher.DeedGo || d.Kind == launcher.DeedForget {
			cs.drop(d.Ident)
		}
	case d.Kind == launcher.DeedStop, d.Kind == launcher.DeedForget:
		delete(cs.parts, d.Ident)
		a.cancel()
		cs.routes.Unused(d.Ident)
		if d.Kind == launcher.DeedStop {
			cs.report(launcher.KeeperDone{Ident: d.Ident}) // as a keeper reports when stopped before ready
		}
		return
	}
	cs.keepers.Deed(d)
}

// report reports an event to the Node in place of a keeper. The report is posted, since
// the loop is still acting on the Node's previous output.
func (cs *Copies) report(event any) {
	cs.in.Go(func() { cs.in.Post(func(t *inputs.Turn) { t.Node.Keeper(t.Now, event, t.Out) }) })
}

// OnReady handles a keeper that has unpacked its archive: without a gate no other node
// needs the archive.
func (cs *Copies) OnReady(id filch.Ident) {
	if a := cs.parts[id]; a != nil && a.start.Go {
		cs.drop(id)
	}
}

// transfer is an archive on its way to this node.
type transfer struct {
	copies     *Copies
	root       *os.Root
	query      wire.Fetch
	part, name string
}

// transfer prepares to fetch an archive of a job.
func (cs *Copies) transfer(a *archive, job filch.JobID) (*transfer, error) {
	root, err := os.OpenRoot(cs.dir)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(a.path)
	return &transfer{
		copies: cs, root: root, query: wire.Fetch{Job: job, Copy: a.copy.File, Sum: a.copy.Sum},
		part: strings.TrimSuffix(name, launcher.ArchiveEnd) + ".part", name: name,
	}, nil
}

// from fetches the archive from a node.
func (x *transfer) from(ctx context.Context, node filch.NodeName) error {
	err := x.copies.files.fetchArchive(ctx, node, x.query, x.root, x.part, x.name)
	if err == nil {
		x.copies.in.Watch.Add(watch.CopiesIn, 1)
	}
	return err
}

// close removes the part of an archive that did not arrive whole.
func (x *transfer) close() {
	_ = x.root.Remove(x.part)
	x.root.Close()
}

// fetch fetches an archive from the parent in the tree of launches. A parent whose
// launch was refused or is late has no archive; then fetch asks the node where the job
// was submitted.
func (cs *Copies) fetch(ctx context.Context, a *archive, index int32) error {
	x, err := cs.transfer(a, a.start.Launch.Ident.Job)
	if err != nil {
		return err
	}
	defer x.close()
	from := a.start.Launch.CopyParent(index)
	for {
		if from == cs.in.Self { // the archive was here
			return filch.Errorf(filch.NotFound, "the copy on %s, where the run was submitted, is gone", from)
		}
		err := x.from(ctx, from)
		if err == nil {
			return nil
		}
		e, ours := errors.AsType[*filch.Error](err)
		switch {
		case ctx.Err() != nil && cs.in.Context().Err() == nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return filch.Errorf(filch.Timeout, "the copy did not arrive from %s within %v", from, launcher.PrepareWait+a.copy.Wait())
		case ctx.Err() != nil, !ours:
			return err
		case from != a.copy.From && e.Kind != filch.Unavailable:
			from = a.copy.From
			continue
		case e.Kind == filch.NodeLost:
			return filch.Errorf(e.Kind, "the node %s, where the run was submitted, is lost", from)
		case e.Kind != filch.Unavailable:
			return filch.Errorf(e.Kind, "cannot get the copy from %s: %s", from, e.Text)
		}
		select { // the launcher of the node may be restarting
		case <-time.After(copyPause):
		case <-ctx.Done():
		}
	}
}

// await waits until an archive on its way here has arrived; another node asks for the
// archive.
func (cs *Copies) await(file string) {
	a := cs.find(file)
	if a == nil || a.copy.Kept { // two nodes may ask each other for a kept archive
		return
	}
	timer := time.NewTimer(copyHold)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
	case <-cs.in.Context().Done():
	}
}

// read reads a part of an archive for another node.
func (cs *Copies) read(q wire.Fetch) wire.Part {
	a := cs.find(q.Copy)
	if a == nil {
		return cs.readKept(q)
	}
	if a.copy.Sum != q.Sum {
		return wire.Part{Err: gone()}
	}
	select {
	case <-a.done:
	default:
		kind := filch.Unavailable
		if a.copy.Kept {
			kind = filch.Busy
		}
		return wire.Part{Err: filch.Errorf(kind, "it has not come there yet")}
	}
	if a.err != nil {
		return wire.Part{Err: gone()}
	}
	f, err := os.Open(a.path)
	if err != nil {
		return wire.Part{Err: filch.Errorf(filch.NotFound, "%s", plainError(err))}
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() != a.copy.Bytes {
		return wire.Part{Err: filch.Errorf(filch.Invalid, "it was changed")}
	}
	return readPart(f, q.Offset, wire.Part{Size: a.copy.Bytes, Sum: a.copy.Sum})
}
