package staging

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Limits of bringing files.
const (
	fetchesServed = 32 // answers made for other nodes at the same time
	// Requests under way to other nodes: of the node, and of one task. An answer has up
	// to 512 KiB.
	fetchesAsked   = 64
	fetchesPerTask = 8
	// Other nodes that are asked for a file when the node that should have the file does
	// not give the file.
	holdersAsked = 32
	partTries    = 3
	partPatience = 2 * time.Minute // for the first part: the whole file is hashed
	nextPatience = 20 * time.Second
	partSend     = 30 * time.Second
	fileTries    = 2 // of the node that should have a file
	sumsKept     = 1 << 16
)

// fileSum is the sum of a file, valid while size and mtime are unchanged.
type fileSum struct {
	size  int64
	mtime time.Time
	sum   [sha256.Size]byte
}

// of reports whether a sum is valid.
func (s *fileSum) of(st fs.FileInfo) bool { return s.size == st.Size() && s.mtime.Equal(st.ModTime()) }

// sum returns the sum of a file, from the cache or by hashing.
func (g *Files) sum(key string, f *os.File) (fileSum, error) {
	g.hash.Lock()
	defer g.hash.Unlock()
	st, err := f.Stat()
	if err != nil {
		return fileSum{}, err
	}
	g.mu.Lock()
	s, ok := g.sums[key]
	g.mu.Unlock()
	if ok && s.of(st) {
		return s, nil
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return fileSum{}, err
	}
	s = fileSum{size: n, mtime: st.ModTime()}
	h.Sum(s.sum[:0])
	g.mu.Lock()
	if len(g.sums) >= sumsKept {
		clear(g.sums)
	}
	g.sums[key] = s
	g.mu.Unlock()
	return s, nil
}

// copyOf copies a file to a new file in the same folder.
func (g *Files) copyOf(root *os.Root, name string) (string, error) {
	in, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	to := name + ".copy"
	out, err := root.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return to, errors.Join(err, out.Close())
}

// part fetches one part of a file from a node.
func (g *Files) part(ctx context.Context, node filch.NodeName, q wire.Fetch) (wire.Part, error) {
	if node == g.in.Self {
		p := g.read(q)
		return p, failure(&p)
	}
	parts, err := g.ask(ctx, node, q)
	if err != nil {
		return wire.Part{}, err
	}
	return parts[0], failure(&parts[0])
}

// failure is the error of a part; nil for a part with data.
func failure(p *wire.Part) error {
	if p.Err == nil {
		return nil
	}
	return p.Err
}

// ask asks a node until the node answers, and returns one or more parts.
func (g *Files) ask(ctx context.Context, node filch.NodeName, q wire.Fetch) (parts []wire.Part, err error) {
	for range partTries {
		if parts, err = g.askOnce(ctx, node, q); ctx.Err() != nil || !g.nodes.Live(node) {
			break
		}
		if err == nil && len(parts[0].Data) == 0 && parts[0].Err != nil && parts[0].Err.Kind == filch.Unavailable {
			err = parts[0].Err
			continue
		}
		if err == nil {
			break
		}
	}
	return parts, err
}

func (g *Files) askOnce(ctx context.Context, node filch.NodeName, q wire.Fetch) ([]wire.Part, error) {
	if !g.nodes.Live(node) {
		return nil, filch.Errorf(filch.NodeLost, "the node is gone, and no other node has the file")
	}
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	body, err := wire.Marshal(&q)
	if err != nil {
		return nil, err
	}
	ch := make(chan []wire.Part, 1)
	g.mu.Lock()
	g.next++
	req := g.next
	g.open[req] = ch
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.open, req)
		g.mu.Unlock()
	}()
	frame, err := wire.Payload(wire.KindFetch, req, body)
	if err == nil {
		err = g.net.Send(node, overlay.Metadata, frame)
	}
	if errors.Is(err, overlay.ErrUnreachable) {
		return nil, filch.Errorf(filch.Unavailable, "node %s cannot be reached: its launcher has ended, or the network between the nodes is cut", node)
	}
	if err != nil {
		return nil, filch.Errorf(filch.Unavailable, "cannot ask node %s: %s", node, err.Error())
	}
	return g.answer(ctx, node, q, ch)
}

