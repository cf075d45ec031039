package staging

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// flight is a file on its way here, shared by all tasks that need the file.
type flight struct {
	done chan struct{}
	err  error
}

// need is an input of a task that is not on this node yet.
type need struct {
	file   *launcher.TaskFile
	at     string // the path within the job's folder
	key    string // of the flight
	flight *flight
}

// link links the inputs of a task into the task's folder. A file in the user's own folder
// on this node is not copied.
func (g *Files) link(root *os.Root, b *Attempt) error {
	made := b.run()
	for i := range b.item.Inputs {
		f := &b.item.Inputs[i]
		to := path.Join(b.run(), nameOf(f))
		if dir := path.Dir(to); dir != made {
			if err := root.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			made = dir
		}
		var err error
		if g.inFolder(b, f) {
			err = root.Symlink(filepath.Join(b.graph.Folder, f.Path), to)
		} else {
			err = root.Link(b.keptPath(f), to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nameOf is the name of an input in the task's folder.
func nameOf(f *launcher.TaskFile) string { return cmp.Or(f.As, f.Path) }

// shown is the name of an input for people.
func (b *Attempt) shown(f *launcher.TaskFile) string {
	if b.bag {
		return "/" + f.Path
	}
	return f.Path
}

// inFolder reports whether a file is in the user's own folder on this node.
func (g *Files) inFolder(b *Attempt, f *launcher.TaskFile) bool {
	return f.Writer < 0 && b.graph.Origin == g.in.Self
}

// keptPath returns the path of a file within the job's folder.
func keptPath(writer int32, name string) string {
	if writer < 0 {
		return path.Join("have/start", name)
	}
	return path.Join("have", strconv.Itoa(int(writer)), name)
}

// keptPath returns the path of an input within the job's folder.
func (b *Attempt) keptPath(f *launcher.TaskFile) string {
	if f.Job != 0 {
		return path.Join("have", fmt.Sprintf("%d.%d", f.Job, f.Writer), f.Path)
	}
	return keptPath(f.Writer, f.Path)
}

// ensure makes sure that all inputs of a task are here.
func (g *Files) ensure(ctx context.Context, root *os.Root, b *Attempt) error {
	var needs []*need
	for i := range b.item.Inputs {
		f := &b.item.Inputs[i]
		if !g.inFolder(b, f) {
			at := b.keptPath(f)
			needs = append(needs, &need{file: f, at: at, key: b.start.Job.String() + "/" + at})
			continue
		}
		name := filepath.Join(b.graph.Folder, f.Path)
		if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
			return filch.Errorf(filch.NotFound, "cannot get %q on node %s: %s is no file", b.shown(f), g.in.Self, name)
		}
	}
	for {
		mine, others := g.claim(root, needs)
		if len(mine)+len(others) == 0 {
			return nil
		}
		// First all of the task's own flights, then those of other tasks: two tasks never
		// wait for each other.
		began := time.Now()
		if err := g.bring(ctx, root, b, mine); err != nil {
			return err
		}
		b.count(root, g.in.Self, mine, time.Since(began))
		needs = nil
		for _, n := range others {
			select {
			case <-n.flight.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			switch err := n.flight.err; {
			case errors.Is(err, context.Canceled): // of the other task
				needs = append(needs, n)
			case err != nil:
				return err
			}
		}
	}
}

// count takes in the bytes that came from other nodes.
func (b *Attempt) count(root *os.Root, self filch.NodeName, brought []*need, took time.Duration) {
	bytes := int64(0)
	for _, n := range brought {
		if b.source(n.file) == self {
			continue
		}
		if st, err := root.Lstat(n.at); err == nil {
			bytes += st.Size()
		}
	}
	if bytes > 0 {
		b.moved, b.moving = b.moved+bytes, b.moving+took
	}
}

// claim divides the missing inputs: those that this task brings, and those that another
// task is bringing.
func (g *Files) claim(root *os.Root, needs []*need) (mine, others []*need) {
	for _, n := range needs {
		if _, err := root.Lstat(n.at); err == nil {
			continue
		}
		g.mu.Lock()
		if n.flight = g.flights[n.key]; n.flight != nil {
			others = append(others, n)
		} else {
			n.flight = &flight{done: make(chan struct{})}
			g.flights[n.key] = n.flight
			mine = append(mine, n)
		}
		g.mu.Unlock()
	}
	return mine, others
}

// land ends a flight.
func (g *Files) land(n *need, err error) {
	g.mu.Lock()
	delete(g.flights, n.key)
	g.mu.Unlock()
	n.flight.err = err
	close(n.flight.done)
}

// source returns the node that should have an input, the request for the input, and the
// words about its writer.
func (g *Files) source(b *Attempt, f *launcher.TaskFile) (node filch.NodeName, q wire.Fetch, whose string) {
	q = wire.Fetch{Job: b.start.Job, Writer: f.Writer, Path: f.Path}
	switch {
	case f.Job != 0:
		q.Job = f.Job
	case f.Writer < 0:
		q.Folder = b.graph.Folder
		return b.source(f), q, ""
	}
	return b.source(f), q, fmt.Sprintf(", which task %d.%d wrote,", q.Job, f.Writer)
}

// source returns the node that should have an input.
func (b *Attempt) source(f *launcher.TaskFile) filch.NodeName {
	switch {
	case f.Job != 0:
		return f.Node
	case f.Writer < 0:
		return b.graph.Origin
	}
	return b.from[f.Writer]
}

// holders are the nodes to ask for a file, in order: the node that should have the file,
// then some other nodes, which may have needed the file.
func (g *Files) holders(node filch.NodeName) iter.Seq[filch.NodeName] {
	return func(yield func(filch.NodeName) bool) {
		for range fileTries {
			if !yield(node) {
				return
			}
		}
		names := g.nodes.Names()
		rand.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
		for _, n := range names[:min(len(names), holdersAsked)] {
			if n != node && n != g.in.Self && !yield(n) {
				return
			}
		}
	}
}

// asOf is a request as another node than the first holder understands the request: only
// that node has the user's folder.
func asOf(q wire.Fetch, node, first filch.NodeName) wire.Fetch {
	if node != first {
		q.Folder = ""
	}
	return q
}

// batch is some needs with one source.
type batch struct {
	node  filch.NodeName
	q     wire.Fetch // without the names
	needs []*need
}

// batches sorts needs by their sources.
func (g *Files) batches(b *Attempt, needs []*need) (list []*batch) {
	type source struct {
		node filch.NodeName
		job  filch.JobID
		file bool // in the user's folder
	}
	last := map[source]*batch{}
	for _, n := range needs {
		node, q, _ := g.source(b, n.file)
		s := source{node, q.Job, q.Folder != ""}
		if last[s] == nil || len(last[s].needs) == wire.FetchNames {
			last[s] = &batch{node: node, q: wire.Fetch{Job: q.Job, Folder: q.Folder}}
			list = append(list, last[s])
		}
		last[s].needs = append(last[s].needs, n)
	}
	return list
}

// bring fetches the inputs whose flights are the task's own: small files together, then
// large files, each alone. The first failure ends the others.
func (g *Files) bring(ctx context.Context, root *os.Root, b *Attempt, needs []*need) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := g.batches(b, needs)
	large := make([][]*need, len(batches))
	err := atOnce(len(batches), cancel, func(i int) (err error) {
		large[i], err = g.bringSmall(ctx, root, b, batches[i])
		return err
	})
	var rest []*need
	for _, l := range large {
		rest = append(rest, l...)
	}
	if err == nil {
		err = atOnce(len(rest), cancel, func(i int) error { return g.bringLarge(ctx, root, b, rest[i]) })
	}
	for _, n := range needs {
		select {
		case <-n.flight.done:
		default:
			g.land(n, context.Canceled)
		}
	}
	return err
}

// atOnce calls f for 0 to n-1, some at the same time, and returns the first error. After
// an error, atOnce calls stop and makes no further call.
func atOnce(n int, stop func(), f func(i int) error) error {
	var mu sync.Mutex // guards next and first
	var next int
	var first error
	var calls sync.WaitGroup
	for range min(n, fetchesPerTask) {
		calls.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				failed := first != nil
				mu.Unlock()
				if i >= n || failed {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
						stop()
					}
					mu.Unlock()
				}
			}
		})
	}
	calls.Wait()
	return first
}

