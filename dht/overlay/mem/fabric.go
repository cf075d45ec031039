// Package mem is an overlay in memory: for tests of anything on top of a Network,
// also under testing/synctest.
//
// A [Fabric] joins the nodes made by its Node method. Faults are injected on the
// Fabric: cut links, stalled nodes, delay. The nodes keep the promises of package
// overlay about order, bounds, back-pressure and errors, and pass the same
// conformance tests as the real host.
package mem

import (
	"fmt"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
)

// Fabric is the network between the nodes of one process.
type Fabric struct {
	mu    sync.Mutex
	nodes map[string]*Node // by address
	links map[link]bool    // true: frames from one to the other are dropped
	stall map[string]chan struct{}
	delay time.Duration
	next  int
}

type link struct{ from, to string }

// NewFabric returns a network without nodes, faults or delay.
func NewFabric() *Fabric {
	return &Fabric{nodes: map[string]*Node{}, links: map[link]bool{}, stall: map[string]chan struct{}{}}
}

// SetDelay makes every frame take d from one node to another.
func (f *Fabric) SetDelay(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = d
}

// Cut drops frames and dials in both directions between two nodes, given by
// address, until Heal.
func (f *Fabric) Cut(a, b string) { f.set(a, b, true) }

// CutOneWay drops only the frames from one node to the other.
func (f *Fabric) CutOneWay(from, to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links[link{from, to}] = true
}

// Heal undoes Cut and CutOneWay.
func (f *Fabric) Heal(a, b string) { f.set(a, b, false) }

func (f *Fabric) set(a, b string, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cut {
		f.links[link{a, b}], f.links[link{b, a}] = true, true
		return
	}
	delete(f.links, link{a, b})
	delete(f.links, link{b, a})
}

// Stall makes a node look stopped: frames to and from it are held, dials of it
// wait, until Resume.
func (f *Fabric) Stall(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stall[addr] == nil {
		f.stall[addr] = make(chan struct{})
	}
}

// Resume undoes Stall; held frames and dials go on.
func (f *Fabric) Resume(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.stall[addr]; c != nil {
		close(c)
		delete(f.stall, addr)
	}
}

// Node adds a node under a fresh address.
func (f *Fabric) Node(name filch.NodeName, incarnation uint64) *Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	n := newNode(f, name, incarnation, fmt.Sprintf("mem:%d", f.next))
	f.nodes[n.addr] = n
	return n
}

// route looks up a destination: the node there, whether the link is cut, the delay
// of a frame, and a channel to wait on while either end is stalled.
func (f *Fabric) route(from, to string) (n *Node, cut bool, delay time.Duration, stalled chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stalled = f.stall[from]
	if stalled == nil {
		stalled = f.stall[to]
	}
	return f.nodes[to], f.links[link{from, to}], f.delay, stalled
}

func (f *Fabric) remove(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, addr)
}

var _ overlay.Carrier = (*Node)(nil)
