package node_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	. "github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

const (
	usec = time.Microsecond
	ms   = time.Millisecond
	sec  = time.Second
)

// net is a few Nodes, the keepers under them and a network between them, in
// virtual time.
type net struct {
	*engine.Engine
	t        testing.TB
	nodes    map[filch.NodeName]*host
	names    []filch.NodeName
	rng      filch.Rand
	dice     filch.Rand // of what nodes say about records and tasks: more of it changes nothing else
	faults   faults
	replies  []string // every event for a client, as a line
	events   map[filch.JobID][]launcher.Event
	accepted map[launcher.ClientID]filch.JobID // the last job of each client
	sent     int                               // messages between nodes, but those about tasks
	client   launcher.ClientID
	every    int // Check only every so many inputs; 0 all
	inputs   int
	tell     func(string)
	onSend   func(from, to filch.NodeName, m launcher.Message)
	onEvents func(list []events.Event)
	behave   func(k *keeper)                 // how ranks of a keeper end
	equip    func(*slots.Capacity)           // nil: slots and memory
	grouped  bool                            // the nodes are of two allocations by turns
	taken    filch.JobID                     // ids up to this one are taken
	chores   chores                          // tasks
	drains   func(h *host, d launcher.Drain) // carries out what a node orders for itself
	words    int                             // messages between stores
	ties     func(h *host) []launcher.Tie
	late     time.Duration // how long a launcher that is restarted looks for its keepers
}

type faults struct {
	drop, dup float64
	delayMax  time.Duration
	cut       func(from, to filch.NodeName) bool
	stores    func(from, to filch.NodeName) bool              // cuts only what stores say
	words     func(from, to filch.NodeName, name string) bool // loses only what is about tasks
}

type host struct {
	engine.Host
	net     *net
	node    *Node
	store   *store.Store
	cfg     Config
	out     launcher.Outbox
	keepers map[filch.Ident]*keeper
	chores  map[uint64]launcher.TaskLaunch // that run
	waiting map[uint64]launcher.TaskLaunch // by the serial of the task that ends first
	records map[string]launcher.Record
	disk    map[string][]byte // of the store
	mirror  []byte            // lines
	seeks   []filch.NodeName  // looked up
}

func newNet(t testing.TB, nodes int, capacity int32) *net {
	return netOf(t, nodes, capacity, net{})
}

// netOf is a net with what else it is to be.
func netOf(t testing.TB, nodes int, capacity int32, like net) *net {
	w := &net{Engine: engine.New(engine.Options{}), taken: like.taken, grouped: like.grouped, equip: like.equip, chores: like.chores, t: t, nodes: map[filch.NodeName]*host{}, rng: 1, dice: 1, events: map[filch.JobID][]launcher.Event{}, accepted: map[launcher.ClientID]filch.JobID{}}
	w.faults.delayMax = 60 * time.Microsecond
	w.behave = func(k *keeper) { k.at = 1 * sec }
	for i := range nodes {
		w.add(filch.NodeName(fmt.Sprintf("n%d", i+1)), capacity)
	}
	w.meet()
	h := w.nodes["n1"]
	h.input(func(out *launcher.Outbox) { h.node.StoreFound(w.Now(), out) })
	w.run(founding)
	for _, name := range w.names {
		if s := w.nodes[name].node.StoreStatus(); !s.Known || s.Short+s.Learners+s.Pending > 0 {
			t.Fatalf("the store of %s has not settled after %v: %+v", name, founding, s)
		}
	}
	w.rng, w.sent, w.words = 1, 0, 0
	return w
}

// founding is how long the store of a net has to settle, before a test begins.
const founding = 2 * sec

// age is the time since the test began.
func (w *net) age() time.Duration { return w.Now() - founding }

// newNode makes the node of a launcher that begins, with an empty store.
func (h *host) newNode() {
	h.store = store.New(records.StoreConfig(&h.cfg))
	h.node = New(h.cfg, h.store)
}

func (w *net) add(name filch.NodeName, capacity int32) *host {
	cores := make([]filch.Processor, capacity)
	for c := range cores {
		cores[c] = filch.Processor{CPUs: []int32{int32(c)}, Core: int32(c)}
	}
	h := &host{net: w, keepers: map[filch.Ident]*keeper{}, records: map[string]launcher.Record{}, disk: map[string][]byte{}}
	w.Add(&h.Host, name)
	h.cfg = Config{
		Name: name, Instance: "test", Incarnation: 1, Seed: uint64(len(w.names) + 1),
		Capacity: slots.Capacity{Processors: cores, Slots: capacity, MemBytes: 64 << 30},
		After:    w.taken, Walltime: w.chores.walltime,
	}
	if w.equip != nil {
		w.equip(&h.cfg.Capacity)
	}
	if h.cfg.Walltime.End > 0 {
		h.cfg.Walltime.End += founding
	}
	h.cfg.Tasks.Mirror, h.cfg.Tasks.DrainBad = true, w.chores.drainBad
	if w.grouped {
		h.cfg.Group = [...]string{"east", "west"}[len(w.names)%2]
		h.cfg.Tasks.Victims = policy.Hierarchical
	}
	h.newNode()
	h.Start(0, h.tick)
	w.names = append(w.names, name)
	w.nodes[name] = h
	return h
}

