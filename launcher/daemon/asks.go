package daemon

import (
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of queries.
const (
	maxQueries = 256         // queries answered at the same time
	fanOut     = 64          // nodes asked at the same time
	askWait    = time.Second // for another node
)

// asks holds the queries that this node has sent to other nodes.
type asks struct {
	d     *Daemon
	slots chan struct{} // one per query being answered

	mu   sync.Mutex // guards open and next
	open map[uint32]chan wire.Answer
	next uint32
}

func newAsks(d *Daemon) *asks {
	// The numbers do not start from 1 in every life: a launcher may receive an answer
	// to a query of its predecessor.
	return &asks{d: d, slots: make(chan struct{}, maxQueries), open: map[uint32]chan wire.Answer{}, next: rand.Uint32()}
}

// onAsk answers a query of another node on a goroutine of its own.
func (a *asks) onAsk(from filch.NodeName, f wire.Frame) error {
	q, err := wire.DecodeQuery(f.Body)
	if err != nil {
		return err
	}
	select {
	case a.slots <- struct{}{}:
	default:
		a.reply(from, f.Req, nil, filch.Errorf(filch.Busy, "%s answers %d queries already", a.d.in.Self, maxQueries))
		return nil
	}
	a.d.in.Go(func() {
		defer func() { <-a.slots }()
		v, err := a.d.answer(q, false)
		a.reply(from, f.Req, v, err)
	})
	return nil
}

func (a *asks) reply(to filch.NodeName, req uint32, v any, err error) {
	body, err := wire.Marshal(answerOf(v, err))
	if err != nil {
		a.d.in.Fault("cannot encode an answer", err)
		return
	}
	if p, err := wire.Payload(wire.KindReply, req, body); err == nil {
		_ = a.d.net.Send(to, overlay.Control, p)
	}
}

// answerOf encodes a result for a link between nodes.
func answerOf(v any, err error) wire.Answer {
	if err != nil {
		return wire.Answer{Err: errorOf(err)}
	}
	b, err := json.Marshal(v)
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

// onReply hands an answer to the query that waits for the answer.
func (a *asks) onReply(_ filch.NodeName, f wire.Frame) error {
	var ans wire.Answer
	if err := wire.Unmarshal(f.Body, &ans); err != nil {
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

// ask sends a query to another node and decodes the answer into v.
func (a *asks) ask(to filch.NodeName, wait time.Duration, q wire.Query, v any) error {
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
		err = a.d.net.Send(to, overlay.Control, p)
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
		return json.Unmarshal(ans.JSON, v)
	case <-timer.C:
		return filch.Errorf(filch.Timeout, "node %s did not answer %s within %v", to, q.Verb, wait)
	case <-a.d.in.Context().Done():
		return filch.Errorf(filch.Unavailable, "the launcher of %s is going down", a.d.in.Self)
	}
}

// askAll sends a query to every other live node, fanOut at a time, and calls take for
// each node in turn, by name.
func askAll[T any](a *asks, q wire.Query, take func(m member, v T, err error)) {
	type result struct {
		v   T
		err error
	}
	others := a.d.members.others()
	results := make([]result, len(others))
	var wg sync.WaitGroup
	tokens := make(chan struct{}, fanOut)
	for i, m := range others {
		tokens <- struct{}{}
		wg.Go(func() {
			results[i].err = a.ask(m.Name, askWait, q, &results[i].v)
			<-tokens
		})
	}
	wg.Wait()
	for i, m := range others {
		take(m, results[i].v, results[i].err)
	}
}
