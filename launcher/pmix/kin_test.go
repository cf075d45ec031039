package pmix

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// relatives is the jobs of a family, with relays between them that repeat, lose and reorder.
type relatives struct {
	t    *testing.T
	rng  *rand.Rand
	jobs []*gang // the first is at the top
	way  []kinOnWay
	gone []bool // jobs without keepers any more
	now  time.Duration
}

type kinOnWay struct {
	from int
	f    pmi.KinFrame
}

func identOf(i int) filch.Ident {
	return filch.Ident{Instance: "i", Job: filch.JobID(i + 1), Attempt: 1}
}

// newRelatives has jobs ns0, ns1 and so on, each with so many ranks on so many nodes.
func newRelatives(t *testing.T, seed uint64, nodes ...int) *relatives {
	f := &relatives{t: t, rng: rand.New(rand.NewPCG(2, seed)), gone: make([]bool, len(nodes))}
	for i, n := range nodes {
		cfg := Config{Namespace: fmt.Sprintf("ns%d", i), Family: Family{Self: identOf(i), Top: identOf(0), Hub: "n0"}}
		if i > 0 {
			cfg.Family.Parent = "ns0"
		}
		g := newGangOf(t, cfg, n, 2)
		f.jobs = append(f.jobs, g)
		for k, e := range g.nodes {
			e.Begin(&g.outs[k])
			g.collect(k)
		}
	}
	return f
}

// settle lets everything arrive and all timers before a time fire.
func (f *relatives) settle(until time.Duration) {
	f.t.Helper()
	for range 400_000 {
		next := filch.Never
		for i, g := range f.jobs {
			for _, k := range g.kin {
				f.way = append(f.way, kinOnWay{i, k})
			}
			g.kin, g.now = nil, f.now
			for len(g.way) > 0 {
				p := g.way[0]
				g.way = g.way[1:]
				g.nodes[p.to].Peer(f.now, p.from, p.body, &g.outs[p.to])
				g.collect(int(p.to))
			}
			for _, e := range g.nodes {
				if !f.gone[i] {
					next = min(next, e.Deadline())
				}
			}
		}
		if len(f.way) > 0 {
			i := f.rng.IntN(min(len(f.way), 5))
			x := f.way[i]
			if f.rng.IntN(6) > 0 {
				f.way = slices.Delete(f.way, i, i+1)
			}
			if f.rng.IntN(9) > 0 {
				f.deliver(x)
			}
			continue
		}
		busy := slices.ContainsFunc(f.jobs, func(g *gang) bool { return len(g.way)+len(g.kin) > 0 })
		if busy {
			continue
		}
		if next > until {
			f.now = max(f.now, until)
			return
		}
		f.now = max(f.now, next)
		for i, g := range f.jobs {
			for n, e := range g.nodes {
				if !f.gone[i] && e.Deadline() <= f.now {
					e.Tick(f.now, &g.outs[n])
					g.collect(n)
				}
			}
		}
	}
	f.t.Fatal("no end")
}

func (f *relatives) deliver(x kinOnWay) {
	to := int(x.f.To.Job) - 1
	if f.gone[to] {
		if !f.gone[x.from] && len(x.f.Body) > 0 { // as launchers answer for a keeper that has left
			g := f.jobs[x.from]
			g.nodes[0].Kin(f.now, x.f.To, x.f.Node, nil, &g.outs[0])
			g.collect(0)
		}
		return
	}
	g := f.jobs[to]
	g.nodes[0].Kin(f.now, identOf(x.from), "n0", x.f.Body, &g.outs[0])
	g.collect(0)
}

func (f *relatives) say(job, node int, b builder) {
	g := f.jobs[job]
	g.now = f.now
	g.helper(node, b)
}

// soon is enough time for all resends.
const soon = 20 * time.Minute

func joinFrame(id uint32, kind joinKind, blob string, procs ...proc) builder {
	b := newFrame(kindJoin).u32(id).u32(uint32(kind)).u32(uint32(len(procs)))
	for _, p := range procs {
		b = b.text(p.space).u32(p.rank)
	}
	return b.blob([]byte(blob))
}

func publishFrame(id uint32, persist uint32, name, value string) builder {
	return newFrame(kindPublish).u32(id).u32(persist).u32(1).u32(1).text(name).blob([]byte(value))
}

