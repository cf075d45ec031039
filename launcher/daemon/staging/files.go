package staging

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Files holds the files of workflows on this node. Each job has a folder:
//
//	have/W/PATH   output of task W, written here or elsewhere; W is "start" for older files,
//	              JOB.W for output of a task of an earlier job
//	run/N.A/PATH  where attempt A of task N runs: its inputs are links
//	run/gang-R.A  where ranks of the run R of a gang run
//	left/R/PATH   output of ranks of the run R, for the node that owns the task
//	part/N        a file on its way here
//
// A file appears under have by one rename, when the file is whole, and is read-only
// from then on. No node asks for the output of a task before the task's end is
// recorded.
type Files struct {
	in       *inputs.Queue
	state    string // the state directory
	dir      string
	program  string // the filch binary
	nodes    Nodes
	runners  Runners
	net      Network
	copies   *Copies // of programs
	gangs    *Gangs
	attempts map[uint64]*Attempt // by serial; the loop's
	busy     chan struct{}       // one per answer being made for another node
	asking   chan struct{}       // one per request under way to another node

	mu      sync.Mutex // guards the fields below, except hash
	sums    map[string]fileSum
	flights map[string]*flight // files on their way here
	open    map[uint32]chan []wire.Part
	next    uint32
	parts   uint64

	hash sync.Mutex // one file is hashed at a time
}

// Attempt is one try of a workflow's task on this node.
type Attempt struct {
	start   launcher.TaskStart
	graph   *launcher.TaskGraph
	item    launcher.TaskItem
	from    map[int32]filch.NodeName // which node has the output of a parent
	cancel  context.CancelFunc
	bag     bool // of a bag: outputs are patterns
	stopped bool
	running bool
	moved   int64         // bytes of inputs that this attempt brought from other nodes
	moving  time.Duration // how long they took
	begun   time.Time
	filled  time.Time // when the inputs were there
	ended   time.Time // when the process ended

	folder string // in place of the usual folder within the job's; "" the usual
	// Of a gang that this node owns; nil of other tasks.
	sink  *Sink
	begin func()
}

// Nodes is the list of nodes.
type Nodes interface {
	// Live reports whether a node is another node and may answer.
	Live(n filch.NodeName) bool
	// Names returns the other nodes that may answer.
	Names() []filch.NodeName
	// Incarnation returns the incarnation of a node, 0 if the node is not known.
	Incarnation(n filch.NodeName) uint64
}

// Runners starts tasks, and removes folders.
type Runners interface {
	Start(s launcher.TaskStart)
	// Discard moves a folder away at once, and removes the folder in the background.
	Discard(dir string) error
}

// Network is the part of the overlay that carries files.
type Network interface {
	Send(to filch.NodeName, c overlay.Class, payload []byte) error
	SendWait(ctx context.Context, to filch.NodeName, c overlay.Class, payload []byte) error
}

// NewFiles makes the files of a node with a state directory; program is the filch
// binary, which a workflow's own commands run.
func NewFiles(in *inputs.Queue, state, program string, nodes Nodes, runners Runners) *Files {
	return &Files{
		in: in, state: state, dir: filepath.Join(state, "stage"), program: program, nodes: nodes, runners: runners,
		attempts: map[uint64]*Attempt{}, busy: make(chan struct{}, fetchesServed),
		asking: make(chan struct{}, fetchesAsked),
		sums:   map[string]fileSum{}, flights: map[string]*flight{}, open: map[uint32]chan []wire.Part{},
		// Not from 1 in every life: a part may come to a launcher whose predecessor
		// asked.
		next: rand.Uint32(),
	}
}

// Connect sets the network; Connect comes before any task.
func (g *Files) Connect(net Network) { g.net = net }

// Jobs returns the jobs with an attempt here.
func (g *Files) Jobs() map[filch.JobID]bool {
	jobs := map[filch.JobID]bool{}
	for _, b := range g.attempts {
		jobs[b.start.Job] = true
	}
	return jobs
}

