package pmix

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// gang is the engines of a job's nodes, with relays between them that repeat,
// lose and reorder; its helpers are what the test makes of them.
type gang struct {
	t      *testing.T
	rng    *rand.Rand
	now    time.Duration
	nodes  []*Engine
	outs   []pmi.Out
	way    []frame
	told   [][]told // to each node's helper
	breaks []pmi.Break
	aborts []pmi.Abort
	spawns []pmi.Spawn
	kin    []pmi.KinFrame // to other jobs
	notes  []string
}

type frame struct {
	from, to int32
	body     []byte
}

type told struct {
	kind kind
	body []byte
}

// newGang has nodes with so many ranks each, rank after rank.
func newGang(t *testing.T, nodes, each int) *gang {
	return newGangOf(t, Config{Namespace: "ns"}, nodes, each)
}

// newGangOf does the same for a job of a family.
func newGangOf(t *testing.T, cfg Config, nodes, each int) *gang {
	cfg.Dir, cfg.Size, cfg.Apps = "/d", int32(nodes*each), 1
	for n := range nodes {
		x := Node{Name: fmt.Sprintf("n%d", n)}
		for i := range each {
			x.Ranks = append(x.Ranks, filch.Rank(n*each+i))
		}
		cfg.Nodes = append(cfg.Nodes, x)
	}
	g := &gang{t: t, rng: rand.New(rand.NewPCG(1, uint64(nodes))), outs: make([]pmi.Out, nodes), told: make([][]told, nodes)}
	for n := range nodes {
		cfg.Node = int32(n)
		g.nodes = append(g.nodes, New(cfg))
	}
	return g
}

// helper has the helper of a node say something.
func (g *gang) helper(n int, b builder) {
	g.nodes[n].Feed(g.now, Helper, b.done(), &g.outs[n])
	g.collect(n)
}

func (g *gang) collect(n int) {
	out := &g.outs[n]
	for _, f := range out.Peers {
		g.way = append(g.way, frame{int32(n), f.To, bytes.Clone(f.Body)})
	}
	for _, w := range out.Writes {
		for b := w.Data; len(b) > 0; {
			k, body, size, ok := cut(b)
			if !ok || size == 0 || w.Rank != Helper {
				g.t.Fatalf("wrote %q to rank %d", w.Data, w.Rank)
			}
			g.told[n] = append(g.told[n], told{k, bytes.Clone(body)})
			b = b[size:]
		}
	}
	g.breaks = append(g.breaks, out.Breaks...)
	g.aborts = append(g.aborts, out.Aborts...)
	g.spawns = append(g.spawns, out.Spawns...)
	g.kin = append(g.kin, out.Kin...)
	g.notes = append(g.notes, out.Notes...)
	out.Reset()
}

// settle lets everything arrive and all short timers fire.
func (g *gang) settle() {
	for range 200_000 {
		if len(g.way) > 0 {
			i := g.rng.IntN(min(len(g.way), 5))
			f := g.way[i]
			if g.rng.IntN(6) > 0 {
				g.way = slices.Delete(g.way, i, i+1)
			}
			if g.rng.IntN(9) > 0 {
				g.nodes[f.to].Peer(g.now, f.from, f.body, &g.outs[f.to])
				g.collect(int(f.to))
			}
			continue
		}
		next := filch.Never
		for _, e := range g.nodes {
			next = min(next, e.Deadline())
		}
		if next == filch.Never {
			return
		}
		g.now = max(g.now, next)
		for n, e := range g.nodes {
			if e.Deadline() <= g.now {
				e.Tick(g.now, &g.outs[n])
				g.collect(n)
			}
		}
	}
	g.t.Fatal("no end")
}

// heard takes what a helper was told of one kind.
func (g *gang) heard(n int, k kind) []told {
	var of, rest []told
	for _, x := range g.told[n] {
		if x.kind == k {
			of = append(of, x)
		} else {
			rest = append(rest, x)
		}
	}
	g.told[n] = rest
	return of
}

func fenceFrame(id uint32, blob []byte, ranks ...filch.Rank) builder {
	b := newFrame(kindFence).u32(id).u32(uint32(len(ranks)))
	for _, r := range ranks {
		b = b.u32(uint32(r))
	}
	return b.blob(blob)
}

// The ranks of a node are wired once a fence of the whole job is over; a fence of some ranks
// does not count.
func TestWired(t *testing.T) {
	g := newGang(t, 2, 2)
	wired := func() [2]bool { return [2]bool{g.nodes[0].Wired(), g.nodes[1].Wired()} }
	for n := range 2 {
		g.helper(n, fenceFrame(1, nil, 1, 2))
	}
	g.helper(0, fenceFrame(2, nil))
	g.settle()
	if got := wired(); got != [2]bool{} {
		t.Errorf("wired before the fence: %t", got)
	}
	g.helper(1, fenceFrame(2, nil))
	g.settle()
	if got := wired(); got != [2]bool{true, true} {
		t.Errorf("wired after the fence: %t", got)
	}

	alone := newGang(t, 1, 2)
	alone.helper(0, newFrame(kindConnected).u32(1))
	alone.helper(0, newFrame(kindConnected).u32(1))
	if alone.nodes[0].Wired() {
		t.Error("one node is wired before rank 0 has come")
	}
	alone.helper(0, newFrame(kindConnected).u32(0))
	if !alone.nodes[0].Wired() {
		t.Error("one node is not wired after both ranks have come")
	}
}

