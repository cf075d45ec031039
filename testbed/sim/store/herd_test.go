package store

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// herd is many stores on a network on which nothing goes wrong, each of which
// is told of a few others only: a list of members that is cut off.
type herd struct {
	*engine.Engine
	rng     *engine.Dice
	stores  []*store.Store
	wake    []time.Duration
	index   map[filch.NodeName]int
	results map[uint64]dht.Result
	sent    int
	out     store.Out
}

// listAll nodes, among them the acceptors, have the whole list.
const listAll = 8

func newHerd(n, listed int) *herd {
	e := engine.New(engine.Options{Seed: uint64(n)})
	h := &herd{Engine: e, rng: e.Dice(1), index: make(map[filch.NodeName]int), results: make(map[uint64]dht.Result)}
	for i := range n {
		name := filch.NodeName(fmt.Sprintf("node%04d", i))
		h.index[name] = i
		h.stores = append(h.stores, store.New(store.Config{Self: name, Incarnation: 1, Seed: uint64(i)}))
		h.wake = append(h.wake, filch.Never)
	}
	h.call(0, h.stores[0].Found)
	for i := range n {
		h.At(time.Duration(i)*time.Millisecond, func() {
			if i < listAll {
				for k := range n {
					h.meet(i, k)
				}
			}
			for k := 1; k <= listed/2; k++ {
				h.meet(i, (i+k)%n)
				h.meet(i, (i-k+n)%n)
			}
		})
	}
	return h
}

func (h *herd) name(i int) filch.NodeName { return filch.NodeName(fmt.Sprintf("node%04d", i)) }

func (h *herd) meet(i, k int) {
	if i != k {
		h.call(i, func(now time.Duration, out *store.Out) {
			h.stores[i].Member(now, dht.Peer{Name: h.name(k), Incarnation: 1, State: dht.PeerUp}, out)
		})
	}
}

func (h *herd) call(i int, f func(now time.Duration, out *store.Out)) {
	out := &h.out
	out.Reset()
	f(h.Now(), out)
	var last uint64
	for _, l := range out.Logs {
		last = l.Number
	}
	for _, s := range out.Sends {
		h.sent++
		to := h.index[s.To]
		h.At(h.Now()+50*time.Microsecond, func() {
			h.call(to, func(now time.Duration, out *store.Out) { h.stores[to].Message(now, h.name(i), s.Message, out) })
		})
	}
	for _, r := range out.Results {
		h.results[r.Tag] = r.Result
	}
	if last > 0 {
		h.At(h.Now()+time.Millisecond, func() {
			h.call(i, func(now time.Duration, out *store.Out) { h.stores[i].Synced(now, last, out) })
		})
	}
	if d := h.stores[i].Deadline(); d < h.wake[i] {
		h.wake[i] = max(d, h.Now()+1)
		h.At(h.wake[i], func() {
			if h.wake[i] == h.Now() {
				h.wake[i] = filch.Never
				h.call(i, h.stores[i].Tick)
			}
		})
	}
}

// run goes on for a while; a rule that breaks ends the test.
func (h *herd) run(t *testing.T, d time.Duration) {
	t.Helper()
	h.Run(h.Now() + d)
	for _, v := range h.Broken() {
		t.Fatal(v)
	}
}

// settle runs until every store holds the whole roster and no shard is short.
func (h *herd) settle(t *testing.T, within time.Duration) {
	t.Helper()
	var why string
	for end := h.Now() + within; h.Now() < end; h.run(t, 250*time.Millisecond) {
		why = ""
		for i, s := range h.stores {
			if x := s.Status(); len(x.Members) != len(h.stores) || x.Short > 0 || x.Learners > 0 {
				why = fmt.Sprintf("%s sees %d members, %d short shards, %d learners", h.name(i), len(x.Members), x.Short, x.Learners)
				break
			}
		}
		if why == "" {
			return
		}
	}
	t.Fatalf("%d stores after %v: %s", len(h.stores), within, why)
}

func (h *herd) do(i int, op dht.Op) uint64 {
	tag := uint64(len(h.results)+1)<<32 | uint64(h.rng.N(1<<30))
	h.call(i, func(now time.Duration, out *store.Out) {
		h.stores[i].Do(now, tag, []dht.Op{op}, now+2*time.Second, out)
	})
	return tag
}

// TestStoreScale brings up large rosters of which each node's list shows a
// part only. It prints how evenly shards lie, and that homes are found.
func TestStoreScale(t *testing.T) {
	sizes := []int{64, 256}
	if os.Getenv("FILCH_PROOF") != "" {
		sizes = append(sizes, 2048)
	}
	for _, n := range sizes {
		t.Run(fmt.Sprintf("nodes=%d", n), func(t *testing.T) {
			began := time.Now()
			h := newHerd(n, min(48, n-1))
			h.settle(t, 5*time.Minute)
			came := h.Now()
			held, homes, shards := h.shares()
			t.Logf("figure: %d nodes, %d shards: replicas at most %d (mean %.2f, ratio %.2f), primaries at most %d (mean %.2f, ratio %.2f); whole after %v of the instance, %v of ours, %d messages",
				n, shards, held.max, held.mean, held.ratio(), homes.max, homes.mean, homes.ratio(), came, time.Since(began).Round(time.Millisecond), h.sent)
			held.check(t, "replicas")
			homes.check(t, "primaries")
			h.findHomes(t, 200)
		})
	}
}

// share is how much of something the nodes have.
type share struct {
	max  int
	mean float64
}

func (s share) ratio() float64 { return float64(s.max) / s.mean }

// check holds a share against what placement promises.
func (s share) check(t *testing.T, what string) {
	t.Helper()
	if s.mean >= 4 && s.ratio() > 1.3 || s.mean < 4 && float64(s.max) > float64(int(s.mean+0.999999))+1 {
		t.Errorf("%s: at most %d with a mean of %.2f; want a ratio of 1.3, or with a mean below 4 the mean and one more", what, s.max, s.mean)
	}
}

func (h *herd) shares() (held, homes share, shards int) {
	sumHeld, sumHomes := 0, 0
	for _, s := range h.stores {
		x := s.Status()
		held.max, homes.max = max(held.max, x.Replicas), max(homes.max, x.Homes)
		sumHeld += x.Replicas
		sumHomes += x.Homes
		shards = x.Shards
	}
	held.mean, homes.mean = float64(sumHeld)/float64(len(h.stores)), float64(sumHomes)/float64(len(h.stores))
	return held, homes, shards
}

// findHomes inserts from one node and looks up from another.
func (h *herd) findHomes(t *testing.T, keys int) {
	t.Helper()
	var tags []uint64
	for i := range keys {
		tags = append(tags, h.do(h.rng.N(len(h.stores)), dht.Op{Code: dht.OpInsert, Key: dht.Key(fmt.Sprintf("k%d", i)), Value: []byte("v")}))
	}
	h.run(t, 3*time.Second)
	before := h.sent
	for i := range keys {
		tags = append(tags, h.do(h.rng.N(len(h.stores)), dht.Op{Code: dht.OpLookup, Key: dht.Key(fmt.Sprintf("k%d", i))}))
		h.run(t, 20*time.Millisecond)
	}
	h.run(t, 3*time.Second)
	for i, tag := range tags {
		if r, ok := h.results[tag]; !ok || r.Outcome != dht.Done {
			t.Fatalf("operation %d of %d was answered with %v %s", i, len(tags), r.Outcome, r.Err)
		}
	}
	t.Logf("figure: %d keys inserted and looked up; %d messages while %d were looked up", keys, h.sent-before, keys)
}
