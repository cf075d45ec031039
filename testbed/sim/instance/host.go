package instance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/testbed/sim/disk"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// host is a machine: a launcher that may be down or stopped, the keepers that
// outlive it, and a disk.
type host struct {
	engine.Host
	w           *World
	node        *node.Node // nil while the launcher is down
	incarnation uint64
	storage
	membership
	machine
}

// storage is what a host keeps on its disk.
type storage struct {
	disk     *disk.Disk
	store    *store.Store               // of the launcher that runs, for the plan of faults
	fullTill time.Duration              // the disk takes nothing until then
	told     bool                       // the launcher knows that it takes nothing
	records  map[string]launcher.Record // of the launcher's own log, which is never synced
	late     []launcher.Record          // that it could not write yet
	forgot   bool                       // a launcher died with some of those
	rots     bool                       // part of it rots before the next launcher starts
}

// machine is what of a host is not its launcher.
type machine struct {
	dark, lost bool          // the machine is off, and for good
	offAt      time.Duration // when it was turned off last
	frozen     bool          // a pause stops the keepers too, not only the launcher
	keepers    []*keeper
	tasks      map[uint64]*process            // by serial
	waiting    map[uint64]launcher.TaskLaunch // by the serial of the task that ends first
	gangs      map[uint64]*gangTask           // by serial
	cores      []*keeper                      // by core: who has it
	subs       []*keeper                      // by core: the step that uses what its parent has
	promises   promises                       // of this launcher's process
	gpus       map[string]*keeper
	memory     int64         // lent to keepers, bytes
	trouble    time.Duration // no fault has touched it since then
	apartTill  time.Duration // others may not have reached it until then, or it stood still
	skew       int64         // of its wall clock, ns
	idle       int           // for how many looks in a row it has had nothing to do
	role       filch.Role
	law        dht.Version   // the newest policy of tasks that its launcher heard of
	lawLife    int32         // of this launcher
	search     survey        // of the thief that it is
	slow       time.Duration // how many times as long tasks take here; 0: once
	starves    int           // for how many looks in a row it has had slots for gangs that wait there
	noRoom     bool          // its launcher takes in nothing that needs a record
}

func (h *host) keeper(id filch.Ident) *keeper {
	for _, k := range h.keepers {
		if k.start.Launch.Ident == id {
			return k
		}
	}
	return nil
}

func (h *host) drop(k *keeper) {
	if i := slices.Index(h.keepers, k); i >= 0 {
		h.keepers = slices.Delete(h.keepers, i, i+1)
	}
}

// input is something that a launcher takes in.
type input struct {
	what string
	from *host // of a message or a word about a member
	body any   // for the trace, the fuse and the checkers
	do   func(now time.Duration, out *launcher.Outbox)
}

// give hands an input to the launcher of now, at a moment.
func (h *host) give(at time.Duration, in *input) { h.Input(at, func() { h.take(in) }) }

// call hands the launcher an input that is a call of its own.
func (h *host) call(f func(now time.Duration, out *launcher.Outbox)) {
	h.give(h.w.Now(), &input{what: "call", do: f})
}

// take lets the Node handle one input and does what it says.
func (h *host) take(in *input) {
	w, out := h.w, &h.w.out
	out.Reset()
	if w.fuse != nil && w.fuse.before(h, in.body) {
		return
	}
	if w.peek != nil {
		w.peek(h, in)
	}
	if w.byID != nil {
		h.unpromise(in)
		if m, ok := in.body.(*launcher.Grant); ok {
			w.hear(h, in.from, m)
		}
		if m, ok := in.body.(*launcher.TaskWord); ok {
			h.search.hears(h, in.from, m)
		}
	}
	if w.Tracing() && in.body != nil {
		w.trace(h.Name, in.what, in.body)
	}
	in.do(h.Local(), out)
	h.settle(out)
}

// tick is the launcher's alarm.
func (h *host) tick() {
	if h.list != nil && h.list.Deadline() <= h.Local() {
		h.listen(func(now time.Duration, out *members.Out) { h.list.Tick(now, out) })
	}
	if h.node == nil || h.node.Deadline() > h.Local() {
		return
	}
	h.take(&input{what: "tick", do: func(now time.Duration, out *launcher.Outbox) { h.node.Tick(now, out) }})
}

// synced tells the launcher what its disk has.
func (h *host) synced(upto uint64) {
	h.take(&input{what: "synced", do: func(now time.Duration, out *launcher.Outbox) { h.node.StoreSynced(now, upto, out) }})
}