// TestFences has fences of the whole job and of groups of ranks, several under
// way at once, and large ones.
func TestFences(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 20} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			g := newGang(t, nodes, 2)
			// Ranks of the even nodes, in two orders.
			var even []filch.Rank
			for n := 0; n < nodes; n += 2 {
				even = append(even, filch.Rank(2*n+1))
			}
			for round := range 3 {
				for n := range nodes {
					blob := bytes.Repeat([]byte{byte(n + 1)}, 1+n*round*2_000)
					g.helper(n, fenceFrame(uint32(100+round), blob))
					if n%2 == 0 {
						list := slices.Clone(even)
						if n%4 == 0 {
							slices.Reverse(list)
						}
						g.helper(n, fenceFrame(uint32(200+round), []byte{byte(n + 1)}, list...))
					}
				}
			}
			g.settle()
			for n := range nodes {
				got := g.heard(n, kindFenceDone)
				want := 3
				if n%2 == 0 {
					want = 6
				}
				if len(got) != want {
					t.Fatalf("node %d: %d fences done, want %d", n, len(got), want)
				}
				for _, x := range got {
					g.checkFence(nodes, n, x.body)
				}
			}
			if len(g.breaks) > 0 {
				t.Error(g.breaks)
			}
		})
	}
}

func (g *gang) checkFence(nodes, node int, body []byte) {
	r := &reader{b: body, ok: true}
	id, status, blob := r.u32(), r.u32(), r.blob()
	if !r.whole() || status != statusOK {
		g.t.Fatalf("status %d", int32(status))
	}
	count := map[byte]int{}
	for _, b := range blob {
		count[b]++
	}
	for n := range nodes {
		want := 0
		switch {
		case id >= 200 && n%2 == 0:
			want = 1
		case id < 200:
			want = 1 + n*int(id-100)*2_000
		}
		if got := count[byte(n+1)]; got != want {
			g.t.Errorf("fence %d at node %d: %d bytes of node %d, want %d", id, node, got, n, want)
		}
	}
}

// TestModex asks every node for ranks of every other, and for what is not.
func TestModex(t *testing.T) {
	const nodes = 20
	g := newGang(t, nodes, 1)
	for n := range nodes {
		for r := range nodes {
			g.helper(n, newFrame(kindModexNeed).u32(uint32(1000+r)).u32(uint32(r)))
		}
	}
	g.settle()
	for n := range nodes {
		for _, q := range g.heard(n, kindModexAsk) {
			r := &reader{b: q.body, ok: true}
			id, rank := r.u32(), r.u32()
			if int(rank) != n {
				t.Errorf("node %d was asked for rank %d", n, rank)
			}
			g.helper(n, newFrame(kindModexHave).u32(id).u32(statusOK).blob(fmt.Appendf(nil, "of %d", rank)))
		}
	}
	g.settle()
	for n := range nodes {
		got := g.heard(n, kindModexDone)
		if len(got) != nodes {
			t.Fatalf("node %d has %d answers", n, len(got))
		}
		for _, a := range got {
			r := &reader{b: a.body, ok: true}
			id, status, blob := r.u32(), int32(r.u32()), string(r.blob())
			rank := int(id) - 1000
			want, wantStatus := fmt.Sprintf("of %d", rank), int32(statusOK)
			if rank == n {
				want, wantStatus = "", statusNotFound
			}
			if blob != want || status != wantStatus {
				t.Errorf("node %d, rank %d: %q, %d", n, rank, blob, status)
			}
		}
	}
	// A node that has left.
	g.helper(0, newFrame(kindModexNeed).u32(7).u32(3))
	g.nodes[0].Peer(g.now, 3, nil, &g.outs[0])
	g.collect(0)
	got := g.heard(0, kindModexDone)
	if len(got) != 1 || !bytes.Equal(got[0].body, newFrame(kindModexDone).u32(7).u32(0xffffffe7).blob(nil).done()[header+1:]) {
		t.Errorf("got %v", got)
	}
}

