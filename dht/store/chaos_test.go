package store

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/varint"
)

// chaos is a lab with clients, faults and a history that is checked.
type chaos struct {
	*lab
	hist    []porcupine.Operation
	clients []*chaosClient
	quietly bool // no more faults
	ids     int
	unknown int
	kills   int
}

type chaosClient struct {
	c     *chaos
	id    int
	node  *labNode
	left  int
	known map[dht.Key]dht.Result // what it read last
}

// chaosIn is one operation as the model sees it.
type chaosIn struct {
	op     dht.OpCode
	key    dht.Key
	value  string
	expect string // OpSwap: the value of the expected version, "" for none
}

type chaosState struct {
	there bool
	value string
}

var chaosModel = porcupine.Model{
	Partition: func(h []porcupine.Operation) [][]porcupine.Operation {
		at := map[dht.Key]int{}
		var parts [][]porcupine.Operation
		for _, o := range h {
			k := o.Input.(chaosIn).key
			i, ok := at[k]
			if !ok {
				i = len(parts)
				at[k] = i
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], o)
		}
		return parts
	},
	Init: func() any { return chaosState{} },
	Step: func(state, in, out any) (bool, any) {
		st, i := state.(chaosState), in.(chaosIn)
		var want dht.Outcome
		shown := ""
		next := st
		switch i.op {
		case dht.OpInsert:
			want = dht.Done
			if st.there {
				want, shown = dht.Exists, st.value
			} else {
				next = chaosState{true, i.value}
			}
		case dht.OpLookup:
			want = dht.Absent
			if st.there {
				want, shown = dht.Done, st.value
			}
		case dht.OpRemove:
			want, next = dht.Done, chaosState{}
			if !st.there {
				want = dht.Absent
			}
		case dht.OpSwap:
			switch {
			case i.expect == "" && !st.there, st.there && i.expect == st.value:
				want, next = dht.Done, chaosState{true, i.value}
			case !st.there:
				want = dht.Absent
			default:
				want, shown = dht.Mismatch, st.value
			}
		case dht.OpAppend:
			want, next = dht.Done, chaosState{true, st.value + string(varint.AppendBytes(nil, i.value))}
		}
		if out == nil {
			return true, next
		}
		r := out.(dht.Result)
		return r.Outcome == want && string(r.Value) == shown, next
	},
	DescribeOperation: func(in, out any) string {
		i := in.(chaosIn)
		if out == nil {
			return fmt.Sprintf("%d %s %q expect %q -> ?", i.op, i.key, i.value, i.expect)
		}
		r := out.(dht.Result)
		return fmt.Sprintf("%d %s %q expect %q -> %v %q", i.op, i.key, i.value, i.expect, r.Outcome, r.Value)
	},
}

func (c *chaosClient) next() {
	l := c.c
	if c.left == 0 {
		return
	}
	c.left--
	if c.node.down || l.rand.IntN(10) == 0 {
		c.node = l.nodes[l.rand.IntN(len(l.nodes))]
	}
	if c.node.down {
		l.after(50*time.Millisecond, c.next)
		return
	}
	life := []time.Duration{700, 2500, 60000}[l.rand.IntN(3)]
	key := dht.Key(fmt.Sprintf("%d/%d/%d", life, int(l.Now()/(life*time.Millisecond)), l.rand.IntN(2)))
	l.ids++
	in := chaosIn{key: key, value: strconv.Itoa(l.ids)}
	op := dht.Op{Key: key, Value: []byte(in.value), Consistent: true}
	switch n := l.rand.IntN(10); {
	case n < 3:
		in.op = dht.OpLookup
	case n < 5:
		in.op = dht.OpInsert
	case n < 6:
		in.op = dht.OpRemove
	case n < 8:
		in.op = dht.OpSwap
		if r, ok := c.known[key]; ok {
			in.expect, op.Expect = string(r.Value), r.Version
		}
	default:
		in.key += "/list"
		op.Key = in.key
		in.op = dht.OpAppend
		if l.rand.IntN(3) == 0 {
			in.op = dht.OpLookup
		}
	}
	op.Code = in.op
	op.Durable = l.rand.IntN(4) == 0
	c.call(in, op)
}

