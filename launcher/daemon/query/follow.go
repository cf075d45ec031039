package query

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/events/ring"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of followers.
const (
	followBytes = 64 << 10             // of encoded events of a node at a time
	followKeep  = 4 * gatherSteady     // an answer of a node waits for slow followers
	maxAsked    = 4096                 // questions that are under way or kept
	followSlack = 2 * time.Second      // a round may take longer than its time
	followHold  = 20 * time.Second     // a node waits for an event
	maxFollowed = wire.MaxFollowed * 2 // arguments of nodes and places
)

// follows has what the followers of events share. All followers who have read everything
// have the same places. So they ask the same question, and one round answers them all:
// each node is asked once, and the answer is encoded once, however many follow.
type follows struct {
	mu     sync.Mutex // guards the fields below
	rounds map[string]*round
	asked  map[string]*asked
	news   chan struct{} // closes when a node has answered
	turn   int           // counts the rounds
	steady uint          // doublings of the time to gather, see round
}

// round is one answer for all followers with the same places.
type round struct {
	over   chan struct{}
	answer wire.Raw // read once over is closed, as err
	err    error
}

// asked is a question for the events of a node behind a place.
type asked struct {
	node  filch.NodeName
	place string
	part  *wire.EventPart // nil: no answer yet
	idle  bool            // the answer has no news
	at    time.Time       // of the answer
}

// follow answers a follower: TIME JOB, and then a node and a place by turns.
func (r eventReader) follow(q wire.Query, arg func(int) string) (any, error) {
	if n := len(q.Args) - 2; n < 2 || n%2 != 0 || n > maxFollowed {
		return nil, filch.Errorf(filch.Invalid, "cannot follow events with %d arguments: at most %d nodes", len(q.Args), wire.MaxFollowed)
	}
	for i := 3; i < len(q.Args); i += 2 {
		if p := q.Args[i]; p == "" || p == ring.Now {
			return nil, filch.Errorf(filch.Invalid, "cannot follow events of %s from %q: a place of an answer is needed", clipText(q.Args[i-1]), clipText(p))
		}
	}
	wait := min(parseWait(arg(0)), heldMax)
	f, key := &r.sv.follows, strings.Join(q.Args, "\x00")
	f.mu.Lock()
	d, joins := f.rounds[key], true
	if d == nil {
		d, joins = &round{over: make(chan struct{})}, false
		f.rounds[key] = d
		f.turn++
	}
	turn := f.turn
	f.mu.Unlock()
	if !joins {
		parts, err := r.round(q.Args[2:], arg(1), wait, turn)
		a := peers.AnswerOf(&wire.EventParts{Parts: parts}, err)
		if d.answer = a.JSON; a.Err != nil {
			d.err = a.Err
		}
		f.mu.Lock()
		delete(f.rounds, key)
		f.mu.Unlock()
		close(d.over)
	} else if !r.sv.in.Await(d.over, wait+followSlack) {
		return nil, filch.Errorf(filch.Timeout, "no round of events of %d nodes ended within %v", len(q.Args)/2-1, wait+followSlack)
	}
	if d.err != nil {
		return nil, d.err
	}
	return &d.answer, nil
}

// round waits for news of the nodes, and then until the time to gather is over: a follower gets
// at most 1/gatherEvents answers a second of all nodes together. While events come all the time,
// the time doubles up to gatherSteady: most of the cost of an answer is that processes wake up.
func (r eventReader) round(pairs []string, job string, wait time.Duration, turn int) ([]wire.EventPart, error) {
	in, f := r.sv.in, &r.sv.follows
	begin := time.Now()
	for end := begin.Add(wait); ; {
		news := f.await() // before the look: or the news in between would be missed
		fresh := false
		for i := 0; i < len(pairs); i += 2 {
			a, err := r.ask(filch.NodeName(pairs[i]), pairs[i+1], job)
			if err != nil {
				return nil, err
			}
			fresh = fresh || a != nil
		}
		if fresh || !in.Await(news, time.Until(end)) {
			break
		}
	}
	in.Await(nil, f.gather(time.Since(begin)))
	if in.Context().Err() != nil {
		return nil, in.GoingDown()
	}
	parts, size, n := []wire.EventPart{}, 0, len(pairs)/2
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := range n { // from another node each time: no busy node keeps the others out
		i := (k + turn) % n * 2
		a := f.asked[askKey(filch.NodeName(pairs[i]), pairs[i+1], job)]
		if a == nil || a.part == nil || a.idle {
			continue
		}
		if size += len(a.part.Chunk); size > wire.MaxEvents && len(parts) > 0 {
			break
		}
		parts = append(parts, *a.part)
	}
	return parts, nil
}

// gather returns how long a round gathers whose first news came after a while.
func (f *follows) gather(after time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	gather := min(gatherEvents<<f.steady, gatherSteady)
	switch {
	case after >= gather:
		f.steady = 0
	case gather < gatherSteady:
		f.steady++
	}
	return gather - after
}

func askKey(node filch.NodeName, place, job string) string {
	return string(node) + "\x00" + place + "\x00" + job
}

// await returns a channel that closes when a node has answered.
func (f *follows) await() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.news == nil {
		f.news = make(chan struct{})
	}
	return f.news
}

// ask asks a node, unless the same question is under way or was answered a moment ago. The
// result is an answer with news, or nil.
func (r eventReader) ask(node filch.NodeName, place, job string) (*wire.EventPart, error) {
	f, key := &r.sv.follows, askKey(node, place, job)
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.asked[key]; a != nil && !a.idle {
		return a.part, nil
	}
	f.tidy()
	if len(f.asked) >= maxAsked {
		return nil, filch.Errorf(filch.Busy, "%s asks %d nodes for events already", r.sv.in.Self, len(f.asked))
	}
	a := &asked{node: node, place: place}
	f.asked[key] = a
	r.sv.in.Go(func() {
		part, idle := r.partOf(node, place, job)
		f.mu.Lock()
		a.part, a.idle, a.at = part, idle, time.Now()
		f.tidy()
		news := f.news
		f.news = nil
		f.mu.Unlock()
		if news != nil {
			close(news)
		}
	})
	return nil, nil
}

// tidy drops old answers; under the mutex.
func (f *follows) tidy() {
	for key, a := range f.asked {
		if a.part != nil && time.Since(a.at) > followKeep {
			delete(f.asked, key)
		}
	}
}

// partOf waits for the events of a node behind a place. Idle reports that none came.
func (r eventReader) partOf(node filch.NodeName, place, job string) (part *wire.EventPart, idle bool) {
	q := wire.Query{Verb: wire.VerbEvents, Args: []string{string(node), place, strconv.Itoa(followBytes), followHold.String(), job}}
	v, err := r.part(q, func(i int) string {
		if i < len(q.Args) {
			return q.Args[i]
		}
		return ""
	}, true)
	a := peers.AnswerOf(v, err)
	part = &wire.EventPart{Node: node, Chunk: a.JSON}
	if a.Err != nil {
		part.Err = a.Err.Text
		return part, false
	}
	var c wire.EventChunk
	if err := wire.Unmarshal(a.JSON, &c); err != nil {
		return &wire.EventPart{Node: node, Err: err.Error()}, false
	}
	return part, len(c.Data) == 0 && c.Lost == 0 && !c.More && c.Next == place
}