// bringSmall fetches the small files of a batch, and returns the needs of large files. A
// file that the source does not give may come from another holder.
func (g *Files) bringSmall(ctx context.Context, root *os.Root, b *Attempt, t *batch) (large []*need, err error) {
	left, made := t.needs, ""
	var why map[*need]error // of the first holder
	failed := func(n *need, err error) {
		if why == nil {
			why = map[*need]error{}
		}
		if why[n] == nil {
			why[n] = err
		}
	}
	for node := range g.holders(t.node) {
		var again []*need
		for len(left) > 0 {
			parts, err := g.askNames(ctx, node, asOf(t.q, node, t.node), left)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				for _, n := range left {
					failed(n, err)
				}
				break
			}
			for i := range parts {
				p, n := &parts[i], left[i]
				switch {
				case p.Err != nil:
					failed(n, p.Err)
					again = append(again, n)
				case p.Size != int64(len(p.Data)):
					large = append(large, n)
				case sha256.Sum256(p.Data) != p.Sum:
					failed(n, damaged(p.Size))
					again = append(again, n)
				default:
					if err := g.keep(root, n, p, &made); err != nil {
						return nil, err
					}
					g.land(n, nil)
				}
			}
			left = left[len(parts):]
		}
		if left = append(again, left...); len(left) == 0 {
			return large, nil
		}
	}
	return nil, g.cannotGet(b, left[0], why[left[0]])
}

