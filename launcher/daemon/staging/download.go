package staging

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"os"
	"path"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// download is a file on its way here, part by part, from one holder after the other.
type download struct {
	files *Files
	q     wire.Fetch // Offset: the next byte
	out   *os.File
	sum   hash.Hash
	first wire.Part      // describes the file; the description is of by
	by    filch.NodeName // "" no holder has described the file yet
}

// fetchFile copies a file from a node, possibly this node, into root: to part, and by one
// rename to name when the file is whole and right. When the node does not give the whole
// file, another holder gives the rest.
func (g *Files) fetchFile(ctx context.Context, node filch.NodeName, q wire.Fetch, root *os.Root, part, name string, mode os.FileMode) (n int64, err error) {
	d, err := g.newDownload(q, root, part, name)
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = d.out.Close()
		if err != nil {
			_ = root.Remove(part) // the part may be large, the folder the user's
		}
	}()
	for holder := range g.holders(node) {
		d.q.Folder = asOf(q, holder, node).Folder
		bad := d.from(ctx, holder)
		if bad == nil {
			return d.first.Size, d.publish(root, part, name, mode)
		}
		if err == nil {
			err = bad // the first holder's
		}
		if _, ours := errors.AsType[*filch.Error](bad); !ours || ctx.Err() != nil {
			return 0, bad
		}
	}
	return 0, err
}

// fetchArchive copies the archive of a program from a node.
func (g *Files) fetchArchive(ctx context.Context, node filch.NodeName, q wire.Fetch, root *os.Root, part, name string) error {
	d, err := g.newDownload(q, root, part, name)
	if err != nil {
		return err
	}
	defer d.out.Close()
	if err := d.from(ctx, node); err != nil {
		return err
	}
	return d.publish(root, part, name, 0o600)
}

func (g *Files) newDownload(q wire.Fetch, root *os.Root, part, name string) (*download, error) {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return nil, err
	}
	out, err := root.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &download{files: g, q: q, out: out, sum: sha256.New()}, nil
}

// from fetches the rest of the file from a holder.
func (d *download) from(ctx context.Context, node filch.NodeName) error {
	for d.by == "" || d.q.Offset < d.first.Size {
		p, err := d.files.part(ctx, node, d.q)
		if err != nil {
			return err
		}
		if d.q.Copy != "" && p.Sum != d.q.Sum {
			return filch.Errorf(filch.Invalid, "its SHA-256 differs from the submitted file's")
		}
		if d.by == "" {
			d.first, d.by = p, node
			d.first.Data = nil
		}
		left := d.first.Size - d.q.Offset
		if p.Size != d.first.Size || p.Sum != d.first.Sum || int64(len(p.Data)) > left || len(p.Data) == 0 && left > 0 {
			if node != d.by {
				return filch.Errorf(filch.Unavailable, "the file is not the one of node %s", d.by)
			}
			return errors.Join(filch.Errorf(filch.Unavailable, "the file changed during reading"), d.reset())
		}
		d.sum.Write(p.Data)
		if _, err := d.out.Write(p.Data); err != nil {
			return err
		}
		d.q.Offset += int64(len(p.Data))
	}
	if bytes.Equal(d.sum.Sum(nil), d.first.Sum[:]) {
		return nil
	}
	err := damaged(d.first.Size)
	if d.q.Copy != "" { // read-only: a retry would have the same result
		err.Kind = filch.Invalid
	}
	return errors.Join(err, d.reset())
}

// damaged is the error of a copy with a wrong sum.
func damaged(size int64) *filch.Error {
	return filch.Errorf(filch.Unavailable, "the copy is damaged: the SHA-256 of its %d bytes differs", size)
}

// reset begins the file anew.
func (d *download) reset() error {
	d.q.Offset, d.by = 0, ""
	d.sum.Reset()
	_, err := d.out.Seek(0, 0)
	return errors.Join(err, d.out.Truncate(0))
}

// publish gives a whole file its name.
func (d *download) publish(root *os.Root, part, name string, mode os.FileMode) error {
	if err := errors.Join(d.out.Chmod(modeOf(mode, d.first.Exec)), d.out.Close()); err != nil {
		return err
	}
	return root.Rename(part, name)
}

// modeOf is the mode of a stored file; a program keeps its x.
func modeOf(mode os.FileMode, program bool) os.FileMode {
	if program {
		mode |= mode & 0o444 >> 2
	}
	return mode
}

// readOnly is the mode of files stored here.
const readOnly = 0o444
