package tasks

import (
	"fmt"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	noderecords "github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/records"
)

// Options says what world to make.
type Options struct {
	Seed    uint64
	Hosts   int
	Slots   int32
	Links   engine.Links
	Policy  policy.Policy
	Victims policy.Victims
	Check   bool          // call Core.Check after every input, and look at every record
	Cost    time.Duration // cpu time of one input
	Store   Trouble
	Detect  time.Duration // until the death of a node is heard of; 0 is 5 s
	Shared  bool          // one member list for all: no host ever fails
	Rate    int64         // bytes per second of a transfer of input; 0: transfers take no time
	Events  uint64        // a run with more has not quiesced; 0 is 1e9
	Trace   func(line string)
}

// Trouble is what the store does to operations.
type Trouble struct {
	Lost     float64       // of each operation, before it happened
	Silent   float64       // of each, after it happened
	Timeout  time.Duration // of an operation; 0 is an hour
	SlowTail time.Duration // a hundredth takes up to so long
}

// World is one simulated instance.
type World struct {
	*engine.Engine
	opt      Options
	rng      *engine.Dice // processes and the store
	fault    *engine.Dice
	gone     *engine.Dice // see answering; nil: hosts do not answer
	hosts    []*host
	lists    [][]word // the member list of each
	records  *records.Store
	truth    truth
	needs    needs
	licenses licenses
	shaken   int // how often something happened to a host
	// shakenAt is when it last did.
	shakenAt time.Duration
	Stats    Stats
}

// Stats counts what happened.
type Stats struct {
	Messages  map[string]int
	Merges    int
	Starts    int
	Finished  map[filch.JobID]time.Duration
	LastStart time.Duration
	Bounds    Bounds
	Drains    int // and undone ones
	Orders    int
	Needs     int   // starts of tasks of jobs whose tasks differ
	Seats     int   // starts of tasks that take of the shared resource
	Urgent    int   // looks at a bag of a better class that waited
	Input     int64 // bytes that the tasks of workflows read
	Moved     int64 // of these, from other hosts
	Given     int   // tasks in offers that nobody asked for
	Late      int   // bound tasks in offers to nodes with their input
	Bundles   int   // that the ends would fill in a response queue: see [bundle]
}

// host is a node: its launcher's Core, and the processes that it started.
type host struct {
	engine.Host
	w           *World
	incarnation uint64
	core        *mtc.Core
	out         mtc.Out
	port        port
	cut         bool // from the store; the network has its own cuts
	seen        seen
	processes
	draining
}

// seen is what the others think of a host's life.
type seen struct {
	dead    bool // they declared it dead
	gone    bool // they call it gone, though it lives
	version int  // of what it says of itself
}

// processes are those that a host runs.
type processes struct {
	running map[uint64]*process
	waiting map[uint64]mtc.Start // by the run that ends first
	ran     int
	results bundle
	copies  map[file]bool // outputs of tasks that ran on other hosts
}

// draining is that a host is to start nothing.
type draining struct {
	drains  bool
	drained time.Duration // when that began, or the host's last fault
	orders  int           // to drain and not to
}

// NewWorld makes hosts whose launchers run and know each other.
func NewWorld(opt Options) *World {
	if opt.Store.Timeout == 0 {
		opt.Store.Timeout = time.Hour
	}
	if opt.Detect == 0 {
		opt.Detect = 5 * time.Second
	}
	e := engine.New(engine.Options{Seed: opt.Seed, Hosts: opt.Hosts, Links: opt.Links, Trace: opt.Trace, Steps: opt.Events})
	w := &World{Engine: e, opt: opt, rng: e.Dice(1), fault: e.Dice(2)}
	w.records = records.New(ground{w}, noderecords.Kinds())
	w.truth.init(w)
	w.needs, w.licenses = newNeeds(opt.Seed, opt.Hosts), newLicenses(opt.Seed)
	w.Stats.Messages, w.Stats.Finished = map[string]int{}, map[filch.JobID]time.Duration{}
	var shared *policy.Members
	if opt.Shared {
		shared = policy.NewMembers()
		for i := range opt.Hosts {
			shared.Set(filch.Member{Name: name(i), Incarnation: 1, Group: group(i), Labels: w.needs.labels(i)})
		}
	}
	for i := range opt.Hosts {
		h := &host{w: w, processes: processes{running: map[uint64]*process{}, waiting: map[uint64]mtc.Start{}, copies: map[file]bool{}}}
		e.Add(&h.Host, name(i))
		w.hosts, w.lists = append(w.hosts, h), append(w.lists, make([]word, opt.Hosts))
		h.boot(shared)
	}
	for _, h := range w.hosts {
		if shared == nil {
			for _, o := range w.hosts {
				w.lists[h.Index][o.Index] = o.word()
				h.core.SetMember(0, o.word().Member, &h.out)
			}
		}
		h.core.SetRoom(0, filch.Room{Slots: opt.Slots}, &h.out)
		h.act()
	}
	return w
}

