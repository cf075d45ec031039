package overlay

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
)

// finding is the part of a Mesh that goes beyond the member list: lookups find a node
// that the list lacks, and a listed node that is no longer at its address. Without a
// Finder there are no lookups.
type finding struct {
	mesh   *Mesh
	finder Finder
	slots  chan struct{} // of capacity maxSearches

	mu      sync.Mutex
	open    map[filch.NodeName]*search
	roaming bool
	closed  bool
}

// search is the lookup of one node, and the frames that wait for its end.
type search struct {
	frames []heldFrame
	bytes  int
	ended  time.Time // zero while the lookup runs
}

type heldFrame struct {
	class   Class
	payload []byte
}

// The limits of lookups for frames.
const (
	maxSearches = 4       // run at the same time
	maxOpen     = 256     // nodes being searched, or searched in vain a short while ago
	maxHeld     = 1 << 20 // bytes of frames that wait for one lookup
	searchPause = 5 * time.Second
	searchWait  = 10 * time.Second // with the wait for a slot
	movedAfter  = 2 * time.Second  // from a failure to reach a listed node to the lookup
	// roamEvery is the mean time from one lookup of a random key to the next, while the
	// list is not whole: each lookup meets a few more nodes. The times vary, so that
	// nodes that began together do not look at once.
	roamEvery = 2 * time.Minute
	// joinLate is how long the list may take before a joining node looks for other
	// nodes to ask.
	joinLate = time.Second
)

func newFinding(m *Mesh, f Finder) *finding {
	return &finding{mesh: m, finder: f, slots: make(chan struct{}, maxSearches), open: map[filch.NodeName]*search{}}
}

// Send implements Network. A frame to a node without a known way waits for a lookup of
// the node.
func (m *Mesh) Send(to filch.NodeName, c Class, payload []byte) error {
	err := m.carrier.Send(to, c, payload)
	if errors.Is(err, ErrUnreachable) && m.finding.hold(to, c, payload) {
		return nil
	}
	return err
}

// SendWait implements Network.
func (m *Mesh) SendWait(ctx context.Context, to filch.NodeName, c Class, payload []byte) error {
	err := m.carrier.SendWait(ctx, to, c, payload)
	if errors.Is(err, ErrUnreachable) && m.finding.leads(ctx, to) {
		return m.carrier.SendWait(ctx, to, c, payload)
	}
	return err
}

// FindNode looks for a node. See [Finder].
func (m *Mesh) FindNode(ctx context.Context, name filch.NodeName) (Lookup, error) {
	if m.finding.finder == nil {
		return Lookup{}, errNoFinder
	}
	return m.finding.finder.FindNode(ctx, name)
}

// FindKey looks for the nodes nearest to a key. See [Finder].
func (m *Mesh) FindKey(ctx context.Context, key string) (Lookup, error) {
	if m.finding.finder == nil {
		return Lookup{}, errNoFinder
	}
	return m.finding.finder.FindKey(ctx, key)
}

var errNoFinder = errors.New("this launcher makes no lookups")

// Whole reports whether the member list has a place for every node that this node has
// heard of.
func (m *Mesh) Whole() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.members.Contacts.Whole()
}

// SetListLimit changes the number of entries that the member list may have; for tests.
func (m *Mesh) SetListLimit(n int) {
	m.put(func(now time.Duration, s *members.List, out *members.Out) {
		s.Contacts.SetLimit(n)
		s.Tick(now, out)
	})
}

// worth reports whether a lookup of a node makes sense. A whole list without the node,
// or with the node's end, is the better answer.
func (f *finding) worth(name filch.NodeName) bool {
	if f.finder == nil || name == f.mesh.Name() {
		return false
	}
	m := f.mesh
	m.mu.RLock()
	defer m.mu.RUnlock()
	state, known := m.members.Find(name)
	return known && state < members.Gone || !known && !m.members.Contacts.Whole()
}

// listed reports whether the node is a member or a contact.
func (f *finding) listed(name filch.NodeName) bool {
	f.mesh.mu.RLock()
	defer f.mesh.mu.RUnlock()
	_, known := f.mesh.members.Find(name)
	return known
}

