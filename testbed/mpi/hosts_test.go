//go:build root

package mpi_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/pmi"
	"github.com/filch-hpc/filch/testbed/netns"
)

func TestEngineTwoHosts(t *testing.T) {
	net := netns.New(t, 2)
	names := []string{"n1", "n2"}
	for name, where := range map[string][]int32{"1+1": {0, 1}, "2+2": {0, 0, 1, 1}, "2+1": {0, 0, 1}, "cyclic": {0, 1, 0, 1}} {
		t.Run(name, func(t *testing.T) {
			g := &wires{t: t, where: where, hosts: net.Hosts, early: pmi.EarlyDefault}
			ends := g.run(time.Minute, program(t, "hello"))
			good(t, ends)
			hellos(t, outputs(ends), where, names)
		})
	}
	t.Run("bytes-cross", func(t *testing.T) {
		_, before, _ := net.Hosts[0].Bytes()
		g := &wires{t: t, where: []int32{0, 1}, hosts: net.Hosts, early: pmi.EarlyDefault}
		good(t, g.run(time.Minute, program(t, "ring"), "20", "100000"))
		_, after, _ := net.Hosts[0].Bytes()
		if after-before < 2_000_000 {
			t.Errorf("%d bytes left n1 for 20 laps of 100,000", after-before)
		}
	})
}

// TestEngineWithoutMapping has ranks compare their host names, as they do when
// the mapping would be too long.
func TestEngineWithoutMapping(t *testing.T) {
	g := &wires{t: t, where: []int32{0, 1, 1}, hosts: netns.New(t, 2).Hosts, early: pmi.EarlyDefault, unmapped: true}
	ends := g.run(time.Minute, program(t, "hello"))
	good(t, ends)
	hellos(t, outputs(ends), g.where, []string{"n1", "n2"})
}

// TestEngineStraightToFinalize is the deadlock of MPICH before 4.2: without the
// early release, these launches hang in about half of all cases.
func TestEngineStraightToFinalize(t *testing.T) {
	net := netns.New(t, 2)
	notes := 0
	for range 10 {
		g := &wires{t: t, where: []int32{0, 0, 1, 1}, hosts: net.Hosts, early: pmi.EarlyDefault}
		good(t, g.run(20*time.Second, program(t, "straight")))
		notes += len(g.notes)
		if t.Failed() {
			return
		}
	}
	t.Logf("10 launches of 2+2 ranks, %d early releases", notes)
}
