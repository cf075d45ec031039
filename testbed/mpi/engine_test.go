//go:build !root

package mpi_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/pmi"
)

func TestEngineOneNode(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 4} {
		g := &wires{t: t, where: make([]int32, n)}
		ends := g.run(time.Minute, program(t, "hello"))
		good(t, ends)
		hellos(t, outputs(ends), g.where, []string{name})
	}
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

// stopWith makes the end of rank r end all others, as a keeper does for a bad
// one.
func (g *wires) stopWith(r int) { g.last, g.stops = r, true }

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
