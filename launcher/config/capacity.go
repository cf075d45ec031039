package config

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/slots"
)

// Capacity is what a node lends: as many slots as cores unless told otherwise.
// A node with more slots than cores binds nothing, so it names no cores.
func Capacity(n place.Node) (slots.Capacity, error) {
	cores := n.Cores
	if len(cores) == 0 {
		var err error
		if cores, err = Cores(); err != nil {
			return slots.Capacity{}, err
		}
	}
	c := slots.Capacity{Cores: slices.Clone(cores), Slots: n.Slots, MemBytes: n.MemBytes, GPUs: n.GPUs}
	if c.Slots == 0 {
		c.Slots = int32(len(cores))
	}
	switch {
	case int(c.Slots) > len(cores):
		c.Cores = nil
	case int(c.Slots) < len(cores):
		c.Cores = c.Cores[:c.Slots]
	}
	if c.MemBytes == 0 {
		c.MemBytes = Memory()
	}
	if c.GPUs == nil {
		c.GPUs = GPUs("/dev")
	}
	return c, nil
}

// Cores are the processors that this process may use, by the kernel's numbers:
// of its affinity mask as many as the cgroup's quota allows.
func Cores() ([]int32, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, filch.Errorf(filch.Internal, "cannot tell which cores may be used: %s", err.Error())
	}
	var cores []int32
	for i := range len(set) * strconv.IntSize {
		if set.IsSet(i) {
			cores = append(cores, int32(i))
		}
	}
	if q := quota(os.ReadFile); q > 0 && q < len(cores) {
		cores = cores[:q]
	}
	return cores, nil
}

// quota is how many cores' time the cgroup grants, rounded up; 0 no limit.
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

// Memory is what the machine has, or its cgroup if that is less.
func Memory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
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

// GPUs are the NVIDIA devices of the node, by number.
func GPUs(dev string) []string {
	found, _ := filepath.Glob(filepath.Join(dev, "nvidia[0-9]*"))
	names := make([]string, 0, len(found))
	for _, f := range found {
		n := strings.TrimPrefix(filepath.Base(f), "nvidia")
		if _, err := strconv.Atoi(n); err == nil {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, place.NaturalOrder)
	return names
}
