package staging

import (
	"bytes"
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

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Limits of bringing files.
const (
	fetchesServed = 32 // parts read for other nodes at the same time
	partTries     = 3
	partPatience  = 2 * time.Minute // for the first part: the whole file is hashed
	nextPatience  = 20 * time.Second
	partSend      = 30 * time.Second
	fileTries     = 2
	sumsKept      = 1 << 16
)

// fileSum is the sum of a file, valid while size and mtime are unchanged.
type fileSum struct {
	size  int64
	mtime time.Time
	sum   [sha256.Size]byte
}

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
	if ok && s.size == st.Size() && s.mtime.Equal(st.ModTime()) {
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

// fetchFile copies a file from a node, possibly this node, into root: to part, and by one
// rename to name when the file is whole and right.
func (g *Files) fetchFile(ctx context.Context, node filch.NodeName, q wire.Fetch, root *os.Root, part, name string, mode os.FileMode) (n int64, err error) {
	for range fileTries {
		if n, err = g.copyParts(ctx, node, q, root, part, name, mode); err == nil {
			return n, nil
		}
		_ = root.Remove(part) // after the last try too: the part may be large, the folder the user's
		if ctx.Err() != nil {
			return n, err
		}
		if e, ok := errors.AsType[*filch.Error](err); ok && e.Kind != filch.Unavailable {
			break // a retry would have the same result
		}
	}
	return 0, err
}

func (g *Files) copyParts(ctx context.Context, node filch.NodeName, q wire.Fetch, root *os.Root, part, name string, mode os.FileMode) (int64, error) {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return 0, err
	}
	out, err := root.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	var first wire.Part
	h := sha256.New()
	for q.Offset = 0; q.Offset == 0 || q.Offset < first.Size; {
		p, err := g.part(ctx, node, q)
		if err != nil {
			return 0, err
		}
		if q.Copy != "" && p.Sum != q.Sum {
			return 0, filch.Errorf(filch.Invalid, "its SHA-256 differs from the submitted file's")
		}
		if q.Offset == 0 {
			first = p
		}
		left := first.Size - q.Offset
		if p.Size != first.Size || p.Sum != first.Sum || int64(len(p.Data)) > left || len(p.Data) == 0 && left > 0 {
			return 0, filch.Errorf(filch.Unavailable, "the file changed during reading")
		}
		h.Write(p.Data)
		if _, err := out.Write(p.Data); err != nil {
			return 0, err
		}
		if q.Offset += int64(len(p.Data)); first.Size == 0 {
			break
		}
	}
	if !bytes.Equal(h.Sum(nil), first.Sum[:]) {
		kind := filch.Unavailable
		if q.Copy != "" { // read-only: a retry would have the same result
			kind = filch.Invalid
		}
		return 0, filch.Errorf(kind, "the copy is damaged: the SHA-256 of its %d bytes differs", first.Size)
	}
	if first.Exec {
		mode |= mode & 0o444 >> 2
	}
	if err := errors.Join(out.Chmod(mode), out.Close()); err != nil {
		return 0, err
	}
	return first.Size, root.Rename(part, name)
}

// part fetches one part of a file from a node.
func (g *Files) part(ctx context.Context, node filch.NodeName, q wire.Fetch) (p wire.Part, err error) {
	if node == g.in.Self {
		p = g.read(q)
		return p, failure(&p)
	}
	for range partTries {
		if p, err = g.askPart(ctx, node, q); err == nil || ctx.Err() != nil || !g.nodes.Live(node) {
			break
		}
		if e, ok := errors.AsType[*filch.Error](err); ok && e.Kind == filch.NotFound {
			break
		}
	}
	return p, err
}

// failure is the error of a part; nil for a part with data.
func failure(p *wire.Part) error {
	if p.Err == nil {
		return nil
	}
	return p.Err
}

func (g *Files) askPart(ctx context.Context, node filch.NodeName, q wire.Fetch) (wire.Part, error) {
	if !g.nodes.Live(node) {
		return wire.Part{}, filch.Errorf(filch.NodeLost, "the node is gone, and no other node has the file")
	}
	body, err := wire.Marshal(&q)
	if err != nil {
		return wire.Part{}, err
	}
	ch := make(chan wire.Part, 1)
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
	if err != nil {
		return wire.Part{}, filch.Errorf(filch.Unavailable, "cannot ask the node: %s", err.Error())
	}
	wait := nextPatience
	if q.Offset == 0 {
		wait = partPatience
	}
	patience := time.NewTimer(wait)
	defer patience.Stop()
	asked := g.nodes.Incarnation(node)
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case p := <-ch:
			return p, failure(&p)
		case <-look.C:
			if !g.nodes.Live(node) {
				return wire.Part{}, filch.Errorf(filch.NodeLost, "the node died before it answered")
			}
			if now := g.nodes.Incarnation(node); now != 0 && now != asked {
				return wire.Part{}, filch.Errorf(filch.Unavailable, "the launcher was started again before it answered")
			}
		case <-patience.C:
			return wire.Part{}, filch.Errorf(filch.Unavailable, "the node did not answer within %v", wait)
		case <-ctx.Done():
			return wire.Part{}, ctx.Err()
		}
	}
}