func (w *net) meet() {
	for _, a := range w.names {
		for _, b := range w.names {
			if a != b {
				h := w.nodes[a]
				h.node.Peer(w.Now(), w.peer(b, filch.Up), &h.out)
				h.act()
			}
		}
	}
}

func (w *net) peer(name filch.NodeName, s filch.Standing) Peer {
	c := w.nodes[name].cfg
	return Peer{Name: name, Incarnation: c.Incarnation, Standing: s, Total: c.Capacity.Total(), Group: c.Group}
}

// declare tells all other live nodes of a member's standing.
func (w *net) declare(name filch.NodeName, s filch.Standing) {
	for _, o := range w.names {
		if h := w.nodes[o]; h.Up() && o != name {
			h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer(name, s), out) })
		}
	}
}

func (w *net) random() float64 { return roll(&w.rng) }

func roll(r *filch.Rand) float64 { return float64(r.Uint64()>>11) / (1 << 53) }

// run lets the world go on for d.
func (w *net) run(d time.Duration) {
	w.t.Helper()
	w.Run(w.Now() + d)
	for _, v := range w.Broken() {
		w.t.Fatal(v)
	}
}

// input hands one input to the brain; a paused node takes them in order later.
func (h *host) input(f func(*launcher.Outbox)) { h.take(nodeCheck, f) }

// A check looks at all that a node keeps, and a broken invariant stays broken. So
// one comes after every so many inputs: of the node, and of its store, whose own
// tests check after each.
const (
	nodeCheck  = 4
	storeCheck = 32
)

// take hands one input to the brain, and checks the brain after every so many.
func (h *host) take(every int, f func(*launcher.Outbox)) {
	h.Do(func() {
		f(&h.out)
		if h.net.inputs++; h.net.inputs%max(every, h.net.every) == 0 {
			h.node.Check()
		}
		h.act()
	})
}

