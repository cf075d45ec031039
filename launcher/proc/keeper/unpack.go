package keeper

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
)

// unpack writes the files of an archive into an empty folder: the program, and the
// libraries in a folder of their own. unpack refuses any other entry: links, devices,
// folders, other names, a name twice, more than most bytes in all. When stop returns
// true, unpack ends with an error.
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
		lib, isLib := strings.CutPrefix(h.Name, proc.LibsOf(program)+"/")
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
			if err := into.Mkdir(proc.LibsOf(program), 0o700); err != nil {
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

// unpackChunk is the number of bytes written between two checks of stop.
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
