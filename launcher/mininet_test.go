package launcher_test

import (
	"container/heap"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	. "github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

const (
	usec = time.Microsecond
	ms   = time.Millisecond
	sec  = time.Second
)

// net is a few Nodes, the keepers under them and a network between them, in
// virtual time. Everything that happens is an event in one queue.
type net struct {
	t       testing.TB
	now     time.Duration
	seq     int
	queue   queue
	nodes   map[filch.NodeName]*host
	names   []filch.NodeName
	rng     uint64
	faults  faults
	replies []string // every event for a client, as a line
	events  map[filch.JobID][]Event
	sent    int // messages between nodes
	client  ClientID
	every   int // Check only every so many inputs; 0 all
	sparse  int
	tell    func(string)
	onSend  func(from, to filch.NodeName, m Message)
	behave  func(k *keeper) // how ranks of a keeper end
	stored  bool            // the nodes have a store
	grouped bool            // the nodes are of two allocations by turns
	taken   filch.JobID     // ids up to this one are taken
	chores  chores          // tasks
	words   int             // messages between stores
	ties    func(h *host) []Tie
	late    time.Duration // how long a launcher that is restarted looks for its keepers
}

type faults struct {
	drop, dup float64
	delayMax  time.Duration
	cut       func(from, to filch.NodeName) bool
	stores    func(from, to filch.NodeName) bool // cuts only what stores say
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	e := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return e
}

type host struct {
	net     *net
	name    filch.NodeName
	node    *Node
	cfg     Config
	out     Outbox
	keepers map[filch.Ident]*keeper
	chores  map[uint64]TaskLaunch // that run
	records map[string]Record
	disk    map[string][]byte // of the store
	mirror  []byte            // lines
	up      bool
	paused  bool
	backlog []func(*Outbox)
	wake    time.Duration
}

func newNet(t testing.TB, nodes int, capacity int32) *net {
	return newNetWith(t, nodes, capacity, false)
}

func newNetWith(t testing.TB, nodes int, capacity int32, stored bool) *net {
	return netOf(t, nodes, capacity, net{stored: stored})
}

// netOf is a net with what else it is to be.
func netOf(t testing.TB, nodes int, capacity int32, like net) *net {
	stored := like.stored
	w := &net{stored: stored, taken: like.taken, grouped: like.grouped, chores: like.chores, t: t, nodes: map[filch.NodeName]*host{}, rng: 1, events: map[filch.JobID][]Event{}}
	w.faults.delayMax = 60 * time.Microsecond
	w.behave = func(k *keeper) { k.at = 1 * sec }
	for i := range nodes {
		w.add(filch.NodeName(fmt.Sprintf("n%d", i+1)), capacity)
	}
	w.meet()
	if stored {
		h := w.nodes["n1"]
		h.input(func(out *Outbox) { h.node.StoreFound(w.now, out) })
		w.run(5 * sec)
	}
	return w
}

func (w *net) add(name filch.NodeName, capacity int32) *host {
	cores := make([]int32, capacity)
	for c := range cores {
		cores[c] = int32(c)
	}
	h := &host{net: w, name: name, keepers: map[filch.Ident]*keeper{}, records: map[string]Record{}, disk: map[string][]byte{}, up: true, wake: -1}
	h.cfg = Config{
		Name: name, Instance: "test", Incarnation: 1, Seed: uint64(len(w.names) + 1),
		Capacity: slots.Capacity{Cores: cores, Slots: capacity, MemBytes: 64 << 30},
		IDs:      JobIDs{Index: int32(len(w.names)), Stride: 1024, After: w.taken}, Walltime: w.chores.walltime,
	}
	if w.stored {
		h.cfg.Tasks.Mirror = true
		h.cfg.Store = &dht.StoreConfig{Self: name, Incarnation: 1, Seed: h.cfg.Seed}
	}
	if w.grouped {
		h.cfg.Group = [...]string{"east", "west"}[len(w.names)%2]
		h.cfg.Tasks.Victims = mtc.Hierarchical
	}
	h.node = New(h.cfg)
	w.names = append(w.names, name)
	w.nodes[name] = h
	return h
}

func (w *net) meet() {
	for _, a := range w.names {
		for _, b := range w.names {
			if a != b {
				h := w.nodes[a]
				h.node.Peer(w.now, w.peer(b, stealer.Up), &h.out)
				h.act()
			}
		}
	}
}

func (w *net) peer(name filch.NodeName, s stealer.Standing) Peer {
	c := w.nodes[name].cfg
	return Peer{Name: name, Incarnation: c.Incarnation, Standing: s, Total: c.Capacity.Total(), Group: c.Group}
}

// declare tells all other live nodes of a member's standing.
func (w *net) declare(name filch.NodeName, s stealer.Standing) {
	for _, o := range w.names {
		if h := w.nodes[o]; h.up && o != name {
			h.input(func(out *Outbox) { h.node.Peer(w.now, w.peer(name, s), out) })
		}
	}
}

func (w *net) random() float64 {
	w.rng += 0x9e3779b97f4a7c15
	z := w.rng
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

func (w *net) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + d, w.seq, do})
}

