package keeper

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// copied is the program sent to this node with a job (--bcast). A separate goroutine
// unpacks the program before the job is ready: the file system of the destination named
// by the user may hang.
//
// Without a destination the program goes to a folder of the job, in the node's private
// folder. The keeper removes that folder when the ranks have ended. The name of the
// folder holds the keeper's process id: a sweep sees whether the keeper is dead.
type copied struct {
	job     *job
	what    *launcher.Copy
	own     string // the job's folder in CopiesDir, "" none
	bell    int    // an eventfd that wakes the keeper
	stopped atomic.Bool
	late    *proc.Timer // gives up the wait for the goroutine
	busy    bool        // the goroutine has not ended
	result  atomic.Pointer[unpacking]
}

// unpacking is the goroutine's result.
type unpacking struct {
	libs bool // there are libraries beside the program
	err  error
}

// unpackCopy begins to unpack the job's program; unpacked continues.
func (j *job) unpackCopy() *proc.Failure {
	what := j.order.Launch.Copy
	if err := what.Check(); err != nil {
		return &proc.Failure{Cause: launcher.CauseOurs, Err: err}
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return proc.Failf(launcher.CauseOurs, filch.Unavailable, "cannot copy %s to %s: %s", what.Name, j.node(), proc.Reason(err))
	}
	c := &copied{job: j, what: what, bell: bell, busy: true}
	if what.Dest == "" {
		j.keeper.scratches++
		c.own = fmt.Sprintf("%d.%d", os.Getpid(), j.keeper.scratches)
	}
	j.copy = c
	j.keeper.poll.Watch(bell, proc.Readable, func(uint32) { c.rung() })
	unix.Umask(0o077) // check sets the job's umask after the unpacking
	archive, dir := j.order.Archive, j.keeper.place.CopiesDir()
	go func() {
		libs, err := c.unpack(archive, dir)
		c.result.Store(&unpacking{libs, err})
		unix.Write(bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}()
	return nil
}

// rung handles the end of the goroutine.
func (c *copied) rung() {
	var b [8]byte
	if n, _ := unix.Read(c.bell, b[:]); n != len(b) {
		return
	}
	c.idle()
	if c.job.phase == checking { // else the job was stopped meanwhile
		c.job.unpacked()
	}
}

// idle frees the timer and the descriptor of the goroutine.
func (c *copied) idle() {
	c.busy = false
	c.job.keeper.poll.Stop(c.late)
	c.job.keeper.poll.Drop(c.bell)
	unix.Close(c.bell)
}

// unpacked makes the copy the program of the ranks, and continues the preparation.
func (j *job) unpacked() {
	c := j.copy
	came := c.result.Load()
	if err := came.err; err != nil {
		f := proc.Failf(launcher.CauseOurs, filch.Unavailable, "cannot copy %s to %s: %s", c.what.Name, j.node(), plainReason(err))
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			f = f.Hint("it needs " + strconv.FormatInt(c.what.Bytes>>10, 10) + " KiB in " + c.dir())
		}
		j.failed = f
		j.prepared()
		return
	}
	path := filepath.Join(c.dir(), c.what.Name)
	first := &j.what.Programs[0]
	first.Argv = append([]string{path}, first.Argv[1:]...)
	if came.libs {
		j.what.Env = prependEnv(j.what.Env, "LD_LIBRARY_PATH", proc.LibsOf(path))
	}
	if err := j.assign(); err != nil {
		j.failed = proc.Failf(launcher.CauseOurs, filch.Internal, "cannot start %s on %s: %s", path, j.node(), err)
		j.prepared()
		return
	}
	j.examine()
}

// plainReason is the path and the errno text of a path error, else the text of err.
func plainReason(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Path + ": " + proc.Reason(err)
	}
	return err.Error()
}

func prependEnv(env []string, name, value string) []string {
	for i, kv := range env {
		if old, ok := strings.CutPrefix(kv, name+"="); ok && old != "" {
			env[i] = name + "=" + value + ":" + old
			return env
		}
	}
	return append(env, name+"="+value)
}

// dir is the folder of the program.
func (c *copied) dir() string {
	if c.own == "" {
		return c.what.Dest
	}
	return filepath.Join(c.job.keeper.place.CopiesDir(), c.own)
}

