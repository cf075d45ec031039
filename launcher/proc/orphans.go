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

// sweepFor bounds a sweep. Processes that fork faster than the sweep kills are left to
// the next sweep.
const sweepFor = 2 * time.Second

// SweepOrphans kills the processes that dead keepers of this node left behind: the
// members of a dead keeper's cgroup, and processes of this user that carry the node's
// mark and descend from no living keeper. A launcher calls SweepOrphans first of all at
// its start, and after a keeper vanished. An idle keeper calls SweepOrphans after its
// launcher died. The results count the killed processes and the processes left.
func SweepOrphans(p Place) (killed, left int) {
	until := time.Now().Add(sweepFor)
	seen := map[int]bool{}
	for {
		orphans := findOrphans(p)
		for _, pid := range orphans {
			if KillPID(pid, unix.SIGKILL); !seen[pid] {
				seen[pid] = true
			}
			// This process is a subreaper: orphans that became our children must be
			// reaped here.
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if len(orphans) == 0 || time.Now().After(until) {
			removeCgroups(p)
			removeScratch(p)
			return len(seen), len(orphans)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// findOrphans lists the orphans. The keepers are looked up after the processes: a keeper
// that starts between the two look-ups must not lose its first ranks.
func findOrphans(p Place) []int {
	inCgroups := keeperCgroups(p)
	mark := []byte("\x00FILCH_SOCKET=" + filepath.Join(p.Dir, "launcher.sock") + "\x00")
	var marked []int
	for _, pid := range processes() {
		if pid != os.Getpid() && carries(pid, mark) {
			marked = append(marked, pid)
		}
	}
	keepers := LivingKeepers(p)
	var orphans []int
	for dir, pid := range inCgroups {
		if !keepers[pid] {
			orphans = append(orphans, members(dir)...)
		}
	}
	for _, pid := range marked {
		if !keepers[pid] && !descendsFrom(pid, keepers) {
			orphans = append(orphans, pid)
		}
	}
	return orphans
}

// LivingKeepers returns the living processes with a socket (keepers) or a file (runners)
// in the keepers' folder.
func LivingKeepers(p Place) map[int]bool {
	alive := map[int]bool{}
	names, _ := filepath.Glob(filepath.Join(p.KeepersDir(), "[kr]*"))
	for _, name := range names {
		digits := strings.TrimSuffix(filepath.Base(name)[1:], ".sock")
		pid, err := strconv.Atoi(digits)
		if err == nil && isKeeper(pid, p) {
			alive[pid] = true
		}
	}
	return alive
}

// isKeeper reports whether pid is a keeper or runner of this place: the kernel may have
// given the number to another process.
func isKeeper(pid int, p Place) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	for _, word := range []string{"keeper", "runner"} {
		if err == nil && bytes.Contains(b, []byte("\x00"+word+"\x00"+p.Dir+"\x00")) {
			return parentOf(pid) != 0
		}
	}
	return false
}

// carries reports whether a process was started with mark in its environment.
func carries(pid int, mark []byte) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && (bytes.Contains(b, mark) || bytes.HasPrefix(b, mark[1:]))
}

// descendsFrom walks up from pid.
func descendsFrom(pid int, ancestors map[int]bool) bool {
	for range 1000 {
		if ancestors[pid] {
			return true
		}
		if pid = parentOf(pid); pid <= 1 {
			return false
		}
	}
	return false
}

// keeperCgroups finds the cgroups of the node's keepers, by folder.
func keeperCgroups(p Place) map[string]int {
	found := map[string]int{}
	own, ok := ownCgroups().unified()
	if !ok {
		return found
	}
	prefix := strings.TrimSuffix(cgroupName(p, 0), "0")
	names, _ := filepath.Glob(filepath.Join(own, cgroupPrefix+"*"))
	for _, dir := range names {
		digits, ok := strings.CutPrefix(filepath.Base(dir), prefix)
		digits, _, _ = strings.Cut(digits, ".")
		if pid, err := strconv.Atoi(digits); ok && err == nil {
			found[dir] = pid
		}
	}
	return found
}

// removeCgroups removes the empty cgroups of keepers that are dead, also of places that no
// longer exist. The kernel does not remove a cgroup with members.
func removeCgroups(p Place) {
	inCgroups := keeperCgroups(p)
	keepers := LivingKeepers(p)
	for dir, pid := range inCgroups {
		if !keepers[pid] && pid != os.Getpid() {
			removeTree(dir)
		}
	}
	c := ownCgroups()
	for _, find := range []func() (string, bool){c.unified, func() (string, bool) { return c.controller("memory") }} {
		own, ok := find()
		if !ok {
			continue
		}
		names, _ := filepath.Glob(filepath.Join(own, cgroupPrefix+"*"))
		for _, dir := range names {
			word := filepath.Base(dir)
			word, _, _ = strings.Cut(word[strings.LastIndexByte(word, '-')+1:], ".")
			if pid, err := strconv.Atoi(word); err == nil && !PathExists("/proc/"+word) && pid > 0 {
				removeTree(dir)
			}
		}
	}
}
