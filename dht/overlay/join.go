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

// dialAll tries each address once. The error is final when somebody refused,
// or when only this node itself answered.
func (m *Mesh) dialAll(ctx context.Context, addrs []string) (via []filch.NodeName, final bool, why error) {
	silent := false
	for _, a := range addrs {
		name, err := m.dialToJoin(ctx, a)
		var r *Refusal
		switch {
		case errors.As(err, &r) && r.Code != TooMany:
			final = true
			why = errors.Join(why, fmt.Errorf("cannot join through %s: %w", a, err))
		case err != nil:
			silent = true
			why = errors.Join(why, fmt.Errorf("cannot join through %s: %w", a, err))
		case name != m.Name() && !slices.Contains(via, name):
			via = append(via, name)
		}
	}
	if why == nil && len(via) == 0 {
		why = fmt.Errorf("cannot join: only this node itself answers at %s", strings.Join(addrs, ", "))
	}
	return via, final || !silent, why
}

// dialToJoin dials once more with a higher incarnation when the clock went
// backwards since this node was last seen.
func (m *Mesh) dialToJoin(ctx context.Context, addr string) (filch.NodeName, error) {
	name, err := m.carrier.Dial(ctx, addr)
	var r *Refusal
	if !errors.As(err, &r) || r.Code != Stale {
		return name, err
	}
	inc := r.Incarnation + 1
	if err := m.do(ctx, func(_ time.Duration, s *dht.Members, _ *dht.MembersOut) { s.Raise(inc) }); err != nil {
		return "", err
	}
	m.carrier.SetIncarnation(inc)
	return m.carrier.Dial(ctx, addr)
}
