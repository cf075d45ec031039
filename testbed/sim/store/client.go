package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
)

// client asks one thing (or a few at once) after the other, of one node as long
// as that lives.
type client struct {
	w     *World
	index int
	node  *node
	asked *call
	count int // of the values it wrote, which are all different
	idle  bool
}

// call is one Do that waits for its answers.
type call struct {
	client  *client
	node    *node
	life    int32
	tag     uint64
	entries []*entry
	waits   []bool
	left    int
	tries   int
	begun   bool // the store knows of it
	done    func()
}

// watcher hears of the changes of a key.
type watcher struct {
	key     dht.Key
	kind    dht.Kind
	version dht.Version
	told    bool
	absent  bool
}

// lives are how long the three sorts of keys are in use: less than a failover
// takes, about as long, and the whole run.
var lives = [...]time.Duration{700 * time.Millisecond, 2500 * time.Millisecond, time.Hour}

// kindsOfKeys are the kinds of the keys of each life.
var kindsOfKeys = [...]dht.Kind{dht.KindRegister, dht.KindList, kindTable}

// keepShort is shorter than what the store keeps by itself, and longer than
// any operation or message of a run may be late.
const keepShort = 30 * time.Second

// parentsOfChild is how many parents a child waits for.
const parentsOfChild = 5

// keyAt is one of the keys that are in use now.
func (w *World) keyAt(life, sort int) (dht.Key, dht.Kind) {
	kind := kindsOfKeys[sort]
	return dht.Key(fmt.Sprintf("%c%d/%d", "rlt"[sort], life, w.Now()/lives[life])), kind
}

func (c *client) rest() {
	c.w.After(c.w.rng.client.Exp(c.w.plan.think), func() {
		if !c.idle {
			c.work()
		}
	})
}

func (c *client) value() string {
	c.count++
	return fmt.Sprintf("c%d.%d;", c.index, c.count)
}

// settleOn finds the client a node that lives: its own, if it does.
func (c *client) settleOn() bool {
	if c.node != nil && c.node.store != nil && !c.node.leaving {
		return true
	}
	up := slices.DeleteFunc(c.w.up(), func(n *node) bool { return n.leaving })
	if len(up) == 0 {
		return false
	}
	c.node = up[c.w.rng.client.N(len(up))]
	return true
}

// work begins the next call.
func (c *client) work() {
	w, rng := c.w, c.w.rng.client
	if !c.settleOn() {
		c.rest()
		return
	}
	count := 1
	if rng.N(4) == 0 {
		count = 2 + rng.N(2)
	}
	var entries []*entry
	for range count {
		life := [...]int{0, 1, 2, 2}[rng.N(4)]
		key, kind := w.keyAt(life, rng.N(len(kindsOfKeys)))
		if slices.ContainsFunc(entries, func(e *entry) bool { return e.op.Key == key }) {
			continue
		}
		entries = append(entries, c.draw(key, kind))
	}
	if rng.N(20) == 0 {
		c.watch()
	}
	if rng.N(40) == 0 {
		c.node = nil // moves to another node
		c.settleOn()
	}
	c.ask(entries, c.rest)
}

// draw makes an operation on a key.
func (c *client) draw(key dht.Key, kind dht.Kind) *entry {
	w, rng := c.w, c.w.rng.client
	e := &entry{client: c.index, kind: kind, op: dht.Op{Key: key, Kind: kind}}
	e.op.Durable = w.plan.style == durable || rng.N(10) == 0
	switch roll := rng.N(100); {
	case roll < 30:
		e.op.Code, e.op.Consistent = dht.OpLookup, true
	case roll < 40 && w.plan.style != durable:
		e.op.Code = dht.OpLookup
	case roll < 45:
		e.op.Code = dht.OpRemove
		if rng.N(2) == 0 {
			e.op.Expect, e.want = w.newest(key)
		}
	case kind == dht.KindList:
		e.op.Code, e.op.Value = dht.OpAppend, []byte(c.value())
	case kind == kindTable:
		e.op.Code = dht.OpMerge
		c.drawCells(e)
	case roll < 75:
		e.op.Code, e.op.Value = dht.OpSwap, []byte(c.value())
		e.op.Expect, e.want = w.newest(key)
	default:
		e.op.Code, e.op.Value = dht.OpInsert, []byte(c.value())
	}
	if rng.N(8) == 0 {
		e.op.Keep = keepShort
	}
	return e
}

