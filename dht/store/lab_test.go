package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// lab is a few stores on a network in virtual time. Messages go through the
// codec, disks sync after a while, and everything follows from the seed.
type lab struct {
	*engine.Engine
	t     testing.TB
	rand  *rand.Rand
	nodes []*labNode
	at    map[filch.NodeName]*labNode
	tag   uint64
	done  map[uint64][]dht.Result
	seen  map[uint64][]dht.Result // of watches

	loss    float64
	dup     float64
	delay   time.Duration
	spread  time.Duration
	cut     func(from, to *labNode) bool
	sent    int
	bytes   int
	byType  map[string]int
	checked int
	plain   bool // messages skip the codec
	quiet   bool // no checks
	tap     func(message.Message)
	kinds   dht.Kinds
	age     time.Duration // what the clock of a node shows when it begins
}

type labNode struct {
	l       *lab
	name    filch.NodeName
	inc     uint64
	s       *Store
	born    time.Duration
	disk    []LogEntry // synced
	buffer  []LogEntry // not yet
	timed   bool
	broken  bool
	damaged bool // tells the next life so
	down    bool
	pause   time.Duration
	wake    time.Duration
	left    bool
	out     Out
}

// labAge is the age of a lab's nodes: as in life, more than nothing.
const labAge = time.Hour

func newLab(t testing.TB, seed uint64) *lab {
	return &lab{
		Engine: engine.New(engine.Options{}), t: t, rand: rand.New(rand.NewPCG(seed, 3)), at: map[filch.NodeName]*labNode{},
		done: map[uint64][]dht.Result{}, seen: map[uint64][]dht.Result{}, byType: map[string]int{},
		kinds: dht.Kinds{kindGreatest: mergeGreatest},
		delay: 100 * time.Microsecond, age: labAge, cut: func(*labNode, *labNode) bool { return false },
	}
}

// kindGreatest records keep the greatest value that was merged into them.
const kindGreatest = dht.Kind(220)

func mergeGreatest(old, delta []byte) (value, reply []byte, err error) {
	if len(delta) == 0 {
		return nil, nil, errors.New("no value")
	}
	value = old
	if bytes.Compare(delta, old) > 0 {
		value = delta
	}
	return value, value, nil
}

func (l *lab) after(d time.Duration, f func()) { l.After(d, f) }

// run goes on for a while. What broke panics here, as it would without an engine.
func (l *lab) run(d time.Duration) {
	l.Run(l.Now() + d)
	for _, v := range l.Broken() {
		panic(v.String())
	}
}

// until runs until f holds; it fails when that takes longer than limit.
func (l *lab) until(what string, limit time.Duration, f func() bool) {
	l.t.Helper()
	end := l.Now() + limit
	for !f() {
		if l.Now() >= end {
			l.t.Fatalf("after %v of virtual time still not: %s\n%s", limit, what, l.states())
		}
		l.run(20 * time.Millisecond)
	}
}

func (l *lab) states() string {
	var s strings.Builder
	for _, n := range l.nodes {
		st := n.s.Status()
		s.WriteString(fmt.Sprintf("%s/%d down=%t roster %d gen %d acceptors %v members %d short %d lost %d learners %d replicas %d homes %d records %d pending %d\n",
			n.name, n.inc, n.down, st.Epoch, st.Generation, st.Acceptors, len(st.Members), st.Short, len(st.Lost), st.Learners, st.Replicas, st.Homes, st.Records, st.Pending))
	}
	return s.String()
}

// start adds a node, or starts one again with what its disk has.
func (l *lab) start(name filch.NodeName, found bool) *labNode {
	n := l.at[name]
	if n == nil {
		n = &labNode{l: l, name: name}
		l.nodes = append(l.nodes, n)
		l.at[name] = n
	}
	n.inc++
	n.born, n.down, n.left, n.wake = l.Now()-l.age, false, false, 0
	n.buffer, n.timed = nil, false
	n.s = New(Config{Self: name, Incarnation: n.inc, Seed: l.rand.Uint64(), Kinds: l.kinds})
	n.s.Restore(n.disk, n.damaged)
	n.damaged = false
	n.schedule()
	if found {
		n.do(func(out *Out) { n.s.Found(n.clock(), out) })
	}
	for _, o := range l.nodes {
		if o != n && !o.down {
			n.hear(o, dht.PeerUp)
			o.hear(n, dht.PeerUp)
		}
	}
	return n
}

func (n *labNode) hear(o *labNode, st dht.PeerState) {
	n.do(func(out *Out) { n.s.Member(n.clock(), dht.Peer{Name: o.name, Incarnation: o.inc, State: st}, out) })
}

// rejoin is what a node does that learned that it was declared dead.
func (n *labNode) rejoin() {
	n.inc++
	inc := n.inc
	n.do(func(out *Out) { n.s.Rejoin(n.clock(), inc, out) })
	for _, o := range n.l.nodes {
		if o != n && !o.down {
			o.hear(n, dht.PeerUp)
		}
	}
}

// kill ends a node; the others hear of it after a while.
func (n *labNode) kill(heard time.Duration) {
	n.down = true
	inc := n.inc
	for _, o := range n.l.nodes {
		if o != n {
			n.l.After(heard, func() {
				o.do(func(out *Out) {
					o.s.Member(o.clock(), dht.Peer{Name: n.name, Incarnation: inc, State: dht.PeerDead}, out)
				})
			})
		}
	}
}

func (n *labNode) clock() time.Duration { return n.l.Now() - n.born }

