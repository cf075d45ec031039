package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// descendants lists the processes below pid, parents first, without zombies of
// pid itself that only wait to be reaped.
func descendants(pid int) []int {
	all, ok := childrenOf(pid)
	if !ok {
		return descendantsByParent(pid)
	}
	for i := 0; i < len(all); i++ {
		more, _ := childrenOf(all[i])
		all = append(all, more...)
	}
	return all
}

// childrenOf reads the children of all threads of pid; ok is false where the
// kernel does not tell (CONFIG_PROC_CHILDREN).
func childrenOf(pid int) (pids []int, ok bool) {
	base := "/proc/" + strconv.Itoa(pid) + "/task/"
	tasks, err := os.ReadDir(base)
	if err != nil {
		return nil, true // it has ended
	}
	for _, t := range tasks {
		b, err := os.ReadFile(base + t.Name() + "/children")
		if err != nil {
			if os.IsNotExist(err) && exists(base+t.Name()) {
				return nil, false
			}
			continue
		}
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids, true
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// descendantsByParent reads every process's parent.
func descendantsByParent(root int) []int {
	byParent := map[int][]int{}
	for _, pid := range processes() {
		if ppid := parentOf(pid); ppid > 0 {
			byParent[ppid] = append(byParent[ppid], pid)
		}
	}
	all := byParent[root]
	for i := 0; i < len(all); i++ {
		all = append(all, byParent[all[i]]...)
	}
	return all
}

// processes lists all process ids.
func processes() []int {
	names, _ := filepath.Glob("/proc/[0-9]*")
	pids := make([]int, 0, len(names))
	for _, n := range names {
		if pid, err := strconv.Atoi(filepath.Base(n)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// parentOf reads the parent of a process, 0 when it has ended.
func parentOf(pid int) int {
	f := statOf(strconv.Itoa(pid))
	if len(f) < 2 || f[0][0] == 'Z' {
		return 0
	}
	n, _ := strconv.Atoi(string(f[1]))
	return n
}

// statOf reads the fields of /proc/TASK/stat that follow the name, which may hold
// anything: the state is the first. There are none of a task that was reaped.
func statOf(task string) [][]byte {
	b, err := os.ReadFile("/proc/" + task + "/stat")
	if err != nil {
		return nil
	}
	return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
}

// exiting reports whether a process is on its way out, with all of its threads.
// The kernel marks each thread before it closes the connections of the process:
// the mark is there for all who learned from a connection that the process ends.
func exiting(pid int) bool {
	const marked = 0x4 // PF_EXITING, include/linux/sched.h
	base := strconv.Itoa(pid) + "/task/"
	tasks, err := os.ReadDir("/proc/" + base)
	if err != nil {
		return os.IsNotExist(err)
	}
	for _, t := range tasks {
		if f := statOf(base + t.Name()); len(f) > 6 {
			if flags, _ := strconv.ParseUint(string(f[6]), 10, 32); flags&marked == 0 {
				return false
			}
		}
	}
	return true
}

// killPID sends sig to a process that was just seen to be ours. Between the
// look and the kill its number may have gone to another process; with a pidfd
// the parent is looked at again after the process is held.
func killPID(pid int, sig unix.Signal) {
	before := parentOf(pid)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if err == unix.ENOSYS {
			unix.Kill(pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if before != 0 && parentOf(pid) != 0 {
		unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}
