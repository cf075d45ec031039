package place

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/topology"
)

// Machine returns the hardware threads of this machine.
func Machine() (topology.Machine, error) { return topology.Read(os.DirFS("/")) }

// Processors returns the processors that this process may use, cores or hardware threads: the
// first of its mask, as many as the cgroup's quota allows.
func Processors(threads bool) ([]filch.Processor, error) {
	m, err := Machine()
	if err != nil {
		return nil, err
	}
	all := m.Processors(threads)
	if q := quota(os.ReadFile); q > 0 && q < len(all) {
		all = all[:q]
	}
	return all, nil
}

// quota returns how many CPUs' time the cgroup grants, rounded up; 0 no limit.
func quota(read func(string) ([]byte, error)) int {
	if b, err := read("/sys/fs/cgroup/cpu.max"); err == nil {
		f := strings.Fields(string(b))
		if len(f) == 2 {
			return ratio(f[0], f[1])
		}
		return 0
	}
	q, err := read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
	if err != nil {
		return 0
	}
	p, err := read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
	if err != nil {
		return 0
	}
	return ratio(strings.TrimSpace(string(q)), strings.TrimSpace(string(p)))
}

func ratio(quota, period string) int {
	q, err := strconv.Atoi(quota)
	p, err2 := strconv.Atoi(period)
	if err != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0
	}
	return (q + p - 1) / p
}

// Memory returns the memory of the machine in bytes, or the cgroup's limit if less; 0
// if unknown.
func Memory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	total := int64(info.Totalram) * int64(info.Unit)
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
			total = min(total, n)
		}
	}
	return total
}
