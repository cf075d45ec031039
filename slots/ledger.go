package slots

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// The terms of the ledger.
const (
	// HoldTerm is how long a hold lasts after the last message of the hold's
	// origin.
	HoldTerm = 15 * time.Second
	// promptMin is how soon after a change the ledger asks the origin of a hold
	// whether the hold is still wanted; after an answer, the ledger asks every
	// PromptMax. A silent origin is asked again every PromptMin. The slots of a
	// node bound the cost, not the number of waiting jobs.
	promptMin = time.Second
	PromptMax = 10 * time.Second
	// MaxWaiting bounds the wait list; a later request is refused, and the origin
	// asks again.
	MaxWaiting = 16384
)

// State is the state of a claim.
type State uint8

// The states of a claim.
const (
	Waiting State = iota // holds nothing yet
	Held                 // promised; an older ticket may wound it
	Locked               // behind the gate of a launch: can no longer be wounded
	Running              // launched
	Stuck                // ended, but with processes that cannot be killed
)

// Ask is an origin's request for slots of this node for a job.
type Ask struct {
	Key         Key
	Of          filch.JobID // the job to name as the holder; 0: the Key's
	Ticket      filch.Ticket
	Origin      filch.NodeName
	Incarnation uint64 // of the origin
	Base, Each  filch.Room
	Exclusive   bool          // all of the node or nothing
	Task        bool          // a task that is a gang: takes the room of tasks, too
	Wait        bool          // wait for the missing ranks, wound younger holds
	Ends        bool          // known to end before the node does; see [Ledger.NearsEnd]
	Takes       time.Duration // at most, once launched; 0: not known
	Want        int32         // ranks in all
	Round       uint32
}

// Status is the report about a claim to the claim's origin: counts are absolute,
// and of two reports the higher version counts.
type Status struct {
	Key     Key
	Origin  filch.NodeName
	Lease   filch.LeaseID // Serial 0: there is no claim
	State   State
	Held    int32 // ranks that can be launched
	Lent    int32 // further ranks that are held, in whose room tasks run; see [Backfill]
	Version uint64
	Round   uint32
	Waiting bool
	Refused bool
	Older   bool // an older request waits here
}

// Loan is the room for the use of a launched claim. Slots and Processors are in the order of
// the ranks: the slots of a rank are neighbors, and near to each other.
type Loan struct {
	Lease      filch.LeaseID
	Ranks      int32
	Slots      []int32           // by number
	Processors []filch.Processor // empty where slots are not processors
	GPUs       []string          // of a shared GPU once for each rank
	ParentGPUs []string          // of a step without GPUs: the parent's GPUs here, each once
	MemBytes   int64
	Named      filch.Amounts
}

type claim struct {
	ask     Ask
	lease   filch.LeaseID
	version uint64
	state   State
	held    int32
	share                 // held in all
	expires time.Duration // of a hold, unless the origin renews
	prompt  time.Duration
	since   time.Duration // when the claim came onto the wait list
	told    bool          // in changed
	queued  bool          // in wait
	kept    bool          // a hold that no older ticket takes away: see [Spares]
	got     time.Duration // when a hold got its first slot
	ends    time.Duration // of a launched claim, at the latest; 0: not known
	lends   lending
	fills   []*fill
	parent  *claim // of a step's claim
	subs    []*claim
}

// Ledger is a node's slots. The zero Ledger is not usable; see [New].
type Ledger struct {
	Backfill    Backfill
	Spares      Spares
	Meter       Meter
	capacity    Capacity
	incarnation uint64
	free        share
	claims      map[Key]*claim
	holds       []*claim // with slots, in the order of getting the first slot
	wait        waitList
	reports     reports
	tasks       tasks
	closing     closing
}

// closing is the reasons of a node to lend nothing.
type closing struct {
	draining bool
	ending   bool // draining, and tasks go on
	shut     bool // until the loans of an earlier launcher are booked
}

// refuses reports whether the ledger lends nothing to such a request.
func (c closing) refuses(a Ask) bool { return c.draining && !(c.ending && a.Ends) }

// drained reports whether the ledger lends nothing at all, to any request.
func (c closing) drained() bool { return c.draining && !c.ending }

// New makes the ledger of a node; incarnation is the launcher's.
func New(c Capacity, incarnation uint64) *Ledger {
	l := &Ledger{
		capacity: c, incarnation: incarnation,
		free:   share{c.Total(), full(c.Slots), wholeDevices(len(c.GPUs))},
		claims: make(map[Key]*claim),
	}
	l.Backfill.ledger, l.Spares.ledger, l.Meter.ledger = l, l, l
	return l
}

// Total is all the room of the node.
func (l *Ledger) Total() filch.Room { return l.capacity.Total() }

// Free is the room not in use or promised.
func (l *Ledger) Free() filch.Room { return l.free.room }

// Idle reports whether there is no claim at all and no task.
func (l *Ledger) Idle() bool { return len(l.claims) == 0 && l.tasks.held() == filch.Room{} }

