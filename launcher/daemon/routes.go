package daemon

import (
	"sync"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// routes holds the route of every job with a part on this node. The loop adds and
// removes routes; readers of links look routes up.
type routes struct {
	d *Daemon

	mu   sync.Mutex // guards jobs
	jobs map[filch.JobID]*route
}

// notHere is the index of a node without ranks of a job.
const notHere = -1

func newRoutes(d *Daemon) *routes {
	return &routes{d: d, jobs: map[filch.JobID]*route{}}
}

func (rs *routes) find(j filch.JobID) *route {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.jobs[j]
}

// learn adds the route of a launch that has a part or its origin on this node.
func (rs *routes) learn(l *launcher.Launch, index int32) {
	rs.mu.Lock()
	r := rs.jobs[l.Ident.Job]
	if r != nil && r.ident.Attempt > l.Ident.Attempt {
		rs.mu.Unlock()
		return
	}
	if r == nil || r.nodes == nil || r.ident != l.Ident {
		var c *client
		if r != nil {
			r.mu.Lock()
			c = r.client
			if r.keeper == nil { // else detach closes r with the keeper
				defer r.close()
			}
			r.mu.Unlock()
		}
		r = newRoute(rs.d, l)
		r.client = c
		rs.jobs[l.Ident.Job] = r
	}
	rs.mu.Unlock()
	if l.Detach && index != notHere {
		r.keepLog(false)
	}
	if index != notHere {
		r.mu.Lock()
		r.index = index
		r.mu.Unlock()
	}
}

// restore adds the routes of launches by the launcher before this one: on a node
// without ranks of a job no keeper reports the launch.
func (rs *routes) restore(records []launcher.Record) {
	for _, r := range records {
		if j := r.Job; j != nil && j.Ended == nil && len(j.Nodes) > 0 {
			rs.learn(&launcher.Launch{
				Ident:  filch.Ident{Instance: rs.d.cfg.Node.Instance, Job: j.Job, Attempt: j.Attempt},
				Origin: rs.d.in.Self, Nodes: j.Nodes, Detach: j.Request.Detach,
			}, notHere)
		}
	}
}

// attach sets the keeper of this node's part.
func (rs *routes) attach(k *keeperProcess, s *launcher.Start) {
	r := rs.find(s.Launch.Ident.Job)
	if r == nil {
		return
	}
	k.route.Store(r)
	r.mu.Lock()
	r.keeper, r.index = k, s.Index
	r.mu.Unlock()
	for _, n := range r.peers() {
		rs.d.net.Protect(n, r.tag())
	}
}

// detach removes a keeper that is gone. On a node other than the job's origin the route
// ends with the keeper.
func (rs *routes) detach(id filch.Ident, k *keeperProcess) {
	r := k.route.Swap(nil)
	if r == nil {
		return
	}
	current := rs.find(id.Job) == r // no later attempt has taken the route's place
	r.mu.Lock()
	r.keeper = nil
	keep := r.origin == rs.d.in.Self && !r.ended && current
	r.mu.Unlock()
	if !keep {
		rs.drop(id.Job, r)
	}
	for _, n := range r.peers() {
		rs.d.net.Unprotect(n, r.tag())
	}
}

// unused handles an attempt that gets no keeper here. On a node other than the job's
// origin the route ends.
func (rs *routes) unused(id filch.Ident) {
	if r := rs.find(id.Job); r != nil && r.ident == id && r.origin != rs.d.in.Self && !r.here() {
		rs.drop(id.Job, r)
	}
}

// bind sets the client of a job of this origin.
func (rs *routes) bind(j filch.JobID, c *client) {
	r := rs.ours(j)
	r.mu.Lock()
	r.client = c
	r.mu.Unlock()
	r.catchUp()
}

// ours returns the route of a job of this origin, before its launch if need be.
func (rs *routes) ours(j filch.JobID) *route {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.jobs[j]
	if r == nil {
		r = newRoute(rs.d, &launcher.Launch{Ident: filch.Ident{Job: j}, Origin: rs.d.in.Self})
		rs.jobs[j] = r
	}
	return r
}

// unbind removes a client that is gone.
func (rs *routes) unbind(c *client) {
	j := filch.JobID(c.job.Load())
	rs.mu.Lock() // no new attempt may take the client over meanwhile
	r := rs.jobs[j]
	if r == nil {
		rs.mu.Unlock()
		return
	}
	r.mu.Lock()
	if r.client == c {
		r.client = nil
		r.gone = true
	}
	idle := r.ended && r.keeper == nil
	r.mu.Unlock()
	rs.mu.Unlock()
	if idle {
		rs.drop(j, r)
	}
}

// reattach gives a job its client back and has the keepers repeat output that the
// client has not seen.
func (rs *routes) reattach(j filch.JobID, c *client, seen []wire.Mark) {
	r := rs.ours(j)
	r.mu.Lock()
	r.client, r.gone, r.missed = c, false, false
	r.mark(seen)
	r.mu.Unlock()
	r.resendAll()
}

// end notes that the brain knows the end of a job of this origin.
func (rs *routes) end(j filch.JobID) {
	r := rs.find(j)
	if r == nil {
		return
	}
	r.mu.Lock()
	r.ended = true
	idle := r.keeper == nil
	r.mu.Unlock()
	if idle {
		rs.drop(j, r)
	}
}

// drop removes a route without a keeper or an open job.
func (rs *routes) drop(j filch.JobID, r *route) {
	rs.mu.Lock()
	if rs.jobs[j] == r {
		delete(rs.jobs, j)
	}
	rs.mu.Unlock()
	r.close()
}

func (rs *routes) count() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.jobs)
}

