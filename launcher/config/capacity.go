package config

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/slots"
)

// Capacity returns the resources that a node lends: as many slots as cores unless
// configured otherwise. A node with more slots than cores binds nothing, so the
// capacity names no cores.
func Capacity(n place.Node) (slots.Capacity, error) {
	cores := n.Cores
	if len(cores) == 0 {
		var err error
		if cores, err = Cores(); err != nil {
			return slots.Capacity{}, err
		}
	}
	c := slots.Capacity{Cores: slices.Clone(cores), CPUs: int32(len(cores)), Slots: n.Slots, MemBytes: n.MemBytes, GPUs: n.GPUs}
	if all, err := Cores(); n.Virtual && err == nil && int(n.Members) > len(all) {
		c.CPUs = 0 // the node shares the cores with other virtual nodes
	}
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
		c.MemBytes = place.Memory()
	}
	if c.GPUs == nil {
		c.GPUs = GPUs("/dev")
	}
	return c, nil
}

// Cores returns the processors that this process may use, by the kernel's numbers: the
// first of its affinity mask, as many as the cgroup's quota allows.
func Cores() ([]int32, error) {
	cores, err := place.Affinity()
	if err != nil {
		return nil, err
	}
	if q := quota(os.ReadFile); q > 0 && q < len(cores) {
		cores = cores[:q]
	}
	return cores, nil
}

// quota returns how many cores' time the cgroup grants, rounded up; 0 no limit.
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

// GPUs returns the NVIDIA devices of the node, by number.
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