func (n *labNode) do(in func(out *Out)) {
	if n.down {
		return
	}
	if n.pause > n.l.Now() {
		n.l.After(n.pause-n.l.Now(), func() { n.do(in) })
		return
	}
	n.out.Reset()
	in(&n.out)
	n.act(&n.out)
	if !n.l.quiet {
		n.s.Check()
		if n.l.checked++; n.l.checked%50 == 0 {
			n.l.check()
		}
	}
	n.schedule()
}

func (l *lab) check() {
	var all []*Store
	for _, n := range l.nodes {
		if !n.down {
			all = append(all, n.s)
		}
	}
	CheckAll(all...)
}

func (n *labNode) schedule() {
	d := n.s.Deadline()
	if d == filch.Never {
		return
	}
	at := max(d+n.born, n.l.Now())
	if n.wake > n.l.Now() && n.wake <= at {
		return
	}
	n.wake = at
	s := n.s
	n.l.After(at-n.l.Now(), func() {
		if n.s != s {
			return
		}
		if n.wake == n.l.Now() {
			n.wake = 0
		}
		n.do(func(out *Out) {
			if n.s.Deadline() <= n.clock() {
				n.s.Tick(n.clock(), out)
			}
		})
	})
}

func (n *labNode) act(out *Out) {
	if len(out.Logs) > 0 && !n.broken {
		n.buffer = append(n.buffer, out.Logs...)
		n.sync()
	}
	for _, x := range out.Sends {
		n.transmit(x)
	}
	for _, r := range out.Results {
		n.l.result(r)
	}
	n.left = n.left || out.Left
}

func (l *lab) result(r Answer) {
	if r.Watch {
		l.seen[r.Tag] = append(l.seen[r.Tag], r.Result)
		return
	}
	rs := l.done[r.Tag]
	for len(rs) <= r.Index {
		rs = append(rs, dht.Result{})
	}
	if rs[r.Index].Outcome != 0 {
		panic(fmt.Sprintf("operation %d of %d is answered twice: %v, %v", r.Index, r.Tag, rs[r.Index], r.Result))
	}
	rs[r.Index] = r.Result
	l.done[r.Tag] = rs
}

func (n *labNode) sync() {
	if n.timed {
		return
	}
	n.timed = true
	s := n.s
	n.l.After(2*time.Millisecond, func() {
		if n.s != s || n.down {
			return
		}
		n.timed = false
		if n.broken || len(n.buffer) == 0 {
			return
		}
		n.disk = append(n.disk, n.buffer...)
		synced := n.buffer[len(n.buffer)-1].Number
		n.buffer = nil
		n.do(func(out *Out) { n.s.Synced(n.clock(), synced, out) })
	})
}

func (n *labNode) transmit(x Send) {
	l := n.l
	to := l.at[x.To]
	l.sent++
	if l.tap != nil {
		l.tap(x.Message)
	}
	if !l.quiet {
		l.byType[fmt.Sprintf("%T", x.Message)]++
	}
	if to == nil || l.cut(n, to) || l.rand.Float64() < l.loss {
		return
	}
	m := x.Message
	if !l.plain {
		b := message.Encode(m)
		l.bytes += len(b)
		if len(b) > message.MaxMessage {
			l.t.Fatalf("a message %T of %d bytes", m, len(b))
		}
		var err error
		if m, err = message.Decode(b); err != nil {
			l.t.Fatalf("%T: %v", x.Message, err)
		}
	}
	copies := 1
	if l.rand.Float64() < l.dup {
		copies = 2
	}
	for range copies {
		d := l.delay
		if l.spread > 0 {
			d += time.Duration(l.rand.Int64N(int64(l.spread)))
			if l.rand.IntN(50) == 0 {
				d += time.Duration(l.rand.Int64N(int64(100 * l.spread)))
			}
		}
		l.After(d, func() {
			to.do(func(out *Out) { to.s.Message(to.clock(), n.name, m, out) })
		})
	}
}

// ask puts operations to a node without waiting.
func (n *labNode) ask(ops ...dht.Op) uint64 { return n.askFor(10*time.Second, ops...) }

func (n *labNode) askFor(limit time.Duration, ops ...dht.Op) uint64 {
	n.l.tag++
	tag := n.l.tag
	n.do(func(out *Out) { n.s.Do(n.clock(), tag, ops, n.clock()+limit, out) })
	return tag
}

func (l *lab) answered(tag uint64, n int) bool {
	rs := l.done[tag]
	return len(rs) == n && !slices.ContainsFunc(rs, func(r dht.Result) bool { return r.Outcome == 0 })
}

// get puts operations to a node and waits for the answers.
func (n *labNode) get(ops ...dht.Op) []dht.Result {
	n.l.t.Helper()
	tag := n.ask(ops...)
	n.l.until(fmt.Sprintf("answers to %d operations", len(ops)), 12*time.Second, func() bool { return n.l.answered(tag, len(ops)) })
	return n.l.done[tag]
}

func (n *labNode) one(op dht.Op) dht.Result {
	n.l.t.Helper()
	return n.get(op)[0]
}

// settle waits until all live nodes know one roster in which nothing is due.
func (l *lab) settle(limit time.Duration) {
	l.t.Helper()
	l.until("a settled roster", limit, func() bool {
		epoch := uint64(0)
		for _, n := range l.nodes {
			if n.down || n.left {
				continue
			}
			st := n.s.Status()
			if !st.Known || st.Short > 0 || st.Learners > 0 || epoch != 0 && st.Epoch != epoch || n.s.proposer.run != nil || n.s.proposer.at != filch.Never {
				return false
			}
			epoch = st.Epoch
		}
		return true
	})
}

// cluster starts n nodes and waits until all is in order.
func (l *lab) cluster(n int) {
	l.t.Helper()
	for i := range n {
		l.start(filch.NodeName(fmt.Sprintf("n%d", i)), i == 0)
	}
	l.settle(time.Minute)
}
