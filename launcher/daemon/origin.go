package daemon

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/wire"
)

// This file is a route on the origin of its job: output comes together here
// and goes to the client; credit and stdin go the other way. The output of a
// detached job goes to a log on the node where it was written, as on the origin
// of a job that has only that node.

// keepLog opens the log of a detached job. What is in it of this attempt was
// taken by an earlier launcher. That it cannot be opened is told once, not
// again when it is tried again.
func (r *route) keepLog(again bool) {
	r.mu.Lock()
	have := r.sink != nil
	r.mu.Unlock()
	if have {
		return
	}
	s, err := r.d.logs.open(r.ident.Job)
	if err != nil {
		if !again {
			r.d.fault("cannot keep the output of a detached job", err, "job", int(r.ident.Job))
		}
		return
	}
	r.mu.Lock()
	r.sink = s
	if r.ident.Attempt == 1 {
		for i := range r.in {
			mark := s.log.Marks()[int32(i)]
			r.in[i].seen, r.in[i].taken = max(r.in[i].seen, mark), max(r.in[i].taken, mark)
		}
	}
	r.mu.Unlock()
	r.catchUp()
}

// catchUp has the keepers repeat what came while nobody was there to take it.
func (r *route) catchUp() {
	r.mu.Lock()
	missed := r.missed
	r.missed = false
	r.mu.Unlock()
	if missed {
		r.resendAll()
	}
}

// arrived takes a frame of one of the job's keepers. With flush the client's
// link is flushed: nothing more of the same burst follows.
func (r *route) arrived(k wire.Kind, body []byte, flush bool) error {
	switch k {
	case wire.KindOutput:
		o, err := wire.DecodeOutput(body)
		if err != nil {
			return err
		}
		return r.output(o, body, flush)
	case wire.KindOutputEnd:
		p, err := wire.DecodePlace(body)
		if err != nil {
			return err
		}
		return r.lastOutput(p)
	case wire.KindStdinWant:
		p, err := wire.DecodePlace(body)
		if err != nil {
			return err
		}
		return r.stdinWant(p, flush)
	case wire.KindWarn:
		r.mu.Lock()
		c := r.client
		r.mu.Unlock()
		if c != nil && c.conn.WriteRaw(k, 0, body) == nil {
			_ = c.conn.Flush()
		}
	}
	return nil
}

// unknownIndex is the error for a frame of a node that the job has not.
func (r *route) unknownIndex(i int32) error {
	return filch.Errorf(filch.Invalid, "a frame names node %d of job %d, which has %d", i, r.ident.Job, len(r.in))
}

// output passes on one piece. What was seen is dropped; a gap is asked for.
func (r *route) output(o wire.Output, body []byte, flush bool) error {
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
	c, s := r.client, r.sink
	if c == nil && s == nil && !r.gone {
		r.missed = true // until the client comes, or comes back to a new launcher
		r.mu.Unlock()
		return nil
	}
	p.seen = end
	r.mu.Unlock()
	switch {
	case s != nil: // also while the client that submitted it is still there
		if err := s.append(o); err != nil {
			r.d.fault("cannot keep output", err, "job", int(r.ident.Job))
		}
	case c != nil:
		if r.toClient(c, o.Index, end, body) {
			if flush {
				_ = c.conn.Flush()
			}
			return nil
		}
	}
	r.credit(o.Index, end, false)
	return nil
}

// toClient queues a piece and notes what it owes to whom.
func (r *route) toClient(c *client, index int32, end uint64, body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, err := c.conn.Queue(wire.KindOutput, 0, body)
	if err != nil {
		return false
	}
	c.owed = append(c.owed, owed{at: at, route: r, index: index, offset: end})
	return true
}

// creditPieces is how many pieces are taken before the keeper hears of it,
// however small they are: it keeps at most 4,096.
const creditPieces = 1024

// credit notes that everything before offset was taken, and tells the keeper
// when that is a good part of its window, or at once with now.
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
	r.in[index].credited = min(before, r.in[index].credited) // so that it is told again
	r.mu.Unlock()
}

// lastOutput answers a node that has sent its last byte: it may go when all
// has come, else the rest is asked for.
func (r *route) lastOutput(end wire.Place) error {
	r.mu.Lock()
	if int(end.Index) >= len(r.in) {
		r.mu.Unlock()
		return r.unknownIndex(end.Index)
	}
	seen := r.in[end.Index].seen
	r.mu.Unlock()
	if seen < end.Offset {
		r.toIndex(end.Index, overlay.Metadata, wire.KindResend, wire.Place{Index: end.Index, Offset: seen}.Encode())
		return nil
	}
	if r.nodes[end.Index] != r.d.self { // the keeper here is told when it is to leave
		r.relay(r.nodes[end.Index], overlay.Metadata, wire.KindOutputSeen, end.Encode())
	}
	return nil
}

// stdinWant notes how much input a node's ranks can take. The client may send
// what all of them can that take any. Without flush something follows that
// will take it along.
func (r *route) stdinWant(p wire.Place, flush bool) error {
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
	if c.conn.WriteRaw(wire.KindStdinWant, 0, wire.Place{Offset: grant}.Encode()) == nil && flush {
		_ = c.conn.Flush()
	}
	return nil
}

// mark takes what a client that came back has; with the lock held.
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

// resendAll has every keeper repeat what has not come.
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

// retry sends again what was not sent, or may have been lost on the way.
func (r *route) retry() {
	if r.origin != r.d.self && !r.kept {
		r.retryOut()
		return
	}
	r.mu.Lock()
	bare := r.kept && r.sink == nil && r.keeper != nil
	r.mu.Unlock()
	if bare { // the disk was full, maybe: else its ranks would wait for ever in their writes
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

// maxHeld is how many beats the end of a keeper waits for its output to be
// taken: as long as a node may be silent before it is dead, and a bit.
const maxHeld = 8

// retryOut has the keeper repeat what this node could not pass on, and asks
// the origin again whether it has all.
func (r *route) retryOut() {
	r.mu.Lock()
	stalled, from, index := r.out.stalled, r.out.stall, r.index
	end := r.out.end
	if r.out.seen {
		end = 0
	}
	r.out.stalled = false
	if r.out.done != nil {
		r.out.late++
	}
	late := r.out.late > maxHeld
	r.mu.Unlock()
	if index == notHere {
		return
	}
	if late {
		r.d.watch.Log().Warn("output was lost: the origin does not take it", "job", int(r.ident.Job), "peer", string(r.origin))
		r.release()
		return
	}
	switch {
	case stalled:
		r.toKeeper(wire.KindResend, wire.Place{Index: index, Offset: from}.Encode())
	case end > 0:
		r.relay(r.origin, overlay.Bulk, wire.KindOutputEnd, wire.Place{Index: index, Offset: end - 1}.Encode())
	}
}

// settle tells a keeper that is done that all of its output was taken, so that
// it can leave.
func (r *route) settle(k *keeper) {
	r.mu.Lock()
	index := r.index
	r.mu.Unlock()
	if index != notHere {
		_ = k.conn.WriteRaw(wire.KindOutputSeen, 0, wire.Place{Index: index}.Encode())
	}
}

// lost notes that a node is dead: its ranks read no stdin any more, and a
// keeper here need not wait for an origin there.
func (r *route) lost(n filch.NodeName) {
	if r.origin == n {
		r.release()
		return
	}
	for i, name := range r.nodes {
		if name == n && r.origin == r.d.self {
			_ = r.stdinWant(wire.Place{Index: int32(i), Offset: wire.NoStdin}, true)
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
			r.d.fault("cannot keep output", err, "job", int(r.ident.Job))
		}
	}
}
