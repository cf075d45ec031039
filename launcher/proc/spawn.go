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

// Place says where the keepers of a node are and how their processes are
// marked.
type Place struct {
	Dir      string // the node's state folder; keepers/ in it holds their sockets
	Instance string // the instance's name, for the ranks' FILCH_INSTANCE
	Node     filch.NodeName
}

// keepersDir holds a socket k<pid>.sock per keeper.
func (p Place) keepersDir() string { return filepath.Join(p.Dir, "keepers") }

// linkFD is where a keeper finds its link.
const linkFD = 3

// Keeper is a keeper process as its launcher sees it.
type Keeper struct {
	PID  int
	Link *net.UnixConn
	cmd  *exec.Cmd // nil for one that was adopted
}

// Wait returns when the process has ended. A keeper that was adopted is not a
// child: for it Wait returns at once, and the end of Link is the sign.
func (k *Keeper) Wait() error {
	if k.cmd == nil {
		return nil
	}
	return k.cmd.Wait()
}

// Spawn starts a keeper that waits for a Start. exe is the filch binary; log
// takes what the keeper has to say, which is nothing but its own faults.
//
// It has a session of its own and no parent-death signal: a launcher may be
// started anew while its keepers go on. The one that is idle when its launcher
// dies ends what no living keeper answers for.
func Spawn(exe string, p Place, log *os.File) (*Keeper, error) {
	return spawn(exe, "keeper", p, log)
}

// SpawnRunner starts a runner, which waits for orders and starts of tasks. It
// has no socket: when its launcher is gone it ends its tasks and leaves.
func SpawnRunner(exe string, p Place, log *os.File) (*Keeper, error) {
	return spawn(exe, "runner", p, log)
}

func spawn(exe, word string, p Place, log *os.File) (*Keeper, error) {
	if err := os.MkdirAll(p.keepersDir(), 0o700); err != nil {
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

// keeperEnv is what a keeper needs of the launcher's environment: ranks get
// the client's, and secrets stay behind. Two processors are enough for one
// thread of work, and keep the runtime small.
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

// Redial connects to the keepers that an earlier launcher of the node left and
// that still answer; the sockets of those that do not are removed. The next
// word is the caller's: Hello and Adopt.
func Redial(p Place) ([]*Keeper, error) {
	names, err := filepath.Glob(filepath.Join(p.keepersDir(), "k*.sock"))
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

// dialShort connects to a unix socket whose path may be longer than the 108
// bytes that an address holds.
func dialShort(path string) (*net.UnixConn, error) {
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: short})
}

// shortPath names path by way of a descriptor of its folder; done closes it.
func shortPath(path string) (short string, done func(), err error) {
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)), func() { unix.Close(fd) }, nil
}
