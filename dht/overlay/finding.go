package overlay

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
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
	slots  chan struct{}                                    // of capacity maxSearches
	active atomic.Int32                                     // searches that run; spares Send the mutex while there are none
	tell   atomic.Pointer[func(to filch.NodeName, c Class)] // see Network.SetWritable

	mu      sync.Mutex
	open    map[filch.NodeName]*search
	bytes   int // of the frames of all searches
	roaming bool
	closed  bool
}

// search is the lookup of one node, and the frames that wait for its end. Until all of
// them are in the carrier's queues, later frames to the node wait behind them: a Handler
// takes the frames of a class in the order of sending.
type search struct {
	frames  []heldFrame
	bytes   int              // of frames, and of the frames being handed to the carrier
	handing bool             // frames are being handed to the carrier
	full    [NumClasses]bool // a frame was refused with ErrFull
	more    chan struct{}    // of capacity 1: a frame came
	done    chan struct{}    // closed at the end
	ended   time.Time        // zero while the lookup runs
}

type heldFrame struct {
	class   Class
	payload []byte
}

// size is the memory of a held frame.
func (h heldFrame) size() int { return len(h.payload) + heldCost }

// The limits of lookups for frames.
const (
	maxSearches = 4       // run at the same time
	maxOpen     = 256     // nodes being searched, or searched in vain a short while ago
	maxHeld     = 1 << 20 // bytes of frames that wait for one lookup
	// maxHeldAll bounds the bytes of frames that wait for all lookups together: a larger
	// frame waits only if no other does.
	maxHeldAll  = 16 << 20
	heldCost    = 64 // bytes counted for a held frame beside its payload
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
// the node. If too many bytes wait, Send returns ErrFull, and the function of SetWritable
// is called when the lookup has ended.
func (m *Mesh) Send(to filch.NodeName, c Class, payload []byte) error {
	if m.finding.active.Load() > 0 {
		if _, held, err := m.finding.behind(to, c, payload); held {
			return err
		}
	}
	err := m.carrier.Send(to, c, payload)
	if errors.Is(err, ErrUnreachable) {
		if held, full := m.finding.hold(to, c, payload); held {
			return full
		}
	}
	return err
}

// SendWait implements Network.
func (m *Mesh) SendWait(ctx context.Context, to filch.NodeName, c Class, payload []byte) error {
	for m.finding.active.Load() > 0 {
		done, held, err := m.finding.behind(to, c, payload)
		if held && err == nil {
			return nil
		}
		if !held {
			break
		}
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := m.carrier.SendWait(ctx, to, c, payload)
	if errors.Is(err, ErrUnreachable) && m.finding.leads(ctx, to) {
		return m.carrier.SendWait(ctx, to, c, payload)
	}
	return err
}

// SetWritable implements Network.
func (m *Mesh) SetWritable(f func(to filch.NodeName, c Class)) {
	m.finding.tell.Store(&f)
	m.carrier.SetWritable(f)
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

// hold keeps a frame until a lookup of the receiver ends, and begins the lookup. Held is
// false if the frame is lost: the last lookup failed a short while ago. The error is
// ErrFull if too many bytes wait; then the lookup runs all the same.
func (f *finding) hold(to filch.NodeName, c Class, payload []byte) (held bool, err error) {
	if !f.worth(to) {
		return false, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.open[to]
	switch {
	case f.closed:
		return false, nil
	case s == nil && len(f.open) >= maxOpen:
		f.tidy()
		if len(f.open) >= maxOpen {
			return false, nil
		}
	case s != nil && s.ended.IsZero():
		return true, f.add(s, c, payload)
	case s != nil && time.Since(s.ended) < searchPause:
		return false, nil
	}
	s = &search{more: make(chan struct{}, 1), done: make(chan struct{})}
	f.open[to] = s
	f.active.Add(1)
	f.mesh.wg.Go(func() { f.search(to, s) })
	return true, f.add(s, c, payload)
}

// behind puts a frame behind the frames that wait for a lookup of the receiver; held is
// false if no frame waits. Done is closed at the end of the lookup.
func (f *finding) behind(to filch.NodeName, c Class, payload []byte) (done <-chan struct{}, held bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.open[to]
	if s == nil || !s.ended.IsZero() || len(s.frames) == 0 && !s.handing {
		return nil, false, nil
	}
	return s.done, true, f.add(s, c, payload)
}

// add keeps a frame for a running search; the mutex is held.
func (f *finding) add(s *search, c Class, payload []byte) error {
	h := heldFrame{c, payload}
	if s.bytes > 0 && s.bytes+h.size() > maxHeld || f.bytes > 0 && f.bytes+h.size() > maxHeldAll {
		s.full[c] = true
		return ErrFull
	}
	h.payload = append([]byte(nil), payload...)
	s.frames = append(s.frames, h)
	s.bytes += h.size()
	f.bytes += h.size()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return nil
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

// search looks for a node and sends the frames held for the node. A node that connects by
// itself meanwhile gets the frames at once.
func (f *finding) search(to filch.NodeName, s *search) {
	found := make(chan bool, 1)
	f.mesh.wg.Go(func() { found <- f.look(to) })
	for {
		select {
		case <-s.more:
			if slices.ContainsFunc(f.mesh.carrier.Peers(), func(p Peer) bool { return p.Name == to }) {
				f.hand(to, s)
			}
		case ok := <-found:
			if ok {
				f.hand(to, s)
			}
			f.end(to, s, ok)
			return
		}
	}
}

// look reports whether a lookup leads to a node. If the process of a listed node has
// ended, the failure detector says so soon, and there is nothing to find.
func (f *finding) look(to filch.NodeName) bool {
	if f.listed(to) {
		select {
		case <-time.After(movedAfter):
		case <-f.mesh.ctx.Done():
		}
	}
	return f.leads(f.mesh.ctx, to)
}

// hand gives held frames to the carrier, in order, until none is left.
func (f *finding) hand(to filch.NodeName, s *search) {
	for {
		f.mu.Lock()
		frames := s.frames
		s.frames, s.handing = nil, len(frames) > 0
		f.mu.Unlock()
		if len(frames) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(f.mesh.ctx, searchWait)
		n := 0
		for _, h := range frames {
			// A frame not sent is lost, as a network may lose any frame.
			_ = f.mesh.carrier.SendWait(ctx, to, h.class, h.payload)
			n += h.size()
		}
		cancel()
		f.mu.Lock()
		s.bytes -= n
		f.bytes -= n
		f.mu.Unlock()
	}
}

// end ends a search. Frames that came since the last call of hand are sent now, and frames
// to a node not found are lost.
func (f *finding) end(to filch.NodeName, s *search, found bool) {
	f.mu.Lock()
	for found && len(s.frames) > 0 {
		f.mu.Unlock()
		f.hand(to, s)
		f.mu.Lock()
	}
	f.bytes -= s.bytes
	s.frames, s.bytes, s.ended = nil, 0, time.Now()
	if found {
		delete(f.open, to)
	}
	f.active.Add(-1)
	close(s.done)
	full := s.full
	f.mu.Unlock()
	if tell := f.tell.Load(); tell != nil {
		for c, was := range full {
			if was {
				(*tell)(to, Class(c))
			}
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
	if err != nil && !errors.Is(err, ErrUnfinished) {
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
