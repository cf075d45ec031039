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

// sweepFor bounds a sweep: what forks faster than it is killed is met again by
// the next one.
const sweepFor = 2 * time.Second

// SweepOrphans kills what is left of jobs of this node whose keeper is dead:
// the members of its cgroup, and processes of this user that carry the node's
// mark and descend from no living keeper. A launcher calls it when it starts,
// before anything else, and when a keeper vanished; an idle keeper calls it
// when its launcher has died. It returns how many processes it has killed and
// how many are left.
func SweepOrphans(p Place) (killed, left int) {
	until := time.Now().Add(sweepFor)
	seen := map[int]bool{}
	for {
		orphans := findOrphans(p)
		for _, pid := range orphans {
			if killPID(pid, unix.SIGKILL); !seen[pid] {
				seen[pid] = true
			}
			// Those that came to this process, a subreaper, wait for us.
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if len(orphans) == 0 || time.Now().After(until) {
			removeRooms(p)
			removeScratch(p)
			return len(seen), len(orphans)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// findOrphans lists them. The keepers are looked up after what they may have
// started: one that begins meanwhile must not lose its first ranks.
func findOrphans(p Place) []int {
	inRooms := rooms(p)
	mark := []byte("\x00FILCH_SOCKET=" + filepath.Join(p.Dir, "launcher.sock") + "\x00")
	var marked []int
	for _, pid := range processes() {
		if pid != os.Getpid() && carries(pid, mark) {
			marked = append(marked, pid)
		}
	}
	keepers := livingKeepers(p)
	var orphans []int
	for dir, pid := range inRooms {
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

// livingKeepers are the processes that listen on the keepers' sockets, and the
// runners, which leave a file there.
func livingKeepers(p Place) map[int]bool {
	alive := map[int]bool{}
	names, _ := filepath.Glob(filepath.Join(p.keepersDir(), "[kr]*"))
	for _, name := range names {
		digits := strings.TrimSuffix(filepath.Base(name)[1:], ".sock")
		pid, err := strconv.Atoi(digits)
		if err == nil && isKeeper(pid, p) {
			alive[pid] = true
		}
	}
	return alive
}

// isKeeper reports whether pid is a keeper or runner of this place: its number
// may have gone to another process.
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

// rooms finds the cgroups of the node's keepers, by folder.
func rooms(p Place) map[string]int {
	found := map[string]int{}
	own, ok := ownCgroups().unified()
	if !ok {
		return found
	}
	prefix := strings.TrimSuffix(roomName(p, 0), "0")
	names, _ := filepath.Glob(filepath.Join(own, roomPrefix+"*"))
	for _, dir := range names {
		digits, ok := strings.CutPrefix(filepath.Base(dir), prefix)
		digits, _, _ = strings.Cut(digits, ".")
		if pid, err := strconv.Atoi(digits); ok && err == nil {
			found[dir] = pid
		}
	}
	return found
}

// removeRooms removes the empty cgroups of keepers that are dead, also those of
// places that no longer exist: one with members cannot be removed.
func removeRooms(p Place) {
	inRooms := rooms(p)
	keepers := livingKeepers(p)
	for dir, pid := range inRooms {
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
		names, _ := filepath.Glob(filepath.Join(own, roomPrefix+"*"))
		for _, dir := range names {
			word := filepath.Base(dir)
			word, _, _ = strings.Cut(word[strings.LastIndexByte(word, '-')+1:], ".")
			if pid, err := strconv.Atoi(word); err == nil && !exists("/proc/"+word) && pid > 0 {
				removeTree(dir)
			}
		}
	}
}