// OnEnd takes the end of a workflow's task: the files finish the task. False: the task
// is no workflow's.
func (g *Files) OnEnd(e launcher.TaskEnd) bool {
	b := g.attempts[e.Serial]
	if b != nil {
		g.finish(b, e)
	}
	return b != nil
}

// OnUnstarted takes an end of a task that was stopped before a runner started the task.
// False: the task is no workflow's.
func (g *Files) OnUnstarted(e launcher.TaskEnd) bool {
	if b := g.attempts[e.Serial]; b != nil {
		b.running, b.stopped = false, true
	}
	return g.OnEnd(e)
}

// NewAttempt makes the attempt of a workflow's task.
func (g *Files) NewAttempt(o *launcher.TaskOrder, s launcher.TaskStart, item launcher.TaskItem, l *launcher.TaskLaunch) (*Attempt, error) {
	b := &Attempt{start: s, graph: o.Graph, item: item, from: map[int32]filch.NodeName{}}
	for _, in := range l.Start.Inputs {
		b.from[in.Parent] = in.Node
	}
	if err := b.checkPaths(); err != nil {
		return nil, err
	}
	b.start.Streams = item.Streams
	if item.Own {
		argv := append([]string{g.program}, item.Argv...)
		for _, f := range item.Inputs {
			argv = append(argv, "in:"+strconv.FormatInt(max(f.Size, 0), 10)+":"+f.Path)
		}
		for _, f := range item.Outputs {
			argv = append(argv, "out:"+strconv.FormatInt(max(f.Size, 0), 10)+":"+f.Path)
		}
		b.start.Argv = argv
	}
	b.start.Cwd = o.Graph.Folder
	if !o.Graph.InPlace {
		b.start.Cwd = filepath.Join(g.dir, s.Job.String(), b.run())
	}
	return b, nil
}

// checkPaths refuses names of files that lead out of a folder.
func (b *Attempt) checkPaths() error {
	for _, files := range [][]launcher.TaskFile{b.item.Inputs, b.item.Outputs} {
		for _, f := range files {
			if err := workflow.CheckPath(f.Path); err != nil {
				return filch.Errorf(filch.Invalid, "the file %q of task %d.%d is refused: %v", f.Path, b.start.Job, b.start.Index, err)
			}
		}
	}
	return nil
}

// run returns the attempt's folder within the job's.
func (b *Attempt) run() string {
	if b.folder != "" {
		return b.folder
	}
	return fmt.Sprintf("run/%d.%d", b.start.Index, b.start.Attempt)
}

// Begin fetches the inputs of a task and hands the task to a runner.
func (g *Files) Begin(b *Attempt) {
	g.attempts[b.start.Serial], b.begun = b, time.Now()
	g.in.Watch.Event(events.Event{Kind: events.TaskStaging, Job: b.start.Job, Task: int32(b.start.Index), Tasks: 1, Try: filch.Attempt(b.start.Attempt)})
	ctx, cancel := context.WithCancel(g.in.Context())
	b.cancel = cancel
	g.in.Go(func() {
		defer cancel()
		err := g.fill(ctx, b)
		g.in.Post(func(t *inputs.Turn) { g.onFilled(t, b, err) })
	})
}

func (g *Files) onFilled(t *inputs.Turn, b *Attempt, err error) {
	if err == nil && !b.stopped {
		b.running, b.filled = true, time.Now()
		if b.begin != nil {
			b.begin()
			return
		}
		g.runners.Start(b.start)
		return
	}
	e := launcher.TaskEnd{Serial: b.start.Serial, Kind: launcher.CauseOurs, Code: filch.ExitOurs, Ended: time.Now().UnixNano()}
	if b.stopped {
		e.Kind, e.Code, e.Told, e.Text = launcher.CauseCancel, filch.ExitCancelled, true, "not started: the task was stopped"
	} else {
		e.Text, e.Full = err.Error(), isFull(err)
	}
	g.finish(b, e)
}

// Cancel gives up a task whose inputs are still being fetched.
func (g *Files) Cancel(serial uint64) {
	if b := g.attempts[serial]; b != nil && !b.running {
		b.stopped = true
		b.cancel()
	}
}

