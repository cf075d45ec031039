package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// UnkillableAfter is how long processes may resist SIGKILL (by hanging in the kernel)
// before the keeper gives up on the processes and counts the rest.
const UnkillableAfter = 60 * time.Second

// Descendants lists the processes below pid, parents first, without zombies of pid itself
// waiting to be reaped.
func Descendants(pid int) []int {
	all, ok := Children(pid)
	if !ok {
		return DescendantsByParent(pid)
	}
	for i := 0; i < len(all); i++ {
		more, _ := Children(all[i])
		all = append(all, more...)
	}
	return all
}

// Children reads the children of all threads of pid; ok is false where the kernel does
// not list children (CONFIG_PROC_CHILDREN).
func Children(pid int) (pids []int, ok bool) {
	base := "/proc/" + strconv.Itoa(pid) + "/task/"
	tasks, err := os.ReadDir(base)
	if err != nil {
		return nil, true // it has ended
	}
	for _, t := range tasks {
		b, err := os.ReadFile(base + t.Name() + "/children")
		if err != nil {
			if os.IsNotExist(err) && PathExists(base+t.Name()) {
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

func PathExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// DescendantsByParent reads every process's parent.
func DescendantsByParent(root int) []int {
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

// statOf reads the fields of /proc/TASK/stat after the name, which may hold any
// character. The state is the first field returned. A reaped task has no fields.
func statOf(task string) [][]byte {
	b, err := os.ReadFile("/proc/" + task + "/stat")
	if err != nil {
		return nil
	}
	return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
}

// IsExiting reports whether a process is exiting, with all threads. The kernel marks each
// thread before it closes the connections of the process: a peer that saw a connection of
// the process close finds the mark set.
func IsExiting(pid int) bool {
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

// KillPID sends sig to a process just found to be ours. Between the look-up and the kill,
// the kernel may give the number to another process. Where the kernel has pidfds, KillPID
// first opens the process and then checks the parent again.
func KillPID(pid int, sig unix.Signal) {
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
