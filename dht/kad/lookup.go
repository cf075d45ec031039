package kad

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	kb "github.com/libp2p/go-libp2p-kbucket"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/filch-hpc/filch/dht/overlay"
)

// lookup is one iterative lookup. The lookup asks alpha nodes at a time, always the
// nearest not yet asked, and ends when the nearest nodes have answered. Dead nodes and
// false names delay a lookup little: a slow node makes way for the next, and the nodes
// named by a node that named nodes in vain come last.
type lookup struct {
	host   *overlay.Host
	self   peer.ID
	key    string
	target kb.ID
	sought peer.ID // with a node sought, the lookup ends at the node
	width  int     // nearest nodes that must have answered before the lookup ends
	began  time.Time
	all    []*candidate // nearest first
	asked  int
	busy   int // nodes asked that are not slow
	failed int
}

// candidate is a node heard of in a lookup.
type candidate struct {
	info     peer.AddrInfo
	distance []byte
	by       *candidate // named this node; nil: known before
	state    state
	other    []ma.Multiaddr // addresses named later than info.Addrs
	otherBy  *candidate     // named the last of the other addresses
	again    bool           // asked a second time, at the other addresses
	ticks    int            // of the lookup's ticker, while asked
	good     int            // nodes named by this one that have answered
	bad      int            // and that were slow or have failed
	hop      overlay.Hop
	fault    error // of the last question without an answer
}

// slow reports whether an asked node has made way for the next.
func (c *candidate) slow() bool { return c.state == asking && c.ticks >= slowTicks }

// doubtful reports whether a node is known only by a node that named others in vain.
func (c *candidate) doubtful() bool { return c.by != nil && c.by.good == 0 && c.by.bad >= maxBad }

// state is how far the lookup is with a candidate.
type state uint8

const (
	heard state = iota
	asking
	answered
	failed
)

// answer is the result of asking a candidate.
type answer struct {
	from *candidate
	hop  overlay.Hop
	near []peer.AddrInfo
	err  error
}

// hear adds a node named by another node; by is empty for a node known before.
func (l *lookup) hear(by peer.ID, info peer.AddrInfo) {
	if info.ID == l.self {
		return
	}
	find := func(id peer.ID) *candidate {
		i := slices.IndexFunc(l.all, func(c *candidate) bool { return c.info.ID == id })
		if i < 0 {
			return nil
		}
		return l.all[i]
	}
	if c := find(info.ID); c != nil {
		c.learn(info.Addrs, find(by))
		return
	}
	c := &candidate{info: info, distance: distance(info.ID, l.target), by: find(by)}
	at, _ := slices.BinarySearchFunc(l.all, c, func(a, b *candidate) int { return bytes.Compare(a.distance, b.distance) })
	l.all = slices.Insert(l.all, at, c)
}

// learn adds addresses named by another node. A node that does not answer is asked again
// at the other addresses: the first ones may be old, or false.
func (c *candidate) learn(addrs []ma.Multiaddr, by *candidate) {
	if c.state == heard && by != nil && c.doubtful() {
		c.by = by
	}
	known := slices.Concat(c.info.Addrs, c.other)
	fresh := slices.DeleteFunc(slices.Clone(addrs), func(a ma.Multiaddr) bool { return ma.Contains(known, a) })
	if fresh = fresh[:min(len(fresh), maxOther-len(c.other))]; len(fresh) == 0 || c.state == answered || c.again {
		return
	}
	c.other, c.otherBy = append(c.other, fresh...), by
	if c.state == failed || len(c.info.Addrs) == 0 {
		c.retry()
	}
}

// retry makes the other addresses, if any, the ones to ask a node at.
func (c *candidate) retry() {
	if len(c.other) == 0 || c.again || c.state == asking {
		return
	}
	c.again = c.state == failed
	c.info.Addrs, c.by, c.state, c.other = c.other, c.otherBy, heard, nil
}

// distance is the distance of Kademlia: the exclusive or of two ids.
func distance(id peer.ID, target kb.ID) []byte {
	d := []byte(kb.ConvertPeerID(id))
	for i := range d {
		d[i] ^= target[i]
	}
	return d
}

// next returns the node to ask next; nil if none is to be asked now.
func (l *lookup) next() *candidate {
	if len(l.all) > 0 && l.all[0].info.ID == l.sought && l.all[0].state == asking && !l.all[0].slow() {
		return nil // the sought node itself is better asked than others
	}
	var last *candidate // the nearest doubtful one
	ahead := 0          // nodes nearer than the next one that have answered or may answer
	for _, c := range l.all {
		switch {
		case c.state == failed || c.slow():
			continue
		case c.state == heard && c.doubtful():
			if last == nil {
				last = c
			}
			continue
		case c.state == heard:
			return c
		}
		if ahead++; ahead == l.width {
			break
		}
	}
	return last
}

// tick counts the time of the asked nodes, and frees the places of slow ones.
func (l *lookup) tick() {
	for _, c := range l.all {
		if c.state != asking {
			continue
		}
		if c.ticks++; c.ticks == slowTicks {
			l.busy--
			c.blame()
		}
	}
}