// run lets the world go on for d.
func (w *net) run(d time.Duration) {
	until := w.now + d
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	w.now = until
}

// input hands one input to the brain; a paused node takes them in order later.
func (h *host) input(f func(*Outbox)) {
	switch {
	case !h.up:
	case h.paused:
		h.backlog = append(h.backlog, f)
	default:
		f(&h.out)
		h.act()
	}
}

// resume ends a pause.
func (h *host) resume() {
	h.paused = false
	backlog := h.backlog
	h.backlog = nil
	for _, f := range backlog {
		h.input(f)
	}
}

// act does what the outbox says, in the order of its fields.
func (h *host) act() {
	if h.net.sparse++; h.net.every == 0 || h.net.sparse%h.net.every == 0 {
		h.node.Check()
	}
	o := h.out
	h.out = Outbox{}
	for _, r := range o.Records {
		if r.Job == nil && r.Part == nil && r.IDs == nil {
			delete(h.records, r.Key)
		} else {
			h.records[r.Key] = r
		}
	}
	h.sync(o.Logs)
	h.log(&o)
	h.mirror = append(h.mirror, o.Mirror...)
	for _, s := range o.Starts {
		h.start(s)
	}
	for _, d := range o.Deeds {
		h.deed(d)
	}
	for _, s := range o.Sends {
		h.net.send(h.name, s.To, s.Message)
	}
	for _, s := range o.Stores {
		h.net.store(h.name, s.To, dht.EncodeStore(s.Message))
	}
	for _, r := range o.Replies {
		h.net.reply(h, r)
	}
	h.do(&o)
	if o.Look {
		h.net.after(5*ms, h.look)
	}
	h.arm()
}

// look tells the node what is tied on all that answer.
func (h *host) look() {
	var all []Tie
	for _, name := range h.net.names {
		if o := h.net.nodes[name]; o.up && h.net.ties != nil {
			all = append(all, h.net.ties(o)...)
		}
	}
	h.input(func(out *Outbox) { h.node.Knot(h.net.now, all, out) })
}

// sync puts entries on the disk, a while later.
func (h *host) sync(logs []dht.LogEntry) {
	if len(logs) == 0 {
		return
	}
	inst := h.node
	h.net.after(2*ms, func() {
		if h.node != inst || !h.up {
			return
		}
		for _, e := range logs {
			if e.Value == nil {
				delete(h.disk, e.Key)
			} else {
				h.disk[e.Key] = e.Value
			}
		}
		h.input(func(out *Outbox) { h.node.StoreSynced(h.net.now, logs[len(logs)-1].Number, out) })
	})
}

// images is what the disk holds.
func (h *host) images() (all []dht.LogEntry) {
	for _, k := range slices.Sorted(maps.Keys(h.disk)) {
		all = append(all, dht.LogEntry{Key: k, Value: h.disk[k]})
	}
	return all
}

// store carries a message between stores.
func (w *net) store(from, to filch.NodeName, b []byte) {
	w.words++
	mute := w.faults.stores != nil && w.faults.stores(from, to)
	if mute || w.faults.cut != nil && w.faults.cut(from, to) || w.random() < w.faults.drop {
		return
	}
	w.after(20*time.Microsecond+time.Duration(w.random()*float64(w.faults.delayMax)), func() {
		h := w.nodes[to]
		if h == nil || w.faults.cut != nil && w.faults.cut(from, to) {
			return
		}
		m, err := dht.DecodeStore(b)
		if err != nil {
			w.t.Fatalf("%s -> %s: %v", from, to, err)
		}
		h.input(func(out *Outbox) { h.node.StoreMessage(w.now, from, m, out) })
	})
}

