package daemon

import (
	"sync"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// routes is where the data plane of every job of this node leads. The loop
// adds and removes; readers of links look up.
type routes struct {
	d *Daemon

	mu   sync.Mutex // guards what follows
	jobs map[filch.JobID]*route
}

// notHere is the index of a node that has no ranks of a job.
const notHere = -1

func newRoutes(d *Daemon) *routes {
	return &routes{d: d, jobs: map[filch.JobID]*route{}}
}

func (rs *routes) find(j filch.JobID) *route {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.jobs[j]
}

// learn takes a launch that this node takes part in or is the origin of.
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
			if r.keeper == nil { // else it is closed when that is gone
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

// restore learns of what the launcher before this one had launched: on a node
// that has no ranks of it no keeper says so.
func (rs *routes) restore(records []launcher.Record) {
	for _, r := range records {
		if j := r.Job; j != nil && j.Ended == nil && len(j.Nodes) > 0 {
			rs.learn(&launcher.Launch{
				Ident:  filch.Ident{Instance: rs.d.cfg.Node.Instance, Job: j.Job, Attempt: j.Attempt},
				Origin: rs.d.self, Nodes: j.Nodes, Detach: j.Request.Detach,
			}, notHere)
		}
	}
}

// attach says which keeper holds this node's part.
func (rs *routes) attach(k *keeper, s *launcher.Start) {
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

// detach says that the keeper is gone. Where this is not the job's origin the
// route ends with it.
func (rs *routes) detach(id filch.Ident, k *keeper) {
	r := k.route.Swap(nil)
	if r == nil {
		return
	}
	current := rs.find(id.Job) == r // no later attempt has taken its place
	r.mu.Lock()
	r.keeper = nil
	keep := r.origin == rs.d.self && !r.ended && current
	r.mu.Unlock()
	if !keep {
		rs.drop(id.Job, r)
	}
	for _, n := range r.peers() {
		rs.d.net.Unprotect(n, r.tag())
	}
}

// unused says that no keeper will be of an attempt here. Where this is not the
// job's origin the route ends with that.
func (rs *routes) unused(id filch.Ident) {
	if r := rs.find(id.Job); r != nil && r.ident == id && r.origin != rs.d.self && !r.here() {
		rs.drop(id.Job, r)
	}
}

// bind says which client a job of this origin has.
func (rs *routes) bind(j filch.JobID, c *client) {
	r := rs.ours(j)
	r.mu.Lock()
	r.client = c
	r.mu.Unlock()
	r.catchUp()
}

// ours is the route of a job of this origin; its launch may not be known yet.
func (rs *routes) ours(j filch.JobID) *route {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.jobs[j]
	if r == nil {
		r = newRoute(rs.d, &launcher.Launch{Ident: filch.Ident{Job: j}, Origin: rs.d.self})
		rs.jobs[j] = r
	}
	return r
}

// unbind forgets a client that is gone.
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

// reattach gives a job its client back and has the keepers repeat what the
// client has not seen.
func (rs *routes) reattach(j filch.JobID, c *client, seen []wire.Mark) {
	r := rs.ours(j)
	r.mu.Lock()
	r.client, r.gone, r.missed = c, false, false
	r.mark(seen)
	r.mu.Unlock()
	r.resendAll()
}

// end says that the brain knows the end of a job of this origin.
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

// drop removes a route that nothing leads to any more.
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

// retry sends again what could not be sent or may have been lost.
func (rs *routes) retry() {
	for _, r := range rs.list() {
		r.retry()
	}
}

// writable is told by the overlay that a queue has room again.
func (rs *routes) writable(to filch.NodeName, c overlay.Class) {
	if c != overlay.Bulk {
		return
	}
	rs.d.post(func(*turn) {
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

// resize tells the keepers of the terminal's size.
func (rs *routes) resize(j filch.JobID, body []byte) {
	if r := rs.find(j); r != nil {
		r.toAll(wire.KindResize, body)
	}
}

// relayed takes a frame of the data plane from another node.
func (rs *routes) relayed(from filch.NodeName, f wire.Frame) error {
	in, err := wire.DecodeRelay(f.Body)
	if err != nil {
		return err
	}
	rs.d.watch.Add(watch.RelaysIn, 1)
	r := rs.find(filch.JobID(f.Req))
	if r == nil || r.ident.Attempt != in.Attempt || in.Kind == wire.KindPeerFrame && !r.here() {
		rs.orphan(from, f.Req, in)
		return nil
	}
	return r.fromNode(from, in)
}

// orphan answers for a job that is over here: whoever still has output of it
// must not wait, and a keeper that speaks to one that has left learns that.
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

// lost is told that a node is dead: nothing will come of it any more.
func (rs *routes) lost(n filch.NodeName) {
	for _, r := range rs.list() {
		r.lost(n)
	}
}
