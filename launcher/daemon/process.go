package daemon

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/launcher/proc"
)

// PrepareProcess makes this process fit to be a launcher. Descendants of dead keepers become
// its children; its memory (with the secret) is neither dumped nor readable by others;
// the kernel schedules the launcher before the ranks if permitted; the launcher
// inherits no open files of its parent. PrepareProcess returns the priority for keepers.
// Steps without permission are skipped.
func PrepareProcess() (nice int, err error) {
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

// raise is the advantage in priority of a launcher over ranks.
const raise = 10
