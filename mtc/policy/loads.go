package policy

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Load is what a node has to do, by its own word.
type Load struct {
	Slots int32         // for tasks; 0: not known
	Free  int32         // of these
	Work  time.Duration // of the tasks here, running and waiting: the sum of what is left
	Rate  int64         // bytes per second from other nodes; 0: not known
}

// LoadOf is the load of a node: room and used slots, tasks that wait and run, their mean
// length, and the measured bandwidth.
func LoadOf(room, used int32, waiting, running int64, mean time.Duration, rate int64) Load {
	free := max(room-used-int32(min(waiting, filch.Unbounded)), 0)
	return Load{Slots: room, Free: free, Work: work(mean, waiting, running), Rate: rate}
}

// work is the [Load.Work] of tasks of a mean length: half of those that run is done.
func work(mean time.Duration, waiting, running int64) time.Duration {
	return time.Duration(min(float64(mean)*(float64(waiting)+float64(running)/2), 1<<60))
}

// Wait is how long a further task waits for a slot.
func (l *Load) Wait() time.Duration {
	if l.Free > 0 || l.Slots <= 0 {
		return 0
	}
	return l.Work / time.Duration(l.Slots)
}

// busy is the work of each slot.
func (l *Load) busy() time.Duration { return l.Work / time.Duration(max(l.Slots, 1)) }

// Gave adds a task of a length.
func (l *Load) Gave(length time.Duration) {
	l.Free = max(l.Free-1, 0)
	l.Work += min(length, 1<<60-l.Work)
}

// Loads is the loads of other nodes as a node that places tasks knows them (ADAGE). A node
// that said nothing counts as idle. Between two words of a node the tasks given to the node
// are added. The zero Loads knows nothing.
type Loads struct {
	known map[filch.NodeName]*loadWord
	open  int // nodes that have not answered
}

type loadWord struct {
	Load
	asked time.Duration
	waits bool // for the answer
}

const (
	loadAgain     = 100 * time.Millisecond // a node is asked no sooner again
	loadsMax      = 4096                   // nodes
	candidatesMax = 64                     // nodes that are looked at for one task
)

// Candidates are the nodes that may be best for a task: those with the task's input, sqrt(N)
// drawn ones, the least loaded known, and self.
func (l *Loads) Candidates(inputs []Input, self filch.NodeName, m *Members, r *filch.Rand, fits func(*filch.Member) bool) (names []filch.NodeName) {
	if p := m.Get(self); p != nil && fits(p) {
		names = append(names, self)
	}
	add := func(name filch.NodeName) {
		if len(names) < candidatesMax && !slices.Contains(names, name) {
			if p := m.Get(name); p != nil && fits(p) {
				names = append(names, name)
			}
		}
	}
	add(l.least())
	for _, in := range inputs {
		if in.Bytes > 0 {
			add(in.Node)
			for _, n := range in.Copies {
				add(n)
			}
		}
	}
	for _, n := range m.Sample(self, r, fits) {
		add(n)
	}
	return names
}

// least is the node with the least wait of those that said something; "" if none did.
func (l *Loads) least() (name filch.NodeName) {
	for n, w := range l.known { // any order: the least, then the first name
		if w.Slots == 0 {
			continue
		}
		best := l.known[name]
		if name == "" || cmp.Or(cmp.Compare(w.Wait(), best.Wait()), cmp.Compare(best.Free, w.Free), cmp.Compare(n, name)) < 0 {
			name = n
		}
	}
	return name
}

// Ask is the nodes of names, without self, that are to be asked now.
func (l *Loads) Ask(now time.Duration, names []filch.NodeName, self filch.NodeName) (ask []filch.NodeName) {
	for _, n := range names {
		if n == self {
			continue
		}
		w := l.known[n]
		if w == nil {
			if len(l.known) >= loadsMax {
				continue
			}
			if l.known == nil {
				l.known = make(map[filch.NodeName]*loadWord)
			}
			w = &loadWord{asked: now - loadAgain}
			l.known[n] = w
		}
		if w.asked+loadAgain > now {
			continue
		}
		if w.asked = now; !w.waits {
			w.waits = true
			l.open++
		}
		ask = append(ask, n)
	}
	return ask
}