func TestStates(t *testing.T) {
	g := newGang(t, 2, 2)
	e := g.nodes[0]
	if e.Spoke() || e.Ready() {
		t.Error("spoke already")
	}
	g.helper(0, newFrame(kindEnv).u32(1).text("A=1"))
	g.helper(0, newFrame(kindReady).text("4.2"))
	if got := fmt.Sprint(e.Env(0), e.Env(1), e.Env(2)); !e.Ready() || got != "[] [A=1] []" {
		t.Errorf("got %s", got)
	}
	for _, step := range []struct {
		say  builder
		want pmi.State
	}{
		{newFrame(kindConnected).u32(1), pmi.Inited},
		{newFrame(kindFinalized).u32(1), pmi.Finalized},
		{newFrame(kindAborted).u32(1).u32(300).text("N/A"), pmi.Aborted},
	} {
		g.helper(0, step.say)
		if got := e.State(1); got != step.want {
			t.Errorf("state %s, want %s", got, step.want)
		}
	}
	if len(g.aborts) != 1 || g.aborts[0] != (pmi.Abort{Rank: 1, Code: 44}) {
		t.Errorf("aborts %+v", g.aborts)
	}
}

// TestVain has a rank end before MPI_Init while others, here or elsewhere, are
// in it.
func TestVain(t *testing.T) {
	for _, node := range []int{0, 1} {
		g := newGang(t, 2, 2)
		g.helper(node, newFrame(kindConnected).u32(uint32(2*node)))
		g.nodes[0].Closed(g.now, 1, &g.outs[0])
		g.collect(0)
		if len(g.breaks) > 0 {
			t.Error("at once")
		}
		g.settle()
		if len(g.breaks) != 1 || g.breaks[0].Rank != filch.Rank(2*node) || !strings.Contains(g.breaks[0].Text, "waits for rank 1, which ended before MPI_Init") {
			t.Errorf("node %d: %+v", node, g.breaks)
		}
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		say  builder
		text string
	}{
		{newFrame(kindFailed).u32(1).text("cannot open"), "libpmix.so.2 is not on n7: cannot open"},
		{newFrame(kindFailed).u32(2).text("PMIx_x"), "libpmix.so.2 on n7 has no PMIx_x"},
		{newFrame(kindFailed).u32(3).text("bad"), "the PMIx server on n7 failed: bad"},
		{newFrame(kindConnected).u32(99), "makes no sense"},
		{newFrame(99), "makes no sense"},
		{newFrame(kindReady).text("x").u32(1), "makes no sense"},
	} {
		g := newGang(t, 1, 1)
		g.helper(0, c.say)
		f := g.nodes[0].Failure()
		if f == nil {
			t.Fatalf("%s: no failure", c.text)
		}
		if text, _ := f.Explain("n7"); !strings.Contains(text, c.text) {
			t.Errorf("got %q, want %q", text, c.text)
		}
	}
}

// FuzzHelper feeds an engine with what a helper might write, in pieces.
func FuzzHelper(f *testing.F) {
	for _, b := range []builder{
		newFrame(kindEnv).u32(0).text("A=B"), newFrame(kindReady).text("4"), newFrame(kindFailed).u32(1).text("x"),
		newFrame(kindConnected).u32(1), newFrame(kindAborted).u32(1).u32(3).text("why"),
		fenceFrame(1, []byte("blob")), fenceFrame(1, []byte("blob"), 0, 2), newFrame(kindModexNeed).u32(1).u32(3),
		newFrame(kindModexHave).u32(1).u32(0).blob([]byte("x")), newFrame(kindNote).text("hm"),
		newFrame(kindPublish).u32(1).u32(1).u32(0).u32(1).text("name").blob([]byte("value")),
		newFrame(kindLookup).u32(2).u32(1).u32(60).u32(1).text("name"), newFrame(kindUnpublish).u32(3).u32(1).text("name"),
		joinFrame(4, joinFence, "x", proc{"ns", 0}, proc{"other", wildcard}), newFrame(kindModexFar).u32(5).text("other").u32(1),
		spawnFrame(6, 0),
	} {
		f.Add([]byte(b.done()), 3)
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1}, 1)
	f.Add(append(newFrame(kindFailed).u32(1).text("x").done(), 0, 0), 99) // bytes after the last word
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		g := newGang(t, 2, 2)
		step = max(1, step&0xff)
		e, out := g.nodes[0], &pmi.Out{}
		for len(data) > 0 {
			n := min(step, len(data))
			e.Feed(0, Helper, data[:n], out)
			data = data[n:]
		}
		if e.Failure() != nil && e.input != nil {
			t.Error("still listening")
		}
	})
}

// FuzzParcel has another keeper of the job send anything.
func FuzzParcel(f *testing.F) {
	for k := parcelUp; k <= parcelWord+1; k++ {
		f.Add(parcel{kind: k, id: 1, data: []byte("x")}.encode())
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		g := newGang(t, 2, 2)
		e, out := g.nodes[0], &pmi.Out{}
		e.Feed(0, Helper, fenceFrame(1, []byte("blob")).done(), out)
		e.parcel(0, pmi.Parcel{From: 1, Body: body}, out)
		if p, ok := decodeParcel(body); ok && !bytes.Equal(p.encode(), body) {
			t.Errorf("%q is not what it was", body)
		}
	})
}