// unpack runs on the goroutine.
func (c *copied) unpack(archive, dir string) (libs bool, err error) {
	f, err := os.Open(archive)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() != c.what.Bytes {
		return false, fmt.Errorf("the archive is not the one of %d bytes that was sent", c.what.Bytes)
	}
	if c.own == "" {
		return c.unpackTo(f, c.what.Dest)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	return c.unpackInto(f, root, c.own)
}

// unpackInto makes a folder and unpacks the archive there.
func (c *copied) unpackInto(f *os.File, root *os.Root, name string) (libs bool, err error) {
	if err := root.Mkdir(name, 0o700); err != nil {
		return false, err
	}
	into, err := root.OpenRoot(name)
	if err != nil {
		return false, err
	}
	defer into.Close()
	return unpack(f, into, c.what.Name, c.what.Bytes, c.stopped.Load)
}

// unpackTo unpacks the archive in a new folder within the folder named by the user, then
// moves each file to its place by a single rename: other nodes may share the folder, and
// a process may be running the older file.
func (c *copied) unpackTo(f *os.File, dest string) (libs bool, err error) {
	if err := makeTrusted(dest); err != nil {
		return false, err
	}
	root, err := os.OpenRoot(dest)
	if err != nil {
		return false, err
	}
	defer root.Close()
	var word [8]byte
	_, _ = rand.Read(word[:]) // crypto/rand never fails
	temporary := ".filch-bcast-" + hex.EncodeToString(word[:])
	defer func() { _ = root.RemoveAll(temporary) }()
	if libs, err = c.unpackInto(f, root, temporary); err != nil {
		return libs, err
	}
	to, err := root.Open(".")
	if err != nil {
		return libs, err
	}
	defer to.Close()
	from, err := root.Open(temporary)
	if err != nil {
		return libs, err
	}
	defer from.Close()
	if libs {
		if err := moveLibs(root, from, to, proc.LibsOf(c.what.Name)); err != nil {
			return libs, err
		}
	}
	return libs, move(from, to, c.what.Name)
}

// move renames a file from one folder to the other. move replaces a file or a link of the
// same name, and does not follow the link. A device, a pipe or a socket of that name is
// an error.
func move(from, to *os.File, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(to.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if kind := st.Mode & unix.S_IFMT; err == nil && kind != unix.S_IFREG && kind != unix.S_IFLNK {
		return fmt.Errorf("%s is there and is no file", filepath.Join(to.Name(), name))
	}
	if err := unix.Renameat(int(from.Fd()), name, int(to.Fd()), name); err != nil {
		return &os.PathError{Op: "rename", Path: filepath.Join(to.Name(), name), Err: err}
	}
	return nil
}

// moveLibs moves the libraries into their folder beside the program. That folder must be
// ours: its owner can replace the libraries that the program loads.
func moveLibs(root *os.Root, from, to *os.File, libs string) error {
	if err := root.Mkdir(libs, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	open := func(in *os.File) (*os.File, error) {
		path := filepath.Join(in.Name(), libs)
		fd, err := unix.Openat(int(in.Fd()), libs, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
	theirs, err := open(from)
	if err != nil {
		return err
	}
	defer theirs.Close()
	ours, err := open(to)
	if err != nil {
		return err
	}
	defer ours.Close()
	st, err := ours.Stat()
	if err != nil {
		return err
	}
	if uid, mode := ownerOf(st); uid != os.Geteuid() || mode&0o002 != 0 {
		return fmt.Errorf("%s belongs to uid %d and has mode %04o: others could change what the program loads", ours.Name(), uid, mode)
	}
	names, err := theirs.Readdirnames(-1)
	for _, name := range names {
		if err == nil {
			err = move(theirs, ours, name)
		}
	}
	return err
}

// ending handles the end of the job. The result is true when the goroutine has ended, or
// when the wait for the goroutine was given up.
func (c *copied) ending() bool {
	if c == nil || !c.busy {
		return true
	}
	c.stopped.Store(true)
	if c.late == nil {
		c.late = c.job.keeper.poll.After(proc.UnkillableAfter, func() {
			c.job.warn(string(c.job.node()) + ": " + c.what.Name + " could not be written within " + proc.UnkillableAfter.String() + ": the file system does not answer")
			c.busy, c.job.keeper.hung = false, true
		})
	}
	return false
}

// remove removes the job's folder and follows no link inside.
func (c *copied) remove() {
	if c == nil || c.own == "" || c.busy {
		return
	}
	proc.RemoveCopy(c.job.keeper.place, c.own)
	c.own = ""
}
