package dataplane

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/wire"
)

// This file is a route on the origin of its job: the origin collects the output and
// sends it to the client; credit and stdin go the other way. The output of a detached
// job goes to a log on the node of the ranks, so that node acts like the origin of a
// job on a single node.

// keepLog opens the log of a detached job. Output of this attempt in the log was taken
// by an earlier launcher. A failure is logged once, not at each retry.
func (r *route) keepLog(again bool) {
	r.mu.Lock()
	have := r.sink != nil
	r.mu.Unlock()
	if have {
		return
	}
	s, err := r.plane.logs.open(r.ident.Job)
	if err != nil {
		if !again {
			r.plane.in.Fault("cannot keep the output of a detached job", err, "job", int(r.ident.Job))
		}
		return
	}
	r.mu.Lock()
	r.sink = s
	for i, mark := range s.log.Marks(r.ident.Attempt) { // in any order: one for each node
		if int(i) < len(r.in) {
			r.in[i].seen, r.in[i].taken = max(r.in[i].seen, mark), max(r.in[i].taken, mark)
		}
	}
	r.mu.Unlock()
	r.catchUp()
}

// catchUp has the keepers repeat output that arrived while nobody could take it.
func (r *route) catchUp() {
	r.mu.Lock()
	missed := r.missed
	r.missed = false
	r.mu.Unlock()
	if missed {
		r.resendAll()
	}
}

// onFrame handles a frame of one of the job's keepers. With flush the client's link is
// flushed: the burst has no further frame.
func (r *route) onFrame(k wire.Kind, body []byte, flush bool) error {
	switch k {
	case wire.KindOutput:
		o, err := wire.DecodeOutput(body)
		if err != nil {
			return err
		}
		return r.onOutput(o, body, flush)
	case wire.KindOutputEnd:
		p, err := wire.DecodePlace(body)
		if err != nil {
			return err
		}
		return r.onOutputEnd(p)
	case wire.KindStdinWant:
		p, err := wire.DecodePlace(body)
		if err != nil {
			return err
		}
		return r.onStdinWant(p, flush)
	case wire.KindWarn:
		r.mu.Lock()
		c := r.client
		r.mu.Unlock()
		if c != nil && c.Conn.WriteRaw(k, 0, body) == nil {
			_ = c.Conn.Flush()
		}
	}
	return nil
}

// unknownIndex is the error for a frame with an index beyond the job's nodes.
func (r *route) unknownIndex(i int32) error {
	return filch.Errorf(filch.Invalid, "a frame names node %d of job %d, which has %d", i, r.ident.Job, len(r.in))
}

// onOutput passes on one piece. A piece seen before is dropped; for a gap, the origin
// asks the keeper to resend.
func (r *route) onOutput(o wire.Output, body []byte, flush bool) error {
	end := o.Offset + uint64(len(o.Data))
	r.mu.Lock()
	if int(o.Index) >= len(r.in) {
		r.mu.Unlock()
		return r.unknownIndex(o.Index)
	}
	p := &r.in[o.Index]
	if o.Offset > p.seen {
		from, ask := p.seen, p.asked != p.seen+1
		p.asked = from + 1
		r.mu.Unlock()
		if ask {
			r.toIndex(o.Index, overlay.Metadata, wire.KindResend, wire.Place{Index: o.Index, Offset: from}.Encode())
		}
		return nil
	}
	if end <= p.seen {
		taken := p.taken
		r.mu.Unlock()
		r.credit(o.Index, taken, true)
		return nil
	}
	c, s, taker := r.client, r.sink, r.taker
	if c == nil && s == nil && taker == nil && !r.gone {
		r.missed = true // until the client comes, or reattaches to a new launcher
		r.mu.Unlock()
		return nil
	}
	p.seen = end
	r.mu.Unlock()
	switch {
	case taker != nil:
		taker.Take(o)
	case s != nil: // also while the submitting client is still connected
		if err := s.append(o, r.ident.Attempt, r.idle); err != nil {
			r.plane.in.Fault("cannot keep output", err, "job", int(r.ident.Job))
		}
	case c != nil:
		if r.toClient(c, o.Index, end, body) {
			if flush {
				_ = c.Conn.Flush()
			}
			return nil
		}
	}
	r.credit(o.Index, end, false)
	return nil
}