// answer waits for the answer to a request.
func (g *Files) answer(ctx context.Context, node filch.NodeName, q wire.Fetch, ch <-chan []wire.Part) ([]wire.Part, error) {
	wait := nextPatience
	if q.Offset == 0 && len(q.Names) == 0 {
		wait = partPatience
	}
	patience := time.NewTimer(wait)
	defer patience.Stop()
	asked := g.nodes.Incarnation(node)
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case parts := <-ch:
			return parts, nil
		case <-look.C:
			if !g.nodes.Live(node) {
				return nil, filch.Errorf(filch.NodeLost, "the node died before it answered")
			}
			if now := g.nodes.Incarnation(node); now != 0 && now != asked {
				return nil, filch.Errorf(filch.Unavailable, "the launcher was started again before it answered")
			}
		case <-patience.C:
			return nil, filch.Errorf(filch.Unavailable, "the node did not answer within %v", wait)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// OnFetch answers another node on a goroutine of its own. The goroutine waits for space
// on the link.
func (g *Files) OnFetch(from filch.NodeName, f wire.Frame) error {
	var q wire.Fetch
	if err := wire.Unmarshal(f.Body, &q); err != nil {
		return err
	}
	if len(q.Names) > wire.FetchNames {
		return filch.Errorf(filch.Invalid, "a request names %d files, at most %d", len(q.Names), wire.FetchNames)
	}
	req := f.Req
	g.in.Go(func() {
		if q.Drop {
			g.gangs.onDrop(q)
			return
		}
		g.copies.await(q.Copy)
		select {
		case g.busy <- struct{}{}:
			defer func() { <-g.busy }()
		case <-g.in.Context().Done():
			return
		}
		p := wire.Parts{Parts: g.readAll(q)}
		body, err := wire.Marshal(&p)
		if err != nil {
			g.in.Fault("cannot encode parts of files", err)
			return
		}
		ctx, cancel := context.WithTimeout(g.in.Context(), partSend)
		defer cancel()
		if frame, err := wire.Payload(wire.KindPart, req, body); err == nil {
			_ = g.net.SendWait(ctx, from, overlay.Bulk, frame) // else the node asks again
		}
	})
	return nil
}

// OnPart hands an answer to the request that waits for the answer.
func (g *Files) OnPart(_ filch.NodeName, f wire.Frame) error {
	var p wire.Parts
	if err := wire.Unmarshal(f.Body, &p); err != nil {
		return err
	}
	if len(p.Parts) == 0 {
		return filch.Errorf(filch.Invalid, "an answer without a part of a file")
	}
	g.mu.Lock()
	ch := g.open[f.Req]
	delete(g.open, f.Req)
	g.mu.Unlock()
	if ch != nil {
		ch <- p.Parts // has space for one answer
	}
	return nil
}

// readAll reads the parts that a request asks for.
func (g *Files) readAll(q wire.Fetch) []wire.Part {
	if len(q.Names) == 0 {
		return []wire.Part{g.read(q)}
	}
	var parts []wire.Part
	size := 0
	for _, n := range q.Names {
		p := g.readSmall(wire.Fetch{Job: q.Job, Folder: q.Folder, Run: q.Run, Writer: n.Writer, Path: n.Path})
		if size += len(p.Data); size > wire.PartBytes {
			break
		}
		parts = append(parts, p)
	}
	return parts
}

// readSmall reads a small file whole. A valid sum from the cache shows damage of the disk
// since then.
func (g *Files) readSmall(q wire.Fetch) wire.Part {
	f, key, st, err := g.openKept(q)
	if err != nil {
		return wire.Part{Err: filch.Errorf(filch.NotFound, "%s", plainError(err))}
	}
	defer f.Close()
	p := wire.Part{Size: st.Size(), Exec: st.Mode()&0o100 != 0}
	if p.Size > wire.SmallFile {
		return p
	}
	p.Data = make([]byte, p.Size)
	if n, err := f.ReadAt(p.Data, 0); n < len(p.Data) {
		return wire.Part{Err: filch.Errorf(filch.Unavailable, "cannot read the file: %v", err)}
	}
	g.mu.Lock()
	s, ok := g.sums[key]
	g.mu.Unlock()
	if p.Sum = s.sum; !ok || !s.of(st) {
		p.Sum = sha256.Sum256(p.Data)
	}
	return p
}

// read reads a part of a file on this node.
func (g *Files) read(q wire.Fetch) wire.Part {
	if q.Copy != "" {
		return g.copies.read(q)
	}
	f, key, st, err := g.openKept(q)
	if err != nil {
		return wire.Part{Err: filch.Errorf(filch.NotFound, "%s", plainError(err))}
	}
	defer f.Close()
	s, err := g.sum(key, f)
	if err != nil {
		return wire.Part{Err: filch.Errorf(filch.NotFound, "cannot read the file from byte %d on: %v", q.Offset, err)}
	}
	return readPart(f, q.Offset, wire.Part{Size: s.size, Sum: s.sum, Exec: st.Mode()&0o100 != 0})
}

// readPart adds to p, which describes the file, the bytes from an offset on.
func readPart(f *os.File, from int64, p wire.Part) wire.Part {
	if from < 0 || from > p.Size {
		return wire.Part{Err: filch.Errorf(filch.NotFound, "cannot read the file from byte %d on: the file has %d bytes", from, p.Size)}
	}
	p.Data = make([]byte, min(p.Size-from, wire.PartBytes))
	if n, err := f.ReadAt(p.Data, from); n < len(p.Data) {
		return wire.Part{Err: filch.Errorf(filch.Unavailable, "cannot read the file from byte %d on: %v", from, err)}
	}
	return p
}

// openKept opens a file that a task of a job wrote here, or a file that was in the
// user's folder before. The string is the key of the file's sum.
func (g *Files) openKept(q wire.Fetch) (*os.File, string, fs.FileInfo, error) {
	if err := workflow.CheckPath(q.Path); err != nil {
		return nil, "", nil, err
	}
	var f *os.File
	at := keptPath(q.Writer, q.Path)
	if q.Run != 0 {
		at = path.Join(leftPath(q.Run), q.Path)
	}
	key := q.Job.String() + "/" + at
	var err error
	if q.Writer < 0 && q.Folder != "" && q.Run == 0 {
		if !filepath.IsAbs(q.Folder) {
			return nil, "", nil, fmt.Errorf("%q is not the folder of a workflow", q.Folder)
		}
		key = filepath.Join(q.Folder, q.Path)
		// A file that is no regular file may wait for a writer: nothing waits here.
		f, err = os.OpenFile(key, os.O_RDONLY|unix.O_NONBLOCK, 0)
	} else {
		f, err = os.OpenInRoot(filepath.Join(g.dir, q.Job.String()), at)
	}
	if err != nil {
		return nil, "", nil, err
	}
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = errors.New("the name is a folder's")
	} else if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("the path is %s, not a file", st.Mode().Type())
	}
	if err != nil {
		_ = f.Close()
		return nil, "", nil, err
	}
	return f, key, st, nil
}

// plainError leaves out the path of a file: the asker has no use for the path.
func plainError(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
