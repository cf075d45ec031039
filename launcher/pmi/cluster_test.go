package pmi_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// cluster runs the engines of all nodes of a job in virtual time, over a
// network that may lose, repeat and reorder frames.
type cluster struct {
	t       *testing.T
	now     time.Duration
	engines []*pmi.Engine
	where   []int32 // node of each rank
	got     []strings.Builder
	aborts  []pmi.Abort
	breaks  []pmi.Break
	spawns  []pmi.Spawn
	notes   []string
	frames  []pmi.PeerFrame
	from    []int32
	sent    int
	mangle  *rand.Rand // nil: a perfect network
	left    []bool     // nodes whose keeper has left
}

const kvsname = "3f2a.7.1"

// newCluster places ranks on nodes by where, and lets each test change the
// configuration.
func newCluster(t *testing.T, where []int32, change ...func(*pmi.Config)) *cluster {
	c := &cluster{t: t, where: where, got: make([]strings.Builder, len(where))}
	nodes := int32(0)
	for _, n := range where {
		nodes = max(nodes, n+1)
	}
	for n := range nodes {
		cfg := pmi.Config{
			Kvsname: kvsname, Size: int32(len(where)), Mapping: pmi.Mapping(where),
			Early: pmi.EarlyDefault, Node: n, Nodes: nodes,
		}
		for r, at := range where {
			if at == n {
				cfg.Local = append(cfg.Local, filch.Rank(r))
			}
		}
		for m := range nodes {
			cfg.Lowest = append(cfg.Lowest, filch.Rank(slices.Index(where, m)))
		}
		for _, f := range change {
			f(&cfg)
		}
		c.engines = append(c.engines, pmi.New(cfg))
		c.left = append(c.left, false)
	}
	return c
}

// each is n nodes with k ranks on every one.
func each(n, k int32) []int32 {
	var w []int32
	for i := range n * k {
		w = append(w, i/k)
	}
	return w
}

func (c *cluster) take(node int32, out *pmi.Out) {
	for _, w := range out.Writes {
		c.got[w.Rank].Write(w.Data)
	}
	for _, p := range out.Peers {
		c.sent++
		copies := 1
		if c.mangle != nil {
			copies = []int{0, 1, 1, 1, 2}[c.mangle.IntN(5)]
		}
		for range copies {
			c.frames = append(c.frames, p)
			c.from = append(c.from, node)
		}
	}
	c.aborts = append(c.aborts, out.Aborts...)
	c.breaks = append(c.breaks, out.Breaks...)
	c.notes = append(c.notes, out.Notes...)
	c.spawns = append(c.spawns, out.Spawns...)
}

// spawned answers a spawn of a rank.
func (c *cluster) spawned(r filch.Rank, id uint32, res pmi.SpawnResult) {
	var out pmi.Out
	n := c.where[r]
	c.engines[n].Spawned(id, res, &out)
	c.take(n, &out)
}

// say feeds text of a rank and delivers what follows.
func (c *cluster) say(r filch.Rank, format string, args ...any) {
	var out pmi.Out
	n := c.where[r]
	c.engines[n].Feed(c.now, r, fmt.Appendf(nil, format, args...), &out)
	c.take(n, &out)
	c.deliver()
}

func (c *cluster) closed(r filch.Rank) {
	var out pmi.Out
	n := c.where[r]
	c.engines[n].Closed(c.now, r, &out)
	c.take(n, &out)
	c.deliver()
}

func (c *cluster) deliver() {
	for len(c.frames) > 0 {
		i := 0
		if c.mangle != nil {
			i = c.mangle.IntN(len(c.frames))
		}
		p, from := c.frames[i], c.from[i]
		c.frames = append(c.frames[:i], c.frames[i+1:]...)
		c.from = append(c.from[:i], c.from[i+1:]...)
		var out pmi.Out
		if !c.left[p.To] {
			c.engines[p.To].Peer(c.now, from, p.Body, &out)
			c.take(p.To, &out)
			continue
		}
		// As launchers answer for a keeper that has left.
		if len(p.Body) > 0 && !c.left[from] {
			c.engines[from].Peer(c.now, p.To, nil, &out)
			c.take(from, &out)
		}
	}
}

// settle lets a bad network bring everything in the end.
func (c *cluster) settle() {
	if c.mangle != nil {
		c.run(20 * time.Minute)
	}
}

// run lets time pass until d has gone by, or nothing waits for time.
func (c *cluster) run(d time.Duration) {
	end := c.now + d
	for ticks := 0; ; ticks++ {
		next := filch.Never
		for n, e := range c.engines {
			if !c.left[n] {
				next = min(next, e.Deadline())
			}
		}
		if next > end {
			c.now = end
			return
		}
		if ticks > 100_000 {
			c.t.Fatalf("ticks forever at %v, deadline %v", c.now, next)
		}
		c.now = max(c.now, next)
		for n, e := range c.engines {
			if c.left[n] || e.Deadline() > c.now {
				continue
			}
			var out pmi.Out
			e.Tick(c.now, &out)
			c.take(int32(n), &out)
		}
		c.deliver()
	}
}

// answer is what a rank was sent since the last call.
func (c *cluster) answer(r filch.Rank) string {
	s := c.got[r].String()
	c.got[r].Reset()
	return s
}

// want checks the answer to a rank.
func (c *cluster) want(r filch.Rank, want string) {
	c.t.Helper()
	if got := c.answer(r); got != want {
		c.t.Fatalf("rank %d was answered %q, want %q", r, got, want)
	}
}

// start takes ranks through init.
func (c *cluster) start(ranks ...filch.Rank) {
	c.t.Helper()
	for _, r := range ranks {
		c.say(r, "cmd=init pmi_version=1 pmi_subversion=1\n")
		c.want(r, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n")
	}
}

func (c *cluster) all() []filch.Rank {
	rs := make([]filch.Rank, len(c.where))
	for i := range rs {
		rs[i] = filch.Rank(i)
	}
	return rs
}

// quiet checks that nothing went wrong.
func (c *cluster) quiet() {
	c.t.Helper()
	if len(c.breaks) > 0 || len(c.aborts) > 0 {
		c.t.Fatalf("breaks %v, aborts %v, want none", c.breaks, c.aborts)
	}
}