func lookupFrame(id, wait, limit uint32, names ...string) builder {
	b := newFrame(kindLookup).u32(id).u32(wait).u32(limit).u32(uint32(len(names)))
	for _, n := range names {
		b = b.text(n)
	}
	return b
}

func spawnFrame(id uint32, rank uint32) builder {
	return newFrame(kindSpawn).u32(id).u32(rank).u32(2).text("pmix.mapby").text("node").u32(1).
		u32(2).text("./a").text("x=y z").u32(1).text("A=B").u32(3).u32(2).text("pmix.wdir").text("/tmp")
}

// want checks that a helper was told one answer.
func (f *relatives) want(job, node int, k kind, id uint32, status int32, blob string) {
	f.t.Helper()
	got := f.jobs[job].heard(node, k)
	if len(got) != 1 {
		f.t.Errorf("job %d node %d: %d answers, want one", job, node, len(got))
		return
	}
	r := &reader{b: got[0].body, ok: true}
	gotID, gotStatus, gotBlob := r.u32(), int32(r.u32()), string(r.blob())
	if gotID != id || gotStatus != status || gotBlob != blob || !r.whole() {
		f.t.Errorf("job %d node %d: %d, status %d, %q; want %d, status %d, %q", job, node, gotID, gotStatus, gotBlob, id, status, blob)
	}
}

func foundBlob(space string, rank uint32, name, value string) string {
	return string(builder(nil).text(space).u32(rank).text(name).blob([]byte(value)))
}

// TestFamilyNames publishes on one side and looks up on another, before and after.
func TestFamilyNames(t *testing.T) {
	for seed := range uint64(20) {
		f := newRelatives(t, seed, 2, 3)
		f.say(1, 2, lookupFrame(4, 1, 0, "port"))
		f.say(0, 1, publishFrame(5, persistFirstRead, "port", "tcp"))
		f.settle(soon)
		f.want(0, 1, kindDone, 5, statusOK, "")
		f.want(1, 2, kindDone, 4, statusOK, foundBlob("ns0", 1, "port", "tcp"))
		f.say(0, 0, lookupFrame(6, 0, 0, "port")) // read once, it is gone
		f.say(1, 0, publishFrame(7, 3, "name", "a"))
		f.settle(2 * soon)
		f.want(0, 0, kindDone, 6, statusNotFound, "")
		f.want(1, 0, kindDone, 7, statusOK, "")
		f.say(0, 1, publishFrame(8, 3, "name", "b"))
		f.settle(3 * soon)
		f.want(0, 1, kindDone, 8, statusDuplicate, "")
		f.say(0, 1, lookupFrame(9, 0, 0, "name"))
		f.settle(4 * soon)
		f.want(0, 1, kindDone, 9, statusOK, foundBlob("ns1", 1, "name", "a"))
		f.say(0, 1, newFrame(kindUnpublish).u32(10).u32(1).text("name"))
		f.settle(5 * soon)
		f.want(0, 1, kindDone, 10, statusOK, "")
		f.say(1, 1, lookupFrame(11, 1, 30, "name")) // in vain, for half a minute
		f.settle(5*soon + 20*time.Second)
		if got := f.jobs[1].heard(1, kindDone); len(got) > 0 {
			t.Errorf("an answer before the time is over")
		}
		f.settle(6 * soon)
		f.want(1, 1, kindDone, 11, statusNotFound, "")
	}
}