// drawCells makes the delta of a child's record: a parent has ended, said with
// the attempt that ended, and often said again by the parent's next home.
func (c *client) drawCells(e *entry) {
	rng := c.w.rng.client
	cells := fmt.Sprintf("p%d=%s", rng.N(parentsOfChild), c.value())
	if rng.N(3) == 0 {
		cells += fmt.Sprintf(",max=%d", rng.N(1000))
	}
	e.op.Value, e.want = []byte(cells), present(cells)
}

// newest is a version of a key that some client was shown, most often the
// newest one. What a plain lookup shows may be under way still, and be done
// again under another version.
func (w *World) newest(key dht.Key) (dht.Version, string) {
	var v dht.Version
	skip := w.rng.client.N(8) == 0
	entries := w.past.byKey[key]
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		if e.op.Code == dht.OpLookup && !e.op.Consistent {
			continue
		}
		if text, ok := w.past.seen[versionOf{key, e.result.Version}]; ok && !e.open && e.result.Outcome != dht.Absent {
			if skip {
				skip = false
				continue
			}
			return e.result.Version, text
		}
	}
	return v, ""
}

// ask sends a batch to the client's node.
func (c *client) ask(entries []*entry, done func()) {
	w := c.w
	for _, e := range entries {
		e.at = w.Now()
		e.lossy = w.ground.losses[cellOf(e.op.Key)]
		if w.rng.client.N(8) > 0 {
			c.node.serial++
			e.op.ID = dht.OpID{Node: c.node.Name, Incarnation: c.node.incarnation, Seq: c.node.serial}
		}
		w.past.begin(e)
		w.stats.Asked++
	}
	c.send(&call{client: c, entries: entries, done: done})
}

func (c *client) send(k *call) {
	w := c.w
	k.node, k.life = c.node, c.node.Life()
	k.waits, k.left = make([]bool, len(k.entries)), 0
	var ops []dht.Op
	for i, e := range k.entries {
		e.asked = k.node
		e.view = w.ground.viewOf(k.node, e.op.Key)
		k.waits[i] = true
		k.left++
		ops = append(ops, e.op)
	}
	w.ground.tags++
	k.tag = w.ground.tags
	w.ground.calls[k.tag] = k
	c.asked = k
	patience := w.rng.client.Between(w.plan.patienceMin, w.plan.patienceMax)
	until := w.Now() + patience
	if w.Tracing() {
		for _, e := range k.entries {
			w.Trace(k.node.Name, "asked", "tag %d until %v: %s", k.tag, until, describe(e))
		}
	}
	n := k.node
	n.input(func() {
		k.begun = true
		n.call(func(now time.Duration, out *store.Out) { n.store.Do(now, k.tag, ops, n.Local()+until-w.Now(), out) })
	})
	troubles, stopped := n.troubles, n.Paused()
	w.At(until+overdue, func() {
		if k.left == 0 || w.ground.calls[k.tag] != k {
			return
		}
		if n.Life() == k.life && n.troubles == troubles && !stopped && !n.disk.Failing() {
			w.Fail("overdue", "%s was not answered by %v: %s", n.Name, until, describe(k.entries[slices.Index(k.waits, true)]))
			return
		}
		k.giveUp()
	})
}

// overdue is how much later than its deadline an answer may come: what a disk
// may take, and more.
const overdue = time.Second

