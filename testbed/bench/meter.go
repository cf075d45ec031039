package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// meter reads the CPU time of everything that this program started, be it
// ended, orphaned or in a session of its own.
type meter struct {
	dir  string // our cgroup, "" where none could be made
	home string // the cgroup that we came from
	file string // where dir counts its CPU time
	unit time.Duration
	pids func() []int // daemons, where there is no cgroup
}

// newMeter moves this process into a cgroup of its own, where it may.
func newMeter() *meter {
	m := &meter{pids: func() []int { return nil }}
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(raw)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		root, file, unit := "", "", time.Nanosecond
		switch {
		case part[1] == "cpuacct" || strings.HasPrefix(part[1], "cpuacct,") || strings.HasSuffix(part[1], ",cpuacct"):
			root, file = "/sys/fs/cgroup/"+part[1], "cpuacct.usage"
		case part[0] == "0" && m.dir == "":
			root, file, unit = "/sys/fs/cgroup", "cpu.stat", time.Microsecond
		default:
			continue
		}
		home := filepath.Join(root, part[2])
		dir := filepath.Join(home, fmt.Sprintf("filch-bench-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if join(dir) != nil {
			_ = os.Remove(dir)
			continue
		}
		m.dir, m.home, m.file, m.unit = dir, home, filepath.Join(dir, file), unit
		if file == "cpuacct.usage" {
			break
		}
	}
	return m
}

func join(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// close goes back to where we came from. A cgroup that is still in use is left.
func (m *meter) close() {
	if m.dir != "" && join(m.home) == nil {
		_ = os.Remove(m.dir)
	}
}

// precise reports whether daemons and orphans are counted to the nanosecond.
func (m *meter) precise() bool { return m.dir != "" }

// cpu is the CPU time used so far without our own.
func (m *meter) cpu() time.Duration {
	if m.dir == "" {
		total := rusage(syscall.RUSAGE_CHILDREN)
		for _, pid := range m.pids() {
			total += processCPU(pid)
		}
		return total
	}
	raw, _ := os.ReadFile(m.file)
	if rest, ok := bytes.CutPrefix(raw, []byte("usage_usec ")); ok {
		raw = rest
	}
	if f := bytes.Fields(raw); len(f) > 0 {
		n, _ := strconv.ParseInt(string(f[0]), 10, 64)
		return time.Duration(n)*m.unit - rusage(syscall.RUSAGE_SELF)
	}
	return 0
}

func rusage(who int) time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ticksPerSecond is USER_HZ, which Linux fixes for all that it prints.
const ticksPerSecond = 100

// processCPU is what a process and its reaped children used, in ticks of 10 ms.
func processCPU(pid int) time.Duration {
	f := statFields(pid)
	if len(f) < 15 {
		return 0
	}
	var ticks int64
	for _, i := range []int{11, 12, 13, 14} { // utime stime cutime cstime
		n, _ := strconv.ParseInt(f[i], 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// statFields are those of /proc/PID/stat after the name; [0] is the state.
func statFields(pid int) []string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
}

// threadCPU is what the living threads of a process used, to the nanosecond.
func threadCPU(pid int) time.Duration {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	var total time.Duration
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if f := strings.Fields(string(raw)); len(f) == 3 {
			n, _ := strconv.ParseInt(f[0], 10, 64)
			total += time.Duration(n)
		}
	}
	return total
}

// rssBytes is what a process has in memory.
func rssBytes(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// childrenOf lists the processes that pid started and that live.
func childrenOf(pid int) []int {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var all []int
	for _, name := range names {
		raw, _ := os.ReadFile(name)
		for f := range strings.FieldsSeq(string(raw)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// machineCPU is the time that all cores together were busy since the boot.
func machineCPU() time.Duration {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	var ticks int64
	for i, f := range strings.Fields(line) {
		switch i {
		case 1, 2, 3, 6, 7: // user nice system irq softirq
			n, _ := strconv.ParseInt(f, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}
