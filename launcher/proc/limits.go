package proc

import (
	"syscall"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"golang.org/x/sys/unix"
)

// limitSet holds the keeper's own limits from before a fork.
type limitSet []limitWas

type limitWas struct {
	resource int
	was      unix.Rlimit
}

// harmless limits may be set on the keeper itself while it forks. The others (address
// space, data, processes, file size) could make the keeper fail: a Go runtime adds
// threads and heap at any time.
func harmless(resource int) bool {
	switch resource {
	case unix.RLIMIT_AS, unix.RLIMIT_DATA, unix.RLIMIT_NPROC, unix.RLIMIT_FSIZE:
		return false
	}
	return true
}

// RaiseLimits gives this process the harmless soft limits of the submitter, no
// more than the hard ones here, so that the ranks inherit them.
func RaiseLimits(want []launcher.Rlimit) limitSet {
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

func (s limitSet) Restore() {
	for _, l := range s {
		setLimit(l.resource, l.was)
	}
}

// setLimit goes through package syscall for the number of files: the call makes Go forget
// the original limit, which Go would otherwise restore in a child.
func setLimit(resource int, l unix.Rlimit) {
	if resource == unix.RLIMIT_NOFILE {
		syscall.Setrlimit(resource, &syscall.Rlimit{Cur: l.Cur, Max: l.Max})
		return
	}
	unix.Setrlimit(resource, &l)
}

// Unraised lists the limits to set on the child, where the wanted value differs from the
// inherited value.
func Unraised(want []launcher.Rlimit) []limitWas {
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

// A newly written program gives ETXTBSY while a process forked by the writer still holds
// the file open: between the writer's fork and the exec of that child.
const (
	busyTries = 20
	busyPause = 5 * time.Millisecond
)

// ForkExec is syscall.ForkExec, with limits for the child alone. The child asks to be
// traced and stops after the exec, before the first instruction. The parent then sets the
// limits and detaches. Where tracing is not allowed, limited is false and the child runs
// without the limits.
func ForkExec(path string, argv []string, attr *syscall.ProcAttr, limits []limitWas) (pid int, limited bool, err error) {
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
