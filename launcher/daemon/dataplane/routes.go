package dataplane

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Routes holds the route of every job with a part on this node. The loop adds and
// removes routes; readers of links look routes up.
type Routes struct {
	in       *inputs.Queue
	instance string
	net      Network
	logs     *logs
	settled  atomic.Bool // see Settle
	restored atomic.Bool // the routes of the launcher before are known; see Restore
	gangs    func(launcher.TaskID) Taker

	mu   sync.Mutex // guards jobs
	jobs map[filch.JobID]*route
}

// NotHere is the index of a node without ranks of a job.
const NotHere = -1

// Network is the part of the overlay that the data plane needs.
type Network interface {
	Send(to filch.NodeName, c overlay.Class, payload []byte) error
	SendWait(ctx context.Context, to filch.NodeName, c overlay.Class, payload []byte) error
	Protect(n filch.NodeName, tag string)
	Unprotect(n filch.NodeName, tag string)
}

// New makes the routes of a node of an instance; logs of detached jobs are in dir.
func New(in *inputs.Queue, instance, dir string) *Routes {
	return &Routes{in: in, instance: instance, logs: newLogs(dir), jobs: map[filch.JobID]*route{}}
}

// Taker takes the output of a gang, piece by piece, on the node of its task.
type Taker interface{ Take(o wire.Output) }

// SetGangs sets the function that returns the taker of a gang of this node.
func (rs *Routes) SetGangs(of func(launcher.TaskID) Taker) { rs.gangs = of }

// Connect sets the network; Connect comes before any route.
func (rs *Routes) Connect(net Network) { rs.net = net }

// Settle notes that every keeper of an earlier launcher was adopted or is gone: a frame
// for a keeper that is not here has no reader.
func (rs *Routes) Settle() { rs.settled.Store(true) }

func (rs *Routes) find(j filch.JobID) *route {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.jobs[j]
}

// Learn adds the route of a launch that has a part or its origin on this node.
func (rs *Routes) Learn(l *launcher.Launch, index int32) {
	rs.mu.Lock()
	r := rs.jobs[l.Ident.Job]
	if r != nil && r.ident.Attempt > l.Ident.Attempt {
		rs.mu.Unlock()
		return
	}
	if r == nil || r.nodes == nil || r.ident != l.Ident {
		var c *Client
		if r != nil {
			r.mu.Lock()
			c = r.client
			if r.keeper == nil { // else detach closes r with the keeper
				defer r.close()
			}
			r.mu.Unlock()
		}
		r = newRoute(rs, l)
		r.client = c
		if l.Of != (launcher.TaskID{}) && l.Origin == rs.in.Self {
			r.taker = rs.gangs(l.Of)
		}
		rs.jobs[l.Ident.Job] = r
	}
	rs.mu.Unlock()
	if l.Detach && index != NotHere {
		r.keepLog(false)
	}
	if index != NotHere {
		r.mu.Lock()
		r.index = index
		r.mu.Unlock()
	}
}

// Restore adds the routes of launches by the launcher before this one: on a node
// without ranks of a job no keeper reports the launch.
func (rs *Routes) Restore(records []launcher.Record) {
	for _, r := range records {
		if j := r.Job; j != nil && j.Ended == nil && len(j.Nodes) > 0 {
			rs.Learn(&launcher.Launch{
				Ident:  filch.Ident{Instance: rs.instance, Job: j.Job, Attempt: j.Attempt},
				Origin: rs.in.Self, Nodes: j.Nodes, Detach: j.Request.Detach, Idle: j.Shared.Idle,
			}, NotHere)
		}
	}
	rs.restored.Store(true)
}

// Attach sets the keeper of this node's part.
func (rs *Routes) Attach(k *Keeper, s *launcher.Start) {
	r := rs.find(s.Launch.Ident.Job)
	if r == nil {
		return
	}
	k.route.Store(r)
	r.mu.Lock()
	r.keeper, r.index = k, s.Index
	r.mu.Unlock()
	for _, n := range r.peers() {
		rs.net.Protect(n, r.tag())
	}
}