// Draining reports whether the ledger lends nothing more.
func (l *Ledger) Draining() bool { return l.closing.draining }

// Status returns the status of a claim.
func (l *Ledger) Status(k Key) Status {
	if c := l.claims[k]; c != nil {
		return l.status(c)
	}
	return l.nothing(k)
}

func (l *Ledger) status(c *claim) Status {
	firm := c.firm()
	return Status{
		Key: c.ask.Key, Origin: c.ask.Origin, Lease: c.lease, State: c.state, Held: firm, Lent: c.held - firm,
		Version: c.version, Round: c.ask.Round, Waiting: c.queued, Refused: l.closing.refuses(c.ask) && c.held == 0,
	}
}

// nothing is the status of a missing claim; the status has a new version, so as to
// replace earlier reports.
func (l *Ledger) nothing(k Key) Status {
	return Status{
		Key: k, Lease: filch.LeaseID{Incarnation: l.incarnation}, Version: l.reports.next(),
		Refused: l.closing.draining,
	}
}

// Changed returns the claims changed since the last call, in the order of their
// first change. The caller sends each status to the claim's origin.
func (l *Ledger) Changed(buf []Status) []Status {
	for _, c := range l.reports.changed {
		c.told = false
		buf = append(buf, l.status(c))
	}
	l.reports.changed = l.reports.changed[:0]
	return buf
}

// heard notes a message from a claim's origin.
func (c *claim) heard(now time.Duration) {
	if c.state != Held {
		return
	}
	c.expires = now + HoldTerm
	c.prompt = now + PromptMax
}

func (l *Ledger) find(k Key, lease filch.LeaseID) *claim {
	c := l.claims[k]
	if c == nil || c.lease != lease {
		return nil
	}
	return c
}

func (l *Ledger) claim(a Ask) *claim {
	n := l.reports.next()
	c := &claim{ask: a, lease: filch.LeaseID{Incarnation: l.incarnation, Serial: n}, version: n}
	l.claims[a.Key] = c
	return c
}

// drop forgets a claim without slots.
func (l *Ledger) drop(c *claim) {
	l.wait.remove(c)
	if l.claims[c.ask.Key] == c {
		delete(l.claims, c.ask.Key)
	}
}

// enqueue puts a claim on the wait list.
func (l *Ledger) enqueue(now time.Duration, c *claim) {
	if l.wait.add(now, c) {
		c.version = l.reports.next() // a place on the list is news, also without a slot
	}
}

// Deadline is when [Ledger.Tick] is due.
func (l *Ledger) Deadline() time.Duration {
	d := filch.Never
	for _, c := range l.holds {
		if c.state == Held {
			d = min(d, c.expires, c.prompt)
		}
	}
	if c := l.wait.blocks(l.free.room); c != nil {
		d = min(d, c.prompt)
	}
	return d
}

// Tick ends expired holds of silent origins and prompts the other origins.
func (l *Ledger) Tick(now time.Duration) {
	if l.Deadline() > now {
		return
	}
	freed := false
	for _, c := range slices.Clone(l.holds) {
		switch {
		case c.state == Held && c.expires <= now:
			l.strip(c, c.held)
			l.drop(c)
			l.reports.touch(now, c)
			freed = true
		case c.state == Held && c.prompt <= now:
			c.prompt = now + promptMin
			l.reports.add(c)
		}
	}
	if freed {
		l.pump(now)
	}
	// After the holds: the end of one may have left the first claim to block the rest.
	if c := l.wait.blocks(l.free.room); c != nil && c.prompt <= now {
		c.prompt = now + PromptMax
		l.reports.add(c)
	}
}

// Shut makes the ledger lend nothing until [Ledger.Open]; requests to wait are
// accepted. A restarted launcher does not know yet which slots are in use.
func (l *Ledger) Shut() { l.closing.shut = true }

// Open ends a Shut.
func (l *Ledger) Open(now time.Duration) {
	l.closing.shut = false
	l.pump(now)
}

// Ending reports whether [Ledger.NearsEnd] is in effect.
func (l *Ledger) Ending() bool { return l.closing.ending }

// Drain makes the node lend nothing more, or lend again. Running jobs go on, and
// holds may still be launched. Waiting claims leave the list, and Changed lists them
// for their origins.
func (l *Ledger) Drain(now time.Duration, on bool) {
	if l.closing.draining == on && !l.closing.ending {
		return
	}
	l.closing.draining, l.closing.ending = on, false
	if !on {
		l.pump(now)
		return
	}
	l.Spares.free(now)
	for _, c := range slices.Clone(l.wait.claims) {
		l.wait.remove(c)
		if c.held == 0 {
			l.drop(c)
		}
		l.reports.touch(now, c)
	}
}

// NearsEnd makes the node lend only to requests with Ends set, and start
// tasks: the starter of tasks knows which tasks end in time. [Ledger.Drain] cancels
// NearsEnd.
func (l *Ledger) NearsEnd(now time.Duration) {
	if !l.closing.draining {
		l.Drain(now, true)
		l.closing.ending = true
	}
}
