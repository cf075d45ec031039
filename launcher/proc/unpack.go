package proc

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/filch-hpc/filch/launcher"
)

// LibsOf is the folder, beside a program that was copied, of the libraries that
// came with it.
func LibsOf(program string) string { return program + "_libs" }

// unpack writes the files of an archive into a folder, in which nothing may be
// yet: the program of that name, and its libraries in a folder of theirs. It
// refuses whatever else an archive could hold: links, devices, folders, other
// names, a name twice, more than most bytes in all. It stops when stop says so.
func unpack(in io.Reader, into *os.Root, program string, most int64, stop func() bool) (libs bool, err error) {
	r := tar.NewReader(in)
	seen := map[string]bool{}
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return libs, fmt.Errorf("the archive cannot be read: %w", err)
		}
		lib, isLib := strings.CutPrefix(h.Name, LibsOf(program)+"/")
		switch {
		case h.Typeflag != tar.TypeReg:
			return libs, fmt.Errorf("%.60q in the archive is not a file", h.Name)
		case h.Name != program && !(isLib && launcher.PlainName(lib)):
			return libs, fmt.Errorf("%.60q in the archive is neither the program nor a library", h.Name)
		case seen[h.Name]:
			return libs, fmt.Errorf("%.60q is in the archive twice", h.Name)
		case len(seen) >= launcher.MaxCopyFiles:
			return libs, fmt.Errorf("the archive has more than %d files", launcher.MaxCopyFiles)
		case h.Size < 0 || h.Size > most:
			return libs, fmt.Errorf("%.60q has %d bytes, more than are left of the archive (%d)", h.Name, h.Size, most)
		}
		if isLib && !libs {
			if err := into.Mkdir(LibsOf(program), 0o700); err != nil {
				return libs, err
			}
		}
		seen[h.Name], libs = true, libs || isLib
		most -= h.Size
		if err := unpackFile(r, into, h, stop); err != nil {
			return libs, err
		}
	}
	if !seen[program] {
		return libs, fmt.Errorf("the archive has no %.60q", program)
	}
	return libs, nil
}

// unpackChunk is written before it is looked whether to stop.
const unpackChunk = 1 << 20

func unpackFile(r io.Reader, into *os.Root, h *tar.Header, stop func() bool) error {
	f, err := into.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	for left := h.Size; left > 0 && err == nil; left -= unpackChunk {
		if _, err = io.CopyN(f, r, min(left, unpackChunk)); err == nil && stop() {
			err = errors.New("the job was stopped")
		}
	}
	return errors.Join(err, f.Close())
}
