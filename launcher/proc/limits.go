package proc

import (
	"syscall"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"golang.org/x/sys/unix"
)

// limitSet is what the keeper's own limits were before a fork.
type limitSet []limitWas

type limitWas struct {
	resource int
	was      unix.Rlimit
}

// harmless limits may be set on the keeper itself while it forks. The others
// (address space, data, processes, file size) could fail the keeper, which has
// threads and a heap that grow when they like.
func harmless(resource int) bool {
	switch resource {
	case unix.RLIMIT_AS, unix.RLIMIT_DATA, unix.RLIMIT_NPROC, unix.RLIMIT_FSIZE:
		return false
	}
	return true
}

// raiseLimits gives this process the harmless soft limits of the submitter, no
// more than the hard ones here, so that the ranks inherit them.
func raiseLimits(want []launcher.Rlimit) limitSet {
	var set limitSet
	for _, w := range want {
		var is unix.Rlimit
		if !harmless(int(w.Resource)) || unix.Getrlimit(int(w.Resource), &is) != nil {
			continue
		}
		soft := min(w.Soft, is.Max)
		if soft == is.Cur && w.Resource != unix.RLIMIT_NOFILE {
			continue
		}
		set = append(set, limitWas{int(w.Resource), is})
		is.Cur = soft
		setLimit(int(w.Resource), is)
	}
	return set
}

func (s limitSet) restore() {
	for _, l := range s {
		setLimit(l.resource, l.was)
	}
}

// setLimit goes through package syscall for the number of files: it makes Go
// forget the limit that it would give back to a child.
func setLimit(resource int, l unix.Rlimit) {
	if resource == unix.RLIMIT_NOFILE {
		syscall.Setrlimit(resource, &syscall.Rlimit{Cur: l.Cur, Max: l.Max})
		return
	}
	unix.Setrlimit(resource, &l)
}

// harmful lists the limits that must be set on the child, where they differ
// from what it inherits.
func harmful(want []launcher.Rlimit) []limitWas {
	var set []limitWas
	for _, w := range want {
		var is unix.Rlimit
		if harmless(int(w.Resource)) || unix.Getrlimit(int(w.Resource), &is) != nil {
			continue
		}
		if soft := min(w.Soft, is.Max); soft != is.Cur {
			is.Cur = soft
			set = append(set, limitWas{int(w.Resource), is})
		}
	}
	return set
}

// A program that was just written is busy for as long as a child that was forked
// meanwhile, by whoever wrote it, has not executed its own.
const (
	busyTries = 20
	busyPause = 5 * time.Millisecond
)

// forkExec is syscall.ForkExec, with limits that are set on the child alone: it
// asks to be traced, stops after the exec and before its first instruction,
// gets its limits and is let go. Where tracing is not allowed limited is false
// and the child runs without them.
func forkExec(path string, argv []string, attr *syscall.ProcAttr, limits []limitWas) (pid int, limited bool, err error) {
	if len(limits) == 0 {
		pid, err = syscall.ForkExec(path, argv, attr)
		for try := 0; err == unix.ETXTBSY && try < busyTries; try++ {
			time.Sleep(busyPause)
			pid, err = syscall.ForkExec(path, argv, attr)
		}
		return pid, true, err
	}
	attr.Sys.Ptrace = true
	pid, err = syscall.ForkExec(path, argv, attr)
	attr.Sys.Ptrace = false
	if err == unix.EPERM {
		pid, err = syscall.ForkExec(path, argv, attr)
		return pid, false, err
	}
	if err != nil {
		return pid, false, err
	}
	var ws unix.WaitStatus
	for {
		_, err = unix.Wait4(pid, &ws, unix.WUNTRACED, nil)
		if err != unix.EINTR {
			break
		}
	}
	if err == nil && ws.Stopped() {
		for _, l := range limits {
			unix.Prlimit(pid, l.resource, &l.was, nil)
		}
		unix.PtraceDetach(pid)
	}
	return pid, true, nil
}