// toClient queues a piece for the client and notes the credit due for the piece.
func (r *route) toClient(c *Client, index int32, end uint64, body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, err := c.Conn.Queue(wire.KindOutput, 0, body)
	if err != nil {
		return false
	}
	c.due = append(c.due, dueCredit{at: at, route: r, index: index, offset: end})
	return true
}

// creditPieces is how many pieces are taken before the keeper receives credit, even for
// small pieces: the keeper holds at most 4,096.
const creditPieces = 1024

// credit notes that everything before offset was taken, and sends the keeper credit
// when the new credit is a quarter of the window, or at once with now.
func (r *route) credit(index int32, offset uint64, now bool) {
	r.mu.Lock()
	if int(index) >= len(r.in) {
		r.mu.Unlock()
		return
	}
	p := &r.in[index]
	p.taken = max(p.taken, offset)
	offset = p.taken
	p.pieces++
	if !now && offset-p.credited < r.window/4 && p.pieces < creditPieces {
		r.mu.Unlock()
		return
	}
	before := p.credited
	p.credited, p.pieces = offset, 0
	r.mu.Unlock()
	if r.toIndex(index, overlay.Metadata, wire.KindCredit, wire.Place{Index: index, Offset: offset}.Encode()) {
		return
	}
	r.mu.Lock()
	r.in[index].credited = min(before, r.in[index].credited) // the next call repeats it
	r.mu.Unlock()
}

// onOutputEnd answers a node that has sent its last byte: the keeper may leave when the
// origin has all output; otherwise the origin asks for the rest. While the client is
// missing, the origin asks for nothing: the client's return does.
func (r *route) onOutputEnd(end wire.Place) error {
	r.mu.Lock()
	if int(end.Index) >= len(r.in) {
		r.mu.Unlock()
		return r.unknownIndex(end.Index)
	}
	own := r.nodes[end.Index] == r.plane.in.Self // settle tells the keeper here when to leave
	if own {
		r.out.end = end.Offset + 1
	}
	seen := r.in[end.Index].seen
	r.in[end.Index].whole = seen >= end.Offset
	nobody := r.client == nil && r.sink == nil && r.taker == nil && !r.gone
	if seen < end.Offset && nobody {
		r.missed = true
	}
	r.mu.Unlock()
	switch {
	case seen < end.Offset && nobody:
	case seen < end.Offset:
		r.toIndex(end.Index, overlay.Metadata, wire.KindResend, wire.Place{Index: end.Index, Offset: seen}.Encode())
	case own:
		r.release(false)
	default:
		r.relay(r.nodes[end.Index], overlay.Metadata, wire.KindOutputSeen, end.Encode())
	}
	return nil
}

// onStdinWant notes how much input a node's ranks can take. The client may send the
// amount that every node still reading stdin can take. Without flush, a later frame
// flushes the link.
func (r *route) onStdinWant(p wire.Place, flush bool) error {
	r.mu.Lock()
	if int(p.Index) >= len(r.in) {
		r.mu.Unlock()
		return r.unknownIndex(p.Index)
	}
	r.in[p.Index].want = max(r.in[p.Index].want, p.Offset)
	grant := uint64(wire.NoStdin)
	for i := range r.in {
		grant = min(grant, r.in[i].want)
	}
	c := r.client
	if grant <= r.granted || c == nil {
		r.mu.Unlock()
		return nil
	}
	r.granted = grant
	r.mu.Unlock()
	if c.Conn.WriteRaw(wire.KindStdinWant, 0, wire.Place{Offset: grant}.Encode()) == nil && flush {
		_ = c.Conn.Flush()
	}
	return nil
}

// mark takes over the offsets of a reattached client; with the lock held.
func (r *route) mark(seen []wire.Mark) {
	for _, m := range seen {
		if m.Index < 0 || int(m.Index) >= len(r.in) || m.Offset > wire.MaxOffset {
			continue
		}
		p := &r.in[m.Index]
		p.seen = max(p.seen, m.Offset)
		p.taken = max(p.taken, m.Offset)
	}
}