// TestFamilyJoins has collectives of processes of two jobs, and several of the same
// processes under way at once.
func TestFamilyJoins(t *testing.T) {
	for seed := range uint64(20) {
		f := newRelatives(t, seed, 2, 2)
		procs := []proc{{"ns1", 0}, {"ns1", 3}, {"ns0", 2}} // two nodes of ns1, the second of ns0
		for _, at := range [][2]int{{1, 1}, {0, 1}} {
			f.say(at[0], at[1], joinFrame(1, joinConnect, "", procs...))
		}
		f.settle(soon)
		if got := f.jobs[0].heard(1, kindDone); len(got) > 0 {
			t.Fatal("joined without node 0 of ns1")
		}
		slices.Reverse(procs) // each side gives its own order
		f.say(1, 0, joinFrame(1, joinConnect, "", procs...))
		f.settle(2 * soon)
		for _, at := range [][2]int{{1, 0}, {1, 1}, {0, 1}} {
			f.want(at[0], at[1], kindDone, 1, statusOK, "")
			other, _ := readLayout(f.jobs[at[0]].heard(at[1], kindKnow)[0].body)
			if want := fmt.Sprintf("ns%d", 1-at[0]); other.space != want || len(other.home) != 4 {
				t.Errorf("job %d was told of %q with %d ranks, want %q", at[0], other.space, len(other.home), want)
			}
		}
		// Two fences of all, where ns1's second node is ahead.
		all := []proc{{"ns0", wildcard}, {"ns1", wildcard}}
		for id := range uint32(2) {
			f.say(1, 1, joinFrame(2+id, joinFence, "d", all...))
		}
		f.settle(3 * soon)
		for id := range uint32(2) {
			f.say(1, 0, joinFrame(2+id, joinFence, "c", all...))
			f.say(0, 0, joinFrame(2+id, joinFence, "a", all...))
			f.say(0, 1, joinFrame(2+id, joinFence, "b", all...))
		}
		f.settle(4 * soon)
		for _, at := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}} {
			got := f.jobs[at[0]].heard(at[1], kindModexDone)
			if len(got) != 2 {
				t.Fatalf("%v: %d fences, want 2", at, len(got))
			}
			for _, x := range got {
				r := &reader{b: x.body, ok: true}
				_, status, blob := r.u32(), int32(r.u32()), slices.Sorted(slices.Values(r.blob()))
				if status != statusOK || string(blob) != "abcd" {
					t.Errorf("%v: status %d, %q", at, status, blob)
				}
			}
		}
	}
}

// TestFamilyModex fetches the data of a rank of another job.
func TestFamilyModex(t *testing.T) {
	for seed := range uint64(20) {
		f := newRelatives(t, seed, 2, 2, 1)
		f.settle(soon)
		f.say(1, 1, newFrame(kindModexFar).u32(1).text("ns2").u32(1)) // child to child
		f.say(2, 0, newFrame(kindModexFar).u32(2).text("ns0").u32(3)) // child to top
		f.say(0, 1, newFrame(kindModexFar).u32(3).text("ns1").u32(9)) // no such rank
		f.say(0, 1, newFrame(kindModexFar).u32(4).text("ns9").u32(0)) // no such job
		f.settle(2 * soon)
		for _, at := range [][3]int{{2, 0, 1}, {0, 1, 3}} {
			asks := f.jobs[at[0]].heard(at[1], kindModexAsk)
			if len(asks) != 1 {
				t.Fatalf("%v: %d asks", at, len(asks))
			}
			r := &reader{b: asks[0].body, ok: true}
			id, rank := r.u32(), r.u32()
			if int(rank) != at[2] {
				t.Errorf("asked for rank %d, want %d", rank, at[2])
			}
			f.say(at[0], at[1], newFrame(kindModexHave).u32(id).u32(0).blob(fmt.Appendf(nil, "card %d", rank)))
		}
		f.settle(3 * soon)
		f.want(1, 1, kindModexDone, 1, statusOK, "card 1")
		f.want(2, 0, kindModexDone, 2, statusOK, "card 3")
		for _, x := range f.jobs[0].heard(1, kindModexDone) {
			r := &reader{b: x.body, ok: true}
			if r.u32(); int32(r.u32()) != statusNotFound {
				t.Error("found data of nobody")
			}
		}
	}
}

// TestFamilyLosses ends waits for a job that is gone: of the job's processes, and of the hub.
func TestFamilyLosses(t *testing.T) {
	for seed := range uint64(20) {
		f := newRelatives(t, seed, 1, 1)
		f.settle(soon)
		f.say(0, 0, joinFrame(1, joinDisconnect, "", proc{"ns0", 0}, proc{"ns1", 0}))
		f.gone[1] = true
		g := f.jobs[0]
		g.nodes[0].Over(f.now, "ns1", &g.outs[0])
		g.collect(0)
		f.settle(2 * soon)
		f.want(0, 0, kindDone, 1, statusUnreachable, "")

		f = newRelatives(t, seed, 1, 2)
		f.settle(soon)
		f.gone[0] = true
		f.say(1, 1, lookupFrame(2, 1, 0, "x"))
		f.say(1, 0, lookupFrame(3, 1, 0, "x"))
		f.settle(2 * soon)
		f.want(1, 0, kindDone, 3, statusUnreachable, "")
		f.want(1, 1, kindDone, 2, statusUnreachable, "")
	}
}