// blame notes that a node was named in vain.
func (c *candidate) blame() {
	if c.by != nil {
		c.by.bad++
	}
}

// done reports whether the sought node has answered.
func (l *lookup) done() bool {
	return l.sought != "" && len(l.all) > 0 && l.all[0].info.ID == l.sought && l.all[0].state == answered
}

func (l *lookup) run(ctx context.Context) (overlay.Lookup, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupWait)
	defer cancel()
	if len(l.all) == 0 {
		return overlay.Lookup{Took: time.Since(l.began)}, errAlone
	}
	answers, open := make(chan answer), 0
	ticker := time.NewTicker(slowTick)
	defer ticker.Stop()
	for !l.done() {
		for l.busy < alpha && open < maxOpen && l.asked < maxAsked && ctx.Err() == nil {
			c := l.next()
			if c == nil {
				break
			}
			c.state, c.ticks = asking, 0
			l.asked++
			l.busy++
			open++
			go func() { answers <- l.put(ctx, c) }()
		}
		if open == 0 {
			break
		}
		select {
		case a := <-answers:
			l.take(a)
			open--
		case <-ticker.C:
			l.tick()
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	late := ctx.Err() != nil && !l.done()
	if late {
		l.failed += open
	}
	cancel()
	for ; open > 0; open-- {
		<-answers // no goroutine outlives the lookup
	}
	r := l.result()
	switch fault := l.soughtFault(); {
	case len(r.Nearest) == 0:
		return r, errors.New("no node answers")
	case late:
		return r, l.unfinished()
	case fault != nil:
		return r, fmt.Errorf("the node was found, and did not answer: %w", fault)
	}
	return r, nil
}

// unfinished is the error of a lookup that ended at its time limit.
func (l *lookup) unfinished() error {
	var have [failed + 1]int
	for _, c := range l.all {
		have[c.state]++
	}
	return fmt.Errorf("%w: after %v, %d of %d nodes asked had answered, and %d more nodes were named",
		overlay.ErrUnfinished, time.Since(l.began).Round(100*time.Millisecond), have[answered], l.asked, have[heard])
}

// put asks one candidate, up to askTries times: a connection may close under a question, as
// where two nodes dial each other at the same moment and keep one of the two connections.
func (l *lookup) put(ctx context.Context, c *candidate) answer {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	began := time.Now()
	a := answer{from: c}
	a.hop.Addr = first(addresses(c.info))
	for try, pause := 1, askPause; ; try, pause = try+1, 4*pause {
		a.hop.Node, a.err = l.host.Reach(ctx, c.info.ID, addresses(c.info))
		if a.err == nil {
			a.near, a.err = ask(ctx, l.host, c.info.ID, l.key)
		}
		if try == askTries || !broken(a.err) || !sleep(ctx, pause) {
			break
		}
	}
	a.hop.Named, a.hop.Took = len(a.near), time.Since(began)
	return a
}

// sleep waits, and reports whether the context is still live.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// broken reports whether a question failed for a cause that a repeated question may not meet:
// neither the host nor the node has refused the connection.
func broken(err error) bool {
	var r *overlay.Refusal
	return err != nil && !errors.Is(err, syscall.ECONNREFUSED) && !errors.As(err, &r)
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// take adds the nodes of an answer.
func (l *lookup) take(a answer) {
	c := a.from
	c.hop = a.hop
	if slow := c.slow(); !slow {
		l.busy--
		if a.err != nil {
			c.blame()
		}
	}
	if a.err != nil {
		c.state, c.fault = failed, a.err
		l.failed++
		c.retry()
		return
	}
	c.state = answered
	if c.by != nil {
		c.by.good++
	}
	for _, n := range a.near {
		l.hear(c.info.ID, n)
	}
}

// soughtFault is the error of the sought node if the lookup has asked this node in vain.
func (l *lookup) soughtFault() error {
	if len(l.all) == 0 || l.all[0].info.ID != l.sought || l.all[0].state != failed {
		return nil
	}
	return l.all[0].fault
}

// result collects the nodes that have answered, and the path to the nearest of them.
func (l *lookup) result() overlay.Lookup {
	r := overlay.Lookup{Asked: l.asked, Failed: l.failed}
	self := distance(l.self, l.target)
	own := overlay.Contact{Node: l.host.Name(), Addr: l.host.Addr()}
	for _, c := range l.all {
		if c.state != answered {
			continue
		}
		if self != nil && bytes.Compare(self, c.distance) < 0 {
			r.Nearest, self = append(r.Nearest, own), nil
		}
		if r.Path == nil {
			for p := c; p != nil; p = p.by {
				r.Path = append(r.Path, p.hop)
			}
			slices.Reverse(r.Path)
		}
		r.Nearest = append(r.Nearest, overlay.Contact{Node: c.hop.Node, Addr: c.hop.Addr})
	}
	if self != nil && len(r.Nearest) > 0 {
		r.Nearest = append(r.Nearest, own)
	}
	r.Took = time.Since(l.began)
	return r
}