func (c *chaosClient) call(in chaosIn, op dht.Op) {
	l := c.c
	begun, node, inc := l.Now(), c.node, c.node.inc
	tag := node.askFor(4*time.Second, op)
	var poll func()
	poll = func() {
		switch {
		case l.answered(tag, 1):
			r := l.done[tag][0]
			delete(l.done, tag)
			if r.Outcome == dht.Unavailable {
				break // it says that nothing happened
			}
			if r.Outcome == dht.Unknown {
				l.unknown++
				l.hist = append(l.hist, porcupine.Operation{ClientId: c.id, Input: in, Call: int64(begun), Return: 1 << 60})
				l.ids++
				c.id = 1000 + l.ids
				break
			}
			if in.op == dht.OpLookup && r.Outcome == dht.Done {
				c.known[in.key] = r
			} else if in.op == dht.OpSwap && r.Outcome == dht.Done {
				c.known[in.key] = dht.Result{Value: []byte(in.value), Version: r.Version}
			} else {
				delete(c.known, in.key)
			}
			l.hist = append(l.hist, porcupine.Operation{ClientId: c.id, Input: in, Call: int64(begun), Output: r, Return: int64(l.Now())})
		case node.down || node.inc != inc || l.Now() > begun+20*time.Second:
			l.hist = append(l.hist, porcupine.Operation{ClientId: c.id, Input: in, Call: int64(begun), Return: 1 << 60})
			l.ids++
			c.id = 1000 + l.ids
		default:
			l.after(2*time.Millisecond, poll)
			return
		}
		l.after(time.Duration(l.rand.Int64N(int64(30*time.Millisecond))), c.next)
	}
	poll()
}

// newest is the roster of the highest epoch that somebody knows.
func (c *chaos) newest() *roster.Roster {
	var r *roster.Roster
	for _, n := range c.nodes {
		if !n.down && n.s.view.roster != nil && (r == nil || r.Epoch < n.s.view.roster.Epoch) {
			r = n.s.view.roster
		}
	}
	return r
}

func (c *chaos) victim() *labNode {
	if r := c.newest(); r != nil && c.rand.IntN(2) == 0 {
		for _, k := range []dht.Key{"60000/0/0", "60000/0/1"} {
			_, cfg := r.HomeOf(k)
			if n := c.at[cfg.Primary().Name]; !n.down && c.rand.IntN(2) == 0 {
				return n
			}
		}
	}
	return c.nodes[c.rand.IntN(len(c.nodes))]
}

// spared reports whether every shard keeps a live replica without n, and the
// acceptors a majority.
func (c *chaos) spared(n *labNode) bool {
	r := c.newest()
	if r == nil {
		return false
	}
	for _, cfg := range r.Shards {
		if !slices.ContainsFunc(cfg.Replicas, func(x dht.Replica) bool {
			o := c.at[x.Name]
			return o != n && !o.down && o.inc == x.Incarnation && o.s.view.roster != nil && o.s.view.roster.Epoch == r.Epoch
		}) {
			return false
		}
	}
	return true
}

// hears tells one node what it would find out about another.
func (c *chaos) hears(who, of *labNode, st dht.PeerState) {
	inc, by := of.inc, who.inc
	who.do(func(out *Out) {
		if who.inc == by {
			who.s.Member(who.clock(), dht.Peer{Name: of.name, Incarnation: inc, State: st}, out)
		}
	})
}

// reborn is a node that learned that it was declared dead: its store goes on
// with another incarnation.
func (c *chaos) reborn(n *labNode) {
	if !n.down {
		n.rejoin()
	}
}

// bury has all others declare a node dead, which hears of it after a while.
func (c *chaos) bury(v *labNode, later time.Duration) {
	for _, o := range c.nodes {
		if o != v && !o.down {
			c.hears(o, v, dht.PeerDead)
		}
	}
	inc := v.inc
	c.after(later, func() {
		if v.inc == inc {
			c.reborn(v)
		}
	})
}

func (c *chaos) nemesis(until time.Duration) {
	if c.Now() > until {
		c.quietly = true
		c.cut = func(*labNode, *labNode) bool { return false }
		c.loss, c.dup = 0, 0
		for _, n := range c.nodes {
			if n.down {
				c.start(n.name, false)
			}
			for _, o := range c.nodes {
				if o != n && !o.down {
					c.hears(o, n, dht.PeerUp)
				}
			}
		}
		return
	}
	v := c.victim()
	switch c.rand.IntN(6) {
	case 0, 1: // a death, sometimes heard of late
		if !v.down && c.spared(v) {
			c.kills++
			v.kill(time.Duration(c.rand.Int64N(int64(800 * time.Millisecond))))
			c.after(time.Duration(c.rand.Int64N(int64(2500*time.Millisecond))), func() {
				if v.down {
					c.start(v.name, false)
				}
			})
		}
	case 2: // a pause, perhaps so long that it is declared dead and goes on for a while
		v.pause = c.Now() + time.Duration(c.rand.Int64N(int64(1500*time.Millisecond)))
		if c.rand.IntN(2) == 0 && !v.down && c.spared(v) {
			c.bury(v, v.pause-c.Now()+time.Duration(c.rand.Int64N(int64(time.Second))))
		}
	case 3: // cut off, perhaps in one direction; with suspicion, and perhaps declared dead
		mode := c.rand.IntN(3)
		c.cut = func(a, b *labNode) bool { return a == v && mode != 1 || b == v && mode != 2 }
		for _, o := range c.nodes {
			if o != v && !o.down && !v.down {
				c.hears(o, v, dht.PeerSuspect)
				c.hears(v, o, dht.PeerSuspect)
			}
		}
		if c.rand.IntN(3) == 0 && !v.down && c.spared(v) {
			c.bury(v, time.Duration(c.rand.Int64N(int64(2*time.Second))))
		}
	case 4: // two halves
		side := map[*labNode]bool{}
		for _, n := range c.nodes {
			side[n] = c.rand.IntN(2) == 0
		}
		c.cut = func(a, b *labNode) bool { return side[a] != side[b] }
	case 5:
		c.cut = func(*labNode, *labNode) bool { return false }
		for _, n := range c.nodes {
			for _, o := range c.nodes {
				if o != n && !o.down && !n.down {
					c.hears(o, n, dht.PeerUp)
				}
			}
		}
	}
	c.after(time.Duration(c.rand.Int64N(int64(700*time.Millisecond))), func() { c.nemesis(until) })
}