// result hands an answer of the store to whom it belongs to.
func (n *node) result(r store.Answer) {
	w := n.w
	if r.Watch {
		n.told(r)
		return
	}
	if _, ok := w.ground.pleas[r.Tag]; ok {
		w.ground.pleas[r.Tag] = r.Result
		return
	}
	k := w.ground.calls[r.Tag]
	if k == nil || k.life != n.Life() {
		return
	}
	if r.Index < 0 || r.Index >= len(k.entries) || !k.waits[r.Index] {
		w.Fail("answer", "%s answers %d of call %d, which does not wait for it", n.Name, r.Index, r.Tag)
		return
	}
	k.waits[r.Index] = false
	k.left--
	e := k.entries[r.Index]
	w.end(e, r.Result)
	if w.Tracing() {
		w.Trace(n.Name, "answers", "tag %d: %s", r.Tag, describe(e))
	}
	if k.left == 0 {
		k.over()
	}
}

// askedOf are the calls that wait for the store of n.
func (w *World) askedOf(n *node) (all []*call) {
	for _, c := range w.clients {
		if k := c.asked; k != nil && k.node == n && k.life == n.Life() && k.begun {
			all = append(all, k)
		}
	}
	return all
}

// orphan ends the calls of a process that died.
func (w *World) orphan(n *node) {
	for _, c := range w.clients {
		if k := c.asked; k != nil && k.node == n {
			k.giveUp()
		}
	}
}

// giveUp is when no answer will come any more.
func (k *call) giveUp() {
	w := k.client.w
	for i, e := range k.entries {
		if k.waits[i] {
			k.waits[i] = false
			w.end(e, dht.Result{Outcome: dht.Unknown})
		}
	}
	k.left = 0
	k.over()
}

// over is when a call has all its answers. What is unknown may be asked again,
// under its identity, through whatever node the client finds.
func (k *call) over() {
	c, w := k.client, k.client.w
	delete(w.ground.calls, k.tag)
	c.asked = nil
	var again []*entry
	for _, e := range k.entries {
		if e.open && e.op.ID != (dht.OpID{}) {
			again = append(again, e)
		}
	}
	if len(again) == 0 || k.tries >= 3 || w.rng.client.N(3) == 0 {
		k.done()
		return
	}
	w.After(w.rng.client.Exp(w.plan.think), func() {
		if w.rng.client.N(2) == 0 {
			c.node = nil
		}
		if !c.settleOn() {
			k.done()
			return
		}
		for _, e := range again {
			e.doubt = true
			w.stats.Unknown--
		}
		c.send(&call{client: c, entries: again, tries: k.tries + 1, done: k.done})
	})
}

// watch begins to watch one of the keys that live long.
func (c *client) watch() {
	w, n := c.w, c.node
	key, kind := w.keyAt(2, w.rng.client.N(len(kindsOfKeys)))
	w.ground.tags++
	tag := w.ground.tags
	n.input(func() {
		n.watches[tag] = &watcher{key: key, kind: kind}
		n.call(func(now time.Duration, out *store.Out) { n.store.Watch(now, tag, key, dht.Version{}, out) })
	})
}

// told writes down what a watcher hears.
func (n *node) told(r store.Answer) {
	w := n.w
	x := n.watches[r.Tag]
	if x == nil {
		return
	}
	if w.Tracing() {
		w.Trace(n.Name, "tells", "watch %d of %s: %v %v", r.Tag, x.key, r.Result.Outcome, r.Result.Version)
	}
	x.told, x.version, x.absent = true, r.Result.Version, r.Result.Outcome == dht.Absent
	if r.Result.Outcome == dht.Done {
		text, err := canonical(x.kind, r.Result.Value)
		if err != nil {
			w.Fail("contents", "watch of %s: %v", x.key, err)
			return
		}
		w.saw(&entry{client: -1, op: dht.Op{Code: dht.OpLookup, Key: x.key}}, x.version, text)
	}
}
