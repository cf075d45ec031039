package eventlog

import (
	"slices"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/events/ring"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of a reader.
const (
	chunkBytes = 64 << 10         // of encoded events of a node at a time: the memory for a node
	holdText   = "20s"            // how long a node waits for an event before it answers
	lookAgain  = 10 * time.Second // between two looks at the list of nodes, without news of nodes
	lookSoon   = time.Second      // the same, with news
	tryAgain   = time.Second      // after a node did not answer
	sameReport = 10 * time.Second // two reports of one change of a node are not further apart
	maxReports = 4096             // changes of nodes that are remembered
)

// Reader reads the events of all nodes of an instance.
type Reader struct {
	Follow bool
	Node   filch.NodeName // "": all nodes
	Job    string         // "": all
	Since  int64          // Unix time in nanoseconds

	Event func(node filch.NodeName, e *events.Event) error
	Idle  func() error // all events so far were handed out
	Lost  func(node filch.NodeName, n uint64)
	// Clock takes the clock of a node at an answer, and the times of the question and of the
	// answer here, all in Unix nanoseconds; nil: not wanted.
	Clock func(node filch.NodeName, there, asked, answered int64)

	queries *client.Queries
	sources map[filch.NodeName]*source
	order   []*source
	open    map[uint32]*source   // questions about one node without an answer; the node list's is nil
	rounds  map[uint32][]*source // questions about the next events of several nodes
	soon    bool                 // nodes have changed, or did not answer
	shown   map[report]int64
	merged  bool // the events that the nodes had at first were handed out
}

// source is a node.
type source struct {
	node  filch.NodeName
	up    bool
	place string
	asked int64
	open  bool
	more  bool // events are known to be there
	life  uint64
	list  []events.Event // not handed out yet
	again time.Time      // the next question after a failure
}

// rests reports whether all events of the node so far were read.
func (s *source) rests() bool { return !s.more && s.place != "" && s.place != ring.Now }

// report is a change of a node.
type report struct {
	kind events.Kind
	peer filch.NodeName
}

// Run reads until all nodes have answered, or for ever with Follow. Run closes the client.
func (r *Reader) Run(c *client.Client) error {
	r.queries = c.Queries()
	r.sources, r.open, r.shown = map[filch.NodeName]*source{}, map[uint32]*source{}, map[report]int64{}
	r.rounds = map[uint32][]*source{}
	replies, failed, over := make(chan client.Reply), make(chan error, 1), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			reply, err := r.queries.Next()
			if err != nil {
				failed <- err
				return
			}
			select {
			case replies <- reply:
			case <-over:
				return
			}
		}
	}()
	defer func() { close(over); r.queries.Close(); <-done }()
	if err := r.look(); err != nil {
		return err
	}
	tick := time.NewTimer(lookSoon)
	defer tick.Stop()
	looked := time.Now()
	for {
		select {
		case err := <-failed:
			return err
		case reply := <-replies:
			if err := r.take(&reply); err != nil {
				return err
			}
		case <-tick.C:
			if r.soon || time.Since(looked) >= lookAgain {
				looked = time.Now()
				r.soon = slices.ContainsFunc(r.order, func(s *source) bool { return s.up && looked.Before(s.again) })
				if err := r.look(); err != nil {
					return err
				}
			}
			tick.Reset(lookAgain)
		}
		if r.soon {
			tick.Reset(max(lookSoon-time.Since(looked), 0))
		}
		if over, err := r.step(); over || err != nil {
			return err
		}
	}
}

// look asks for the list of nodes.
func (r *Reader) look() error {
	for _, s := range r.open {
		if s == nil {
			return nil // the last look is under way
		}
	}
	req, err := r.queries.Send(wire.VerbNodes, wire.OnlyHere)
	r.open[req] = nil
	return err
}

// take takes in an answer.
func (r *Reader) take(reply *client.Reply) error {
	if list, asked := r.rounds[reply.Req]; asked {
		delete(r.rounds, reply.Req)
		return r.onRound(list, reply)
	}
	s, asked := r.open[reply.Req]
	delete(r.open, reply.Req)
	if !asked {
		return nil
	}
	if s == nil {
		return r.onNodes(reply)
	}
	s.open = false
	var chunk wire.EventChunk
	r.onChunk(s, &chunk, reply.Decode(&chunk))
	return nil
}

// onRound takes in the news of several nodes.
func (r *Reader) onRound(list []*source, reply *client.Reply) error {
	for _, s := range list {
		s.open = false
	}
	var parts wire.EventParts
	if err := reply.Decode(&parts); err != nil {
		for _, s := range list {
			r.rest(s)
		}
		return nil
	}
	for i := range parts.Parts {
		p := &parts.Parts[i]
		s := r.sources[p.Node]
		if s == nil {
			continue
		}
		if p.Err != "" {
			r.rest(s)
			continue
		}
		var chunk wire.EventChunk
		r.onChunk(s, &chunk, wire.Unmarshal(p.Chunk, &chunk))
	}
	return nil
}

