package overlay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
)

// MeshConfig configures a Mesh.
type MeshConfig struct {
	Incarnation uint64
	Capacity    []byte // published in the list, opaque here; at most members.MaxCapacity
	Seed        uint64
	// Finder finds nodes by lookups; nil: the mesh makes no lookups.
	Finder Finder
	// ListLimit is the number of entries that the member list may have; 0:
	// filch.MaxNodes. Tests hold a list at fewer nodes.
	ListLimit int
	// Events receives every change in the list, in order, on the mesh's own
	// goroutine. Events must not block, and may call any method but Join, Leave and
	// Close.
	Events func(members.Event)
}

// Mesh runs a [members.List] over a Carrier: it is the Network used by a launcher's
// daemon. A mesh is the first of its instance until it joins another.
//
// Frames are delivered only from members in the list, not dead, and of the listed
// incarnation. After the event SelfDead nothing passes until Rejoin.
type Mesh struct {
	Network
	carrier Carrier
	events  func(members.Event)
	start   time.Time
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	known   atomic.Pointer[map[filch.NodeName]uint64] // incarnations to deliver from
	box     mailbox
	joined  chan error // answers Join
	bad     atomic.Uint64
	finding *finding

	mu      sync.RWMutex // for readers; only the loop writes
	members *members.List
}

// mailbox holds the inputs waiting for the loop.
type mailbox struct {
	mu     sync.Mutex
	list   []input
	signal chan struct{} // of capacity 1
}

type input func(now time.Duration, m *members.List, out *members.Out)

// maxInputs bounds the waiting gossip; more is dropped, as a network may.
const maxInputs = 4096

// NewMesh starts a mesh; Close of the mesh closes the carrier too.
func NewMesh(c Carrier, cfg MeshConfig) *Mesh {
	checkCapacity(cfg.Capacity)
	m := &Mesh{Network: c, carrier: c, events: cfg.Events, start: time.Now(), joined: make(chan error, 1)}
	if m.events == nil {
		m.events = func(members.Event) {}
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.box.signal = make(chan struct{}, 1)
	m.finding = newFinding(m, cfg.Finder)
	m.members = members.New(members.Config{Seed: cfg.Seed, Limit: cfg.ListLimit, Self: members.Member{
		Name: c.Name(), Incarnation: cfg.Incarnation, Addrs: []string{c.Addr()}, Capacity: cfg.Capacity,
	}})
	m.known.Store(&map[filch.NodeName]uint64{})
	c.SetHooks(Hooks{
		Card: m.card, Admit: m.admit, Gossip: m.gossip, Deliver: m.deliver, Refused: m.refused,
		Closed: func(n filch.NodeName) {
			m.put(func(now time.Duration, s *members.List, out *members.Out) { s.Closed(now, n, out) })
		},
	})
	c.SetIncarnation(cfg.Incarnation)
	m.wg.Go(m.loop)
	return m
}

func (m *Mesh) put(in input) {
	m.box.mu.Lock()
	m.box.list = append(m.box.list, in)
	m.box.mu.Unlock()
	select {
	case m.box.signal <- struct{}{}:
	default:
	}
}

// do runs an input on the loop and waits until its outputs are carried out.
func (m *Mesh) do(ctx context.Context, in input) error {
	done := make(chan struct{})
	m.put(func(now time.Duration, s *members.List, out *members.Out) {
		in(now, s, out)
		close(done)
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ctx.Done():
		return ErrClosed
	}
}

// loop alone steps the list.
func (m *Mesh) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var out members.Out
	var pinned uint64
	var work []input
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.box.signal:
		case <-timer.C:
		}
		m.box.mu.Lock()
		work, m.box.list = m.box.list, work[:0]
		m.box.mu.Unlock()
		for _, in := range work {
			m.step(in, &out)
		}
		clear(work)
		if m.members.Deadline() <= time.Since(m.start) {
			m.hear()
			m.step(func(now time.Duration, s *members.List, out *members.Out) { s.Tick(now, out) }, &out)
		}
		if v := m.members.RingVersion(); v != pinned {
			pinned = v
			m.carrier.Pin(m.members.Neighbors())
		}
		if d := m.members.Deadline(); d == filch.Never {
			timer.Stop()
		} else {
			timer.Reset(max(d-time.Since(m.start), 0))
		}
	}
}

