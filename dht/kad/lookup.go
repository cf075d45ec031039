package kad

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	kb "github.com/libp2p/go-libp2p-kbucket"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/filch-hpc/filch/dht/overlay"
)

// lookup is one iterative lookup. The lookup asks alpha nodes at a time, always the
// nearest not yet asked, and ends when the nearest nodes have answered.
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
	failed int
}

// candidate is a node heard of in a lookup.
type candidate struct {
	info     peer.AddrInfo
	distance []byte
	by       *candidate // named this node first; nil: known before
	state    state
	again    bool // asked a second time, at other addresses
	hop      overlay.Hop
}

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

// learn adds addresses named by another node. A node that did not answer is asked again
// at the new addresses: the node may have moved.
func (c *candidate) learn(addrs []ma.Multiaddr, by *candidate) {
	fresh := slices.DeleteFunc(slices.Clone(addrs), func(a ma.Multiaddr) bool { return ma.Contains(c.info.Addrs, a) })
	switch {
	case len(fresh) == 0:
	case c.state == heard && len(c.info.Addrs) == 0:
		c.info.Addrs = fresh
	case c.state == failed && !c.again:
		c.info.Addrs, c.state, c.again, c.by = fresh, heard, true, by
	}
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
	if len(l.all) > 0 && l.all[0].info.ID == l.sought && l.all[0].state == asking {
		return nil // the sought node itself is better asked than others
	}
	ahead := 0 // nodes nearer than the next one that have answered or may answer
	for _, c := range l.all {
		if c.state == failed {
			continue
		}
		if c.state == heard {
			return c
		}
		if ahead++; ahead == l.width {
			return nil
		}
	}
	return nil
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
	for !l.done() {
		for open < alpha && l.asked < maxAsked && ctx.Err() == nil {
			c := l.next()
			if c == nil {
				break
			}
			c.state = asking
			l.asked++
			open++
			go func() { answers <- l.put(ctx, c) }()
		}
		if open == 0 {
			break
		}
		l.take(<-answers)
		open--
	}
	cancel()
	for ; open > 0; open-- {
		<-answers // no goroutine outlives the lookup
	}
	r := l.result()
	if len(r.Nearest) == 0 {
		return r, errors.New("no node answers")
	}
	return r, nil
}

// put asks one candidate.
func (l *lookup) put(ctx context.Context, c *candidate) answer {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	began := time.Now()
	a := answer{from: c}
	a.hop.Addr = first(addresses(c.info))
	a.hop.Node, a.err = l.host.Reach(ctx, c.info.ID, addresses(c.info))
	if a.err == nil && c.info.ID != l.sought {
		a.near, a.err = ask(ctx, l.host, c.info.ID, l.key)
	}
	a.hop.Named, a.hop.Took = len(a.near), time.Since(began)
	return a
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
	if a.err != nil {
		c.state = failed
		l.failed++
		return
	}
	c.state = answered
	for _, n := range a.near {
		l.hear(c.info.ID, n)
	}
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
