package sim

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// host is a machine: a launcher that may be down or stopped, the keepers that
// outlive it, and a disk.
type host struct {
	w           *World
	index       int32
	name        filch.NodeName
	node        *launcher.Node // nil while the launcher is down
	gen         int            // of the launcher's process
	incarnation uint64
	born        time.Duration // when the launcher's clock was 0
	busy        time.Duration // its cpu works until then
	inbox       []event
	head        int
	serving     bool
	wake        time.Duration
	machine
}

// machine is what of a host is not its launcher.
type machine struct {
	dark, lost  bool // the machine is off, and for good
	frozen      bool // pausedUntil stops the keepers too, not only the launcher
	pausedUntil time.Duration
	keepers     []*keeper
	cores       []*keeper // by core: who has it
	subs        []*keeper // by core: the step that uses what its parent has
	records     map[string]launcher.Record
	promises    promises // of this launcher's process
	gpus        map[string]*keeper
	memory      int64         // lent to keepers, bytes
	trouble     time.Duration // no fault has touched it since then
	skew        int64         // of its wall clock, ns
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

// offer hands an input to the launcher now, or queues it behind what its cpu
// is doing.
func (h *host) offer(e event) {
	if h.node == nil {
		return // no one listens: connections refused, words lost
	}
	w := h.w
	if h.head == len(h.inbox) && h.busy <= w.now && h.pausedUntil <= w.now {
		h.input(&e)
		return
	}
	h.inbox = append(h.inbox, e)
	h.schedule()
}

func (h *host) schedule() {
	if h.serving || h.head == len(h.inbox) {
		return
	}
	h.serving = true
	h.w.queue.Push(max(h.busy, h.pausedUntil, h.w.now), event{kind: evServe, to: h.index})
}

// serve takes the next input from the inbox.
func (h *host) serve() {
	if h.node == nil || h.head == len(h.inbox) {
		return
	}
	if h.busy > h.w.now || h.pausedUntil > h.w.now {
		h.schedule()
		return
	}
	e := h.inbox[h.head]
	h.inbox[h.head] = event{}
	h.head++
	if h.head == len(h.inbox) {
		h.inbox, h.head = h.inbox[:0], 0
	}
	h.input(&e)
	h.schedule()
}

// local is the launcher's own clock, which began with its process.
func (h *host) local() time.Duration { return h.w.now - h.born }

// input lets the Node handle one input and does what it says.
func (h *host) input(e *event) {
	w, now := h.w, h.local()
	out := &w.out
	out.Reset()
	if w.fuse != nil && w.fuse.before(h, e) {
		return
	}
	if w.peek != nil {
		w.peek(h, e)
	}
	if w.byID != nil {
		h.unpromise(e)
		if m, ok := e.body.(*launcher.Grant); ok {
			w.hear(w.hosts[e.from], m)
		}
	}
	switch e.kind {
	case evMessage:
		h.busy = max(h.busy, w.now) + MessageCost
		from := w.hosts[e.from].name
		if w.opt.Trace != nil {
			w.trace(h.name, "<- "+string(from), e.body)
		}
		h.node.Message(now, from, e.body.(launcher.Message), out)
	case evKeeper:
		if int(e.from) != h.gen {
			return // said to a launcher that is no more
		}
		w.trace(h.name, "<- keeper", e.body)
		h.node.Keeper(now, e.body, out)
	case evWake:
		w.trace(h.name, "tick", "")
		h.node.Tick(now, out)
	case evPeer:
		p := e.body.(launcher.Peer)
		w.trace(h.name, "<- peer", e.body)
		h.node.Peer(now, p, out)
	case evSubmit:
		j := e.body.(*job)
		w.trace(h.name, "<- submit", &j.demand)
		j.submitted(h)
		h.node.Submit(now, j.client(), j.request, j.unix(h), out)
	case evCall:
		e.body.(func(now time.Duration, out *launcher.Outbox))(now, out)
	}
	h.settle(out)
}

// settle does what the outbox says, checks the Node and sets its alarm.
func (h *host) settle(out *launcher.Outbox) {
	w := h.w
	if w.opt.Check && h.node != nil {
		h.node.Check()
	}
	gen := h.gen
	h.act(out)
	if h.node == nil || h.gen != gen {
		return // it crashed over its outbox
	}
	if w.byID != nil && len(out.Sends) > 0 {
		w.checkPromises(h)
	}
	d := h.node.Deadline()
	if d == filch.Never {
		h.wake = filch.Never
		return
	}
	if at := max(d+h.born, w.now+1); at != h.wake {
		h.wake = at
		w.queue.Push(at, event{kind: evWake, from: int32(h.gen), to: h.index})
	}
}

// act does the deeds of an outbox in the order of its fields. A fuse may end
// the launcher between any two of them.
func (h *host) act(out *launcher.Outbox) {
	w := h.w
	for i := range out.Notes {
		w.trace(h.name, "note", &out.Notes[i])
	}
	for _, r := range out.Records {
		if w.burn(h, "record") {
			return
		}
		w.trace(h.name, "record", r.Key)
		h.keep(r)
	}
	for i := range out.Starts {
		if w.burn(h, "start") {
			return
		}
		w.trace(h.name, "start", &out.Starts[i].Launch)
		w.startKeeper(h, out.Starts[i])
	}
	for i := range out.Deeds {
		if w.burn(h, deedName(out.Deeds[i].Kind)) {
			return
		}
		w.trace(h.name, "deed", &out.Deeds[i])
		if k := h.keeper(out.Deeds[i].Ident); k != nil {
			k.deed(out.Deeds[i])
		}
	}
	for i := range out.Sends {
		if w.burn(h, out.Sends[i].Message) {
			return
		}
		if w.opt.Trace != nil {
			w.trace(h.name, "-> "+string(out.Sends[i].To), out.Sends[i].Message)
		}
		w.send(h, out.Sends[i].To, out.Sends[i].Message)
	}
	for i := range out.Replies {
		if w.burn(h, "reply") {
			return
		}
		w.trace(h.name, "tells", out.Replies[i].Event)
		w.reply(h, out.Replies[i])
	}
}

// keep writes a record to the disk of h: a copy, as an encoding would be.
func (h *host) keep(r launcher.Record) {
	switch {
	case r.Job != nil:
		body := *r.Job
		body.Nodes = slices.Clone(body.Nodes)
		r.Job = &body
	case r.Part != nil:
		body := *r.Part
		body.Ends = slices.Clone(body.Ends)
		r.Part = &body
	case r.IDs != nil:
		body := *r.IDs
		r.IDs = &body
	default:
		delete(h.records, r.Key)
		return
	}
	h.records[r.Key] = r
}