// log tells all that the node does, to a scene or with -trace.
func (h *host) log(o *Outbox) {
	tell := h.net.tell
	if *trace {
		tell = func(line string) { fmt.Println(h.net.now, line) }
	}
	if tell == nil {
		return
	}
	for _, s := range o.Starts {
		tell(fmt.Sprintf("%s start %d.%d cores=%v go=%t", h.name, s.Launch.Ident.Job, s.Launch.Ident.Attempt, s.Cores, s.Go))
	}
	for _, d := range o.Deeds {
		kind := [...]string{"go", "signal", "stop", "forget"}[d.Kind]
		tell(fmt.Sprintf("%s %s %d.%d %s", h.name, kind, d.Ident.Job, d.Ident.Attempt, d.Reason))
	}
	for _, s := range o.Sends {
		tell(fmt.Sprintf("%s -> %s %s", h.name, s.To, describe(s.Message)))
	}
	for _, r := range o.Replies {
		tell(fmt.Sprintf("%s tells %d: %s", h.name, r.Client, describeEvent(r.Event)))
	}
	for _, n := range o.Notes {
		tell(fmt.Sprintf("%s notes: %s", h.name, n.Text))
	}
}

var trace = flag.Bool("trace", false, "print what the nodes do")

func (h *host) arm() {
	d := h.node.Deadline()
	if d == filch.Never || h.wake == d {
		return
	}
	h.wake = d
	inst := h.node
	h.net.after(max(0, d-h.net.now), func() {
		if h.node == inst && h.wake == d {
			h.wake = -1
			h.input(func(out *Outbox) { h.node.Tick(h.net.now, out) })
			if h.up && !h.paused {
				h.arm()
			}
		}
	})
}

func (w *net) send(from, to filch.NodeName, m Message) {
	w.sent++
	if w.onSend != nil {
		w.onSend(from, to, m)
	}
	if w.faults.cut != nil && w.faults.cut(from, to) || w.random() < w.faults.drop {
		return
	}
	copies := 1
	if w.random() < w.faults.dup {
		copies = 2
	}
	for i := range copies {
		d := 20*time.Microsecond + time.Duration(w.random()*float64(w.faults.delayMax))
		if i > 0 {
			d += time.Duration(w.random() * float64(3*sec)) // a late duplicate
		}
		w.after(d, func() {
			h := w.nodes[to]
			if h == nil || w.faults.cut != nil && w.faults.cut(from, to) {
				return
			}
			h.input(func(out *Outbox) { h.node.Message(w.now, from, m, out) })
		})
	}
}

func (w *net) reply(h *host, r Reply) {
	id := jobOf(r.Event)
	if id != 0 {
		w.events[id] = append(w.events[id], r.Event)
	}
	w.replies = append(w.replies, fmt.Sprintf("%s client %d: %s", h.name, r.Client, describeEvent(r.Event)))
}

// crash ends a launcher; its keepers live on or die with it.
func (w *net) crash(name filch.NodeName, keepers bool) {
	h := w.nodes[name]
	h.up = false
	if keepers {
		for _, k := range h.keepers {
			k.over = true
		}
		h.keepers = map[filch.Ident]*keeper{}
	}
}

// quiet fails unless every slot is whole and no job, part or keeper is left.
func (w *net) quiet() {
	w.t.Helper()
	for _, name := range w.names {
		h := w.nodes[name]
		if !h.up {
			continue
		}
		s := h.node.Slots()
		if s.Free != s.Slots || s.Jobs != 0 || s.Waiting != 0 {
			w.t.Errorf("%s at %v: %+v, want all slots free", name, w.now, s)
		}
		if len(h.keepers) > 0 {
			w.t.Errorf("%s at %v: %d keepers left", name, w.now, len(h.keepers))
		}
		for _, j := range h.node.Jobs(w.now) {
			if j.Code == nil {
				w.t.Errorf("%s at %v: job %d is still %s: %s", name, w.now, j.ID, j.State, j.Cause)
			}
		}
	}
}

func (w *net) submit(name filch.NodeName, client ClientID, r Request) filch.JobID {
	h := w.nodes[name]
	var id filch.JobID
	f := func(out *Outbox) {
		k := len(out.Replies)
		h.node.Submit(w.now, client, r, int64(w.now), out)
		if len(out.Replies) > k {
			id = jobOf(out.Replies[k].Event)
		}
	}
	h.input(f)
	return id
}

// ended is the end of a job, or fails.
func (w *net) ended(id filch.JobID) Ended {
	w.t.Helper()
	for _, e := range w.events[id] {
		if e, ok := e.(Ended); ok {
			return e
		}
	}
	w.t.Fatalf("at %v job %d has not ended: %v", w.now, id, w.events[id])
	return Ended{}
}

func ranks(n int32) Request {
	return Request{Name: "test", Shape: Shape{Ranks: n}, Policy: Policy{KillOnBad: true, KillWait: 10 * sec}}
}
