package tasks

import (
	"fmt"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/testbed/sim/fate"
)

// Options says what world to make.
type Options struct {
	Seed    uint64
	Hosts   int
	Slots   int32
	Links   fate.Links
	Policy  mtc.Policy
	Victims mtc.Victims
	Check   bool          // call Core.Check after every input, and look at every record
	Cost    time.Duration // cpu time of one input
	Store   Trouble
	Detect  time.Duration // until the death of a node is heard of; 0 is 5 s
	Shared  bool          // one member list for all: no host ever fails
	Events  int           // a run with more has not quiesced; 0 is 1e9
	Trace   func(line string)
}

// Trouble is what the store does to operations.
type Trouble struct {
	Lost     float64 // of each operation, before it happened
	Silent   float64 // of each, after it happened
	Timeout  time.Duration
	SlowTail time.Duration // a hundredth takes up to so long
}

// World is one simulated instance.
type World struct {
	opt    Options
	now    time.Duration
	queue  fate.Queue[func()]
	net    *fate.Network
	rng    *fate.Dice // processes and the store
	fault  *fate.Dice
	gone   *fate.Dice // see answering; nil: hosts do not answer
	hosts  []*host
	lists  [][]word // the member list of each
	store  store
	truth  truth
	hash   uint64
	shaken int // how often something happened to a host
	Stats  Stats
}

// Stats counts what happened.
type Stats struct {
	Events    int
	Messages  map[string]int
	Merges    int
	Lookups   int
	Starts    int
	Finished  map[filch.JobID]time.Duration
	LastStart time.Duration
	Bounds    Bounds
	Drains    int // and undone ones
}

// host is a node: its launcher's Core, and the processes that it started.
type host struct {
	w       *World
	index   int32
	name    filch.NodeName
	life    uint64 // incarnation
	core    *mtc.Core
	out     mtc.Out
	down    bool
	cut     bool // from the store; the network has its own cuts
	paused  time.Duration
	busy    time.Duration
	wake    time.Duration
	backlog []func()
	running map[uint64]*process
	seen    seen
	ran     int
	draining
}

// seen is what the others think of a host's life.
type seen struct {
	dead    bool // they declared it dead
	gone    bool // they call it gone, though it lives
	version int  // of what it says of itself
}

// draining is that a host is to start nothing.
type draining struct {
	drains  bool
	drained time.Duration // when that began, or the host's last fault
	orders  int           // to drain and not to
}

// NewWorld makes hosts whose launchers run and know each other.
func NewWorld(opt Options) *World {
	if opt.Events == 0 {
		opt.Events = 1e9
	}
	if opt.Detect == 0 {
		opt.Detect = 5 * time.Second
	}
	w := &World{
		opt: opt, rng: fate.NewDice(opt.Seed, 1), fault: fate.NewDice(opt.Seed, 2),
		net: fate.NewNetwork(opt.Hosts, opt.Links, fate.NewDice(opt.Seed, 3)),
	}
	w.store.init()
	w.truth.init(w)
	w.Stats.Messages, w.Stats.Finished = map[string]int{}, map[filch.JobID]time.Duration{}
	var shared *mtc.Members
	if opt.Shared {
		shared = mtc.NewMembers()
		for i := range opt.Hosts {
			shared.Set(mtc.Member{Name: name(i), Incarnation: 1, Up: true, Group: group(i)})
		}
	}
	for i := range opt.Hosts {
		h := &host{w: w, index: int32(i), name: name(i), running: map[uint64]*process{}}
		w.hosts, w.lists = append(w.hosts, h), append(w.lists, make([]word, opt.Hosts))
		h.boot(shared)
	}
	for _, h := range w.hosts {
		if shared == nil {
			for _, o := range w.hosts {
				w.lists[h.index][o.index] = o.word()
				h.core.SetMember(0, o.word().Member, &h.out)
			}
		}
		h.core.SetRoom(0, mtc.Room{Slots: opt.Slots}, &h.out)
		h.act()
	}
	return w
}

func name(i int) filch.NodeName { return filch.NodeName("n" + strconv.Itoa(i+1)) }
func group(i int) string        { return "rack" + strconv.Itoa(i/16) }

// boot begins a life of a host's launcher.
func (h *host) boot(shared *mtc.Members) {
	h.life++
	h.seen.gone = false
	h.down, h.seen.dead, h.busy, h.paused, h.wake, h.backlog = false, false, 0, 0, filch.Never, nil
	h.out.Reset()
	h.core = mtc.New(mtc.Config{
		Self: h.name, Incarnation: h.life, Seed: h.w.opt.Seed<<20 ^ uint64(h.index)<<8 ^ h.life, Policy: h.w.opt.Policy,
		Victims: h.w.opt.Victims, Members: shared, WallNS: 1_700_000_000 * int64(time.Second),
	})
	if h.drains { // that outlives a launcher
		h.core.Drain(h.w.now, true, &h.out)
	}
}

