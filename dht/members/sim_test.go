package members_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// world is a network of Members in virtual time. Everything in it follows from
// the seed.
type world struct {
	*engine.Engine
	t     *testing.T
	rand  *rand.Rand
	nodes []*simNode
	at    map[filch.NodeName]*simNode

	limit     int // of each list; 0: none
	loss, dup float64
	delay     time.Duration // at least
	tail      time.Duration // one in twenty messages takes up to this
	cut       func(from, to int) bool
	rejects   func(from, to int) bool // a firewall answers that nobody is there
	linked    func(from, to int) bool // a connection has not gone yet
	sent      int
	largest   int
}

type simNode struct {
	w       *world
	i       int
	name    filch.NodeName
	m       *members.List
	born    time.Duration // its clock begins there
	inc     uint64
	down    bool // crashed
	killed  bool // and its host answers
	paused  time.Duration
	met     map[filch.NodeName]uint64
	wake    time.Duration // of the tick that is scheduled
	deaths  []filch.NodeName
	selves  int // times it was declared dead
	mutual  int
	deathAt map[filch.NodeName]time.Duration
	suspAt  map[filch.NodeName]time.Duration
	goneAt  map[filch.NodeName]time.Duration
}

func nobody(int, int) bool { return false }

func newWorld(t *testing.T, seed uint64) *world {
	return &world{
		Engine: engine.New(engine.Options{}), t: t, rand: rand.New(rand.NewPCG(seed, 1)), at: map[filch.NodeName]*simNode{},
		delay: 100 * time.Microsecond, cut: nobody, rejects: nobody, linked: nobody,
	}
}

func (w *world) after(d time.Duration, f func()) { w.After(d, f) }

// run goes on for a while; a rule that breaks ends the test.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	w.Run(w.Now() + d)
	for _, v := range w.Broken() {
		w.t.Fatal(v)
	}
}

// until runs until f holds; it fails when that takes longer than limit.
func (w *world) until(what string, limit time.Duration, f func() bool) {
	w.t.Helper()
	end := w.Now() + limit
	for !f() {
		if w.Now() >= end {
			w.t.Fatalf("after %v of virtual time still not: %s\n%s", limit, what, w.views())
		}
		w.run(50 * time.Millisecond)
	}
}

func (w *world) views() string {
	var s strings.Builder
	for _, n := range w.nodes {
		if n.down {
			continue
		}
		s.WriteString(fmt.Sprintf("%s/%d:", n.name, n.inc))
		for _, m := range n.m.All() {
			s.WriteString(fmt.Sprintf(" %s/%d=%s", m.Name, m.Incarnation, m.State))
		}
		s.WriteString("\n")
		if len(s.String()) > 4000 {
			return s.String() + "..."
		}
	}
	return s.String()
}

// add starts a node, and joins it through another one unless that is nil.
func (w *world) add(name filch.NodeName, via *simNode) *simNode {
	n := &simNode{
		w: w, i: len(w.nodes), name: name, born: w.Now(), inc: 1, met: map[filch.NodeName]uint64{},
		deathAt: map[filch.NodeName]time.Duration{}, suspAt: map[filch.NodeName]time.Duration{},
		goneAt: map[filch.NodeName]time.Duration{},
	}
	if old := w.at[name]; old != nil {
		n.i, n.inc = old.i, old.inc+1
		w.nodes[n.i] = n
	} else {
		w.nodes = append(w.nodes, n)
	}
	w.at[name] = n
	n.m = members.New(members.Config{
		Seed: w.rand.Uint64(), Limit: w.limit,
		Self: members.Member{Name: name, Incarnation: n.inc, Addrs: []string{fmt.Sprintf("10.0.0.1:%d/%d", n.i, n.inc)}, Capacity: []byte("8 slots")},
	})
	if via != nil {
		n.join(via)
	}
	return n
}

// join asks a node to be taken in, and another one when that takes long, as a
// mesh does.
func (n *simNode) join(via *simNode) {
	n.do(func(out *members.Out) { n.m.Apart(); n.m.Join(n.clock(), []filch.NodeName{via.name}, out) })
	n.w.after(4*time.Second, func() {
		if !n.m.Joined() && !n.down {
			n.join(n.w.nodes[n.w.rand.IntN(len(n.w.nodes))])
		}
	})
}

func (n *simNode) clock() time.Duration { return n.w.Now() - n.born }

// do runs an input, or holds it while the node is paused.
func (n *simNode) do(in func(out *members.Out)) {
	if n.down {
		return
	}
	if n.paused > n.w.Now() {
		n.w.after(n.paused-n.w.Now(), func() { n.do(in) })
		return
	}
	var out members.Out
	in(&out)
	n.act(&out)
	if len(n.w.nodes) <= 100 || n.w.Steps()%1000 == 0 {
		n.m.Check() // costs as much as the list is long
	}
	n.schedule()
}

func (n *simNode) schedule() {
	d := n.m.Deadline()
	if d == filch.Never {
		return
	}
	at := max(d+n.born, n.w.Now())
	if n.wake > n.w.Now() && n.wake <= at {
		return
	}
	n.wake = at
	n.w.after(at-n.w.Now(), func() {
		if n.wake == n.w.Now() {
			n.wake = 0
		}
		n.do(func(out *members.Out) {
			if n.m.Deadline() <= n.clock() {
				n.m.Tick(n.clock(), out)
			}
		})
	})
}

