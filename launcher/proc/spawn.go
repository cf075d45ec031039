package proc

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/filch-hpc/filch"
	"golang.org/x/sys/unix"
)

// Place locates the keepers of a node and holds the mark of their processes.
type Place struct {
	Dir      string // the node's state folder; keepers/ in it holds their sockets
	Instance string // the instance's name, for the ranks' FILCH_INSTANCE
	Node     filch.NodeName
}

// KeepersDir holds a socket k<pid>.sock per keeper.
func (p Place) KeepersDir() string { return filepath.Join(p.Dir, "keepers") }

// LinkFD is the descriptor of a keeper's link to the launcher.
const LinkFD = 3

// Keeper is a keeper process as its launcher sees it.
type Keeper struct {
	PID  int
	Link *net.UnixConn
	cmd  *exec.Cmd // nil for an adopted keeper
}

// Wait returns when the process has ended. An adopted keeper is not a child: Wait then
// returns at once, and the end of Link shows the keeper's end.
func (k *Keeper) Wait() error {
	if k.cmd == nil {
		return nil
	}
	return k.cmd.Wait()
}

// Spawn starts a keeper that waits for a Start. exe is the filch binary; log receives the
// keeper's standard output and error: the keeper writes only its own faults.
//
// A keeper has a session of its own and no parent-death signal: a launcher may restart
// while its keepers go on. When a launcher dies, the idle keeper kills the processes
// without a living keeper.
func Spawn(exe string, p Place, log *os.File) (*Keeper, error) {
	return spawn(exe, "keeper", p, log)
}

// SpawnRunner starts a runner, which waits for the launcher's orders to start tasks. A
// runner has no socket: when its launcher is gone, the runner ends its tasks and exits.
func SpawnRunner(exe string, p Place, log *os.File) (*Keeper, error) {
	return spawn(exe, "runner", p, log)
}

func spawn(exe, word string, p Place, log *os.File) (*Keeper, error) {
	if err := os.MkdirAll(p.KeepersDir(), 0o700); err != nil {
		return nil, err
	}
	ours, theirs, err := linkPair()
	if err != nil {
		return nil, fmt.Errorf("cannot make the link of a keeper: %w", err)
	}
	defer theirs.Close()
	cmd := exec.Command(exe, word, p.Dir, p.Instance, string(p.Node))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Dir = "/"
	cmd.Env = keeperEnv(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("cannot start a %s: %w", word, err)
	}
	return &Keeper{PID: cmd.Process.Pid, Link: ours, cmd: cmd}, nil
}

// linkPair makes both ends of a link.
func linkPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), "keeper-link")
	f := os.NewFile(uintptr(fds[0]), "keeper-link")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return c.(*net.UnixConn), theirs, nil
}

// keeperEnv is the part of the launcher's environment that a keeper needs: ranks get the
// client's environment, and secrets stay in the launcher. Two processors are enough for a
// single working thread and keep the Go runtime small.
func keeperEnv(env []string) []string {
	kept := []string{"GOMAXPROCS=2"}
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "PATH", "HOME", "USER", "TMPDIR", "LANG", "GOCOVERDIR", "FILCH_LOCAL":
			kept = append(kept, e)
		}
	}
	return kept
}

// Redial connects to the keepers that an earlier launcher of the node left and that still
// answer, and removes the sockets of the dead keepers. The caller then sends Hello and
// Adopt.
func Redial(p Place) ([]*Keeper, error) {
	names, err := filepath.Glob(filepath.Join(p.KeepersDir(), "k*.sock"))
	if err != nil {
		return nil, err
	}
	var found []*Keeper
	for _, name := range names {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(name), "k%d.sock", &pid); err != nil {
			continue
		}
		c, err := dialShort(name)
		if err != nil {
			os.Remove(name)
			continue
		}
		found = append(found, &Keeper{PID: pid, Link: c})
	}
	return found, nil
}

// dialShort connects to a unix socket. The path may be longer than the 108 bytes of a
// socket address.
func dialShort(path string) (*net.UnixConn, error) {
	short, done, err := ShortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: short})
}

// ShortPath names path by way of a descriptor of its folder; done closes it.
func ShortPath(path string) (short string, done func(), err error) {
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)), func() { unix.Close(fd) }, nil
}

// OutputRoot holds a folder for each job with kept output.
func (p Place) OutputRoot() string { return filepath.Join(p.Dir, "output") }

// OutputDir is where the runners of a node keep the output of a job's tasks; see
// [output.Segments].
func (p Place) OutputDir(job filch.JobID) string {
	return filepath.Join(p.OutputRoot(), job.String())
}