// act does what the outbox says, in the order of its fields.
func (h *host) act() {
	o := h.out
	h.out = launcher.Outbox{}
	if f := h.net.onEvents; f != nil {
		f(o.Events)
	}
	for _, r := range o.Records {
		if r.Job == nil && r.Participant == nil {
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
		h.net.send(h.Name, s.To, s.Message)
	}
	for _, s := range o.Stores {
		h.net.store(h.Name, s.To, message.Encode(s.Message))
	}
	for _, r := range o.Replies {
		h.net.reply(h, r)
	}
	h.do(&o)
	h.seeks = append(h.seeks, o.Seeks...)
	if d := o.Drain; d != nil && h.net.drains != nil {
		h.net.After(ms, func() { h.net.drains(h, *d) })
	}
	if o.Look {
		h.net.After(5*ms, h.look)
	}
	h.Wake(h.node.Deadline())
}

// look tells the node what is tied on all that answer.
func (h *host) look() {
	var all []launcher.Tie
	for _, name := range h.net.names {
		if o := h.net.nodes[name]; o.Up() && h.net.ties != nil {
			all = append(all, h.net.ties(o)...)
		}
	}
	h.input(func(out *launcher.Outbox) { h.node.Knot(h.net.Now(), all, out) })
}

// sync puts entries on the disk, a while later.
func (h *host) sync(logs []store.LogEntry) {
	if len(logs) == 0 {
		return
	}
	inst := h.node
	h.net.After(2*ms, func() {
		if h.node != inst || !h.Up() {
			return
		}
		for _, e := range logs {
			if e.Value == nil {
				delete(h.disk, e.Key)
			} else {
				h.disk[e.Key] = e.Value
			}
		}
		h.take(storeCheck, func(out *launcher.Outbox) { h.node.StoreSynced(h.net.Now(), logs[len(logs)-1].Number, out) })
	})
}

// images is what the disk holds.
func (h *host) images() (all []store.LogEntry) {
	for _, k := range slices.Sorted(maps.Keys(h.disk)) {
		all = append(all, store.LogEntry{Key: k, Value: h.disk[k]})
	}
	return all
}

// store carries a message between stores.
func (w *net) store(from, to filch.NodeName, b []byte) {
	w.words++
	mute := w.faults.stores != nil && w.faults.stores(from, to)
	if mute || w.faults.cut != nil && w.faults.cut(from, to) || roll(&w.dice) < w.faults.drop {
		return
	}
	w.After(20*time.Microsecond+time.Duration(roll(&w.dice)*float64(w.faults.delayMax)), func() {
		h := w.nodes[to]
		if h == nil || w.faults.cut != nil && w.faults.cut(from, to) {
			return
		}
		m, err := message.Decode(b)
		if err != nil {
			w.t.Fatalf("%s -> %s: %v", from, to, err)
		}
		h.take(storeCheck, func(out *launcher.Outbox) { h.node.StoreMessage(w.Now(), from, m, out) })
	})
}

// log tells what the node does of jobs to a scene, and all of it with -trace.
func (h *host) log(o *launcher.Outbox) {
	tell := h.net.tell
	if *trace {
		tell = func(line string) { fmt.Println(h.net.Now(), line) }
	}
	if tell == nil {
		return
	}
	for _, s := range o.Starts {
		tell(fmt.Sprintf("%s start %d.%d slots=%v go=%t", h.Name, s.Launch.Ident.Job, s.Launch.Ident.Attempt, s.Slots, s.Go))
	}
	for _, d := range o.Deeds {
		kind := [...]string{"go", "signal", "stop", "forget"}[d.Kind]
		tell(fmt.Sprintf("%s %s %d.%d %s", h.Name, kind, d.Ident.Job, d.Ident.Attempt, d.Reason))
	}
	for _, s := range o.Sends {
		if !aboutTasks(s.Message) || *trace {
			tell(fmt.Sprintf("%s -> %s %s", h.Name, s.To, describe(s.Message)))
		}
	}
	for _, r := range o.Replies {
		tell(fmt.Sprintf("%s tells %d: %s", h.Name, r.Client, describeEvent(r.Event)))
	}
	for _, n := range o.Notes {
		if !strings.HasPrefix(n.Text, "store: ") || *trace {
			tell(fmt.Sprintf("%s notes: %s", h.Name, n.Text))
		}
	}
}

var trace = flag.Bool("trace", false, "print what the nodes do")

func (h *host) tick() {
	h.input(func(out *launcher.Outbox) { h.node.Tick(h.net.Now(), out) })
}

// aboutTasks reports whether a message is one that nodes with free slots exchange
// though nobody submitted anything.
func aboutTasks(m launcher.Message) bool { _, ok := m.(*launcher.TaskWord); return ok }

func (w *net) send(from, to filch.NodeName, m launcher.Message) {
	dice := &w.rng
	if aboutTasks(m) {
		dice = &w.dice
	} else {
		w.sent++
	}
	if w.onSend != nil {
		w.onSend(from, to, m)
	}
	if word, ok := m.(*launcher.TaskWord); ok && w.faults.words != nil && w.faults.words(from, to, word.Name()) {
		return
	}
	if w.faults.cut != nil && w.faults.cut(from, to) || roll(dice) < w.faults.drop {
		return
	}
	copies := 1
	if roll(dice) < w.faults.dup {
		copies = 2
	}
	for i := range copies {
		d := 20*time.Microsecond + time.Duration(roll(dice)*float64(w.faults.delayMax))
		if i > 0 {
			d += time.Duration(roll(dice) * float64(3*sec)) // a late duplicate
		}
		w.After(d, func() {
			h := w.nodes[to]
			if h == nil || w.faults.cut != nil && w.faults.cut(from, to) {
				return
			}
			h.input(func(out *launcher.Outbox) { h.node.Message(w.Now(), from, m, out) })
		})
	}
}

func (w *net) reply(h *host, r launcher.Reply) {
	id := jobOf(r.Event)
	if id != 0 {
		w.events[id] = append(w.events[id], r.Event)
	}
	if a, ok := r.Event.(launcher.Accepted); ok {
		w.accepted[r.Client] = a.Job
	}
	w.replies = append(w.replies, fmt.Sprintf("%s client %d: %s", h.Name, r.Client, describeEvent(r.Event)))
}

// crash ends a launcher; its keepers live on or die with it.
func (w *net) crash(name filch.NodeName, keepers bool) {
	h := w.nodes[name]
	for id, k := range h.keepers {
		if left, known := h.node.Lease(w.Now(), id); known {
			k.start.Lease, k.alone = left, w.Now()
		}
	}
	h.Stop()
	if keepers {
		for _, k := range h.keepers {
			k.over = true
		}
		h.keepers = map[filch.Ident]*keeper{}
	}
}

// submit is the id of the job, 0 where that is told later.
func (w *net) submit(name filch.NodeName, client launcher.ClientID, r launcher.Request) filch.JobID {
	h := w.nodes[name]
	var id filch.JobID
	f := func(out *launcher.Outbox) {
		k := len(out.Replies)
		h.node.Submit(w.Now(), client, r, int64(w.Now()), out)
		if len(out.Replies) > k {
			id = jobOf(out.Replies[k].Event)
		}
	}
	h.input(f)
	return id
}

// ended is the end of a job, or fails.
func (w *net) ended(id filch.JobID) launcher.Ended {
	w.t.Helper()
	for _, e := range w.events[id] {
		if e, ok := e.(launcher.Ended); ok {
			return e
		}
	}
	w.t.Fatalf("at %v job %d has not ended: %v", w.Now(), id, w.events[id])
	return launcher.Ended{}
}

func gang(n int32) launcher.Request {
	return launcher.Request{Name: "test", Shape: launcher.Shape{Ranks: n}, Policy: launcher.Policy{KillOnBad: true, KillWait: 10 * sec}}
}
