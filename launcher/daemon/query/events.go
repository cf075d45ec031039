package query

import (
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/events/ring"
	"github.com/filch-hpc/filch/launcher/wire"
)

// gatherEvents is the time from the first event to the answer: a follower costs the node at
// most 1/gatherEvents answers a second, and each answer has all events of that time.
const gatherEvents = 250 * time.Millisecond

// gatherSteady is the time between two answers for a follower while events come all the time.
const gatherSteady = time.Second

// eventReader answers queries for events.
type eventReader struct{ sv *Server }

// answer answers a query for events of one node, or of a follower of several nodes.
func (r eventReader) answer(q wire.Query, arg func(int) string, local bool) (any, error) {
	switch {
	case q.Verb == wire.VerbEvents:
		return r.part(q, arg, local)
	case !local:
		return nil, filch.Errorf(filch.Invalid, "a node follows events of other nodes for local clients only")
	}
	return r.follow(q, arg)
}

// part returns a part of the last events of a node, here or on the node of the query.
func (r eventReader) part(q wire.Query, arg func(int) string, local bool) (any, error) {
	sv := r.sv
	wait := time.Duration(0)
	if arg(3) != "" {
		wait = min(parseWait(arg(3)), RestMost)
	}
	if node := filch.NodeName(arg(0)); node != sv.in.Self {
		if err := sv.checkUp(node, local); err != nil {
			return nil, err
		}
		c := new(wire.Raw)
		return c, sv.daemon.Questions.Ask(node, wait+peers.AskWait, q, c)
	}
	limit, err := strconv.Atoi(arg(2))
	if err != nil || limit < 1 || limit > wire.MaxEvents {
		return nil, filch.Errorf(filch.Invalid, "cannot read %q bytes of events at once: at most %d", clipText(arg(2)), wire.MaxEvents)
	}
	var f ring.Filter
	if arg(4) != "" {
		if f.Job, err = sv.parseJob(arg(4)); err != nil {
			return nil, err
		}
	}
	if arg(5) != "" {
		if f.Since, err = strconv.ParseInt(arg(5), 10, 64); err != nil {
			return nil, filch.Errorf(filch.Invalid, "%q is no time", clipText(arg(5)))
		}
	}
	return r.read(arg(1), limit, wait, f)
}

// read waits at most wait for an event at a place.
func (r eventReader) read(place string, limit int, wait time.Duration, f ring.Filter) (*wire.EventChunk, error) {
	in := r.sv.in
	events := in.Watch.Ring()
	for end := time.Now().Add(wait); ; {
		news := events.Await() // before the read: or the news in between would be missed
		p, err := events.Read(place, limit, f)
		if err != nil {
			return nil, filch.Errorf(filch.Invalid, "%s", err.Error())
		}
		if len(p.Data) > 0 || p.Lost > 0 || p.More || !time.Now().Before(end) {
			return &wire.EventChunk{Data: p.Data, Next: p.Next, Lost: p.Lost, More: p.More, Life: p.Life, Now: time.Now().UnixNano()}, nil
		}
		place = p.Next
		came := in.Await(news, time.Until(end))
		if in.Context().Err() != nil {
			return nil, in.GoingDown()
		}
		if came {
			in.Pause(gatherEvents, end)
		}
	}
}