func runChaos(t testing.TB, seed uint64, nodes int, length time.Duration) *chaos {
	c := &chaos{lab: newLab(t, seed)}
	for i := range nodes {
		c.start(filch.NodeName(fmt.Sprintf("n%d", i)), i == 0)
	}
	c.settle(time.Minute)
	c.loss, c.dup, c.spread = 0.01, 0.01, 4*time.Millisecond
	for i := range 4 {
		cl := &chaosClient{c: c, id: i, node: c.nodes[i%nodes], left: int(length/time.Second) * 30, known: map[dht.Key]dht.Result{}}
		c.clients = append(c.clients, cl)
		c.after(time.Duration(c.rand.Int64N(int64(20*time.Millisecond))), cl.next)
	}
	end := c.Now() + length
	c.after(300*time.Millisecond, func() { c.nemesis(end) })
	c.run(length + 25*time.Second)
	return c
}

// TestStoreChaos checks histories under faults; FILCH_SEED runs one seed.
func TestStoreChaos(t *testing.T) {
	seeds, first := 12, uint64(1)
	if v := os.Getenv("FILCH_SEEDS"); v != "" {
		seeds, _ = strconv.Atoi(v)
	}
	if v := os.Getenv("FILCH_SEED_FIRST"); v != "" {
		first, _ = strconv.ParseUint(v, 10, 64)
	}
	if v := os.Getenv("FILCH_SEED"); v != "" {
		first, _ = strconv.ParseUint(v, 10, 64)
		seeds = 1
	}
	ops, unknown, kills, epochs := 0, 0, 0, 0
	for seed := first; seed < first+uint64(seeds); seed++ {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("FILCH_SEED=%d go test ./dht -run TestStoreChaos: %v", seed, p)
					if seeds == 1 {
						panic(p)
					}
				}
			}()
			t.Logf("seed %d", seed)
			c := runChaos(t, seed, 5, 6*time.Second)
			ops += len(c.hist)
			unknown += c.unknown
			kills += c.kills
			epochs += int(c.newest().Epoch)
			if porcupine.CheckOperationsTimeout(chaosModel, c.hist, 20*time.Second) == porcupine.Illegal {
				c.explain(t)
				t.Errorf("FILCH_SEED=%d go test ./dht -run TestStoreChaos: an illegal history", seed)
			}
			c.settle(40 * time.Second)
			c.check()
			for _, n := range c.nodes {
				if st := n.s.Status(); len(st.Lost) > 0 || st.Pending > 0 {
					t.Errorf("FILCH_SEED=%d: %s has %d shards lost, %d operations pending", seed, n.name, len(st.Lost), st.Pending)
				}
			}
		}()
	}
	t.Logf("%d seeds, %d operations, %d unknown, %d deaths, %d rosters", seeds, ops, unknown, kills, epochs)
}

// explain prints the histories of the keys that are not in order.
func (c *chaos) explain(t testing.TB) {
	for _, part := range chaosModel.Partition(c.hist) {
		if porcupine.CheckOperationsTimeout(chaosModel, part, 20*time.Second) != porcupine.Illegal {
			continue
		}
		part = shortest(part)
		for _, o := range part[max(0, len(part)-12):] {
			r, _ := o.Output.(dht.Result)
			t.Logf("client %d %v..%v version %v: %s", o.ClientId, time.Duration(o.Call), time.Duration(min(o.Return, int64(time.Hour))), r.Version, chaosModel.DescribeOperation(o.Input, o.Output))
		}
	}
}

// shortest is what had been answered when a history first made no sense, with
// what was under way then.
func shortest(part []porcupine.Operation) []porcupine.Operation {
	slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for n := 1; n < len(part); n++ {
		some := slices.Clone(part[:n])
		for _, o := range part[n:] {
			if o.Call < part[n-1].Return {
				some = append(some, porcupine.Operation{ClientId: o.ClientId + 100000, Input: o.Input, Call: o.Call, Return: 1 << 60})
			}
		}
		if porcupine.CheckOperationsTimeout(chaosModel, some, 20*time.Second) == porcupine.Illegal {
			return some
		}
	}
	return part
}