// hear passes to the list the signs of life found in other frames.
func (m *Mesh) hear() {
	type sign struct {
		name filch.NodeName
		at   time.Duration
	}
	var signs []sign
	for _, n := range append(m.members.Neighbors(), m.members.Contacts.Names()...) {
		if at := m.carrier.Heard(n); !at.IsZero() {
			signs = append(signs, sign{n, at.Sub(m.start)})
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Since(m.start)
	for _, s := range signs {
		m.members.Heard(now, s.name, s.at)
	}
}

// step runs one input and carries out its outputs.
func (m *Mesh) step(in input, out *members.Out) {
	out.Reset()
	m.mu.Lock()
	in(time.Since(m.start), m.members, out)
	m.mu.Unlock()
	m.act(out)
}

func (m *Mesh) act(out *members.Out) {
	for _, e := range out.Events {
		m.follow(e)
		m.events(e)
	}
	for _, p := range out.Probes {
		m.wg.Go(func() {
			err := m.carrier.Probe(m.ctx, p.Name, p.Addrs)
			m.put(func(now time.Duration, s *members.List, out *members.Out) {
				s.Probed(now, p.Name, p.Incarnation, probeResult(err), out)
			})
		})
	}
	for _, s := range out.Sends {
		// A message not sent is lost, as the list expects of a network.
		_ = m.carrier.Send(s.To, Gossip, s.Payload)
	}
}

func probeResult(err error) members.ProbeResult {
	switch {
	case err == nil:
		return members.ProbeOK
	case errors.Is(err, ErrRefused):
		return members.ProbeRefused
	}
	return members.ProbeFailed
}

// follow keeps the carrier in step with the list.
func (m *Mesh) follow(e members.Event) {
	n := e.Member
	switch e.Kind {
	case members.EventUp, members.EventChanged:
		m.carrier.Learn(n.Name, n.Addrs)
	case members.EventDead:
		m.carrier.Cut(n.Name)
	case members.EventForgotten:
		m.carrier.Forget(n.Name)
	case members.SelfJoined:
		m.answer(nil)
	case members.ListPartial:
		m.finding.roam()
	case members.SelfBack:
		m.carrier.SetIncarnation(n.Incarnation)
		return
	case members.SelfDead:
		m.known.Store(&map[filch.NodeName]uint64{})
		return
	}
	if e.Kind != members.EventUp && e.Kind != members.EventDead && e.Kind != members.EventForgotten {
		return
	}
	old := *m.known.Load()
	known := make(map[filch.NodeName]uint64, len(old)+1)
	maps.Copy(known, old)
	if e.Kind == members.EventUp {
		known[n.Name] = n.Incarnation
	} else {
		delete(known, n.Name)
	}
	m.known.Store(&known)
}

func (m *Mesh) answer(err error) {
	select {
	case m.joined <- err:
	default:
	}
}

func (m *Mesh) card() []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.members.Card()
}

func (m *Mesh) deliver(from filch.NodeName, incarnation uint64) bool {
	return (*m.known.Load())[from] == incarnation
}

func (m *Mesh) gossip(from filch.NodeName, incarnation uint64, payload []byte) {
	m.box.mu.Lock()
	full := len(m.box.list) >= maxInputs
	m.box.mu.Unlock()
	if full {
		return
	}
	m.put(func(now time.Duration, s *members.List, out *members.Out) {
		if s.Message(now, from, incarnation, payload, out) != nil {
			m.bad.Add(1)
		}
	})
}

func (m *Mesh) refused(name filch.NodeName, r *Refusal) {
	if r.Code == Stale {
		m.put(func(now time.Duration, s *members.List, out *members.Out) {
			s.Superseded(now, name, r.Incarnation, out)
		})
	}
}

// admit judges a peer: of two holders of a name the later wins, if the earlier no
// longer answers.
func (m *Mesh) admit(ctx context.Context, h Hello) *Refusal {
	card, err := members.Decode(h.Card)
	if err != nil || card.Name != h.Name || card.Incarnation != h.Incarnation {
		return &Refusal{Code: BadHello, Text: "the hello carries no entry of its sender"}
	}
	card.State = members.Alive
	var v members.Verdict
	judge := func(now time.Duration, s *members.List, out *members.Out) {
		if v = s.Admit(card); v.OK {
			s.Met(now, card, out)
		}
	}
	if err := m.do(ctx, judge); err != nil {
		return &Refusal{Code: TooMany, Text: "the launcher is closing or overloaded"}
	}
	if v.Probe {
		if err := m.carrier.Probe(ctx, h.Name, v.Addrs); err != nil {
			err = m.do(ctx, func(now time.Duration, s *members.List, out *members.Out) { s.Met(now, card, out) })
			if err == nil {
				return nil
			}
			return &Refusal{Code: TooMany, Text: "the launcher is closing or overloaded"}
		}
	}
	switch {
	case v.OK:
		return nil
	case v.Stale != 0:
		return &Refusal{
			Code: Stale, Incarnation: v.Stale,
			Text: fmt.Sprintf("node %s is known with incarnation %d, higher than %d", h.Name, v.Stale, h.Incarnation),
		}
	}
	return &Refusal{Code: NameTaken, Text: fmt.Sprintf("the name %s is taken by the node at %s, which answers (this one is at %s)",
		h.Name, first(v.Addrs), first(card.Addrs))}
}

func first(addrs []string) string {
	if len(addrs) == 0 {
		return "an unknown address"
	}
	return addrs[0]
}

// Rejoin comes back after SelfDead; the caller must have reaped everything of the
// old incarnation. The event SelfBack carries the new incarnation, SelfJoined
// announces the arrival of the list.
func (m *Mesh) Rejoin() {
	at := uint64(time.Now().UnixNano())
	m.put(func(now time.Duration, s *members.List, out *members.Out) { s.Rejoin(now, at, out) })
}

// leaveTimeout bounds how long Leave waits for its news to be written.
const leaveTimeout = time.Second

// Leave hands over data kept for others, by handOff if not nil, and announces the
// departure to all neighbors. Close follows.
func (m *Mesh) Leave(ctx context.Context, handOff func(context.Context) error) error {
	var err error
	if handOff != nil {
		err = handOff(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	said := m.do(ctx, func(now time.Duration, s *members.List, out *members.Out) { s.Leave(now, out) })
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for said == nil && m.queued() > 0 {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return err // a peer reads slowly; the others have been informed
		}
	}
	return errors.Join(err, said)
}

func (m *Mesh) queued() int {
	n := 0
	for _, p := range m.carrier.Peers() {
		n += p.Queued
	}
	return n
}

// Drain announces whether this node takes new work; on means no new work.
func (m *Mesh) Drain(on bool) {
	m.put(func(now time.Duration, s *members.List, out *members.Out) { s.Update(now, &on, nil, nil, out) })
}

// checkCapacity panics if other nodes would reject the entry.
func checkCapacity(c []byte) {
	if len(c) > members.MaxCapacity {
		panic(fmt.Sprintf("a capacity of %d bytes, at most %d", len(c), members.MaxCapacity))
	}
}

// SetCapacity replaces this node's capacity in the member list; at most
// members.MaxCapacity bytes.
func (m *Mesh) SetCapacity(c []byte) {
	checkCapacity(c)
	m.put(func(now time.Duration, s *members.List, out *members.Out) { s.Update(now, nil, c, nil, out) })
}

// Stats are the carrier's; malformed gossip counts as hostile.
func (m *Mesh) Stats() Stats {
	s := m.Network.Stats()
	s.Hostile += m.bad.Load()
	return s
}

// Members lists all nodes by name, including this node and the dead and departed.
func (m *Mesh) Members() []members.Member {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.members.All()
}

// Self is this node's own entry.
func (m *Mesh) Self() members.Member {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.members.Self()
}

// Close closes the carrier without announcing a departure.
func (m *Mesh) Close() error {
	m.cancel()
	m.finding.close()
	err := m.carrier.Close()
	m.wg.Wait()
	return err
}
