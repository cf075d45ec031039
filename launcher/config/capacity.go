package config

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/topology"
	"github.com/filch-hpc/filch/slots"
)

// Capacity returns the resources that a node lends: as many slots as processors unless
// configured otherwise.
func Capacity(n place.Node) (slots.Capacity, error) {
	m, err := place.Machine()
	if err != nil {
		return slots.Capacity{}, err
	}
	all, err := place.Processors(n.Threads)
	if err != nil {
		return slots.Capacity{}, err
	}
	c := capacityOf(n, &m, len(all))
	if c.MemBytes == 0 {
		c.MemBytes = place.Memory()
	}
	if c.GPUs == nil {
		c.GPUs = GPUs("/dev")
	}
	return c, nil
}

// capacityOf returns the processors of a node. all is how many processors the launchers of
// the machine have together. Slots are cores, or hardware threads if the node says so or has
// more slots than cores. A node with more slots than hardware threads binds nothing, so the
// capacity names no processor.
func capacityOf(n place.Node, m *topology.Machine, all int) slots.Capacity {
	own := m.Within(n.Cores)
	if len(own.Allowed) == 0 { // the CPUs of an earlier start are taken away
		own = *m
	}
	list := own.Processors(n.Threads)
	if len(n.Cores) == 0 {
		list = list[:min(all, len(list))]
	}
	c := slots.Capacity{CPUs: int32(len(list)), Slots: n.Slots, MemBytes: n.MemBytes, GPUs: n.GPUs, Named: n.Named}
	if n.Virtual && int(n.Members) > all {
		c.CPUs = 0 // the node shares the processors with other virtual nodes
	}
	if c.Slots == 0 && !n.SlotsGiven {
		c.Slots = int32(len(list))
	}
	if threads := own.Processors(true); int(c.Slots) > len(list) && int(c.Slots) <= len(threads) {
		list = threads
	}
	if int(c.Slots) <= len(list) {
		c.Processors = list[:c.Slots]
	}
	return c
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