func (rs *routes) list() []*route {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	all := make([]*route, 0, len(rs.jobs))
	for _, r := range rs.jobs {
		all = append(all, r)
	}
	return all
}

// retry repeats frames that were not sent or may have been lost.
func (rs *routes) retry() {
	for _, r := range rs.list() {
		r.retry()
	}
}

// writable handles the overlay's notice that a queue has space again.
func (rs *routes) writable(to filch.NodeName, c overlay.Class) {
	if c != overlay.Bulk {
		return
	}
	rs.d.in.Post(func(*inputs.Turn) {
		for _, r := range rs.list() {
			if r.origin == to {
				r.retry()
			}
		}
	})
}

// stdin hands a client's input to the keepers of its job.
func (rs *routes) stdin(j filch.JobID, body []byte) {
	if r := rs.find(j); r != nil {
		r.toAll(wire.KindStdin, body)
	}
}

// resize sends the terminal's size to the keepers.
func (rs *routes) resize(j filch.JobID, body []byte) {
	if r := rs.find(j); r != nil {
		r.toAll(wire.KindResize, body)
	}
}

// onRelay handles a frame of the data plane from another node.
func (rs *routes) onRelay(from filch.NodeName, f wire.Frame) error {
	in, err := wire.DecodeRelay(f.Body)
	if err != nil {
		return err
	}
	rs.d.in.Watch.Add(watch.RelaysIn, 1)
	r := rs.find(filch.JobID(f.Req))
	if r == nil || r.ident.Attempt != in.Attempt || in.Kind == wire.KindPeerFrame && !r.here() {
		rs.orphan(from, f.Req, in)
		return nil
	}
	return r.fromNode(from, in)
}

// orphan answers for a job that has ended here: a node with output of the job must not
// wait, and a keeper must learn that the peer of its frame has left.
func (rs *routes) orphan(from filch.NodeName, req uint32, in wire.Relay) {
	kind, body := wire.KindOutputSeen, in.Body
	switch in.Kind {
	case wire.KindOutputEnd:
	case wire.KindPeerFrame:
		p, err := wire.DecodePeerFrame(in.Body)
		if err != nil || len(p.Body) == 0 || !rs.d.keepers.settled.Load() {
			return
		}
		kind, body = wire.KindPeerFrame, wire.PeerFrame{From: p.To, To: p.From}.Head(nil)
	default:
		return
	}
	head := wire.Relay{Attempt: in.Attempt, Kind: kind}.Head(nil)
	if p, err := wire.Payload(wire.KindRelay, req, head, body); err == nil {
		_ = rs.d.net.Send(from, overlay.Metadata, p)
	}
}

// lost handles the death of a node: the node will send nothing more.
func (rs *routes) lost(n filch.NodeName) {
	for _, r := range rs.list() {
		r.lost(n)
	}
}