// Detach removes a keeper that is gone. On a node other than the job's origin the route
// ends with the keeper.
func (rs *Routes) Detach(id filch.Ident, k *Keeper) {
	r := k.route.Swap(nil)
	if r == nil {
		return
	}
	current := rs.find(id.Job) == r // no later attempt has taken the route's place
	r.mu.Lock()
	r.keeper = nil
	keep := r.origin == rs.in.Self && !r.ended && current
	r.mu.Unlock()
	if !keep {
		rs.drop(id.Job, r)
	}
	for _, n := range r.peers() {
		rs.net.Unprotect(n, r.tag())
	}
}

// Unused handles an attempt that gets no keeper here. On a node other than the job's
// origin the route ends.
func (rs *Routes) Unused(id filch.Ident) {
	if r := rs.find(id.Job); r != nil && r.ident == id && r.origin != rs.in.Self && !r.here() {
		rs.drop(id.Job, r)
	}
}

// Bind sets the client of a job of this origin.
func (rs *Routes) Bind(j filch.JobID, c *Client) {
	r := rs.ours(j)
	r.mu.Lock()
	r.client = c
	r.mu.Unlock()
	r.catchUp()
}

// ours returns the route of a job of this origin, before its launch if need be.
func (rs *Routes) ours(j filch.JobID) *route {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.jobs[j]
	if r == nil {
		r = newRoute(rs, &launcher.Launch{Ident: filch.Ident{Job: j}, Origin: rs.in.Self})
		rs.jobs[j] = r
	}
	return r
}

// Unbind removes a client that is gone.
func (rs *Routes) Unbind(c *Client) {
	j := filch.JobID(c.Job.Load())
	rs.mu.Lock() // no new attempt may take the client over meanwhile
	r := rs.jobs[j]
	if r == nil {
		rs.mu.Unlock()
		return
	}
	r.mu.Lock()
	gone := r.client == c
	if gone {
		r.client = nil
		r.gone = true
	}
	idle := r.ended && r.keeper == nil
	r.mu.Unlock()
	rs.mu.Unlock()
	if gone && r.origin == rs.in.Self {
		r.release(false) // nobody will take the output
	}
	if idle {
		rs.drop(j, r)
	}
}

// Reattach gives a job its client back and has the keepers repeat output that the
// client has not seen.
func (rs *Routes) Reattach(j filch.JobID, c *Client, seen []wire.Mark) {
	r := rs.ours(j)
	r.mu.Lock()
	r.client, r.gone, r.missed = c, false, false
	r.mark(seen)
	r.mu.Unlock()
	r.resendAll()
}

// Lacking returns those of the nodes of which the origin of a job, this node, may not have all
// output.
func (rs *Routes) Lacking(j filch.JobID, nodes []filch.NodeName) (lacking []filch.NodeName) {
	r := rs.find(j)
	for _, n := range nodes {
		if r == nil || !r.whole(n) {
			lacking = append(lacking, n)
		}
	}
	return lacking
}

// whole reports whether all output of a node is here.
func (r *route) whole(n filch.NodeName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.nodes, n)
	return i >= 0 && i < len(r.in) && r.in[i].whole
}

// End notes that the Node knows the end of a job of this origin.
func (rs *Routes) End(j filch.JobID) {
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
func (rs *Routes) drop(j filch.JobID, r *route) {
	rs.mu.Lock()
	if rs.jobs[j] == r {
		delete(rs.jobs, j)
	}
	rs.mu.Unlock()
	r.close()
	rs.logs.wake(j)
}

func (rs *Routes) Count() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.jobs)
}

func (rs *Routes) list() []*route {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	all := make([]*route, 0, len(rs.jobs))
	for _, r := range rs.jobs {
		all = append(all, r)
	}
	return all
}

// Retry repeats frames that were not sent or may have been lost.
func (rs *Routes) Retry() {
	for _, r := range rs.list() {
		r.retry()
	}
}

// OnWritable handles the overlay's notice that a queue has space again.
func (rs *Routes) OnWritable(to filch.NodeName, c overlay.Class) {
	if c != overlay.Bulk {
		return
	}
	rs.in.Post(func(*inputs.Turn) {
		for _, r := range rs.list() {
			if r.origin == to {
				r.retry()
			}
		}
	})
}

