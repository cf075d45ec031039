package overlay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// Join makes this node a member of the instance to which one of the addresses
// belongs, and returns when the whole list is here. It is called once, before
// anything is sent.
func (m *Mesh) Join(ctx context.Context, addrs ...string) error {
	if err := m.do(ctx, func(_ time.Duration, s *dht.Members, _ *dht.MembersOut) { s.Apart() }); err != nil {
		return err
	}
	for {
		via, err := m.contacts(ctx, addrs)
		if err != nil {
			return err
		}
		select {
		case err := <-m.joined: // the list came meanwhile
			return err
		default:
		}
		if err := m.do(ctx, func(now time.Duration, s *dht.Members, out *dht.MembersOut) { s.Join(now, via, out) }); err != nil {
			return err
		}
		t := time.NewTimer(joinRound)
		select {
		case err := <-m.joined:
			t.Stop()
			return err
		case <-t.C: // those who answered may have gone since
		case <-m.ctx.Done():
			return ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("cannot join through %s: the member list did not come: %w", via[0], ctx.Err())
		}
	}
}

// joinRound is how long the list may take before the addresses are tried anew.
const joinRound = 4 * time.Second

// The pause between rounds of dials to join: it doubles from the first to the
// last.
const (
	joinPauseMin = 50 * time.Millisecond
	joinPauseMax = time.Second
)

// contacts names the members that answer at the addresses. Silence is tried
// again until ctx ends, since a whole cluster may be starting at once; a
// refusal is final.
func (m *Mesh) contacts(ctx context.Context, addrs []string) ([]filch.NodeName, error) {
	if len(addrs) == 0 {
		return nil, errors.New("cannot join: no address of another node was given")
	}
	for pause := joinPauseMin; ; pause = min(2*pause, joinPauseMax) {
		via, final, err := m.dialAll(ctx, addrs)
		if len(via) > 0 {
			return via, nil
		}
		if final {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// joinFan is how many addresses are tried at once, and joinMore how long one that
// answered waits for others: one that hangs must not hold up those that do not.
const (
	joinFan  = 16
	joinMore = 100 * time.Millisecond
)

// dialAll tries each address once, until some have answered. The error is final
// when somebody refused, or when only this node itself answered.
func (m *Mesh) dialAll(ctx context.Context, addrs []string) (via []filch.NodeName, final bool, why error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		addr string
		name filch.NodeName
		err  error
	}
	answers, turns := make(chan answer, len(addrs)), make(chan struct{}, joinFan)
	for _, a := range addrs {
		go func() {
			turns <- struct{}{}
			name, err := m.carrier.Dial(ctx, a)
			<-turns
			answers <- answer{a, name, err}
		}()
	}
	var newer uint64 // the incarnation that this node is known with, where that is newer
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

// dialNewer dials once more with a higher incarnation: the clock went backwards
// since this node was last seen.
func (m *Mesh) dialNewer(ctx context.Context, addrs []string, seen uint64) ([]filch.NodeName, bool, error) {
	if err := m.do(ctx, func(_ time.Duration, s *dht.Members, _ *dht.MembersOut) { s.Raise(seen + 1) }); err != nil {
		return nil, true, err
	}
	m.carrier.SetIncarnation(seen + 1)
	return m.dialAll(ctx, addrs)
}
