package api

import (
	"context"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/events/ring"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of events.
const (
	eventBytes = 64 << 10         // of the encoded events of a node at a time
	eventHold  = 20 * time.Second // how long a node waits for an event
	nodesAgain = 10 * time.Second // between two looks at the list of nodes
)

type eventsArgs struct {
	envelope
	Job  filch.JobID    `json:"job" doc:"only events of this job; 0: of all"`
	Node filch.NodeName `json:"node" doc:"only events that this node reports; none: of all nodes"`
	Past bool           `json:"past" doc:"begin with the events that the nodes still have; else with the next"`
}

// lostEvents is news of events that a node dropped before they were read.
type lostEvents struct {
	Node filch.NodeName `json:"node"`
	Lost uint64         `json:"lost"`
}

// eventReader asks each node for its next events. A node that does not answer is asked again with
// the next look at the list of nodes.
type eventReader struct {
	*call
	args    *eventsArgs
	queries *client.Queries
	places  map[filch.NodeName]string
	asked   map[uint32]filch.NodeName // questions under way; "" is the list of nodes
	waiting map[filch.NodeName]bool
	lives   map[filch.NodeName]uint64
	looked  time.Time
	begun   bool // the nodes were listed once
}

func follow(ctx context.Context, c *call, a *eventsArgs) (any, error) {
	conn, err := c.launcher.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	r := &eventReader{
		call: c, args: a, queries: conn.Queries(), places: map[filch.NodeName]string{}, asked: map[uint32]filch.NodeName{},
		waiting: map[filch.NodeName]bool{}, lives: map[filch.NodeName]uint64{},
	}
	for err == nil {
		if err = r.look(); err == nil {
			err = r.next()
		}
	}
	if ctx.Err() != nil {
		err = filch.Errorf(filch.Canceled, "the request was stopped")
	}
	return nil, err
}

// look asks for the list of nodes when it is time. A node answers within eventHold, so that the
// look is never late by more.
func (r *eventReader) look() error {
	if time.Since(r.looked) < nodesAgain {
		return nil
	}
	r.looked = time.Now()
	req, err := r.queries.Send(wire.VerbNodes, wire.OnlyHere)
	r.asked[req] = ""
	return err
}

// next takes an answer.
func (r *eventReader) next() error {
	a, err := r.queries.Next()
	if err != nil {
		return err
	}
	node, known := r.asked[a.Req]
	delete(r.asked, a.Req)
	switch {
	case !known:
		return nil
	case node == "":
		return r.onNodes(&a)
	}
	r.waiting[node] = false
	var chunk wire.EventChunk
	list := []events.Event(nil)
	if err = a.Decode(&chunk); err == nil {
		list, err = events.Decode(chunk.Data)
	}
	if err != nil {
		return nil // the node is asked again
	}
	if chunk.Lost > 0 && r.lives[node] == chunk.Life && !r.news(lostEvents{node, chunk.Lost}) {
		return errUnread
	}
	r.places[node], r.lives[node] = chunk.Next, chunk.Life
	for i := range list {
		if !r.news(events.LineOf(node, &list[i])) {
			return errUnread
		}
	}
	return r.ask(node)
}

// onNodes asks the nodes that are not asked yet.
func (r *eventReader) onNodes(a *client.Reply) error {
	var nodes []wire.NodeInfo
	if err := a.Decode(&nodes); err != nil {
		return err
	}
	found := r.args.Node == ""
	for i := range nodes {
		n := &nodes[i]
		if r.args.Node != "" && n.Node != r.args.Node {
			continue
		}
		found = true
		if _, known := r.places[n.Node]; !known {
			r.places[n.Node] = ""
			if !r.begun && !r.args.Past {
				r.places[n.Node] = ring.Now
			}
		}
		if r.waiting[n.Node] || n.State == filch.Dead.String() || n.State == filch.Left.String() {
			continue
		}
		if err := r.ask(n.Node); err != nil {
			return err
		}
	}
	r.begun = true
	if !found {
		return filch.Errorf(filch.NotFound, "there is no node %s", r.args.Node)
	}
	return nil
}

func (r *eventReader) ask(node filch.NodeName) error {
	job := ""
	if r.args.Job != 0 {
		job = r.args.Job.String()
	}
	req, err := r.queries.Send(wire.VerbEvents, string(node), r.places[node], strconv.Itoa(eventBytes), eventHold.String(), job)
	r.asked[req], r.waiting[node] = node, true
	return err
}
