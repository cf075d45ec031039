package staging

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/wire"
)

// This file has the files of gangs whose task this node owns. The ranks may run on other
// nodes; in the end this node fetches the outputs, so that a task has one node, whether or
// not the task is a gang.

// Sink writes the standard streams of a gang's ranks that go to files of the task. Pieces
// come from several nodes.
type Sink struct {
	mu    sync.Mutex  // guards all below
	files [3]*os.File // by stream
	err   error       // the first failure
}

// Take writes a piece of a stream; false: the stream goes to no file.
func (s *Sink) Take(stream uint8, data []byte) bool {
	if s == nil || int(stream) >= len(s.files) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[stream]
	if f == nil {
		return false
	}
	if _, err := f.Write(data); err != nil && s.err == nil {
		s.err = err
	}
	return true
}

// NewSink makes the files of streams, by absolute names; "" is no file.
func NewSink(stdout, stderr string, appends bool) (*Sink, error) {
	s := &Sink{}
	for i, name := range [...]string{1: stdout, 2: stderr} {
		switch {
		case name == "":
			continue
		case i == 2 && name == stdout:
			s.files[2] = s.files[1]
			continue
		}
		f, err := output.Create(name, appends)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.files[i] = f
	}
	return s, nil
}

// Close closes the files, and returns the first failure.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.files {
		if f != nil && !slices.Contains(s.files[:i], f) {
			if err := f.Close(); s.err == nil {
				s.err = err
			}
		}
	}
	return s.err
}

// BeginGang makes the files of the streams of a gang, and then calls begin on the loop.
func (g *Files) BeginGang(b *Attempt, begin func()) {
	b.sink, b.begin = &Sink{}, begin
	g.Begin(b)
}

// Start is the start of the task.
func (b *Attempt) Start() launcher.TaskStart { return b.start }

// Sink takes the streams of a gang's ranks.
func (b *Attempt) Sink() *Sink { return b.sink }

// GangFiles are the files for the nodes of a gang; nil if the ranks run in the user's own
// folder.
func (b *Attempt) GangFiles() *launcher.GangFiles {
	if b.graph.InPlace {
		return nil
	}
	files := &launcher.GangFiles{Origin: b.graph.Origin, Folder: b.graph.Folder, AllNodes: b.item.AllNodes, Inputs: slices.Clone(b.item.Inputs)}
	for i := range files.Inputs {
		if f := &files.Inputs[i]; f.Job == 0 && f.Writer >= 0 {
			f.Node = b.from[f.Writer]
		}
	}
	for _, f := range b.item.Outputs {
		if !b.streamed(f.Path) {
			files.Outputs = append(files.Outputs, f)
		}
	}
	return files
}

// streamed reports whether an output is a standard stream of the ranks.
func (b *Attempt) streamed(name string) bool {
	s := b.item.Streams
	return s != nil && (name == s.Stdout || name == s.Stderr)
}