// TestSpawnFrame passes a spawn of the helper on, and the result back.
func TestSpawnFrame(t *testing.T) {
	g := newGang(t, 1, 2)
	g.helper(0, spawnFrame(6, 1))
	want := []pmi.Spawn{{ID: 6, Rank: 1, Apps: []pmi.SpawnApp{{
		Argv: []string{"./a", "x=y z"}, Ranks: 3, Env: []string{"A=B"},
		Info: []pmi.Pair{{Key: "pmix.mapby", Value: "node"}, {Key: "pmix.wdir", Value: "/tmp"}},
	}}}}
	if !reflect.DeepEqual(g.spawns, want) {
		t.Errorf("got %+v\nwant %+v", g.spawns, want)
	}
	for _, c := range []struct {
		res    pmi.SpawnResult
		status int32
		space  string
	}{
		{pmi.SpawnResult{Namespace: "ns9", Ranks: 3}, statusOK, "ns9"},
		{pmi.SpawnResult{Refused: "no", Kind: filch.NoFit}, statusFull, ""},
		{pmi.SpawnResult{Refused: "no", Kind: filch.Timeout}, statusTimeout, ""},
		{pmi.SpawnResult{Refused: "no", Kind: filch.NotFound}, statusNotFound, ""},
		{pmi.SpawnResult{Refused: "no", Kind: filch.Unavailable}, statusNotLaunched, ""},
	} {
		g.nodes[0].Spawned(6, c.res, &g.outs[0])
		g.collect(0)
		r := &reader{b: g.heard(0, kindSpawned)[0].body, ok: true}
		if id, status, space := r.u32(), int32(r.u32()), r.text(); id != 6 || status != c.status || space != c.space || !r.whole() {
			t.Errorf("%+v: %d, status %d, %q", c.res, id, status, space)
		}
	}
}

// FuzzWord has another job of the family send anything to the hub, and the hub anything to a
// job. Whatever comes, time does not stop.
func FuzzWord(f *testing.F) {
	for k := wordLayout; k <= wordGone+1; k++ {
		f.Add(word{kind: k, id: 1, body: []byte("xxxxyyyyzzzz")}.encode())
	}
	cfg := Config{Namespace: "other", Size: 2, Nodes: []Node{{Name: "n", Ranks: []filch.Rank{0, 1}}}}
	f.Add(word{kind: wordLayout, body: appendLayout(nil, &cfg)}.encode())
	f.Add(word{kind: wordPublish, id: 1, body: publishFrame(0, 1, "a", "b")[9:]}.encode())
	f.Add(word{kind: wordLookup, id: 1, body: lookupFrame(0, 1, 9, "a")[9:]}.encode())
	f.Add(word{kind: wordJoin, id: 1, body: joinFrame(0, joinFence, "a", proc{"ns0", 1}, proc{"other", 0})[9:]}.encode())
	f.Add(word{kind: wordModex, id: 1, body: builder(nil).text("ns0").u32(1)}.encode())
	f.Add(word{kind: wordDone, id: 1, body: builder(nil).u32(0).blob([]byte("x"))}.encode())
	f.Add(word{kind: wordAsk, id: 1, body: builder(nil).u32(1)}.encode())
	f.Fuzz(func(t *testing.T, body []byte) {
		if w, ok := decodeWord(body); ok && string(w.encode()) != string(body) {
			t.Errorf("%q is not what it was", body)
		}
		fam := newRelatives(t, 0, 2, 1)
		for i, g := range fam.jobs {
			s := pmi.NewStrand()
			s.Send(body)
			for _, frame := range s.Flush(0) {
				from := identOf(1 - i)
				if i == 0 {
					from = identOf(7) // of a third job, whose layout this may be
				}
				g.nodes[0].Kin(0, from, "n0", frame, &g.outs[0])
				g.nodes[0].Kin(0, from, "n0", body, &g.outs[0])
			}
			e, now := g.nodes[0], time.Duration(0)
			for range 50 {
				d := e.Deadline()
				if d == filch.Never {
					break
				}
				now = max(now, d)
				e.Tick(now, &g.outs[0])
				if d := e.Deadline(); d <= now && d != filch.Never {
					t.Fatalf("still due at %v after a tick at %v", d, now)
				}
			}
		}
	})
}
