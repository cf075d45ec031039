package mpi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/pmi"
	"github.com/filch-hpc/filch/testbed/netns"
)

// good checks that all ranks ended with 0 after MPI_Finalize.
func good(t *testing.T, ends []outcome) {
	t.Helper()
	for r, e := range ends {
		if e.code != 0 || e.state != pmi.Finalized {
			t.Errorf("rank %d ended with %d, %v: %s", r, e.code, e.state, e.output)
		}
	}
}

// hellos checks what hello says of every rank: where has its node, names the
// host of each node.
func hellos(t *testing.T, output string, where []int32, names []string) {
	t.Helper()
	shared := map[int32]int{}
	for _, n := range where {
		shared[n]++
	}
	got := strings.Split(strings.TrimSpace(output), "\n")
	slices.Sort(got)
	var want []string
	for r, n := range where {
		want = append(want, fmt.Sprintf("rank %d of %d on %s shared %d", r, len(where), names[n], shared[n]))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("hello said\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func outputs(ends []outcome) string {
	var b strings.Builder
	for _, e := range ends {
		b.WriteString(e.output)
	}
	return b.String()
}

func TestEngineOneNode(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		g := &wires{t: t, where: make([]int32, n), hosts: netns.New(t, 1).Hosts}
		ends := g.run(time.Minute, program(t, "hello"))
		good(t, ends)
		hellos(t, outputs(ends), g.where, []string{"n1"})
	}
}

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

// TestEnginePMI2 has programs of Slurm's library on one and on two nodes.
func TestEnginePMI2(t *testing.T) {
	for mapping, where := range map[string][]int32{"(vector,(0,1,3))": {0, 0, 0}, "(vector,(0,2,1))": {0, 1}} {
		g := &wires{t: t, where: where, early: pmi.EarlyDefault, env: []string{"FILCH_TEST_LOWEST=0"}}
		if len(where) == 2 {
			g.env = nil
		}
		ends := g.run(20*time.Second, program(t, "pmi2"))
		good(t, ends)
		for r, e := range ends {
			head := fmt.Sprintf("rank %d of %d map %s", r, len(where), mapping)
			if !strings.HasPrefix(e.output, head) || !strings.HasSuffix(e.output, ": right\n") {
				t.Errorf("rank %d said %q, want %q and right", r, e.output, head)
			}
		}
	}
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

func TestEngineEnds(t *testing.T) {
	tests := map[string]struct {
		args  []string
		state pmi.State
		code  int
	}{
		"finalized":   {[]string{"finalized", "7"}, pmi.Finalized, 7},
		"unfinalized": {[]string{"unfinalized", "7"}, pmi.Inited, 7},
		"zero":        {[]string{"zero"}, pmi.Inited, 0},
		"segv":        {[]string{"segv"}, pmi.Inited, 139},
		"unstarted":   {[]string{"unstarted", "7"}, pmi.Fresh, 7},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := &wires{t: t, where: []int32{0, 0}, early: pmi.EarlyDefault}
			if name == "finalized" {
				ends := g.run(20*time.Second, program(t, "ends"), tt.args...)
				if ends[1].code != tt.code || ends[1].state != tt.state {
					t.Errorf("rank 1 ended with %d, %v, want %d, %v", ends[1].code, ends[1].state, tt.code, tt.state)
				}
				return
			}
			// wires does not end a job for a rank's code, as a keeper does, so
			// rank 0 stays until it is stopped.
			g.stopWith(1)
			ends := g.run(20*time.Second, program(t, "ends"), tt.args...)
			if ends[1].code != tt.code || ends[1].state != tt.state {
				t.Errorf("rank 1 ended with %d, %v, want %d, %v", ends[1].code, ends[1].state, tt.code, tt.state)
			}
		})
	}
	t.Run("abort", func(t *testing.T) {
		g := &wires{t: t, where: []int32{0, 0}}
		g.run(20*time.Second, program(t, "ends"), "abort", "42")
		if want := []pmi.Abort{{Rank: 1, Code: 42}}; !slices.Equal(g.aborts, want) {
			t.Errorf("aborts %v, want %v", g.aborts, want)
		}
	})
	t.Run("garbage", func(t *testing.T) {
		g := &wires{t: t, where: []int32{0, 0}}
		g.run(20*time.Second, program(t, "ends"), "garbage")
		if len(g.breaks) != 1 || g.breaks[0].Rank != 1 || !strings.Contains(g.breaks[0].Text, "garbage") {
			t.Errorf("breaks %v, want one of rank 1 for garbage", g.breaks)
		}
	})
	t.Run("unstarted-zero", func(t *testing.T) {
		g := &wires{t: t, where: []int32{0, 0}}
		g.run(20*time.Second, program(t, "ends"), "unstarted-zero")
		want := []pmi.Break{{Rank: 0, Text: "waits for rank 1, which ended before MPI_Init"}}
		if !slices.Equal(g.breaks, want) {
			t.Errorf("breaks %v, want %v", g.breaks, want)
		}
	})
}