// openStreams makes the files of the streams of a gang.
func (gs *Gangs) openStreams(b *Attempt) error {
	if b.item.Streams == nil {
		return nil
	}
	folder, run := b.graph.Folder, ""
	if !b.graph.InPlace {
		made, err := gs.files.root(b.start.Job)
		if err != nil {
			return err
		}
		defer made.Close()
		if err := made.RemoveAll(b.run()); err != nil {
			return err
		}
		folder, run = filepath.Join(gs.files.dir, b.start.Job.String()), b.run()
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	names := [...]string{1: b.item.Streams.Stdout, 2: b.item.Streams.Stderr}
	for i, name := range names {
		switch {
		case name == "":
			continue
		case i == 2 && name == names[1]:
			b.sink.files[2] = b.sink.files[1]
			continue
		}
		at := path.Join(run, name)
		if dir := path.Dir(at); dir != "." {
			if err := root.MkdirAll(dir, 0o777); err != nil {
				return err
			}
		}
		f, err := root.OpenFile(at, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
		if err != nil {
			return err
		}
		b.sink.files[i] = f
	}
	return nil
}

// take takes the outputs of a gang from the nodes of its ranks.
func (gs *Gangs) take(b *Attempt, e *launcher.TaskEnd) error {
	bad := b.sink.Close()
	if b.graph.InPlace {
		if err := gs.files.noFolder(b, bad); err != nil {
			return err
		}
		return b.checkOutputs(e)
	}
	root, err := gs.files.root(b.start.Job)
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot keep files on %s: %v", gs.in.Self, err)
	}
	defer root.Close()
	defer func() { _ = root.RemoveAll(b.run()) }()
	defer gs.dropLeft(root, b, e)
	switch {
	case e.Kind != launcher.CauseNone:
		return nil
	case bad != nil:
		return gs.files.noFolder(b, bad)
	}
	t := gangTake{files: gs.files, root: root, b: b, run: e.Run, from: map[string]filch.NodeName{}}
	for _, f := range b.item.Outputs {
		if !b.streamed(f.Path) {
			t.names = append(t.names, f.Path)
			continue
		}
		n, err := gs.files.publish(root, b, f.Path)
		if err != nil {
			return gs.files.notTaken(b, f.Path, err)
		}
		t.bytes += n
	}
	ctx, cancel := context.WithTimeout(gs.in.Context(), collectWait)
	defer cancel()
	nodes := b.keeping(e)
	for _, node := range nodes {
		if err := t.take(ctx, node); err != nil {
			return err
		}
	}
	for _, name := range t.names {
		if t.from[name] == "" {
			return notLeft(b, name, nodes)
		}
	}
	e.Bytes = t.bytes
	return nil
}

// keeping are the nodes of a gang whose outputs count.
func (b *Attempt) keeping(e *launcher.TaskEnd) []filch.NodeName {
	if b.item.AllNodes {
		return e.Nodes
	}
	return e.Nodes[:min(1, len(e.Nodes))]
}

// notLeft is the error of a gang that ended with 0 but without an output.
func notLeft(b *Attempt, name string, nodes []filch.NodeName) error {
	err := notWritten(b, name)
	if b.item.AllNodes {
		return filch.Errorf(filch.NotFound, "%s on any of its nodes %s", err.Error(), launcher.ListNames(nodes))
	}
	return filch.Errorf(filch.NotFound, "%s on %s, the node of rank 0 (outputs_from: all takes outputs from all nodes of the ranks)", err.Error(), launcher.ListNames(nodes))
}

// gangTake is the taking of the outputs of a gang.
type gangTake struct {
	files *Files
	root  *os.Root
	b     *Attempt
	run   filch.JobID
	names []string
	from  map[string]filch.NodeName
	bytes int64
	made  string // the folder made last
}

// take takes the outputs that a node has.
func (t *gangTake) take(ctx context.Context, node filch.NodeName) error {
	if node == t.files.in.Self {
		return t.takeOwn()
	}
	q := wire.Fetch{Job: t.b.start.Job, Run: t.run}
	for left := t.names; len(left) > 0; {
		q.Names = nil
		for _, name := range left[:min(len(left), wire.FetchNames)] {
			q.Names = append(q.Names, wire.FetchName{Path: name})
		}
		parts, err := t.files.ask(ctx, node, q)
		if err == nil && len(parts) > len(q.Names) {
			err = filch.Errorf(filch.Invalid, "the node answered with %d files, asked for %d", len(parts), len(q.Names))
		}
		if err != nil {
			return t.cannot(left[0], node, err)
		}
		for i := range parts {
			if err := t.part(ctx, node, left[i], &parts[i]); err != nil {
				return err
			}
		}
		left = left[len(parts):]
	}
	return nil
}

// part takes one output, if the node has the output.
func (t *gangTake) part(ctx context.Context, node filch.NodeName, name string, p *wire.Part) error {
	switch {
	case p.Err != nil && isMissing(p.Err):
		return nil
	case p.Err != nil:
		return t.cannot(name, node, p.Err)
	}
	if err := t.claim(name, node); err != nil {
		return err
	}
	to := keptPath(int32(t.b.start.Index), name)
	t.bytes += p.Size
	if p.Size != int64(len(p.Data)) {
		q := wire.Fetch{Job: t.b.start.Job, Run: t.run, Path: name}
		part := t.files.partName()
		d, err := t.files.newDownload(q, t.root, part, to)
		if err == nil {
			if err = d.from(ctx, node); err == nil {
				err = d.publish(t.root, part, to, readOnly)
			}
			_ = d.out.Close()
		}
		if err != nil {
			_ = t.root.Remove(part)
			return t.cannot(name, node, err)
		}
		return nil
	}
	if sha256.Sum256(p.Data) != p.Sum {
		return t.cannot(name, node, damaged(p.Size))
	}
	if err := t.files.keep(t.root, &need{at: to}, p, &t.made); err != nil {
		return t.cannot(name, node, err)
	}
	return nil
}

// takeOwn takes the outputs of the ranks of this node.
func (t *gangTake) takeOwn() error {
	for _, name := range t.names {
		from := path.Join(leftPath(t.run), name)
		if _, err := t.root.Lstat(from); err != nil {
			continue
		}
		if err := t.claim(name, t.files.in.Self); err != nil {
			return err
		}
		n, err := t.files.publishFrom(t.root, t.b.start.Job, from, keptPath(int32(t.b.start.Index), name))
		if err != nil {
			return t.files.notTaken(t.b, name, err)
		}
		t.bytes += n
	}
	return nil
}

// claim notes which node has an output: a file is written by one node.
func (t *gangTake) claim(name string, node filch.NodeName) error {
	if other := t.from[name]; other != "" {
		return filch.Errorf(filch.Invalid, "task %d.%d wrote its output %q on both %s and %s: with outputs_from: all each file is of one node",
			t.b.start.Job, t.b.start.Index, name, other, node)
	}
	t.from[name] = node
	return nil
}

// cannot is the error of an output that a node does not give.
func (t *gangTake) cannot(name string, node filch.NodeName, err error) error {
	if isFull(err) {
		return t.files.full(t.b, err)
	}
	kind, text := filch.Internal, err.Error()
	if e, is := errors.AsType[*filch.Error](err); is {
		kind, text = e.Kind, e.Text
	}
	return filch.Errorf(kind, "cannot take the output %q of task %d.%d from node %s: %s", name, t.b.start.Job, t.b.start.Index, node, strings.TrimSpace(text))
}

// dropLeft removes what the ranks of a gang left for this node. A node that does not hear
// of this removes the files with those of the job.
func (gs *Gangs) dropLeft(root *os.Root, b *Attempt, e *launcher.TaskEnd) {
	if e.Run == 0 {
		return
	}
	q := wire.Fetch{Job: b.start.Job, Run: e.Run, Drop: true}
	for _, node := range b.keeping(e) {
		if node == gs.in.Self {
			_ = root.RemoveAll(leftPath(e.Run))
			continue
		}
		body, err := wire.Marshal(&q)
		if err == nil {
			if body, err = wire.Payload(wire.KindFetch, 0, body); err == nil {
				_ = gs.files.net.Send(node, overlay.Metadata, body)
			}
		}
	}
}

// onDrop removes the outputs that ranks left here for another node.
func (gs *Gangs) onDrop(q wire.Fetch) {
	root, err := os.OpenRoot(filepath.Join(gs.files.dir, q.Job.String()))
	if err != nil {
		return // the files of the job are gone
	}
	defer root.Close()
	if err := root.RemoveAll(leftPath(q.Run)); err != nil {
		gs.in.Fault("cannot remove the outputs of a gang", err)
	}
}
