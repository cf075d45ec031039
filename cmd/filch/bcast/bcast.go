// Package bcast makes the archives of programs that --bcast copies to the nodes: the program,
// with the libraries outside of the system's folders. An archive lies in the private folder of
// the client's launcher, and the request names the archive.
package bcast

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
)

// systemLibs are the folders where every node has its own libraries, as in srun's
// BcastExclude.
var systemLibs = []string{"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/lib/x86_64-linux-gnu/"}

// Once makes the archive of a run, for the value to of --bcast in a folder of the client. The
// returned function removes the archive, for a request that becomes no job.
func Once(program, to, folder string, dir place.Dir) (c *launcher.Copy, undo func(), err error) {
	path, c, err := find(program, to, folder)
	if err != nil {
		return nil, nil, err
	}
	var word [16]byte
	if _, err := rand.Read(word[:]); err != nil {
		return nil, nil, err
	}
	c.File = hex.EncodeToString(word[:])
	at := filepath.Join(dir.Bcast(), c.Archive())
	if err := finish(c, path, at, dir); err != nil {
		return nil, nil, err
	}
	return c, func() { _ = os.Remove(at) }, nil
}

// Kept makes the archive of a job whose tasks are gangs. The archive is named by its sum, and
// stays: each node of the job keeps a copy for the next gangs.
func Kept(program, to, folder string, dir place.Dir) (*launcher.Copy, error) {
	path, c, err := find(program, to, folder)
	if err != nil {
		return nil, err
	}
	var word [8]byte
	if _, err := rand.Read(word[:]); err != nil {
		return nil, err
	}
	part := filepath.Join(dir.Bcast(), "new."+hex.EncodeToString(word[:]))
	c.File = strings.Repeat("0", launcher.CopyFileLen) // until the sum is known
	if err := finish(c, path, part, dir); err != nil {
		return nil, err
	}
	c.File, c.Kept = launcher.KeptFile(c.Sum), true
	if err := os.Rename(part, filepath.Join(dir.Bcast(), c.Archive())); err != nil {
		_ = os.Remove(part)
		return nil, failed(path, err, dir)
	}
	return c, nil
}

// find finds the program, and begins the copy.
func find(program, to, folder string) (path string, c *launcher.Copy, err error) {
	if path, err = exec.LookPath(program); err != nil {
		return "", nil, filch.Errorf(filch.Invalid, "--bcast: cannot find %s here: %s", ui.Clean(program), ui.Cause(err))
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", nil, err
	}
	c = &launcher.Copy{Name: filepath.Base(path)}
	if to != "-" {
		into := strings.HasSuffix(to, "/")
		if !filepath.IsAbs(to) {
			to = filepath.Join(folder, to)
		}
		if into {
			to = filepath.Join(to, c.Name)
		}
		c.Dest, c.Name = filepath.Split(filepath.Clean(to))
		c.Dest = filepath.Clean(c.Dest)
	}
	return path, c, nil
}

// finish makes the archive of a program.
func finish(c *launcher.Copy, path, at string, dir place.Dir) error {
	err := pack(c, path, at)
	if err != nil {
		err = failed(path, err, dir)
	} else if bad := c.Check(); bad != nil {
		err = bad
	}
	if err != nil {
		_ = os.Remove(at)
	}
	return err
}

// failed is the error of an archive that cannot be made.
func failed(path string, err error, dir place.Dir) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return filch.Errorf(filch.Unavailable, "--bcast: cannot copy %s to the launcher: %s", path, ui.Cause(err)).
			WithHint("%s needs more free space", dir.Base)
	}
	return filch.Errorf(filch.Invalid, "--bcast: cannot copy %s to the launcher: %s", path, ui.Cause(err))
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