// OnFetch answers another node on a goroutine of its own. The goroutine waits for space
// on the link: an asker has one part of a file under way at a time.
func (g *Files) OnFetch(from filch.NodeName, f wire.Frame) error {
	var q wire.Fetch
	if err := wire.Unmarshal(f.Body, &q); err != nil {
		return err
	}
	req := f.Req
	g.in.Go(func() {
		g.copies.await(q.Copy)
		select {
		case g.busy <- struct{}{}:
			defer func() { <-g.busy }()
		case <-g.in.Context().Done():
			return
		}
		p := g.read(q)
		body, err := wire.Marshal(&p)
		if err != nil {
			g.in.Fault("cannot encode a part of a file", err)
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

// OnPart hands a part of a file to the copy that waits for the part.
func (g *Files) OnPart(_ filch.NodeName, f wire.Frame) error {
	var p wire.Part
	if err := wire.Unmarshal(f.Body, &p); err != nil {
		return err
	}
	g.mu.Lock()
	ch := g.open[f.Req]
	delete(g.open, f.Req)
	g.mu.Unlock()
	if ch != nil {
		ch <- p // has space for one part
	}
	return nil
}

// read reads a part of a file on this node.
func (g *Files) read(q wire.Fetch) wire.Part {
	if q.Copy != "" {
		return g.copies.read(q)
	}
	f, key, err := g.openKept(q)
	if err != nil {
		return wire.Part{Err: filch.Errorf(filch.NotFound, "%s", plainError(err))}
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("the path is %s, not a file", st.Mode().Type())
	}
	var s fileSum
	if err == nil {
		s, err = g.sum(key, f)
	}
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
// user's folder before.
func (g *Files) openKept(q wire.Fetch) (*os.File, string, error) {
	if err := workflow.CheckPath(q.Path); err != nil {
		return nil, "", err
	}
	if q.Writer < 0 {
		if !filepath.IsAbs(q.Folder) {
			return nil, "", fmt.Errorf("%q is not the folder of a workflow", q.Folder)
		}
		name := filepath.Join(q.Folder, q.Path)
		f, err := os.Open(name)
		return f, name, err
	}
	root, err := os.OpenRoot(filepath.Join(g.dir, q.Job.String()))
	if err != nil {
		return nil, "", err
	}
	defer root.Close()
	at := keptPath(q.Writer, q.Path)
	f, err := root.Open(at)
	return f, q.Job.String() + "/" + at, err
}

// plainError leaves out the path of a file: the asker has no use for the path.
func plainError(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