func (n *simNode) act(out *members.Out) {
	w := n.w
	for _, e := range out.Events {
		switch e.Kind {
		case members.EventDead:
			n.deaths = append(n.deaths, e.Member.Name)
			n.deathAt[e.Member.Name] = w.Now()
			delete(n.met, e.Member.Name)
		case members.EventSuspect:
			n.suspAt[e.Member.Name] = w.Now()
		case members.EventGone:
			n.goneAt[e.Member.Name] = w.Now()
		case members.SelfDead:
			n.selves++
			if e.Mutual {
				n.mutual++
			}
			w.after(time.Duration(w.rand.Int64N(int64(200*time.Millisecond)))*time.Duration(w.rand.IntN(2)), func() {
				n.do(func(out *members.Out) { n.m.Rejoin(n.clock(), 0, out) })
			})
		case members.SelfBack:
			n.inc = e.Member.Incarnation
			clear(n.met)
		}
	}
	for _, p := range out.Probes {
		n.probe(p)
	}
	for _, s := range out.Sends {
		if len(s.Payload) > w.largest {
			w.largest = len(s.Payload)
		}
		w.sent++
		n.transmit(s.To, s.Payload)
	}
}

func (n *simNode) probe(p members.Probe) {
	w := n.w
	to := w.at[p.Name]
	end := func(res members.ProbeResult) {
		n.do(func(out *members.Out) { n.m.Probed(n.clock(), p.Name, p.Incarnation, res, out) })
	}
	switch {
	case to == nil || to.down && !to.killed:
		w.after(time.Millisecond, func() { end(members.ProbeFailed) })
	case w.cut(n.i, to.i) || w.cut(to.i, n.i) || to.paused > w.Now()+1500*time.Millisecond:
		w.after(1500*time.Millisecond, func() { end(members.ProbeFailed) })
	case (to.killed || w.rejects(n.i, to.i)) && w.linked(n.i, to.i):
		w.after(2*w.delay, func() { end(members.ProbeFailed) })
	case to.killed || w.rejects(n.i, to.i):
		w.after(2*w.delay, func() { end(members.ProbeRefused) })
	default:
		w.after(max(to.paused-w.Now(), 0)+2*w.delay, func() { end(members.ProbeOK) })
	}
}

func (n *simNode) transmit(to filch.NodeName, payload []byte) {
	w := n.w
	inc, card := n.inc, n.m.Self()
	copies := 1
	if w.rand.Float64() < w.dup {
		copies = 2
	}
	for range copies {
		d := w.delay + time.Duration(w.rand.Int64N(int64(w.delay)+1))
		if w.tail > 0 && w.rand.IntN(20) == 0 {
			d += time.Duration(w.rand.Int64N(int64(w.tail)))
		}
		if w.rand.Float64() < w.loss {
			continue
		}
		w.after(d, func() {
			o := w.at[to]
			if o == nil || w.cut(n.i, o.i) || w.rejects(n.i, o.i) {
				return
			}
			o.do(func(out *members.Out) { o.receive(n, inc, card, payload, out) })
		})
	}
}

// receive does what a connection's hello does before the first message.
func (n *simNode) receive(from *simNode, inc uint64, card members.Member, payload []byte, out *members.Out) {
	if n.met[from.name] != inc {
		v := n.m.Admit(card)
		if !v.OK && !v.Probe {
			if v.Stale != 0 {
				n.w.after(n.w.delay, func() {
					from.do(func(out *members.Out) { from.m.Superseded(from.clock(), n.name, v.Stale, out) })
				})
			}
			return
		}
		n.m.Met(n.clock(), card, out)
		n.met[from.name] = inc
	}
	if err := n.m.Message(n.clock(), from.name, inc, payload, out); err != nil {
		n.w.t.Fatalf("%s says to %s: %v", from.name, n.name, err)
	}
}

// kill ends a node's process; its host closes its connections.
func (n *simNode) kill() {
	n.down, n.killed = true, true
	n.w.reset(n, func(*simNode) bool { return true })
}

// reset has others find their connections to a node closed.
func (w *world) reset(n *simNode, whose func(*simNode) bool) {
	for _, o := range w.nodes {
		if o != n && whose(o) {
			w.after(w.delay, func() {
				o.do(func(out *members.Out) { o.m.Closed(o.clock(), n.name, out) })
			})
		}
	}
}

func (n *simNode) pause(d time.Duration) { n.paused = n.w.Now() + d }

// agreed reports whether all nodes that run list exactly those that run, in
// their right incarnations, and suspect nobody.
func (w *world) agreed() bool {
	live := 0
	for _, n := range w.nodes {
		if !n.down {
			live++
		}
	}
	for _, n := range w.nodes {
		if n.down {
			continue
		}
		seen := 0
		for _, m := range n.m.All() {
			if m.State.Over() {
				continue
			}
			o := w.at[m.Name]
			if m.State != members.Alive || o.down || o.inc != m.Incarnation {
				return false
			}
			seen++
		}
		if seen != live {
			return false
		}
	}
	return true
}

// simCluster joins n nodes, each through a random earlier one.
func simCluster(t *testing.T, seed uint64, n int) *world {
	w := newWorld(t, seed)
	for i := range n {
		var via *simNode
		if i > 0 {
			via = w.nodes[w.rand.IntN(i)]
		}
		w.add(filch.NodeName(fmt.Sprintf("n%d", i)), via)
		w.run(time.Duration(w.rand.Int64N(int64(20 * time.Millisecond))))
	}
	w.until("all have joined", time.Minute, w.agreed)
	return w
}

// seeds runs f for some seeds, as subtests that name the seed; FILCH_PROOF
// makes them twenty times as many.
func seeds(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	if os.Getenv("FILCH_PROOF") != "" {
		n *= 20
	}
	for s := range n {
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) { f(t, uint64(s)) })
	}
}
