package overlay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
)

// Join makes this node a member of the instance found at the addresses, and returns
// when the whole list has arrived. Join is called once, before any send.
func (m *Mesh) Join(ctx context.Context, addrs ...string) error {
	if err := m.do(ctx, func(_ time.Duration, s *members.List, _ *members.Out) { s.Apart() }); err != nil {
		return err
	}
	return m.join(ctx, addrs)
}

// JoinAgain is Join of a former member. All members may have ended at once: if all
// answering nodes want the list, one of them begins it. Two nodes unaware of each
// other may both begin a list. So each node then looks for known nodes missing from
// the list.
func (m *Mesh) JoinAgain(ctx context.Context, addrs ...string) error {
	if err := m.do(ctx, func(now time.Duration, s *members.List, _ *members.Out) { s.ApartAgain(now) }); err != nil {
		return err
	}
	if err := m.join(ctx, addrs); err != nil {
		return err
	}
	m.Seek(addrs...)
	return nil
}

func (m *Mesh) join(ctx context.Context, addrs []string) error {
	began := time.Now()
	took, err := m.enter(ctx, addrs)
	if err != nil && took != "" && ctx.Err() != nil {
		return fmt.Errorf("cannot join through %s: the node took this one in, but no member list came; tried for %v; end or continue its launcher, or join through another node",
			took, time.Since(began).Round(time.Second))
	}
	return err
}

// enter returns the last node that took this node in, if any.
func (m *Mesh) enter(ctx context.Context, addrs []string) (took filch.NodeName, err error) {
	for first := true; ; first = false {
		// The nodes at the addresses may have ended: go on with nodes found by a
		// lookup, if the nodes at the addresses have named any.
		var via []filch.NodeName
		if !first {
			via = m.finding.near(ctx)
		}
		if len(via) == 0 {
			if via, err = m.contacts(ctx, addrs); err != nil || len(via) == 0 {
				return took, err
			}
		}
		took = via[0]
		if first {
			m.finding.prime(ctx, via)
		}
		if err := m.do(ctx, func(now time.Duration, s *members.List, out *members.Out) { s.Join(now, via, out) }); err != nil {
			return took, err
		}
		t := time.NewTimer(m.finding.patience(first))
		select {
		case err := <-m.joined:
			t.Stop()
			return took, err
		case <-t.C: // the nodes reached may have gone since
		case <-m.ctx.Done():
			return took, ErrClosed
		case <-ctx.Done():
			return took, ctx.Err()
		}
	}
}

// Seek looks, in the background, for nodes at addresses used by nodes earlier:
// these nodes may have a list without this node, since this node began its own list
// without reaching them. Seek gives up nodes silent for [members.ForgetAfter].
func (m *Mesh) Seek(addrs ...string) {
	m.wg.Go(func() {
		end := time.Now().Add(members.ForgetAfter)
		for pause := seekPauseMin; len(addrs) > 0 && time.Now().Before(end); pause = min(2*pause, seekPauseMax) {
			select {
			case <-time.After(pause):
			case <-m.ctx.Done():
				return
			}
			addrs = slices.DeleteFunc(slices.Clone(addrs), m.met)
		}
	})
}

// met reports whether the node at an address need not be sought any more, being in
// the list. If the node answers and is not in the list, met starts a merge of the
// two nodes' lists.
func (m *Mesh) met(addr string) bool {
	listed := func(is func(*members.Member) bool) bool {
		return slices.ContainsFunc(m.Members(), func(n members.Member) bool { return !n.State.Over() && is(&n) })
	}
	if listed(func(n *members.Member) bool { return slices.Contains(n.Addrs, addr) }) {
		return true
	}
	ctx, cancel := context.WithTimeout(m.ctx, joinRound)
	defer cancel()
	name, err := m.carrier.Dial(ctx, addr)
	if err != nil {
		var r *Refusal
		return errors.As(err, &r) && r.Code != TooMany // of no use to this node
	}
	if listed(func(n *members.Member) bool { return n.Name == name }) {
		return true
	}
	return m.do(ctx, func(now time.Duration, s *members.List, out *members.Out) { s.Meet(now, name, out) }) != nil
}