// Stdin hands a client's input to the keepers of its job.
func (rs *Routes) Stdin(j filch.JobID, body []byte) {
	if r := rs.find(j); r != nil {
		r.toAll(wire.KindStdin, body)
	}
}

// Resize sends the terminal's size to the keepers.
func (rs *Routes) Resize(j filch.JobID, body []byte) {
	if r := rs.find(j); r != nil {
		r.toAll(wire.KindResize, body)
	}
}

// OnRelay handles a frame of the data plane from another node.
func (rs *Routes) OnRelay(from filch.NodeName, f wire.Frame) error {
	in, err := wire.DecodeRelay(f.Body)
	if err != nil {
		return err
	}
	rs.in.Watch.Add(watch.RelaysIn, 1)
	r := rs.find(filch.JobID(f.Req))
	if r == nil || r.ident.Attempt != in.Attempt || (in.Kind == wire.KindPeerFrame || in.Kind == wire.KindKinFrame) && !r.here() {
		rs.answerUnknown(from, f.Req, in)
		return nil
	}
	return r.onNodeFrame(from, in)
}

// answerUnknown answers for a job that has ended here: a node with output of the job must not
// wait, and a keeper must learn that the peer of its frame has left.
func (rs *Routes) answerUnknown(from filch.NodeName, req uint32, in wire.Relay) {
	kind, body := wire.KindOutputSeen, in.Body
	switch in.Kind {
	case wire.KindOutputEnd: // repeated by the node until the answer comes
		if !rs.restored.Load() {
			return
		}
	case wire.KindPeerFrame:
		p, err := wire.DecodePeerFrame(in.Body)
		if err != nil || len(p.Body) == 0 || !rs.settled.Load() {
			return
		}
		kind, body = wire.KindPeerFrame, wire.PeerFrame{From: p.To, To: p.From}.Head(nil)
	case wire.KindKinFrame:
		k, err := wire.DecodeKinFrame(in.Body)
		if err != nil || len(k.Body) == 0 || !rs.settled.Load() {
			return
		}
		back := k.Back()
		req, in.Attempt = uint32(back.ToJob), back.ToAttempt
		kind, body = wire.KindKinFrame, back.Head(nil)
	default:
		return
	}
	head := wire.Relay{Attempt: in.Attempt, Kind: kind}.Head(nil)
	if p, err := wire.Payload(wire.KindRelay, req, head, body); err == nil {
		_ = rs.net.Send(from, overlay.Metadata, p)
	}
}

// onKinFrame passes a frame of r's keeper to the keeper of another job.
func (rs *Routes) onKinFrame(r *route, body []byte) error {
	k, err := wire.DecodeKinFrame(body)
	if err != nil {
		return err
	}
	if k.FromJob != r.ident.Job || k.FromAttempt != r.ident.Attempt || k.From != rs.in.Self {
		return filch.Errorf(filch.Invalid, "kin frame of job %d on %s from the keeper of job %d", k.FromJob, k.From, r.ident.Job)
	}
	if k.To != rs.in.Self {
		head := wire.Relay{Attempt: k.ToAttempt, Kind: wire.KindKinFrame}.Head(nil)
		p, err := wire.Payload(wire.KindRelay, uint32(k.ToJob), head, body)
		if err == nil && rs.net.Send(k.To, overlay.Metadata, p) != nil {
			rs.in.Watch.Add(watch.RelaysLost, 1) // the keeper sends the frame again
		}
		return err
	}
	to := rs.find(k.ToJob)
	if to != nil && to.ident.Attempt == k.ToAttempt && to.here() {
		to.toKeeper(wire.KindKinFrame, body)
	} else if len(k.Body) > 0 && rs.settled.Load() {
		r.toKeeper(wire.KindKinFrame, k.Back().Head(nil))
	}
	return nil
}

// OnLost handles the death of a node: the node will send nothing more.
func (rs *Routes) OnLost(n filch.NodeName) {
	for _, r := range rs.list() {
		r.onLost(n)
	}
}