// hold keeps a frame until a lookup of the receiver ends, and begins the lookup. hold
// reports false if the frame is lost: the last lookup failed a short while ago.
func (f *finding) hold(to filch.NodeName, c Class, payload []byte) bool {
	if !f.worth(to) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.open[to]
	switch {
	case f.closed:
		return false
	case s == nil && len(f.open) >= maxOpen:
		f.tidy()
		if len(f.open) >= maxOpen {
			return false
		}
	case s != nil && s.ended.IsZero():
		if s.bytes+len(payload) > maxHeld {
			return false
		}
		s.add(c, payload)
		return true
	case s != nil && time.Since(s.ended) < searchPause:
		return false
	}
	s = &search{}
	s.add(c, payload)
	f.open[to] = s
	f.mesh.wg.Go(func() { f.search(to, s) })
	return true
}

func (s *search) add(c Class, payload []byte) {
	s.frames = append(s.frames, heldFrame{c, append([]byte(nil), payload...)})
	s.bytes += len(payload)
}

// close makes the finding begin nothing more.
func (f *finding) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// tidy forgets searches that ended long enough ago.
func (f *finding) tidy() {
	for name, s := range f.open {
		if !s.ended.IsZero() && time.Since(s.ended) >= searchPause {
			delete(f.open, name)
		}
	}
}

// search looks for a node and sends the frames held for the node. If the process of a
// listed node has ended, the failure detector says so soon, and there is nothing to find.
func (f *finding) search(to filch.NodeName, s *search) {
	if f.listed(to) {
		select {
		case <-time.After(movedAfter):
		case <-f.mesh.ctx.Done():
		}
	}
	found := f.leads(f.mesh.ctx, to)
	f.mu.Lock()
	held := s.frames
	s.frames, s.bytes, s.ended = nil, 0, time.Now()
	if found {
		delete(f.open, to)
	}
	f.mu.Unlock()
	for _, h := range held {
		if found {
			// A frame not sent is lost, as a network may lose any frame.
			_ = f.mesh.carrier.Send(to, h.class, h.payload)
		}
	}
}

// leads reports whether a lookup leads to a node. A connection to the node is open
// then.
func (f *finding) leads(ctx context.Context, to filch.NodeName) bool {
	if !f.worth(to) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, searchWait)
	defer cancel()
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-ctx.Done():
		return false
	}
	_, err := f.finder.FindNode(ctx, to)
	return err == nil
}

// prime asks the first contacts of a joining node for the nodes near to this node.
func (f *finding) prime(ctx context.Context, via []filch.NodeName) {
	if f.finder == nil {
		return
	}
	for _, name := range via[:min(len(via), 2)] {
		f.mesh.wg.Go(func() { _ = f.finder.Prime(ctx, name) })
	}
}

// near looks for the nodes nearest to this node, and returns the nodes that answered.
func (f *finding) near(ctx context.Context) []filch.NodeName {
	if f.finder == nil {
		return nil
	}
	r, err := f.finder.FindNear(ctx)
	if err != nil {
		return nil
	}
	var out []filch.NodeName
	for _, c := range r.Nearest {
		if c.Node != f.mesh.Name() {
			out = append(out, c.Node)
		}
	}
	return out
}

// patience is how long a joining node waits for the list in the first round.
func (f *finding) patience(first bool) time.Duration {
	if first && f.finder != nil {
		return joinLate
	}
	return joinRound
}

// roam meets more nodes while the list is not whole: first the nodes nearest to this
// node, then nodes near to random keys.
func (f *finding) roam() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.finder == nil || f.roaming || f.closed {
		return
	}
	f.roaming = true
	m := f.mesh
	m.wg.Go(func() {
		f.near(m.ctx)
		for !m.Whole() {
			select {
			case <-time.After(roamEvery/2 + rand.N(roamEvery)):
				_, _ = f.finder.FindKey(m.ctx, strconv.FormatUint(rand.Uint64(), 36))
			case <-m.ctx.Done():
				return
			}
		}
		f.mu.Lock()
		f.roaming = false
		f.mu.Unlock()
		if !m.Whole() {
			f.roam() // the news came before roaming was false
		}
	})
}
