package instance

import (
	"cmp"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/stealer"
	"github.com/filch-hpc/filch/testbed/sim/disk"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// MessageCost is the cpu time that a message costs its sender and its receiver.
const MessageCost = 2 * time.Microsecond

// Options says what world to make.
type Options struct {
	Seed       uint64
	Hosts      int
	Slots      int32 // of each host
	Links      engine.Links
	Gather     stealer.Policy
	Policy     policy.Policy // of tasks
	Roles      []filch.Role  // of the hosts; nil: all are for all work
	Looks      engine.Looks  // when Node.Check is called
	Words      bool          // check the messages: promises kept, launches on the newest word
	Trace      func(line string)
	Logins     int           // the first hosts, which have no slots
	Absent     int           // the last hosts, which come later
	Calm       bool          // no host or link ever fails: no member list of its own for each
	Plain      bool          // tasks that are gangs end well, and begin at once
	CountKinds bool          // count messages by kind
	SyncMax    time.Duration // the longest that an ordinary sync of a disk takes; 0 for 2 ms
	MaxSteps   uint64        // a run with more events than this has not quiesced; 0 for 1e9
}

// World is one simulated instance.
type World struct {
	*engine.Engine
	opt      Options
	childRng *engine.Dice // keepers
	faultRng *engine.Dice // faults
	hosts    []*host
	byName   map[filch.NodeName]*host
	jobs     []*job
	attempts map[filch.Ident]*attempt
	tasking
	fills backfill
	recording
	hooks
	memory
	out   launcher.Outbox
	stats Stats
}

// tasking is the jobs of tasks of a run.
type tasking struct {
	taskRng   *engine.Dice
	stepRng   *engine.Dice
	gangRng   *engine.Dice
	gangs     []*gangTask
	gangIDs   map[filch.JobID]*gangTask
	afterRng  *engine.Dice
	eachRng   *engine.Dice
	lengthRng *engine.Dice
	spreadRng *engine.Dice
	shapeRng  *engine.Dice // of workflows
	bags      []*bag
	byBag     map[filch.JobID]*bag
	ids       map[filch.JobID]launcher.ClientID // that were told
	lapses    lapses
	copies    int // of tasks that began
	acts      Acts
	steals    bool // some policy of the run lets nodes steal
	unserved  bool // some policy of the run lets no node steal: nodes may be idle beside waiting tasks
	taskSteps int  // steps of tasks that were submitted
	quota     quota
}

// recording is what clients of the records did and were told.
type recording struct {
	history map[dht.Key][]porcupine.Operation
	steps   int64 // moments of the history: two never coincide
}

// hooks are the parts of a world that not every run has.
type hooks struct {
	members  *filch.Members // shared by all launchers; nil: each has its own
	fuse     *fuse
	slanted  bool                                     // it has a slant, with faults of its own: no host is off for good
	longRuns time.Duration                            // the most that the runs of a slant take, one after the other
	watch    func(from, to *host, m launcher.Message) // sees every message sent
	peek     func(h *host, in *input)                 // sees every input before the Node does
	hurt     bool                                     // a disk failed, or rotted
	elastic  *elastic                                 // hosts come and go with a pool; nil: they do not
	// A launcher that begins anew finds its keepers after its clients find the launcher.
	lateKeepers bool
}

// memory is what the checkers remember of the messages; nil maps in a run that
// does not look at them.
type memory struct {
	byID   map[filch.JobID]*job
	heard  map[heardKey]*launcher.Grant
	judged map[filch.Ident]bool // launches that were checked
}

// Stats counts what happened.
type Stats struct {
	Messages   uint64 // of launchers, sent from one host to another
	Gossip     uint64 // of their member lists
	Idle       uint64 // of their stores, and of thieves of tasks: what goes on when nothing is to be done
	ByKind     map[string]uint64
	Ended      int // jobs whose client heard the end
	Successors int // tasks that waited for the end of another
}

// wallClock is the Unix time at the beginning of a run.
const wallClock = 1_700_000_000 * int64(time.Second)

// The streams of dice of a run.
const (
	streamPlan = iota + 1
	streamKeepers
	streamFaults
	streamBoots
	streamDisks
	streamTasks
	streamBags
	streamRecords
	streamDiskFaults
	streamTaskSteps
	streamQuota
	streamSlant
	streamChurn
	streamAfter
	streamGangs
	streamGangRuns
	streamAwaits
	streamFills
	streamEach
	streamPolicy
	streamPolicies
	streamLengths
	streamReturns
	streamSpreads
	streamElastic
	streamRoles
	streamShapes
	streamLaws
)

// NewWorld makes hosts whose launchers run and know each other.
func NewWorld(opt Options) *World {
	e := engine.New(engine.Options{Seed: opt.Seed, Hosts: opt.Hosts, Links: opt.Links, Trace: opt.Trace, Steps: opt.MaxSteps, Begin: -foundSpan})
	w := &World{
		Engine: e, opt: opt, childRng: e.Dice(streamKeepers), faultRng: e.Dice(streamFaults),
		byName:   make(map[filch.NodeName]*host, opt.Hosts),
		attempts: make(map[filch.Ident]*attempt),
		tasking:  tasking{taskRng: e.Dice(streamTasks), stepRng: e.Dice(streamTaskSteps), gangRng: e.Dice(streamGangRuns), afterRng: e.Dice(streamAfter), eachRng: e.Dice(streamEach), lengthRng: e.Dice(streamLengths), spreadRng: e.Dice(streamSpreads), shapeRng: e.Dice(streamShapes), byBag: make(map[filch.JobID]*bag), ids: make(map[filch.JobID]launcher.ClientID), gangIDs: make(map[filch.JobID]*gangTask)},
	}
	if opt.CountKinds {
		w.stats.ByKind = make(map[string]uint64)
	}
	if opt.Words {
		w.memory = memory{make(map[filch.JobID]*job), make(map[heardKey]*launcher.Grant), make(map[filch.Ident]bool)}
	}
	w.allow(opt.Policy)
	boots, disks := e.Dice(streamBoots), e.Dice(streamDisks)
	for i := range opt.Hosts {
		h := &host{w: w}
		e.Add(&h.Host, filch.NodeName("n"+strconv.Itoa(i+1)))
		slots := opt.Slots
		if i < opt.Logins {
			slots = 0
		}
		h.cores, h.subs = make([]*keeper, slots), make([]*keeper, slots)
		h.waiting = make(map[uint64]launcher.TaskLaunch)
		h.records, h.tasks, h.gangs = make(map[string]launcher.Record), make(map[uint64]*process), make(map[uint64]*gangTask)
		h.promises, h.gpus = make(promises), make(map[string]*keeper)
		h.trouble, h.apartTill = -filch.Never, -filch.Never/2
		if h.role = filch.ForAll; opt.Roles != nil {
			h.role = opt.Roles[i]
		}
		h.disk = disk.New(e, &h.Host, disks, cmp.Or(opt.SyncMax, syncMax), h.synced)
		w.hosts = append(w.hosts, h)
		w.byName[h.Name] = h
	}
	if opt.Calm {
		w.share()
	}
	for i, h := range w.hosts {
		if i >= opt.Hosts-opt.Absent {
			h.lost, h.dark = true, true
			continue
		}
		at, born := -foundSpan, -foundSpan-boots.Between(0, time.Hour)
		if i > 0 && !opt.Calm {
			at += boots.Between(0, joinSpan)
		}
		w.At(at, func() { h.first(born) })
	}
	w.Run(0)
	return w
}

// first begins the first launcher of a host: it founds the instance, or joins it.
func (h *host) first(born time.Duration) {
	w := h.w
	h.make(born)
	founds := h == w.hosts[0]
	if !w.opt.Calm {
		var via []filch.NodeName
		if !founds {
			via = append(via, w.hosts[0].Name)
		}
		h.beginList(via, false)
	}
	if founds || w.opt.Calm {
		h.call(func(now time.Duration, out *launcher.Outbox) { h.node.StoreFound(now, out) })
	}
}

// foundSpan is what an instance has before moment 0 to come up: a roster, whole
// shards, and ids for jobs.
const foundSpan = 8 * time.Second

// joinSpan is how long hosts take to begin one after the other.
const joinSpan = 500 * time.Millisecond

// syncMax is the longest that an ordinary sync of a disk takes.
const syncMax = 2 * time.Millisecond

// said lets the checkers see a message that leaves.
func (w *World) said(from, to *host, m launcher.Message) {
	switch m := m.(type) {
	case *launcher.Grant:
		w.promised(from, to, m)
	case *launcher.Dispatch:
		w.checkDispatch(from, m)
	case *launcher.TaskWord:
		w.taskWord(from, to, m.Body)
	}
}

// trace writes a line about a thing, if somebody reads it.
func (w *World) trace(who filch.NodeName, what string, thing any) {
	if w.Tracing() {
		w.Trace(who, what, "%s", show(thing))
	}
}

// send puts a message of one host on its way to another.
func (w *World) send(from *host, to filch.NodeName, m launcher.Message) {
	target := w.target(from, to, m)
	if target == nil {
		return
	}
	if _, ok := m.(*launcher.TaskWord); ok {
		w.stats.Idle++
	} else {
		w.stats.Messages++
	}
	if w.watch != nil {
		w.watch(from, target, m)
	}
	if w.byID != nil {
		w.said(from, target, m)
	}
	if w.stats.ByKind != nil {
		w.stats.ByKind[nameOf(m)]++
	}
	from.Work(MessageCost)
	in := &input{what: "<- " + string(from.Name), from: from, body: m, do: func(now time.Duration, out *launcher.Outbox) {
		target.Work(MessageCost)
		target.node.Message(now, from.Name, m, out)
	}}
	incarnation := from.incarnation
	from.Send(&target.Host, func() {
		if target.hears(from, incarnation) {
			target.take(in)
		}
	})
}

// target is the host that a message goes to, nil if there is none such.
func (w *World) target(from *host, to filch.NodeName, m any) *host {
	target := w.byName[to]
	switch target {
	case nil:
		w.Fail("unknown-node", "%s sends %T to %q, which does not exist", from.Name, m, to)
		return nil
	case from:
		w.Fail("self-send", "%s sends %T to itself", from.Name, m)
		return nil
	}
	return target
}