// Said takes in the answer of a node, and reports whether all asked nodes have answered.
func (l *Loads) Said(name filch.NodeName, load Load) (all bool) {
	w := l.known[name]
	if w == nil || !w.waits {
		return false
	}
	w.Load, w.waits = load, false
	l.open--
	return l.open == 0
}

// Forget drops the knowledge of a node that is gone.
func (l *Loads) Forget(name filch.NodeName) {
	if w := l.known[name]; w != nil && w.waits {
		l.open--
	}
	delete(l.known, name)
}

// Of is what is known of a node; total is the node's room.
func (l *Loads) Of(name filch.NodeName, total filch.Room) Load {
	if w := l.known[name]; w != nil && w.Slots > 0 {
		return w.Load
	}
	idle := Load{Slots: max(total.Slots, 1), Free: max(total.Slots, 1)}
	if w := l.known[name]; w != nil { // without a word, and with the tasks that were given
		idle.Work, idle.Free = w.Work, max(idle.Free+w.Free, 0)
	}
	return idle
}

// gave adds a task to the load of a node.
func (l *Loads) gave(name filch.NodeName, length time.Duration) {
	w := l.known[name]
	switch {
	case w == nil:
	case w.Slots > 0:
		w.Gave(length)
	default:
		w.Free, w.Work = w.Free-1, w.Work+min(length, 1<<60-w.Work)
	}
}

// Kept is how many tasks of a length a node keeps for itself, on its slots, whose input takes
// so long to another node: the last of them waits about as long as the transfer takes.
func Kept(slots int32, transfer, length time.Duration) int {
	if mutantKeepsAll {
		return math.MaxInt
	}
	n := float64(slots) * float64(transfer) / float64(max(length, time.Microsecond))
	return int(min(n, 1<<30))
}

// missing is the bytes of the inputs that a node has not.
func missing(inputs []Input, node filch.NodeName) (bytes int64) {
	for i := range inputs {
		if has := inputs[i].At(node); !has && !mutantPrinted || has && mutantPrinted {
			bytes += inputs[i].Bytes
		}
	}
	return bytes
}

// slotCost is the weight of a transfer: the transfer delays the task, and takes the time of a
// slot from another task.
const slotCost = 2

// finish is when a task would end on a node, from now: after the wait for a slot, the
// transfer of the missing input, which takes place in the slot, and the run of the task. The
// loads are up to loadAgain old: a lesser difference of the waits is no reason to move input. This
// is the meaning of GetBestNode in the code of ADAGE. Listing 3 of the paper, as printed, adds
// the transfers of the files that the node has, and takes the minimum: the worst node.
func finish(load *Load, inputs []Input, node filch.NodeName, length time.Duration, usual float64) time.Duration {
	rate := float64(load.Rate)
	if rate <= 0 {
		rate = usual
	}
	wait := load.Wait()
	if mutantLoadBlind {
		wait = 0
	}
	moves := time.Duration(0)
	if bytes := missing(inputs, node); bytes > 0 {
		moves = loadAgain + slotCost*TransferTime(bytes, rate)
	}
	return wait + moves + length
}

// Choose names the node among names, or self, that would finish a task of a length first. A
// task that would wait for a slot on another node, without more of its input there, waits at
// self, where any thief may take the task. stays: the transfer of the input would take longer
// than the task, so that no thief should have it.
func (l *Loads) Choose(names []filch.NodeName, self filch.NodeName, own Load, inputs []Input, length time.Duration, e *Estimates, m *Members) (to filch.NodeName, stays bool) {
	to, load := self, own
	usual := e.Bandwidth()
	first := finish(&own, inputs, self, e.On(self, length), usual)
	for _, n := range names {
		if n == self {
			continue
		}
		other := l.Of(n, m.Get(n).Total)
		if end := finish(&other, inputs, n, e.On(n, length), usual); end < first || end == first && to != self && other.busy() < load.busy() {
			to, load, first = n, other, end
		}
	}
	if to != self && load.Wait() > 0 && missing(inputs, to) >= missing(inputs, self) {
		to = self
	}
	if to != self {
		l.gave(to, length)
	}
	all := int64(0)
	for i := range inputs {
		all += inputs[i].Bytes
	}
	return to, TransferTime(all, e.Bandwidth()) > length
}
