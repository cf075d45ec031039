package peers

import (
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of queries.
const (
	MaxQueries = 256         // queries answered at the same time
	maxHeld    = 4096        // queries waiting for output: each costs a goroutine
	FanOut     = 64          // nodes asked at the same time
	AskWait    = time.Second // for another node
)

// Network is the part of the overlay that carries questions, and knows nodes.
type Network interface {
	Send(to filch.NodeName, c overlay.Class, payload []byte) error
	// Peers lists the nodes with an open connection.
	Peers() []overlay.Peer
	// Whole reports whether the list of members has every node that this node knows.
	Whole() bool
}

// Questions holds the queries that this node has sent to other nodes, and answers the
// queries of other nodes.
type Questions struct {
	in     *inputs.Queue
	nodes  *Directory
	net    Network
	answer func(q wire.Query) (any, error)
	slots  chan struct{} // one per query being answered
	held   chan struct{} // one per query that waits for output

	mu   sync.Mutex // guards open and next
	open map[uint32]chan wire.Answer
	next uint32
}

// NewQuestions makes the questions of a node.
func NewQuestions(in *inputs.Queue, nodes *Directory) *Questions {
	// The numbers do not start from 1 in every life: a launcher may receive an answer
	// to a query of its predecessor.
	return &Questions{in: in, nodes: nodes, slots: make(chan struct{}, MaxQueries), held: make(chan struct{}, maxHeld), open: map[uint32]chan wire.Answer{}, next: rand.Uint32()}
}

// Connect sets the network.
func (a *Questions) Connect(net Network) { a.net = net }

// SetAnswer sets the source of answers to queries of other nodes.
func (a *Questions) SetAnswer(answer func(q wire.Query) (any, error)) { a.answer = answer }

// Begin takes one of the places of queries being answered, and end gives the place back.
// An error says that all places are taken. Queries for output wait long and cost little,
// and have places of their own.
func (a *Questions) Begin(q wire.Query) (end func(), err error) {
	places := a.slots
	if q.Verb == wire.VerbOutput || q.Verb == wire.VerbEvents || q.Verb == wire.VerbFollow {
		places = a.held
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, filch.Errorf(filch.Busy, "%s answers %d queries already", a.in.Self, cap(places))
	}
}

// OnAsk answers a query of another node on a goroutine of its own.
func (a *Questions) OnAsk(from filch.NodeName, f wire.Frame) error {
	q, err := wire.DecodeQuery(f.Body)
	if err != nil {
		return err
	}
	end, err := a.Begin(q)
	if err != nil {
		a.reply(from, f.Req, nil, err)
		return nil
	}
	a.in.Go(func() {
		defer end()
		v, err := a.answer(q)
		a.reply(from, f.Req, v, err)
	})
	return nil
}

func (a *Questions) reply(to filch.NodeName, req uint32, v any, err error) {
	head, data, tail, err := AnswerOf(v, err).Parts()
	if err != nil {
		a.in.Fault("cannot encode an answer", err)
		return
	}
	send := func(p []byte) error { return a.net.Send(to, overlay.Control, p) }
	_ = wire.SendPayload(send, wire.KindReply, req, head, data, tail)
}

// AnswerOf encodes a result for a link between nodes.
func AnswerOf(v any, err error) wire.Answer {
	if err != nil {
		return wire.Answer{Err: errorOf(err)}
	}
	if raw, ok := v.(*wire.Raw); ok {
		return wire.Answer{JSON: *raw}
	}
	encode := json.Marshal
	if _, ok := v.(wire.Packed); ok {
		encode = wire.Marshal
	}
	b, err := encode(v)
	if err != nil {
		return wire.Answer{Err: errorOf(err)}
	}
	if len(b) > wire.MaxAnswer-1024 {
		return wire.Answer{Err: filch.Errorf(filch.Invalid, "the answer has %d bytes, the limit is %d", len(b), wire.MaxAnswer)}
	}
	return wire.Answer{JSON: b}
}

func errorOf(err error) *filch.Error {
	if e, ok := err.(*filch.Error); ok {
		return e
	}
	return filch.Errorf(filch.Internal, "%s", err.Error())
}

// OnReply hands an answer to the query that waits for the answer.
func (a *Questions) OnReply(_ filch.NodeName, f wire.Frame) error {
	ans, err := wire.DecodeAnswer(f.Body)
	if err != nil {
		return err
	}
	a.mu.Lock()
	ch := a.open[f.Req]
	delete(a.open, f.Req)
	a.mu.Unlock()
	if ch != nil {
		ch <- ans // has space for one answer
	}
	return nil
}

// Ask sends a query to another node and decodes the answer into v.
func (a *Questions) Ask(to filch.NodeName, wait time.Duration, q wire.Query, v any) error {
	body, err := wire.Marshal(q)
	if err != nil {
		return err
	}
	ch := make(chan wire.Answer, 1)
	a.mu.Lock()
	a.next++
	req := a.next
	a.open[req] = ch
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.open, req)
		a.mu.Unlock()
	}()
	p, err := wire.Payload(wire.KindAsk, req, body)
	if err == nil {
		err = a.net.Send(to, overlay.Control, p)
	}
	if err != nil {
		return filch.Errorf(filch.Unavailable, "cannot ask node %s for %s: %s", to, q.Verb, err.Error())
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case ans := <-ch:
		if ans.Err != nil {
			return ans.Err
		}
		switch v := v.(type) {
		case *wire.Raw:
			*v = ans.JSON
			return nil
		case wire.Packed:
			return wire.Unmarshal(ans.JSON, v)
		}
		return json.Unmarshal(ans.JSON, v)
	case <-timer.C:
		return filch.Errorf(filch.Timeout, "node %s did not answer %s within %v", to, q.Verb, wait)
	case <-a.in.Context().Done():
		return filch.Errorf(filch.Unavailable, "the launcher of %s is going down", a.in.Self)
	}
}

// AskAll sends a query to every other live node, FanOut at a time, and calls take for
// each node in turn: members by name, then nodes that the list of members lacks.
func AskAll[T any](a *Questions, q wire.Query, take func(m Member, v T, err error)) {
	AskAllWithin(a, AskWait, q, take)
}

// AskAllWithin is [AskAll] with another wait for each node.
func AskAllWithin[T any](a *Questions, wait time.Duration, q wire.Query, take func(m Member, v T, err error)) {
	type result struct {
		v   T
		err error
	}
	others := a.everyone()
	results := make([]result, len(others))
	var wg sync.WaitGroup
	tokens := make(chan struct{}, FanOut)
	for i, m := range others {
		tokens <- struct{}{}
		wg.Go(func() {
			results[i].err = a.Ask(m.Name, wait, q, &results[i].v)
			<-tokens
		})
	}
	wg.Wait()
	for i, m := range others {
		take(m, results[i].v, results[i].err)
	}
}
