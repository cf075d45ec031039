package sim

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
)

// TestScenarios holds gathering against an ideal central queue, at a small
// size; FILCH_PROOF=1 is the full one.
func TestScenarios(t *testing.T) {
	hosts, slotsEach, halves := 128, 16, 20
	if os.Getenv("FILCH_PROOF") != "" {
		hosts, halves = 1024, 100
	}
	var results []*Result
	for _, s := range Scenarios(hosts, slotsEach, halves) {
		t.Run(s.Name, func(t *testing.T) {
			began := time.Now()
			r := s.Run()
			took := time.Since(began)
			results = append(results, r)
			t.Logf("%d events in %v, %.0f events/s", r.Events, took.Round(time.Millisecond), float64(r.Events)/took.Seconds())
			t.Logf("figure: %s: %d of %d started, makespan %.4f x FIFO, %.1f messages per node and job", s.Name, r.Started, r.Count, r.Ratio(), r.PerNode)
			for _, line := range r.Short() {
				t.Error(line)
			}
		})
	}
	Table(os.Stdout, results)
}

// TestRoundOneIsModest traces 64 nodes: the first round asks few, each lends
// at most half of its free room, and who fits at home asks nobody.
func TestRoundOneIsModest(t *testing.T) {
	const hosts, each = 64, 8
	for _, ranks := range []int{1, each, each + 1, 40, 100, hosts * each / 2, hosts * each} {
		w := NewWorld(Options{Seed: uint64(ranks), Hosts: hosts, Slots: each, Links: quiet(), Calm: true, Check: true})
		asked := map[int32]bool{}
		free := map[int32]int32{}
		var messages int
		var first uint32
		w.peek = func(h *host, e *event) {
			if m, ok := e.body.(*launcher.Ask); ok && m.Half {
				free[h.index] = h.node.Slots().Free
			}
		}
		w.watch = func(from, to *host, m launcher.Message) {
			messages++
			switch m := m.(type) {
			case *launcher.Ask:
				if first == 0 {
					first = m.Round // the home node was asked before, without a message
				}
				if m.Round == first {
					asked[to.index] = true
				}
			case *launcher.Grant:
				if had, ok := free[from.index]; ok && m.Round == first && m.Held > (had+1)/2 {
					t.Errorf("%d ranks: %s lends %d of %d free, want at most half", ranks, from.name, m.Held, had)
				}
			}
		}
		j := &job{host: 5, demand: demand{Submit: time.Millisecond, Slots: ranks, Runs: time.Second}}
		w.add(plain(j, 0))
		w.run(time.Minute)
		w.checkQuiet()
		for _, v := range w.broken {
			t.Errorf("%d ranks: %v", ranks, v)
		}
		need := (ranks + each - 1) / each
		most := max(int(math.Ceil(math.Sqrt(hosts))), 2*need)
		if len(asked) > most {
			t.Errorf("%d ranks: round one asks %d nodes, want at most %d", ranks, len(asked), most)
		}
		if ranks <= each && messages > 0 {
			t.Errorf("%d ranks fit at home and cost %d messages, want none", ranks, messages)
		}
		if ranks > each && len(asked) == 0 {
			t.Errorf("%d ranks do not fit at home, but nobody was asked in round one", ranks)
		}
	}
}

func TestNeverFits(t *testing.T) {
	w := NewWorld(Options{Seed: 1, Hosts: 8, Slots: 4, Links: quiet(), Calm: true})
	j := plain(&job{demand: demand{Submit: 1, Slots: 33, Runs: time.Second}}, 0)
	w.add(j)
	w.run(time.Minute)
	if !j.refused || j.code != 125 {
		t.Errorf("33 ranks on 8 x 4 slots: refused %v with %d, want a refusal with 125", j.refused, j.code)
	}
	if j.endedAt > 50*time.Millisecond {
		t.Errorf("refused after %v, want at once", j.endedAt)
	}
}