func (w *World) at(t time.Duration, f func()) { w.queue.Push(max(t, w.now), f) }

// Run goes on until done says so or the limit is reached; it reports which.
func (w *World) Run(limit time.Duration, done func() bool) bool {
	for w.queue.Len() > 0 && w.queue.Next() <= limit {
		t, f := w.queue.Pop()
		w.now = t
		w.Stats.Events++
		f()
		if done() {
			return true
		}
		if w.Stats.Events > w.opt.Events {
			w.truth.breach("no end after %d events", w.Stats.Events)
			return false
		}
	}
	w.now = max(w.now, limit)
	return done()
}

// input gives a host something now, or when it is free, goes on, or never.
func (h *host) input(life uint64, what string, f func(now time.Duration, out *mtc.Out)) {
	if h.down || h.life != life {
		return
	}
	w := h.w
	switch {
	case h.paused > w.now:
		h.backlog = append(h.backlog, func() { h.input(life, what, f) })
		return
	case h.busy > w.now:
		w.at(h.busy, func() { h.input(life, what, f) })
		return
	}
	h.busy = w.now + w.opt.Cost
	w.note(h, what)
	f(w.now, &h.out)
	h.act()
}

// note mixes an input into the hash of the run.
func (w *World) note(h *host, what string) {
	w.hash = (w.hash ^ uint64(w.now) ^ uint64(h.index)<<40) * 0x100000001b3
	for _, c := range []byte(what) {
		w.hash = (w.hash ^ uint64(c)) * 0x100000001b3
	}
	if w.opt.Trace != nil {
		w.opt.Trace(fmt.Sprintf("%12v %s#%d %s", w.now, h.name, h.life, what))
	}
}

// Hash is of all inputs so far: the same seed has the same.
func (w *World) Hash() uint64 { return w.hash }

// act does what a Core says, and calls it when it wants.
func (h *host) act() {
	w := h.w
	if w.opt.Check {
		h.core.Check()
	}
	for {
		out := h.out
		h.out = mtc.Out{}
		for _, n := range out.Notes {
			if w.opt.Trace != nil {
				w.opt.Trace(fmt.Sprintf("%12v %s#%d   %s", w.now, h.name, h.life, n.Text))
			}
		}
		for _, p := range out.Proposals {
			w.propose(h, p)
		}
		for _, s := range out.Starts {
			h.start(s)
		}
		for _, s := range out.Stops {
			h.stop(s)
		}
		for _, s := range out.Sends {
			w.send(h, s)
		}
		for _, t := range out.Tells {
			w.truth.told(h, t)
		}
		if !out.Sweep {
			break
		}
		h.core.Homed(w.now, w.store.homed(w, h), &h.out)
	}
	d := h.core.Deadline()
	if d < h.wake {
		at, life := max(d, w.now), h.life
		h.wake = d
		w.at(at, func() {
			if h.life == life && h.wake == d {
				h.wake = filch.Never
				h.input(life, "tick", func(now time.Duration, out *mtc.Out) { h.core.Tick(now, out) })
			}
		})
	}
}

func (w *World) send(h *host, s mtc.Send) {
	to := w.byName(s.To)
	if to == nil {
		return
	}
	body := mtc.EncodeMessage(s.Message)
	kind := fmt.Sprintf("%T", s.Message)[len("*mtc."):]
	w.Stats.Messages[kind]++
	at, n := w.net.Arrivals(w.now, h.index, to.index)
	life := to.life
	for _, t := range at[:n] {
		w.at(t, func() {
			m, err := mtc.DecodeMessage(body)
			if err != nil {
				panic(err)
			}
			to.input(life, kind, func(now time.Duration, out *mtc.Out) { to.core.Message(now, h.name, m, out) })
		})
	}
}

func (w *World) byName(n filch.NodeName) *host {
	i, err := strconv.Atoi(string(n[1:]))
	if err != nil || i < 1 || i > len(w.hosts) {
		return nil
	}
	return w.hosts[i-1]
}

// Call gives the Core of a host a call of a client.
func (w *World) Call(i int, what string, f func(c *mtc.Core, now time.Duration, out *mtc.Out)) {
	h := w.hosts[i]
	h.input(h.life, what, func(now time.Duration, out *mtc.Out) { f(h.core, now, out) })
}

// Submit gives a host a job and lets another one follow it.
func (w *World) Submit(i int, s mtc.Submission, length func(*fate.Dice, mtc.Start) time.Duration) {
	if s.Spec.Each == (mtc.Room{}) {
		s.Spec.Each.Slots = 1
	}
	if s.Ticket == (filch.Ticket{}) {
		s.Ticket = filch.Ticket{UnixNS: int64(w.now), Job: s.Job}
	}
	w.truth.submitted(s, length)
	w.Call(i, "submit", func(c *mtc.Core, now time.Duration, out *mtc.Out) {
		if err := c.Submit(now, s, out); err != nil {
			panic(err)
		}
		c.Follow(now, s.Job, out)
	})
}