// resendAll has every keeper repeat output that has not arrived.
func (r *route) resendAll() {
	r.mu.Lock()
	from := make([]uint64, len(r.in))
	for i := range r.in {
		from[i] = r.in[i].seen
		r.in[i].credited = min(r.in[i].credited, r.in[i].taken)
	}
	r.granted = 0
	r.mu.Unlock()
	for i, at := range from {
		r.toIndex(int32(i), overlay.Metadata, wire.KindResend, wire.Place{Index: int32(i), Offset: at}.Encode())
	}
}

// retry repeats frames that were not sent, or may have been lost on the way.
func (r *route) retry() {
	if r.heldTooLong() {
		return
	}
	if r.origin != r.plane.in.Self && !r.kept {
		r.retryOut()
		return
	}
	r.mu.Lock()
	bare := r.kept && r.sink == nil && r.keeper != nil
	r.mu.Unlock()
	// The disk may have been full. Without a log the ranks would wait forever in
	// writes.
	if bare {
		r.keepLog(true)
	}
	r.mu.Lock()
	var due []wire.Place
	for i := range r.in {
		p := &r.in[i]
		p.asked = 0
		if p.taken > p.credited {
			due = append(due, wire.Place{Index: int32(i), Offset: p.taken})
		}
	}
	r.mu.Unlock()
	for _, p := range due {
		r.credit(p.Index, p.Offset, true)
	}
}

// maxHeld is how many beats the end of a keeper waits until the output is taken:
// slightly longer than a node may be silent before others declare it dead, and longer
// than an origin waits for the client after a restart.
const maxHeld = 8

// heldTooLong counts a beat of a keeper's end that is held back, and passes the end on
// after too many.
func (r *route) heldTooLong() bool {
	r.mu.Lock()
	if r.out.done != nil {
		r.out.late++
	}
	late := r.out.done != nil && r.out.late > maxHeld
	r.mu.Unlock()
	if late {
		r.plane.in.Watch.Log().Warn("output was lost: the origin does not take it", "job", int(r.ident.Job), "peer", string(r.origin))
		r.release(true)
	}
	return late
}

// retryOut has the keeper repeat output that this node could not pass on, and asks the
// origin again whether the origin has all output.
func (r *route) retryOut() {
	r.mu.Lock()
	stalled, from, index := r.out.stalled, r.out.stall, r.index
	end := r.out.end
	if r.out.seen {
		end = 0
	}
	r.out.stalled = false
	r.mu.Unlock()
	if index == NotHere {
		return
	}
	switch {
	case stalled:
		r.toKeeper(wire.KindResend, wire.Place{Index: index, Offset: from}.Encode())
	case end > 0:
		r.relay(r.origin, overlay.Bulk, wire.KindOutputEnd, wire.Place{Index: index, Offset: end - 1}.Encode())
	}
}

// settle tells a keeper that is done that all of its output was taken, so that the
// keeper can leave.
func (r *route) settle(k *Keeper) {
	r.mu.Lock()
	index := r.index
	r.mu.Unlock()
	if index != NotHere {
		_ = k.Conn.WriteRaw(wire.KindOutputSeen, 0, wire.Place{Index: index}.Encode())
	}
}

// onLost handles the death of a node: the node's ranks read no more stdin, and a keeper
// here need not wait for an origin there.
func (r *route) onLost(n filch.NodeName) {
	if r.origin == n {
		r.release(false)
		return
	}
	for i, name := range r.nodes {
		if name == n && r.origin == r.plane.in.Self {
			_ = r.onStdinWant(wire.Place{Index: int32(i), Offset: wire.NoStdin}, true)
		}
	}
}

// close ends the log of a detached job.
func (r *route) close() {
	r.mu.Lock()
	s := r.sink
	r.sink = nil
	r.mu.Unlock()
	if s != nil {
		if err := s.close(); err != nil {
			r.plane.in.Fault("cannot keep output", err, "job", int(r.ident.Job))
		}
	}
}
