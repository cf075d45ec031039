package daemon

import (
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/proc"
)

// newPort returns launcher/proc as the daemon uses it.
func newPort(d *Daemon) port {
	where := proc.Place{Dir: d.cfg.Dir.Path(), Instance: d.cfg.Dir.Instance, Node: d.in.Self}
	return port{
		spawn:  func() (*process, error) { return d.spawn(proc.Spawn, where) },
		runner: func() (*process, error) { return d.spawn(proc.SpawnRunner, where) },
		redial: func() ([]*process, error) {
			found, err := proc.Redial(where)
			all := make([]*process, len(found))
			for i, k := range found {
				all[i] = processOf(k)
			}
			return all, err
		},
		sweep: func() (int, error) {
			killed, left := proc.SweepOrphans(where)
			if left > 0 {
				return killed, filch.Errorf(filch.Internal, "%d processes are left", left)
			}
			return killed, nil
		},
	}
}

// spawn starts a keeper or a runner; both write their own faults into one file.
func (d *Daemon) spawn(start func(string, proc.Place, *os.File) (*proc.Keeper, error), where proc.Place) (*process, error) {
	log, err := os.OpenFile(filepath.Join(d.cfg.Dir.Path(), "keepers.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	k, err := start(d.cfg.Keeper, where, log)
	if err != nil {
		return nil, err
	}
	return processOf(k), nil
}

func processOf(k *proc.Keeper) *process {
	return &process{pid: k.PID, link: k.Link, wait: k.Wait, wake: func() { _ = unix.Kill(k.PID, unix.SIGCONT) }}
}

// plainThread binds the caller to a thread with the given priority, which its
// children inherit.
func plainThread(nice int) (release func()) {
	runtime.LockOSThread()
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || 20-now == nice {
		return runtime.UnlockOSThread
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), nice)
	return func() {} // the thread differs from the others, and ends with its goroutine
}
