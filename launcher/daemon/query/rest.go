package query

import (
	"context"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/events/ring"
	"github.com/filch-hpc/filch/launcher/wire"
)

// RestMost is how long a reader of looks may rest while no node has an event. Another node holds a
// question as long.
const RestMost = time.Minute

// rest is what the readers of looks share who wait for a change of a node.
type rest struct {
	mu    sync.Mutex // guards the fields below
	asked map[filch.NodeName]bool
	news  chan struct{} // closes with the next answer; nil: nobody waits
}

// Resting reports whether nothing happens on the nodes of an overview: no job is live, and no node
// that should answer is silent.
func Resting(o *wire.Overview) bool {
	for i := range o.Jobs {
		if o.Jobs[i].Code == nil {
			return false
		}
	}
	for i := range o.Nodes {
		switch n := &o.Nodes[i]; n.State {
		case filch.Dead.String(), filch.Left.String():
		case filch.Up.String(), filch.Draining.String():
			if n.Silent {
				return false
			}
		default:
			return false
		}
	}
	return o.More == 0
}

// Rest begins to wait for an event of any node. The result waits until one came since the call of
// Rest, until a node that was asked is gone, or for RestMost. Each other node is asked once in
// RestMost, whatever the number of readers. A look after the return of Rest shows what happened
// before the call.
func Rest(sv *Server) (await func(ctx context.Context)) {
	own, others := sv.in.Watch.Ring().Await(), sv.rest.askOthers(sv)
	sv.in.Await(nil, glanceRest*3/2) // a node may answer with an earlier look
	return func(ctx context.Context) {
		timer := time.NewTimer(RestMost)
		defer timer.Stop()
		select {
		case <-own:
		case <-others:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// askOthers asks each other node for its next event, unless the question is under way. The result
// closes with the next answer.
func (r *rest) askOthers(sv *Server) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.news == nil {
		r.news = make(chan struct{})
	}
	for _, m := range sv.daemon.Nodes.Others() {
		if !r.asked[m.Name] && len(r.asked) < maxAsked {
			r.asked[m.Name] = true
			sv.in.Go(func() { r.awaitEvent(sv, m.Name) })
		}
	}
	return r.news
}

// awaitEvent waits for the next event of another node, and ends the rest. So does a node without
// an answer, and a node without an event in RestMost: the node is asked again.
func (r *rest) awaitEvent(sv *Server, node filch.NodeName) {
	var answer wire.Raw
	q := wire.Query{Verb: wire.VerbEvents, Args: []string{string(node), ring.Now, "1", RestMost.String()}}
	_ = sv.daemon.Questions.Ask(node, RestMost+peers.AskWait, q, &answer)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, node)
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}
