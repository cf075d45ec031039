package dataplane

import (
	"context"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// route is the data plane of one attempt of a job, as this node sees it: the origin,
// the nodes of the attempt, and on the origin the client.
type route struct {
	plane  *Routes
	ident  filch.Ident
	idle   int32 // as in [launcher.Launch]
	origin filch.NodeName
	nodes  []filch.NodeName // nil before the launch is known
	window uint64
	kept   bool // the job is detached: output stays on the node of the rank

	mu      sync.Mutex // guards the fields below
	keeper  *Keeper    // of this node
	index   int32      // of this node, or NotHere
	client  *Client
	sink    *sink // of a detached job, on the origin
	taker   Taker // of a gang, on the origin; nil: a run
	gone    bool  // the client went away: output is dropped
	missed  bool  // output came before anybody could take output
	ended   bool
	in      []nodeStreams // on the origin: by index of node
	granted uint64        // stdin that the client may send
	out     outlet        // of this node's keeper
}

// nodeStreams is the origin's knowledge of the streams of one node.
type nodeStreams struct {
	seen     uint64 // output received without a gap
	taken    uint64 // output that the client's kernel, or the log, has taken
	credited uint64 // output that the keeper has credit for
	want     uint64 // stdin offset that the node can take
	asked    uint64 // offset of the gap last asked for, +1
	pieces   int    // taken since the last credit
	whole    bool   // all output was received
}

// outlet is the knowledge that a node has of its own output, which the origin takes.
type outlet struct {
	end     uint64            // offset of the last byte, from the keeper, +1; 0 unknown
	seen    bool              // the origin has all output
	done    func(unsent bool) // the keeper's end, held until the origin has all output
	late    int               // beats since the end was held back
	stalled bool              // a send failed: the keeper is to repeat output from stall
	stall   uint64
}

func newRoute(plane *Routes, l *launcher.Launch) *route {
	r := &route{plane: plane, ident: l.Ident, idle: l.Idle, origin: l.Origin, index: NotHere}
	if len(l.Nodes) == 0 {
		return r
	}
	r.nodes = make([]filch.NodeName, len(l.Nodes))
	for i, n := range l.Nodes {
		r.nodes[i] = n.Node
	}
	r.window, r.kept = wire.Window(len(l.Nodes)), l.Detach
	if l.Origin == plane.in.Self || l.Detach {
		r.in = make([]nodeStreams, len(l.Nodes))
	}
	return r
}

func (r *route) tag() string { return "job-" + r.ident.Job.String() }

// peers returns the nodes that this node exchanges frames with for the job: the origin,
// and the parent and children in the tree of fences.
func (r *route) peers() []filch.NodeName {
	var all []filch.NodeName
	add := func(n filch.NodeName) {
		if n != r.plane.in.Self {
			all = append(all, n)
		}
	}
	add(r.origin)
	r.mu.Lock()
	i := int(r.index)
	r.mu.Unlock()
	if i > 0 {
		add(r.nodes[(i-1)/launcher.TreeWidth])
	}
	if i >= 0 {
		for c := i*launcher.TreeWidth + 1; c <= (i+1)*launcher.TreeWidth && c < len(r.nodes); c++ {
			add(r.nodes[c])
		}
	}
	return all
}

// flush sends the frames queued for the client.
func (r *route) flush() {
	r.mu.Lock()
	c := r.client
	r.mu.Unlock()
	if c != nil {
		_ = c.Conn.Flush()
	}
}

// onKeeperFrame handles a frame of the data plane from this node's keeper.
func (r *route) onKeeperFrame(f wire.Frame) error {
	if f.Kind == wire.KindPeerFrame {
		p, err := wire.DecodePeerFrame(f.Body)
		if err != nil {
			return err
		}
		if int(p.To) < len(r.nodes) {
			r.relay(r.nodes[p.To], overlay.Metadata, f.Kind, f.Body)
		}
		return nil
	}
	if f.Kind == wire.KindKinFrame {
		return r.plane.onKinFrame(r, f.Body)
	}
	if r.origin == r.plane.in.Self || r.kept {
		return r.onFrame(f.Kind, f.Body, false) // k's reader flushes after a burst
	}
	return r.outward(f)
}

// outward sends a frame of the keeper to the origin. The reader of the keeper must not
// wait, since ends come on the same stream: frames that do not fit into the queue are
// dropped and asked for again.
func (r *route) outward(f wire.Frame) error {
	class := overlay.Metadata
	var at uint64
	switch f.Kind {
	case wire.KindOutput:
		o, err := wire.DecodeOutput(f.Body)
		if err != nil {
			return err
		}
		at, class = o.Offset, overlay.Bulk
	case wire.KindOutputEnd:
		p, err := wire.DecodePlace(f.Body)
		if err != nil {
			return err
		}
		class = overlay.Bulk
		r.mu.Lock()
		r.out.end = p.Offset + 1
		r.mu.Unlock()
	}
	r.mu.Lock()
	skip := r.out.stalled && class == overlay.Bulk
	r.mu.Unlock()
	if skip {
		return nil
	}
	if !r.relay(r.origin, class, f.Kind, f.Body) && f.Kind == wire.KindOutput {
		r.mu.Lock()
		r.out.stalled, r.out.stall = true, at
		r.mu.Unlock()
	}
	return nil
}

// relay sends a frame to another node, and reports whether the frame was sent.
func (r *route) relay(to filch.NodeName, c overlay.Class, k wire.Kind, body []byte) bool {
	if to == r.plane.in.Self {
		return false
	}
	var head [8]byte
	send := func(p []byte) error { return r.plane.net.Send(to, c, p) }
	err := wire.SendPayload(send, wire.KindRelay, uint32(r.ident.Job), wire.Relay{Attempt: r.ident.Attempt, Kind: k}.Head(head[:0]), body)
	if err != nil {
		r.plane.in.Watch.Add(watch.RelaysLost, 1)
		return false
	}
	r.plane.in.Watch.Add(watch.RelaysOut, 1)
	return true
}

// onNodeFrame handles a frame of the data plane from another node of the job.
func (r *route) onNodeFrame(from filch.NodeName, in wire.Relay) error {
	switch in.Kind {
	case wire.KindOutput, wire.KindOutputEnd, wire.KindStdinWant, wire.KindWarn:
		if r.origin != r.plane.in.Self {
			return filch.Errorf(filch.Invalid, "%s for job %d, whose origin is %s", in.Kind, r.ident.Job, r.origin)
		}
		if i, ok := indexOf(in); ok && (int(i) >= len(r.nodes) || r.nodes[i] != from) {
			return filch.Errorf(filch.Invalid, "%s of node %d of job %d, which %s is not", in.Kind, i, r.ident.Job, from)
		}
		return r.onFrame(in.Kind, in.Body, true)
	case wire.KindOutputSeen:
		r.release(false)
	}
	r.toKeeper(in.Kind, in.Body)
	return nil
}

// hold keeps the end of this node's keeper back until the origin has all of its output:
// output and ends go over different streams, and on a restarted origin, the client may
// come back later than the end. hold reports false when no output is missing.
func (r *route) hold(done func(unsent bool)) bool {
	if r.kept {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out.seen || r.out.end <= 1 {
		return false
	}
	if r.origin == r.plane.in.Self && (r.gone || r.in[r.index].seen >= r.out.end-1) {
		return false
	}
	r.out.done = done
	return true
}

// release passes on the keeper's end. Unsent tells that the origin did not take all output.
func (r *route) release(unsent bool) {
	r.mu.Lock()
	r.out.seen = true
	done := r.out.done
	r.out.done = nil
	r.mu.Unlock()
	if done != nil {
		done(unsent)
	}
}

// indexOf returns the sender's index in a frame.
func indexOf(in wire.Relay) (int32, bool) {
	switch in.Kind {
	case wire.KindOutput:
		o, err := wire.DecodeOutput(in.Body)
		return o.Index, err == nil
	case wire.KindOutputEnd, wire.KindStdinWant:
		p, err := wire.DecodePlace(in.Body)
		return p.Index, err == nil
	}
	return 0, false
}

// here reports whether this node has a keeper of the job.
func (r *route) here() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keeper != nil
}

// toKeeper writes to this node's keeper, if this node has a keeper.
func (r *route) toKeeper(k wire.Kind, parts ...[]byte) {
	r.mu.Lock()
	kp := r.keeper
	r.mu.Unlock()
	if kp == nil {
		return
	}
	if kp.Conn.WriteRaw(k, 0, parts...) == nil {
		_ = kp.Conn.Flush()
	}
}

// toIndex sends a frame to the keeper at an index.
func (r *route) toIndex(i int32, c overlay.Class, k wire.Kind, body []byte) bool {
	if r.nodes[i] == r.plane.in.Self {
		r.toKeeper(k, body)
		return true
	}
	return r.relay(r.nodes[i], c, k, body)
}

// stdinWait bounds how long a client's input waits for space in the overlay's queue:
// longer than any queue needs to drain unless the node is as good as dead.
const stdinWait = 5 * time.Second

// toAll sends a client's frame to all keepers that take stdin. toAll may wait: the
// calling goroutine reads from this client alone.
func (r *route) toAll(k wire.Kind, body []byte) {
	for i, n := range r.nodes {
		r.mu.Lock()
		skip := k == wire.KindStdin && (len(r.in) <= i || r.in[i].want == wire.NoStdin)
		r.mu.Unlock()
		switch {
		case skip:
		case n == r.plane.in.Self:
			r.toKeeper(k, body)
		default:
			p, err := wire.Payload(wire.KindRelay, uint32(r.ident.Job), wire.Relay{Attempt: r.ident.Attempt, Kind: k}.Head(nil), body)
			if err == nil {
				ctx, cancel := context.WithTimeout(r.plane.in.Context(), stdinWait)
				err = r.plane.net.SendWait(ctx, n, overlay.Bulk, p)
				cancel()
			}
			if err != nil {
				r.plane.in.Watch.Add(watch.RelaysLost, 1)
			}
		}
	}
}
