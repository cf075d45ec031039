package query

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// processes holds the processes of this machine, by pid.
type processes struct {
	all  map[int]processInfo
	kids map[int][]int
}

type processInfo struct {
	parent  int
	threads int
	dead    bool
	rss     int64 // resident bytes
}

func readProcesses() *processes {
	ps := &processes{all: map[int]processInfo{}, kids: map[int][]int{}}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		stat, err2 := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || err2 != nil {
			continue
		}
		// PID (NAME) STATE PPID ...; the 20th field is the number of threads.
		rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(rest) < 18 {
			continue
		}
		p := processInfo{dead: rest[0] == "Z" || rest[0] == "X"}
		p.parent, _ = strconv.Atoi(rest[1])
		p.threads, _ = strconv.Atoi(rest[17])
		if len(rest) > 21 { // the 24th field counts resident pages
			pages, _ := strconv.ParseInt(rest[21], 10, 64)
			p.rss = pages * int64(os.Getpagesize())
		}
		ps.all[pid] = p
		ps.kids[p.parent] = append(ps.kids[p.parent], pid)
	}
	return ps
}

// maxAncestors bounds the processes between a client and its keeper or runner.
const maxAncestors = 1000

// top returns the ancestor of pid that a keeper or a runner, a child of the launcher,
// has started; 0 if there is none.
func (ps *processes) top(launcher, pid int) int {
	for range maxAncestors {
		p, ok := ps.all[pid]
		switch {
		case !ok:
			return 0
		case ps.all[p.parent].parent == launcher:
			return pid
		}
		pid = p.parent
	}
	return 0
}

// tied reports whether a rank or task does nothing except wait for these clients.
func (ps *processes) tied(launcher int, clients []int) bool {
	top := 0
	for _, pid := range clients {
		t := ps.top(launcher, pid)
		if t == 0 || top != 0 && t != top {
			return false
		}
		top = t
	}
	return top != 0 && ps.waits(top, clients)
}

// waits reports whether a process is one of the clients, or only waits for children for
// which waits is true. waits does not see an alarm that the process has set for itself.
func (ps *processes) waits(pid int, clients []int) bool {
	if slices.Contains(clients, pid) {
		return true
	}
	if ps.all[pid].threads != 1 || !inWait(pid) {
		return false
	}
	living := 0
	for _, kid := range ps.kids[pid] {
		if ps.all[kid].dead {
			continue
		}
		if living++; !ps.waits(kid, clients) {
			return false
		}
	}
	return living > 0
}

// inWait reports whether a process is in a system call that ends with a child. A shell
// waits for the signal about an ended child. So does timeout, which has a timer.
func inWait(pid int) bool {
	timers, err := os.ReadFile(fmt.Sprintf("/proc/%d/timers", pid))
	if err == nil && len(timers) > 0 {
		return false
	}
	call, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	if err2 != nil {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
		return err == nil && string(name) == "do_wait"
	}
	number, _, _ := strings.Cut(string(call), " ")
	n, err2 := strconv.Atoi(number)
	return err2 == nil && (n == unix.SYS_WAIT4 || n == unix.SYS_WAITID || n == unix.SYS_RT_SIGSUSPEND && err == nil)
}

// maxFamily bounds the processes of a task whose memory is summed.
const maxFamily = 4096

// memory sums the resident memory of a process and of all below.
func (ps *processes) memory(pid int) (sum int64) {
	list := []int{pid}
	for i := 0; i < len(list) && i < maxFamily; i++ {
		if p := ps.all[list[i]]; !p.dead {
			sum += p.rss
		}
		list = append(list, ps.kids[list[i]]...)
	}
	return sum
}

// tasksOf finds the processes of tasks of a job: the children of the runners, which are
// children of the launcher, by the number of their task. A worker runs one task after the
// other and is left out, and so are the ranks of a gang, which a keeper started.
func (ps *processes) tasksOf(launcher int, job filch.JobID) map[int32]int {
	found := map[int32]int{}
	want := "FILCH_JOB=" + job.String()
	for _, runner := range ps.kids[launcher] {
		for _, pid := range ps.kids[runner] {
			env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err != nil {
				continue // the process has ended
			}
			words := strings.Split(string(env), "\x00")
			if !slices.Contains(words, want) {
				continue
			}
			for _, w := range words {
				if text, ok := strings.CutPrefix(w, "FILCH_TASK="); ok {
					if n, err := strconv.ParseInt(text, 10, 32); err == nil {
						found[int32(n)] = pid
					}
				}
			}
		}
	}
	return found
}
