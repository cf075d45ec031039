package daemon

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/launcher/proc"
)

// Surround makes this process fit to be a launcher: descendants of dead keepers
// come to it, its memory (which holds the secret) is neither dumped nor read by
// others, it is scheduled before the ranks where that is allowed, and it keeps
// nothing open that its parent had. It returns the priority that keepers are to have. What is not allowed is left.
func Surround() (nice int, err error) {
	for _, fd := range proc.Inherited() {
		unix.Close(fd)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	var core unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &core) == nil {
		core.Cur = 0 // the hard limit stays: ranks may dump
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &core)
	}
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0, nil //nolint:nilerr // no priority is no fault
	}
	nice = 20 - raw
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nice, nil //nolint:nilerr
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, max(nice-raise, -20))
		}
	}
	return nice, nil
}

// raise is how much sooner than ranks a launcher is scheduled.
const raise = 10
