package config

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/topology"
	"github.com/filch-hpc/filch/testbed/machinetree"
)

func TestCapacityOfGeneratedTrees(t *testing.T) {
	smt := machinetree.Machine{Sockets: 1, Cores: 4, Threads: 2}
	for _, c := range []struct {
		name  string
		tree  machinetree.Machine
		node  place.Node
		all   int // processors of the machine's launchers; 0: as many as the machine has
		slots int32
		cpus  int32
		want  string // the CPUs of each slot
	}{
		{"a-slot-is-a-core", smt, place.Node{}, 0, 4, 4, "0,4 1,5 2,6 3,7"},
		{"a-slot-is-a-hardware-thread", smt, place.Node{Threads: true}, 0, 8, 8, "0 4 1 5 2 6 3 7"},
		{"fewer-slots-than-cores", smt, place.Node{Slots: 3}, 0, 3, 4, "0,4 1,5 2,6"},
		{"more-slots-than-cores", smt, place.Node{Slots: 6}, 0, 6, 4, "0 4 1 5 2 6"},
		{"more-slots-than-hardware-threads", smt, place.Node{Slots: 9}, 0, 9, 4, ""},
		{"part-of-a-machine", smt, place.Node{Cores: []int32{1, 5}, Virtual: true, Members: 4}, 4, 1, 1, "1,5"},
		{"a-core-shared-by-nodes", smt, place.Node{Cores: []int32{1, 5}, Virtual: true, Members: 8, Slots: 1}, 4, 1, 0, "1,5"},
		{"cpus-of-an-earlier-start-are-gone", smt, place.Node{Cores: []int32{64}, Slots: 2}, 0, 2, 4, "0,4 1,5"},
		{"a-quota-of-two-cpus", smt, place.Node{}, 2, 2, 2, "0,4 1,5"},
		{"cores-of-both-sockets", machinetree.Machine{Sockets: 2, Cores: 2}, place.Node{}, 0, 4, 4, "0 1 2 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := topology.Read(c.tree.Tree())
			if err != nil {
				t.Fatal(err)
			}
			all := c.all
			if all == 0 {
				all = len(m.Processors(c.node.Threads))
			}
			got := capacityOf(c.node, &m, all)
			var cpus []string
			for _, p := range got.Processors {
				cpus = append(cpus, topology.FormatList(p.CPUs))
			}
			if s := strings.Join(cpus, " "); s != c.want || got.Slots != c.slots || got.CPUs != c.cpus {
				t.Errorf("got %d slots, %d cpus, %s; want %d, %d, %s", got.Slots, got.CPUs, s, c.slots, c.cpus, c.want)
			}
		})
	}
}

// A machine of 2,048 CPUs lends 1,024 cores or 2,048 hardware threads.
func TestCapacityOf2048CPUs(t *testing.T) {
	m, err := topology.Read(machinetree.Machine{Sockets: 16, Cores: 64, Threads: 2}.Tree())
	if err != nil {
		t.Fatal(err)
	}
	cores, threads := capacityOf(place.Node{}, &m, 1024), capacityOf(place.Node{Threads: true}, &m, 2048)
	if cores.Slots != 1024 || len(cores.Processors) != 1024 || threads.Slots != 2048 || len(threads.Processors) != 2048 {
		t.Errorf("got %d and %d slots with %d and %d processors", cores.Slots, threads.Slots, len(cores.Processors), len(threads.Processors))
	}
	if got := threads.Processors[2047].CPUs[0]; got != 2047 {
		t.Errorf("the last hardware thread is CPU %d", got)
	}
}