// rest asks a node no more for a while. The list of nodes says whether the node is lost.
func (r *Reader) rest(s *source) {
	s.more, s.again, r.soon = false, time.Now().Add(tryAgain), true
}

// onChunk takes in events of a node.
func (r *Reader) onChunk(s *source, chunk *wire.EventChunk, err error) {
	var list []events.Event
	if err == nil {
		list, err = events.Decode(chunk.Data)
	}
	if err != nil {
		r.rest(s)
		return
	}
	if r.Clock != nil {
		r.Clock(s.node, chunk.Now, s.asked, time.Now().UnixNano())
	}
	if chunk.Lost > 0 && s.life == chunk.Life {
		r.Lost(s.node, chunk.Lost)
	}
	s.list, s.place, s.more, s.life = list, chunk.Next, chunk.More, chunk.Life
}

// onNodes takes in the list of nodes.
func (r *Reader) onNodes(reply *client.Reply) error {
	var nodes []wire.NodeInfo
	if err := reply.Decode(&nodes); err != nil {
		return err
	}
	for i := range nodes {
		n := &nodes[i]
		if r.Node != "" && n.Node != r.Node {
			continue
		}
		s := r.sources[n.Node]
		if s == nil {
			s = &source{node: n.Node, more: true}
			if r.Follow && r.Since == 0 && !r.merged {
				s.place = ring.Now
			}
			r.sources[n.Node], r.order = s, append(r.order, s)
		}
		s.up = n.State != filch.Dead.String() && n.State != filch.Left.String()
	}
	if r.Node != "" && r.sources[r.Node] == nil {
		return filch.Errorf(filch.NotFound, "there is no node %s", r.Node).WithHint("filch nodes lists the nodes")
	}
	return nil
}

// step hands out events and asks for more. Over reports the end of a reader that does not
// follow.
func (r *Reader) step() (over bool, err error) {
	if len(r.order) == 0 {
		return false, nil
	}
	if err := r.merge(); err != nil {
		return false, err
	}
	idle := true
	for _, s := range r.order {
		if len(s.list) > 0 || s.up && s.more {
			idle = false
		}
	}
	r.merged = r.merged || idle
	if idle && !r.Follow {
		return true, nil
	}
	if idle {
		if err := r.Idle(); err != nil {
			return false, err
		}
	}
	return false, r.askAll()
}

// askAll asks every node without events here.
func (r *Reader) askAll() error {
	now := time.Now()
	var resting []*source
	for _, s := range r.order {
		if s.open || !s.up || len(s.list) > 0 || now.Before(s.again) || !s.more && !r.Follow {
			continue
		}
		if s.rests() {
			resting = append(resting, s)
			continue
		}
		since := ""
		if r.Since > 0 {
			since = strconv.FormatInt(r.Since, 10)
		}
		req, err := r.queries.Send(wire.VerbEvents, string(s.node), s.place, chunkText, "", r.Job, since)
		if err != nil {
			return err
		}
		s.open, s.asked = true, now.UnixNano()
		r.open[req] = s
	}
	for _, s := range r.open {
		if s != nil {
			return nil // soon rests, too: one question then asks for all
		}
	}
	for list := range slices.Chunk(resting, wire.MaxFollowed) {
		args := []string{holdText, r.Job}
		for _, s := range list {
			s.open = true
			args = append(args, string(s.node), s.place)
		}
		req, err := r.queries.Send(wire.VerbFollow, args...)
		if err != nil {
			return err
		}
		r.rounds[req] = list
	}
	return nil
}

// merge hands out events by time: as long as every node that has more events has some here.
// Once the first events of all nodes were handed out, later events go out as they come.
func (r *Reader) merge() error {
	for {
		var first *source
		for _, s := range r.order {
			if len(s.list) == 0 {
				if !r.merged && s.up && s.more {
					return nil
				}
				continue
			}
			if first == nil || s.list[0].UnixNS < first.list[0].UnixNS {
				first = s
			}
		}
		if first == nil {
			return nil
		}
		e := &first.list[0]
		first.list = first.list[1:]
		if r.repeats(e) {
			continue
		}
		if err := r.Event(first.node, e); err != nil {
			return err
		}
	}
}

// repeats reports whether another node has reported the same change of a node.
func (r *Reader) repeats(e *events.Event) bool {
	switch e.Kind {
	case events.NodeUp, events.NodeSuspect, events.NodeGone, events.NodeLost, events.NodeLeft:
	default:
		return false
	}
	r.soon = true
	if r.Node != "" {
		return false
	}
	if len(r.shown) >= maxReports {
		clear(r.shown)
	}
	key := report{e.Kind, e.Peer}
	before, was := r.shown[key]
	r.shown[key] = e.UnixNS
	return was && e.UnixNS-before < int64(sameReport) && before-e.UnixNS < int64(sameReport)
}