// The pause between rounds of looking for others doubles from the first to the last.
const (
	seekPauseMin = time.Second
	seekPauseMax = time.Minute
)

// joinRound is how long the list may take before the addresses are tried again.
const joinRound = 4 * time.Second

// The pause between rounds of dials to join: it doubles from the first to the
// last.
const (
	joinPauseMin = 50 * time.Millisecond
	joinPauseMax = time.Second
)

// contacts names the members answering at the addresses; none if the list has
// arrived meanwhile. Silence is tried again until ctx ends, since a whole cluster
// may be starting at once; a refusal is final.
func (m *Mesh) contacts(ctx context.Context, addrs []string) ([]filch.NodeName, error) {
	if len(addrs) == 0 {
		return nil, errors.New("cannot join: no address of another node was given")
	}
	began := time.Now()
	for pause := joinPauseMin; ; pause = min(2*pause, joinPauseMax) {
		via, final, err := m.dialAll(ctx, addrs)
		select {
		case err := <-m.joined:
			return nil, err
		default:
		}
		if len(via) > 0 {
			return via, nil
		}
		if final {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case err := <-m.joined: // through a node which found this node
			return nil, err
		case <-ctx.Done():
			if errors.Is(err, errHung) {
				err = fmt.Errorf("%w; tried for %v; end or continue that process, or join through another node", err, time.Since(began).Round(time.Second))
			}
			return nil, err
		}
	}
}

// joinFan is how many addresses are tried at once. A hanging address must not hold up the
// others: after joinSlow the next address is tried, too, and joinMore is the wait for more
// answers after the first.
const (
	joinFan  = 16
	joinSlow = 2 * time.Second
	joinMore = 100 * time.Millisecond
)

// dialAll tries each address once, until some have answered. The error is final if
// a node refused, or if only this node itself answered.
func (m *Mesh) dialAll(ctx context.Context, addrs []string) (via []filch.NodeName, final bool, why error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		addr string
		name filch.NodeName
		err  error
	}
	answers, turns := make(chan answer, len(addrs)), make(chan struct{}, joinFan)
	go func() {
		for _, a := range addrs {
			turns <- struct{}{}
			go func() {
				slow := time.AfterFunc(joinSlow, func() { <-turns })
				name, err := m.carrier.Dial(ctx, a)
				if slow.Stop() {
					<-turns
				}
				answers <- answer{a, name, err}
			}()
		}
	}()
	var newer uint64 // the highest incarnation of this node known to others, if newer
	var enough <-chan time.Time
	silent := false
	for range addrs {
		var a answer
		select {
		case a = <-answers:
		case <-enough:
			return via, false, nil
		}
		var r *Refusal
		switch {
		case errors.As(a.err, &r) && r.Code == Stale:
			newer = max(newer, r.Incarnation)
		case a.err == nil && a.name != m.Name() && !slices.Contains(via, a.name):
			if via = append(via, a.name); enough == nil {
				enough = time.After(joinMore)
			}
		case a.err == nil:
		default:
			refused := errors.As(a.err, &r) && r.Code != TooMany
			final, silent = final || refused, silent || !refused
			why = errors.Join(why, fmt.Errorf("cannot join through %s: %w", a.addr, a.err))
		}
	}
	if newer > 0 {
		return m.dialNewer(ctx, addrs, newer)
	}
	if why == nil && len(via) == 0 {
		why = fmt.Errorf("cannot join: only this node itself answers at %s", strings.Join(addrs, ", "))
	}
	return via, final || !silent, why
}

// dialNewer dials again with a higher incarnation: the clock has gone backwards
// since this node was last seen.
func (m *Mesh) dialNewer(ctx context.Context, addrs []string, seen uint64) ([]filch.NodeName, bool, error) {
	if err := m.do(ctx, func(_ time.Duration, s *members.List, _ *members.Out) { s.Raise(seen + 1) }); err != nil {
		return nil, true, err
	}
	m.carrier.SetIncarnation(seen + 1)
	return m.dialAll(ctx, addrs)
}