// askNames asks a node, possibly this node, for the small files among some needs. The
// answer has one or more parts, and at most one for each need.
func (g *Files) askNames(ctx context.Context, node filch.NodeName, q wire.Fetch, needs []*need) ([]wire.Part, error) {
	for _, n := range needs {
		q.Names = append(q.Names, wire.FetchName{Writer: n.file.Writer, Path: n.file.Path})
	}
	if node == g.in.Self {
		return g.readAll(q), nil
	}
	parts, err := g.ask(ctx, node, q)
	if len(parts) > len(needs) {
		return nil, filch.Errorf(filch.Invalid, "the node answered with %d files, asked for %d", len(parts), len(needs))
	}
	return parts, err
}

// keep writes a small file; made is the folder made last.
func (g *Files) keep(root *os.Root, n *need, p *wire.Part, made *string) (err error) {
	if dir := path.Dir(n.at); dir != *made {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		*made = dir
	}
	part := g.partName()
	out, err := root.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err == nil {
			err = root.Rename(part, n.at)
		}
		if err != nil {
			_ = root.Remove(part)
		}
	}()
	if _, err := out.Write(p.Data); err != nil {
		return err
	}
	return out.Chmod(modeOf(readOnly, p.Exec))
}

// partName returns the path of a file on its way here, within the job's folder.
func (g *Files) partName() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parts++
	return fmt.Sprintf("part/%d", g.parts)
}

// bringLarge fetches one file part by part.
func (g *Files) bringLarge(ctx context.Context, root *os.Root, b *Attempt, n *need) error {
	node, q, _ := g.source(b, n.file)
	_, err := g.fetchFile(ctx, node, q, root, g.partName(), n.at, readOnly)
	if err != nil {
		return g.cannotGet(b, n, err)
	}
	g.land(n, nil)
	return nil
}

// cannotGet ends a flight that failed, and returns the error with the file and its source.
// An error of this node's disk stays as it is.
func (g *Files) cannotGet(b *Attempt, n *need, err error) error {
	if _, ok := errors.AsType[*filch.Error](err); ok {
		node, _, whose := g.source(b, n.file)
		err = filch.Errorf(filch.Unavailable, "cannot get %q%s from node %s on node %s: %s", b.shown(n.file), whose, node, g.in.Self, err.Error())
	}
	g.land(n, err)
	return err
}
