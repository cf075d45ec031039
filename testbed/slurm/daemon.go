package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// stopWithin is how long a daemon may take from TERM to its end.
const stopWithin = 5 * time.Second

// daemon is a process of the cluster, in a session of its own.
type daemon struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
}

// start starts a daemon in the foreground.
func (c *Cluster) start(name string, argv ...string) error {
	log := c.path(name + ".out")
	f, err := os.Create(log)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = c.env, f, f, c.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.hold.do(cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	d := &daemon{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	c.daemons = append(c.daemons, d)
	go func() {
		_ = cmd.Wait()
		close(d.done)
	}()
	return nil
}

func (d *daemon) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// stop ends the daemon by its pid.
func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(stopWithin):
		_ = d.cmd.Process.Kill()
		<-d.done
	}
}

// holder starts processes from one thread that lives until it is closed: a
// death signal is sent when the thread that forked ends, not the process.
type holder struct{ work chan func() }

func newHolder() *holder {
	h := &holder{work: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range h.work {
			f()
		}
	}()
	return h
}

func (h *holder) do(f func() error) error {
	done := make(chan error, 1)
	h.work <- func() { done <- f() }
	return <-done
}

func (h *holder) close() { close(h.work) }