// finish takes the outputs of an ended task, and reports the end.
func (g *Files) finish(b *Attempt, e launcher.TaskEnd) {
	b.ended = time.Now()
	g.in.Go(func() {
		ours := !b.running && !b.stopped
		faultless := !b.running || b.sink != nil && e.Kind == launcher.CauseOurs
		take := g.takeOutputs
		switch {
		case b.sink != nil:
			take = g.gangs.take
		case b.bag:
			take = g.takeMatches
		case b.graph.InPlace:
			take = (*Attempt).checkOutputs
		}
		streams := b.openEnded(g.dir, &e)
		if err := take(b, &e); err != nil {
			e.Kind, e.Code, e.Text, e.Full, ours = launcher.CauseOurs, filch.ExitOurs, err.Error(), isFull(err), true
			if b.sink != nil && isLost(err) { // with a node of the gang
				e.Kind, e.Code = launcher.CauseNodeLost, filch.ExitNodeLost
			}
		}
		for i := range streams {
			streams[i].keep(g, b, &e)
		}
		if ours { // a runner writes the reason itself
			g.appendOutput(b, 2, []byte("filch: "+e.Text+"\n"))
			g.in.Watch.Log().Warn("a task with files", "job", b.start.Job.String(), "task", int(b.start.Index), "err", e.Text)
		}
		retries := b.item.Retries
		if faultless {
			retries = max(retries, 1) // the task is not at fault
		}
		e.Moved, e.Moving = b.moved, b.moving
		if b.running {
			e.In, e.Out = b.filled.Sub(b.begun), time.Since(b.ended)
		}
		e.Final = !b.bag && int32(b.start.Attempt) > retries
		g.in.Post(func(t *inputs.Turn) {
			delete(g.attempts, b.start.Serial)
			t.Node.TaskEnds(t.Now, []launcher.TaskEnd{e}, t.Out)
		})
	})
}

