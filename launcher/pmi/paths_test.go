package pmi_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// TestPathsUnderLoss sends parcels between all pairs of nodes over relays that
// lose, repeat and reorder frames.
func TestPathsUnderLoss(t *testing.T) {
	const nodes = 40 // two levels below the root
	rng := rand.New(rand.NewPCG(7, 7))
	paths := make([]*pmi.Paths, nodes)
	for i := range paths {
		paths[i] = pmi.NewPaths(int32(i), nodes)
	}
	type frame struct {
		from, to int32
		body     []byte
	}
	var way []frame
	collect := func(from int, out *pmi.Out) {
		for _, f := range out.Peers {
			way = append(way, frame{int32(from), f.To, f.Body})
		}
		out.Reset()
	}
	want := map[string]int{}
	for range 300 {
		from, to := rng.IntN(nodes), rng.IntN(nodes)
		if from == to {
			continue
		}
		body := bytes.Repeat(fmt.Appendf(nil, "%d>%d %d;", from, to, rng.IntN(1000)), 1+rng.IntN(20)*rng.IntN(1000))
		if !paths[from].Send(int32(to), body) {
			t.Fatalf("no way from %d to %d", from, to)
		}
		want[fmt.Sprintf("%d>%d %s", from, to, body)]++
	}
	var out pmi.Out
	now := time.Duration(0)
	for step := 0; len(want) > 0 && step < 2_000_000; step++ {
		if len(way) == 0 {
			for i, p := range paths {
				if p.Flush(now, &out); len(out.Peers) > 0 {
					collect(i, &out)
				}
			}
			if len(way) == 0 {
				next := filch.Never
				for _, p := range paths {
					next = min(next, p.Deadline())
				}
				if next == filch.Never {
					break
				}
				now = max(now, next)
			}
			continue
		}
		i := rng.IntN(min(len(way), 8))
		f := way[i]
		if rng.IntN(8) != 0 {
			way = append(way[:i], way[i+1:]...)
		}
		if rng.IntN(10) == 0 {
			continue
		}
		for _, p := range paths[f.to].Receive(now, f.from, f.body, &out) {
			key := fmt.Sprintf("%d>%d %s", p.From, p.To, p.Body)
			if p.To != f.to || want[key] == 0 {
				t.Fatalf("got an unexpected parcel %.60q", key)
			}
			if want[key]--; want[key] == 0 {
				delete(want, key)
			}
		}
		if len(out.Notes) > 0 {
			t.Fatalf("notes: %q", out.Notes)
		}
		paths[f.to].Flush(now, &out)
		collect(int(f.to), &out)
	}
	if len(want) > 0 {
		t.Errorf("%d parcels did not arrive", len(want))
	}
}

func TestPathsToNobody(t *testing.T) {
	p := pmi.NewPaths(0, 3)
	var out pmi.Out
	for _, to := range []int32{-1, 0, 3} {
		if p.Send(to, nil) {
			t.Errorf("there is a way to node %d of 3", to)
		}
	}
	if p.Receive(0, 2, nil, &out); p.Send(2, []byte("x")) {
		t.Error("there is a way to a node that has left")
	}
	if got, want := fmt.Sprint(p.Neighbors()), "[1 2]"; got != want {
		t.Errorf("neighbors %s, want %s", got, want)
	}
}
