package runclient

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/spec"
)

// --bcast sends the program, with the libraries outside the system's folders,
// along with the launch. The client only makes an archive of the files, in the
// private folder of its launcher, and names the archive in the request.

// systemLibs are the folders where every node has its own libraries, as in srun's
// BcastExclude.
var systemLibs = []string{"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/lib/x86_64-linux-gnu/"}

// broadcast makes the archive of r's program and has the request name the
// archive. The returned function removes the archive, for a request that becomes
// no job.
func broadcast(r *spec.Run, around spec.Context, dir place.Dir) (undo func(), err error) {
	path, err := exec.LookPath(r.Argv[0])
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "--bcast: cannot find %s here: %s", ui.Clean(r.Argv[0]), ui.Cause(err))
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	c := &launcher.Copy{Name: filepath.Base(path)}
	if to := r.Client.Bcast; to != "-" {
		if !filepath.IsAbs(to) {
			to = filepath.Join(around.Cwd, to)
		}
		if strings.HasSuffix(r.Client.Bcast, "/") {
			to = filepath.Join(to, c.Name)
		}
		c.Dest, c.Name = filepath.Split(filepath.Clean(to))
		c.Dest = filepath.Clean(c.Dest)
	}
	var word [16]byte
	if _, err := rand.Read(word[:]); err != nil {
		return nil, err
	}
	c.File = hex.EncodeToString(word[:])
	at := filepath.Join(dir.Bcast(), c.File+launcher.ArchiveEnd)
	if err := pack(c, path, at); err != nil {
		_ = os.Remove(at)
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return nil, filch.Errorf(filch.Unavailable, "--bcast: cannot copy %s to the launcher: %s", path, ui.Cause(err)).
				WithHint("%s needs more free space", dir.Base)
		}
		return nil, filch.Errorf(filch.Invalid, "--bcast: cannot copy %s to the launcher: %s", path, ui.Cause(err))
	}
	if err := c.Check(); err != nil {
		_ = os.Remove(at)
		return nil, err
	}
	r.Request.Copy = c
	return func() { _ = os.Remove(at) }, nil
}

// pack makes an archive of a program and its libraries. The complete archive gets
// its name at the end.
func pack(c *launcher.Copy, path, at string) error {
	f, publish, err := unnamed(at)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	w := tar.NewWriter(io.MultiWriter(f, sum))
	err = addFile(w, path, c.Name)
	if err == nil {
		err = addLibraries(w, path, c.Name)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		c.Bytes, err = f.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		err = publish()
	}
	sum.Sum(c.Sum[:0])
	return errors.Join(err, f.Close())
}

// addLibraries adds the libraries of a program, each name once.
func addLibraries(w *tar.Writer, path, name string) error {
	have := map[string]bool{}
	for _, lib := range librariesOf(path) {
		base := filepath.Base(lib)
		if have[base] {
			continue
		}
		have[base] = true
		if err := addFile(w, lib, proc.LibsOf(name)+"/"+base); err != nil {
			return err
		}
	}
	return nil
}

// unnamed makes a file that vanishes with this process, unless publish gives the
// file its name. On a file system without such files, the file has its name at
// once.
func unnamed(at string) (f *os.File, publish func() error, err error) {
	fd, err := unix.Open(filepath.Dir(at), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		f, err = os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		return f, func() error { return nil }, err
	}
	return os.NewFile(uintptr(fd), at), func() error {
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, at, unix.AT_SYMLINK_FOLLOW)
	}, nil
}

func addFile(w *tar.Writer, path, name string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // refused below if a pipe
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > launcher.MaxCopyBytes {
		return fmt.Errorf("%s is not a file of at most %d bytes", path, int64(launcher.MaxCopyBytes))
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o700, ModTime: info.ModTime()}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(w, f, info.Size())
	return err
}

// librariesOf are the shared libraries that the program loads from outside the
// system's folders; none for a script or a static program.
func librariesOf(path string) []string {
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return nil
	}
	var libs []string
	for line := range bytes.SplitSeq(out, []byte("\n")) {
		_, rest, ok := strings.Cut(string(line), "=> ")
		if !ok {
			continue
		}
		lib, _, _ := strings.Cut(rest, " (")
		if filepath.IsAbs(lib) && !ui.HasAnyPrefix(lib, systemLibs...) {
			libs = append(libs, lib)
		}
	}
	return libs
}