// root opens the folder of a job, and makes the folder if necessary.
func (g *Files) root(job filch.JobID) (*os.Root, error) {
	dir := filepath.Join(g.dir, job.String())
	for _, sub := range []string{"have", "run", "part"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	return os.OpenRoot(dir)
}

// fill makes the folder of a task: inputs, and the folders of outputs. Of a gang, each node
// of the ranks makes the folder.
func (g *Files) fill(ctx context.Context, b *Attempt) error {
	var err error
	if b.graph.InPlace {
		err = g.makeFolders(b)
	}
	if b.sink != nil && err == nil {
		err = g.noFolder(b, g.gangs.openStreams(b))
	}
	if b.graph.InPlace || b.sink != nil {
		return err
	}
	for range linkTries {
		if err = g.makeFolder(ctx, b); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return g.noFolder(b, err)
}

// linkTries bounds the tries to link inputs. Between fetching and linking, the inputs of
// an idle bag may be removed.
const linkTries = 3

// makeFolder makes the folder of a task anew.
func (g *Files) makeFolder(ctx context.Context, b *Attempt) error {
	root, err := g.root(b.start.Job)
	if err != nil {
		return fmt.Errorf("cannot keep files: %w", err)
	}
	defer root.Close()
	run := b.run()
	if err = root.RemoveAll(run); err == nil {
		err = root.MkdirAll(run, 0o700)
	}
	if err == nil {
		err = g.ensure(ctx, root, b)
	}
	if err == nil {
		err = g.link(root, b)
	}
	for _, f := range b.item.Outputs {
		if err == nil && !b.bag {
			err = root.MkdirAll(path.Dir(path.Join(run, f.Path)), 0o700)
		}
	}
	return err
}

// noFolder returns the error of a task whose folder could not be made.
func (g *Files) noFolder(b *Attempt, err error) error {
	if e, ok := errors.AsType[*filch.Error](err); ok {
		return e
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if isFull(err) {
		return g.full(b, err)
	}
	return filch.Errorf(filch.Internal, "cannot make the folder of task %d.%d on %s: %v", b.start.Job, b.start.Index, g.in.Self, err)
}

// isLost reports whether an error says that a node is gone.
func isLost(err error) bool {
	e, ours := errors.AsType[*filch.Error](err)
	return ours && e.Kind == filch.NodeLost
}

// isFull reports whether an error says that a disk, or the user's part of a disk, is full.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// full is the error of a task whose files find no space on this node.
func (g *Files) full(b *Attempt, err error) error {
	free, _, _ := output.Disk(g.dir)
	return fmt.Errorf("the disk of %s on %s is full: %d bytes are free; make room there, and run the task again with filch retry %d: %w",
		g.dir, g.in.Self, free, b.start.Job, err)
}

// makeFolders makes the folders of the outputs of a task that runs in the user's own folder.
func (g *Files) makeFolders(b *Attempt) error {
	root, err := os.OpenRoot(b.graph.Folder)
	if err != nil {
		return g.noFolder(b, err)
	}
	defer root.Close()
	for _, f := range b.item.Outputs {
		if dir := path.Dir(f.Path); err == nil && dir != "." {
			err = root.MkdirAll(dir, 0o777)
		}
	}
	return g.noFolder(b, err)
}

// notWritten is the error of a task that ended with 0 but without an output.
func notWritten(b *Attempt, name string) error {
	return filch.Errorf(filch.NotFound, "task %d.%d ended with 0 and did not write its output %q", b.start.Job, b.start.Index, name)
}

// checkOutputs checks whether a successful task wrote its outputs, in the user's own folder.
func (b *Attempt) checkOutputs(e *launcher.TaskEnd) error {
	if e.Kind != launcher.CauseNone {
		return nil
	}
	for _, f := range b.item.Outputs {
		if _, err := os.Stat(filepath.Join(b.graph.Folder, f.Path)); errors.Is(err, os.ErrNotExist) {
			return notWritten(b, f.Path)
		}
	}
	return nil
}

// takeOutputs takes the outputs of a successful task, and removes the task's folder.
func (g *Files) takeOutputs(b *Attempt, e *launcher.TaskEnd) error {
	root, err := g.root(b.start.Job)
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot keep files on %s: %v", g.in.Self, err)
	}
	defer root.Close()
	defer func() { _ = root.RemoveAll(b.run()) }()
	if e.Kind != launcher.CauseNone {
		return nil
	}
	e.Bytes = 0
	for _, f := range b.item.Outputs {
		n, err := g.publish(root, b, f.Path)
		if err != nil {
			return g.notTaken(b, f.Path, err)
		}
		e.Bytes += n
	}
	return nil
}

// notTaken is the error of an output that cannot be kept.
func (g *Files) notTaken(b *Attempt, name string, err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return notWritten(b, name)
	case isFull(err):
		return g.full(b, err)
	}
	return filch.Errorf(filch.Internal, "cannot take the output %q of task %d.%d on node %s: %v", name, b.start.Job, b.start.Index, g.in.Self, err)
}

// publish hashes an output and moves the file to the path that other tasks read. A link
// is followed, if the link leads to a file in the job's folder.
func (g *Files) publish(root *os.Root, b *Attempt, name string) (int64, error) {
	return g.publishFrom(root, b.start.Job, path.Join(b.run(), name), keptPath(int32(b.start.Index), name))
}

// publishFrom is [Files.publish] for a path within the job's folder.
func (g *Files) publishFrom(root *os.Root, job filch.JobID, from, to string) (int64, error) {
	info, err := root.Lstat(from)
	if err != nil {
		return 0, err
	}
	if err := root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return 0, err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		if from, err = g.copyOf(root, from); err != nil {
			return 0, err
		}
		if info, err = root.Lstat(from); err != nil {
			return 0, err
		}
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("the path is %s, not a file", info.Mode().Type())
	}
	if err := root.Chmod(from, readOnly|info.Mode()&0o111); err != nil {
		return 0, err
	}
	f, err := root.Open(from)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := g.sum(job.String()+"/"+to, f); err != nil {
		return 0, err
	}
	return info.Size(), root.Rename(from, to)
}