// settle does what the outbox says, checks the Node and sets its alarm.
func (h *host) settle(out *launcher.Outbox) {
	w := h.w
	if w.opt.Looks.Due() && h.node != nil {
		h.node.Check()
	}
	life := h.Life()
	h.act(out)
	if h.node == nil || h.Life() != life {
		return // it crashed over its outbox
	}
	if w.byID != nil && len(out.Sends) > 0 {
		w.checkPromises(h)
	}
	h.setAlarm()
}

// act does the deeds of an outbox in the order of its fields. A fuse may end
// the launcher between any two of them.
func (h *host) act(out *launcher.Outbox) {
	w := h.w
	for i := range out.Notes {
		w.trace(h.Name, "note", &out.Notes[i])
	}
	w.checkLapse(h, out.Notes)
	if len(out.Logs) > 0 {
		if w.burn(h, "log") {
			return
		}
		h.disk.Append(out.Logs)
	}
	for _, r := range out.Records {
		if w.burn(h, "record") {
			return
		}
		w.trace(h.Name, "record", r.Key)
		h.keep(r)
	}
	for i := range out.Starts {
		if w.burn(h, "start") {
			return
		}
		w.trace(h.Name, "start", &out.Starts[i].Launch)
		w.startKeeper(h, out.Starts[i])
	}
	for i := range out.Tasks {
		if w.burn(h, "task") {
			return
		}
		w.startTask(h, out.Tasks[i])
	}
	for i := range out.GangEnds {
		w.endGang(h, &out.GangEnds[i])
	}
	for _, s := range out.TaskStops {
		w.stopTask(h, s)
	}
	for i := range out.Deeds {
		if w.burn(h, deedName(out.Deeds[i].Kind)) {
			return
		}
		w.trace(h.Name, "deed", &out.Deeds[i])
		if k := h.keeper(out.Deeds[i].Ident); k != nil {
			k.deed(out.Deeds[i])
		}
	}
	for i := range out.Sends {
		if w.burn(h, out.Sends[i].Message) {
			return
		}
		if w.Tracing() {
			w.trace(h.Name, "-> "+string(out.Sends[i].To), out.Sends[i].Message)
		}
		w.send(h, out.Sends[i].To, out.Sends[i].Message)
	}
	for i := range out.Stores {
		h.sendStore(&out.Stores[i])
	}
	for i := range out.Replies {
		if w.burn(h, "reply") {
			return
		}
		w.trace(h.Name, "tells", out.Replies[i].Event)
		w.reply(h, out.Replies[i])
	}
}

// sendStore puts a message of the store on its way, encoded as it travels.
func (h *host) sendStore(s *store.Send) {
	w := h.w
	target := w.target(h, s.To, s.Message)
	if target == nil {
		return
	}
	w.stats.Idle++
	if w.Tracing() {
		w.Trace(h.Name, "-> "+string(s.To), "store: %s", strings.TrimPrefix(fmt.Sprintf("%T", s.Message), "*message."))
	}
	body := message.Encode(s.Message)
	h.Work(MessageCost)
	incarnation := h.incarnation
	h.Send(&target.Host, func() {
		if !target.hears(h, incarnation) {
			return
		}
		m, err := message.Decode(body)
		if err != nil {
			w.Fail("codec", "%s cannot read a message of the store of %s: %v", target.Name, h.Name, err)
			return
		}
		target.take(&input{what: "<- " + string(h.Name), do: func(now time.Duration, out *launcher.Outbox) {
			target.Work(MessageCost)
			target.node.StoreMessage(now, h.Name, m, out)
		}})
	})
}

// keep writes a record to the disk of h: a copy, as an encoding would be. While
// the disk takes nothing, the launcher has it in memory only.
func (h *host) keep(r launcher.Record) {
	switch {
	case r.Job != nil:
		body := *r.Job
		body.Nodes = slices.Clone(body.Nodes)
		r.Job = &body
	case r.Participant != nil:
		body := *r.Participant
		body.Ends = slices.Clone(body.Ends)
		r.Participant = &body
	}
	if h.disk.Failing() {
		h.late = append(h.late, r)
		return
	}
	h.write(r)
}

// write puts a record on the disk; one without a body removes.
func (h *host) write(r launcher.Record) {
	if r.Job == nil && r.Participant == nil {
		delete(h.records, r.Key)
		return
	}
	h.records[r.Key] = r
}
