package proc

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"golang.org/x/sys/unix"
)

// files are the descriptors of one rank around its fork.
type files struct {
	child  []uintptr // 0, 1, 2 and, with a PMI server, 3
	theirs []int     // of child, what is ours to close after the fork
	pty    bool
}

func (f *files) closeTheirs() {
	for _, fd := range f.theirs {
		unix.Close(fd)
	}
	*f = files{}
}

// pmiFD is where a rank finds its PMI server: the first descriptor after the
// standard ones.
const pmiFD = 3

// makeFiles makes the pipes of a rank and says which descriptors it is born
// with.
func (j *job) makeFiles(r *rank) (err error) {
	if j.what.Pty != nil && r.id == 0 {
		err = j.io.makePty(r)
	} else {
		if err = j.in.connect(r); err == nil {
			err = j.io.connect(r)
		}
	}
	if err == nil {
		err = j.mpi.connect(r)
	}
	return err
}

// give adds a descriptor that closes with the fork.
func (f *files) give(fd int) {
	f.child = append(f.child, uintptr(fd))
	f.theirs = append(f.theirs, fd)
}

// lend adds a descriptor that stays open here.
func (f *files) lend(fd int) { f.child = append(f.child, uintptr(fd)) }

// pipe returns our end, which does not block, and theirs.
func pipe(weRead bool) (ours, theirs int, err error) {
	var p [2]int
	if err = unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, err
	}
	ours, theirs = p[1], p[0]
	if weRead {
		ours, theirs = p[0], p[1]
	}
	unix.SetNonblock(ours, true)
	return ours, theirs, nil
}

// openNull opens what reads as empty and swallows what is written.
func openNull() (int, error) {
	return unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
}

// userName is the name of who runs this, or the number where it has none.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// resolve makes a file name of a pattern absolute.
func (j *job) resolve(pattern string, r *rank) string {
	place := output.Place{
		Job: j.ident().Job, Name: j.order.Launch.Name,
		Rank: r.id, Index: j.order.Index, Node: j.node(),
	}
	if strings.Contains(pattern, "u") {
		place.User = userName() // reads a file
	}
	name := output.Expand(pattern, place)
	if !filepath.IsAbs(name) {
		name = filepath.Join(j.what.Cwd, name)
	}
	return name
}

// openOutput opens an output file. It does not wait for the reader of a named
// pipe: where there is none, that is an error.
func (j *job) openOutput(name string) (int, *failure) {
	flags := unix.O_WRONLY | unix.O_CREAT | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_TRUNC | unix.O_NONBLOCK
	if j.what.IO.Append {
		flags = flags&^unix.O_TRUNC | unix.O_APPEND
	}
	fd, err := unix.Open(name, flags, 0o666)
	if err != nil {
		f := fail(launcher.CauseOurs, kindOf(err), "cannot write %s on %s: %s", name, j.node(), reason(err))
		if errors.Is(err, unix.ENOENT) {
			f = f.hint("its folder does not exist there")
		}
		return -1, f
	}
	unix.SetNonblock(fd, false)
	return fd, nil
}

// openInput opens a file for a rank to read. It does not wait for the writer
// of a named pipe: where there is none, the rank finds it empty.
func openInput(name string) (int, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err == nil {
		unix.SetNonblock(fd, false)
	}
	return fd, err
}

// kindOf classes a file error.
func kindOf(err error) filch.Kind {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return filch.NotFound
	case errors.Is(err, os.ErrPermission):
		return filch.Denied
	}
	return filch.Unavailable
}
