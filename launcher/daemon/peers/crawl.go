package peers

import (
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/wire"
)

// crawlWait is the time for the answer of one node to a crawl: a lookup may come first.
// crawlLimit is the time after which a crawl asks no more nodes.
const (
	crawlWait  = 3 * time.Second
	crawlLimit = 4 * time.Second
)

// Known returns the nodes that this node knows: members, contacts, and nodes with
// an open connection.
func (a *Questions) Known() []filch.NodeName {
	names := []filch.NodeName{}
	seen := map[filch.NodeName]bool{a.in.Self: true}
	add := func(n filch.NodeName) {
		if !seen[n] {
			seen[n] = true
			names = append(names, n)
		}
	}
	for _, m := range a.nodes.Others() {
		add(m.Name)
	}
	for _, p := range a.net.Peers() {
		add(p.Name)
	}
	return names
}

// everyone returns the live nodes other than this one. While the list of members is not
// whole, everyone asks each known node for the nodes that it knows, until no node names
// a new one or the crawlLimit is over. A node that only another one has named counts once
// the node answers: a name proves nothing.
func (a *Questions) everyone() []Member {
	all := a.nodes.Others()
	if a.net.Whole() {
		return all
	}
	var mu sync.Mutex // guards fresh and seen
	var fresh []filch.NodeName
	seen := map[filch.NodeName]bool{a.in.Self: true}
	add := func(names []filch.NodeName) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range names {
			if !seen[n] && len(seen) < filch.MaxNodes {
				seen[n] = true
				fresh = append(fresh, n)
			}
		}
	}
	for _, m := range all {
		seen[m.Name] = true
		fresh = append(fresh, m.Name)
	}
	add(a.Known())
	tokens := make(chan struct{}, FanOut)
	end := time.Now().Add(crawlLimit)
	for len(fresh) > 0 && time.Now().Before(end) {
		round := fresh
		fresh = nil
		answered := make([]bool, len(round))
		var wg sync.WaitGroup
		for i, n := range round {
			tokens <- struct{}{}
			if !time.Now().Before(end) {
				<-tokens
				break
			}
			wg.Go(func() {
				defer func() { <-tokens }()
				var names []filch.NodeName
				if a.Ask(n, crawlWait, wire.Query{Verb: wire.VerbKnown}, &names) == nil {
					answered[i] = true
					add(names)
				}
			})
		}
		wg.Wait()
		for i, n := range round {
			if _, known := a.nodes.Find(n); !known && answered[i] {
				all = append(all, Member{Peer: node.Peer{Name: n}})
			}
		}
	}
	return all
}