func name(i int) filch.NodeName { return filch.NodeName("n" + strconv.Itoa(i+1)) }
func group(i int) string        { return "rack" + strconv.Itoa(i/16) }

// boot begins a life of a host's launcher.
func (h *host) boot(shared *policy.Members) {
	h.incarnation++
	h.seen.gone = false
	h.seen.dead = false
	h.Start(0, h.tick)
	h.out.Reset()
	h.port.Port = h.w.records.Open(h.Name, h.hear)
	h.core = mtc.New(mtc.Config{
		Self: h.Name, Incarnation: h.incarnation, Seed: h.w.opt.Seed<<20 ^ uint64(h.Index)<<8 ^ h.incarnation, Policy: h.w.opt.Policy,
		Victims: h.w.opt.Victims, Members: shared, WallNS: 1_700_000_000 * int64(time.Second), Labels: h.w.needs.labels(int(h.Index)), Need: needOf,
	})
	if h.drains { // that outlives a launcher
		h.core.Drain(h.w.Now(), true, &h.out)
	}
}

// input gives a launcher something now, or when it is free and goes on. It is void
// if another one has begun.
func (h *host) input(incarnation uint64, what string, f func(now time.Duration, out *mtc.Out)) {
	if h.incarnation == incarnation {
		h.Input(h.w.Now(), func() { h.take(what, f) })
	}
}

// take lets the Core handle one input and does what it says.
func (h *host) take(what string, f func(now time.Duration, out *mtc.Out)) {
	w := h.w
	h.Work(w.opt.Cost)
	w.note(h, what)
	f(w.Now(), &h.out)
	h.act()
}

func (h *host) tick() { h.take("tick", h.core.Tick) }

// note mixes what happens to a host into the hash of the run.
func (w *World) note(h *host, what string) {
	for _, c := range []byte(what) {
		w.Mix(uint64(c))
	}
	if w.Tracing() {
		w.Trace(h.Name, what, "#%d", h.incarnation)
	}
}

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
			w.Trace(h.Name, "note", "%s", n.Text)
		}
		for i := range out.Proposals {
			h.propose(&out.Proposals[i])
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
		h.core.Homed(w.Now(), h.homed(), &h.out)
	}
	h.Wake(h.core.Deadline())
}

func (w *World) send(h *host, s mtc.Send) {
	to := w.byName(s.To)
	if to == nil {
		return
	}
	body := message.Encode(s.Message)
	kind := fmt.Sprintf("%T", s.Message)[len("*mtc."):]
	w.Stats.Messages[kind]++
	w.Stats.Given += gifts(s.Message)
	w.Stats.Late += late(s.Message)
	incarnation := to.incarnation
	h.Send(&to.Host, func() {
		if to.incarnation != incarnation {
			return
		}
		m, err := message.Decode(body)
		if err != nil {
			w.Fail("codec", "%s cannot read a message of %s: %v", to.Name, h.Name, err)
			return
		}
		to.take(kind, func(now time.Duration, out *mtc.Out) { to.core.Message(now, h.Name, m, out) })
	})
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
	h.input(h.incarnation, what, func(now time.Duration, out *mtc.Out) { f(h.core, now, out) })
}

// Submit gives a host a job and lets another one follow it.
func (w *World) Submit(i int, s submit.Job, length func(*engine.Dice, mtc.Start) time.Duration) {
	if s.Spec.Each == (filch.Room{}) {
		s.Spec.Each.Slots = 1
	}
	if s.Ticket == (filch.Ticket{}) {
		s.Ticket = filch.Ticket{UnixNS: int64(w.Now()), Job: s.Job}
	}
	w.truth.submitted(s, length)
	w.truth.jobs[s.Job].from = w.hosts[i].Name
	w.Call(i, "submit", func(c *mtc.Core, now time.Duration, out *mtc.Out) {
		if err := c.Submit(now, s, out); err != nil {
			panic(err)
		}
		c.Follow(now, s.Job, out)
	})
}
