// Package networktest holds the tests for every implementation of overlay.Carrier.
//
// Run takes a function making carriers able to dial each other; Run makes fresh
// carriers for every test and closes them.
package networktest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
)

// Patience bounds every wait of these tests.
const Patience = 20 * time.Second

// Make makes a carrier of the given name, of one instance per test.
type Make func(t *testing.T, name filch.NodeName) overlay.Carrier

// Run runs all tests; fabric is called again for each test.
func Run(t *testing.T, fabric func(t *testing.T) Make) {
	for _, c := range []struct {
		name string
		f    func(*testing.T, Make)
	}{
		{"delivers-in-order", testOrder},
		{"delivers-both-ways-at-once", testBothWays},
		{"refuses-what-cannot-go", testRefuses},
		{"comes-back-to-itself", testSelf},
		{"pushes-back", testPushesBack},
		{"classes-do-not-wait-for-each-other", testClasses},
		{"holds-frames-until-there-is-a-handler", testLateHandler},
		{"dial-tells-who-answers", testDial},
		{"probe-proves-the-name", testProbe},
		{"cut-tells-both-ends", testCut},
		{"admission-is-asked", testAdmit},
		{"own-refusal-is-no-refusal", testOwnRefusal},
		{"incarnation-is-told", testIncarnation},
		{"hears-at-once-after-a-restart", testRestart},
		{"delivers-large-frames", testLarge},
		{"close-is-final", testClose},
		{"close-under-a-held-frame", testCloseUnderAFrame},
	} {
		t.Run(c.name, func(t *testing.T) { c.f(t, fabric(t)) })
	}
}

// Eventually polls until f holds.
func Eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	Within(t, Patience, what, f)
}

// Within polls until f holds, for at most d.
func Within(t testing.TB, d time.Duration, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(d)
	for !f() {
		if time.Now().After(end) {
			t.Fatalf("still not after %v: %s", d, what)
		}
		<-tick.C
	}
}

// Sink collects frames.
type Sink struct {
	mu     sync.Mutex
	frames [][]byte
	from   []filch.NodeName
}

// Take is a Handler.
func (s *Sink) Take(from filch.NodeName, _ overlay.Class, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames, s.from = append(s.frames, b), append(s.from, from)
}

// Len is the number of frames so far.
func (s *Sink) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.frames)
}

// All returns the frames so far.
func (s *Sink) All() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames[:len(s.frames):len(s.frames)]
}

// pair makes two carriers knowing each other's address.
func pair(t *testing.T, mk Make, ha, hb overlay.Hooks) (a, b overlay.Carrier) {
	a, b = mk(t, "a"), mk(t, "b")
	a.SetHooks(ha)
	b.SetHooks(hb)
	a.Learn("b", []string{b.Addr()})
	b.Learn("a", []string{a.Addr()})
	t.Cleanup(func() { closeIt(t, a); closeIt(t, b) })
	return a, b
}

func closeIt(t *testing.T, c overlay.Carrier) {
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func ctxFor(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

func number(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }

func testOrder(t *testing.T, mk Make) {
	a, b := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	var s Sink
	b.SetHandler(s.Take)
	const n = 5000
	for i := range n {
		if err := a.SendWait(ctxFor(t), "b", overlay.Control, number(i)); err != nil {
			t.Fatalf("send %d: %v", i, err)
		}
	}
	Eventually(t, "all frames arrive", func() bool { return s.Len() == n })
	for i, f := range s.All() {
		if got := int(binary.BigEndian.Uint32(f)); got != i {
			t.Fatalf("frame %d arrived in place %d", got, i)
		}
	}
	st := a.Stats().Class[overlay.Control]
	if st.FramesOut != n || st.BytesOut != 4*n {
		t.Errorf("got %d frames and %d bytes out, want %d and %d", st.FramesOut, st.BytesOut, n, 4*n)
	}
	if st := b.Stats().Class[overlay.Control]; st.FramesIn != n || st.BytesIn != 4*n {
		t.Errorf("got %d frames and %d bytes in, want %d and %d", st.FramesIn, st.BytesIn, n, 4*n)
	}
	if b.Heard("a").IsZero() {
		t.Error("got no sign of life from a, want one")
	}
}

func testBothWays(t *testing.T, mk Make) {
	a, b := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	var sa, sb Sink
	a.SetHandler(sa.Take)
	b.SetHandler(sb.Take)
	const n = 300
	var wg sync.WaitGroup
	send := func(from overlay.Carrier, to filch.NodeName) {
		for i := range n {
			if err := from.SendWait(ctxFor(t), to, overlay.Metadata, number(i)); err != nil {
				t.Errorf("send to %s: %v", to, err)
				return
			}
		}
	}
	wg.Go(func() { send(a, "b") })
	wg.Go(func() { send(b, "a") })
	wg.Wait()
	Eventually(t, "both get all", func() bool { return sa.Len() == n && sb.Len() == n })
	for i, f := range sa.All() {
		if got := int(binary.BigEndian.Uint32(f)); got != i {
			t.Fatalf("frame %d arrived in place %d", got, i)
		}
	}
}

func testRefuses(t *testing.T, mk Make) {
	a, _ := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	if err := a.Send("nobody", overlay.Control, nil); !errors.Is(err, overlay.ErrUnreachable) {
		t.Errorf("to nobody: got %v, want %v", err, overlay.ErrUnreachable)
	}
	big := make([]byte, overlay.ClassLimits[overlay.Bulk].Frame+1)
	if err := a.Send("b", overlay.Bulk, big); !errors.Is(err, overlay.ErrTooLarge) {
		t.Errorf("too large: got %v, want %v", err, overlay.ErrTooLarge)
	}
	if err := a.Send("b", overlay.NumClasses, nil); err == nil {
		t.Error("unknown class: got no error, want one")
	}
}

func testSelf(t *testing.T, mk Make) {
	a, _ := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	var s Sink
	a.SetHandler(s.Take)
	if err := a.Send("a", overlay.Control, []byte("me")); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the frame comes back", func() bool { return s.Len() == 1 })
	if got := string(s.All()[0]); got != "me" {
		t.Errorf("got %q, want %q", got, "me")
	}
}

func testPushesBack(t *testing.T, mk Make) {
	a, b := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	gate := make(chan struct{})
	var s Sink
	b.SetHandler(func(from filch.NodeName, c overlay.Class, p []byte) {
		<-gate
		s.Take(from, c, p)
	})
	var told sync.WaitGroup
	told.Add(1)
	var once sync.Once
	a.SetWritable(func(to filch.NodeName, c overlay.Class) {
		if to == "b" && c == overlay.Bulk {
			once.Do(told.Done)
		}
	})
	sent, frame := 0, make([]byte, 256<<10)
	Eventually(t, "the queue is full", func() bool {
		err := a.Send("b", overlay.Bulk, append(number(sent), frame...))
		if err == nil {
			sent++
			return false
		}
		return errors.Is(err, overlay.ErrFull)
	})
	if limit := 64; sent > limit*4 {
		t.Errorf("got %d frames of 256 KiB accepted for a reader that reads nothing, want at most %d MiB", sent, limit)
	}
	waited := make(chan error, 1)
	go func() { waited <- a.SendWait(ctxFor(t), "b", overlay.Bulk, append(number(sent), frame...)) }()
	short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := a.SendWait(short, "b", overlay.Bulk, frame); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's end", err)
	}
	close(gate)
	told.Wait()
	if err := <-waited; err != nil {
		t.Errorf("SendWait: %v", err)
	}
	Eventually(t, "everything accepted arrives", func() bool { return s.Len() == sent+1 })
	for i, f := range s.All() {
		if got := int(binary.BigEndian.Uint32(f)); got != i {
			t.Fatalf("frame %d arrived in place %d", got, i)
		}
	}
}

func testClasses(t *testing.T, mk Make) {
	a, b := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	gate := make(chan struct{})
	var s Sink
	b.SetHandler(func(from filch.NodeName, c overlay.Class, p []byte) {
		if c == overlay.Bulk {
			<-gate
		}
		s.Take(from, c, p)
	})
	for range 8 {
		if err := a.Send("b", overlay.Bulk, make([]byte, 100<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Send("b", overlay.Control, []byte("now")); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "control passes bulk", func() bool { return s.Len() == 1 })
	close(gate)
	Eventually(t, "bulk follows", func() bool { return s.Len() == 9 })
}

func testLateHandler(t *testing.T, mk Make) {
	a, b := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	if err := a.Send("b", overlay.Control, []byte("early")); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the connection is there", func() bool { return len(b.Peers()) == 1 })
	var s Sink
	b.SetHandler(s.Take)
	Eventually(t, "the early frame arrives", func() bool { return s.Len() == 1 })
}

func testDial(t *testing.T, mk Make) {
	a, b := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	a.Forget("b")
	name, err := a.Dial(ctxFor(t), b.Addr())
	if err != nil || name != "b" {
		t.Fatalf("got %q, %v, want b", name, err)
	}
	if _, err := a.Dial(ctxFor(t), gone(t, mk)); err == nil {
		t.Error("dial of an address where nobody is: got no error, want one")
	}
	var r *overlay.Refusal
	c := mk(t, "b")
	c.SetHooks(overlay.OpenHooks())
	defer closeIt(t, c)
	if _, err := c.Dial(ctxFor(t), b.Addr()); !errors.As(err, &r) || r.Code != overlay.NameTaken {
		t.Errorf("dial of a node of the same name: got %v, want a refusal", err)
	}
}

// gone returns an address formerly used by a node.
func gone(t *testing.T, mk Make) string {
	c := mk(t, "gone")
	c.SetHooks(overlay.OpenHooks())
	addr := c.Addr()
	closeIt(t, c)
	return addr
}

func testProbe(t *testing.T, mk Make) {
	a, b := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	if err := a.Probe(ctxFor(t), "b", []string{b.Addr()}); err != nil {
		t.Errorf("of b: %v", err)
	}
	if err := a.Probe(ctxFor(t), "c", []string{b.Addr()}); err == nil {
		t.Error("of c at b's address: got no error, want one")
	}
	if err := a.Probe(ctxFor(t), "gone", []string{gone(t, mk)}); err == nil {
		t.Error("of a node that is gone: got no error, want one")
	}
}

func testCut(t *testing.T, mk Make) {
	closed := make(chan filch.NodeName, 16)
	ha, hb := overlay.OpenHooks(), overlay.OpenHooks()
	ha.Closed = func(n filch.NodeName) { closed <- n }
	hb.Closed = func(n filch.NodeName) { closed <- n }
	a, b := pair(t, mk, ha, hb)
	var s Sink
	b.SetHandler(s.Take)
	if err := a.Send("b", overlay.Control, []byte("1")); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the frame arrives", func() bool { return s.Len() == 1 })
	a.Cut("b")
	seen := map[filch.NodeName]bool{}
	for len(seen) < 2 {
		select {
		case n := <-closed:
			seen[n] = true
		case <-time.After(Patience):
			t.Fatalf("got Closed for %v only, want a and b", seen)
		}
	}
	Eventually(t, "a frame passes over a new connection", func() bool {
		return a.Send("b", overlay.Control, []byte("2")) == nil
	})
	Eventually(t, "the frame arrives", func() bool { return s.Len() >= 2 })
}

func testAdmit(t *testing.T, mk Make) {
	ha, hb := overlay.OpenHooks(), overlay.OpenHooks()
	ha.Card = func() []byte { return []byte("card of a") }
	got := make(chan overlay.Hello, 16)
	hb.Admit = func(_ context.Context, h overlay.Hello) *overlay.Refusal {
		got <- h
		return &overlay.Refusal{Code: overlay.Stale, Text: "too old", Incarnation: 77}
	}
	a, b := pair(t, mk, ha, hb)
	_, err := a.Dial(ctxFor(t), b.Addr())
	var r *overlay.Refusal
	if !errors.As(err, &r) || r.Code != overlay.Stale || r.Incarnation != 77 || r.Text != "too old" {
		t.Fatalf("got %v, want the refusal that b made", err)
	}
	if h := <-got; h.Name != "a" || string(h.Card) != "card of a" {
		t.Errorf("b was asked about %+v, want a and its card", h)
	}
	Eventually(t, "no connection is left", func() bool { return len(a.Peers()) == 0 && len(b.Peers()) == 0 })
}

// A dialer refusing to admit the dialed node was not refused itself.
func testOwnRefusal(t *testing.T, mk Make) {
	ha := overlay.OpenHooks()
	ha.Admit = func(context.Context, overlay.Hello) *overlay.Refusal {
		return &overlay.Refusal{Code: overlay.Stale, Text: "too old", Incarnation: 77}
	}
	ha.Refused = func(n filch.NodeName, r *overlay.Refusal) { t.Errorf("told that %s refused: %v", n, r) }
	a, b := pair(t, mk, ha, overlay.OpenHooks())
	_, err := a.Dial(ctxFor(t), b.Addr())
	var r *overlay.Refusal
	if err == nil || errors.As(err, &r) {
		t.Errorf("got %v, want an error that is no refusal", err)
	}
	if err := a.Send("b", overlay.Control, nil); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the frame is dropped", func() bool { return a.Stats().Class[overlay.Control].Lost == 1 })
}

func testIncarnation(t *testing.T, mk Make) {
	type frame struct {
		inc uint64
		p   string
	}
	got := make(chan frame, 16)
	hb := overlay.OpenHooks()
	hb.Gossip = func(_ filch.NodeName, inc uint64, p []byte) { got <- frame{inc, string(p)} }
	hb.Deliver = func(_ filch.NodeName, inc uint64) bool { return inc == 1000 }
	a, b := pair(t, mk, overlay.OpenHooks(), hb)
	var s Sink
	b.SetHandler(s.Take)
	for _, inc := range []uint64{900, 1000} {
		a.SetIncarnation(inc)
		if err := a.Send("b", overlay.Control, fmt.Append(nil, inc)); err != nil {
			t.Fatal(err)
		}
		if err := a.Send("b", overlay.Gossip, []byte("g")); err != nil {
			t.Fatal(err)
		}
		select {
		case f := <-got:
			if f.inc != inc || f.p != "g" {
				t.Errorf("got %+v, want incarnation %d", f, inc)
			}
		case <-time.After(Patience):
			t.Fatal("no gossip arrived")
		}
	}
	Eventually(t, "a frame is delivered", func() bool { return s.Len() > 0 })
	if f := s.All()[0]; string(f) != "1000" {
		t.Errorf("got a frame of incarnation %s, want only 1000's", f)
	}
}

// A node begins anew. The process has read none of the streams that ended with the last one, and
// must not wait for them.
func testRestart(t *testing.T, mk Make) {
	a := mk(t, "a")
	a.SetHooks(overlay.OpenHooks())
	defer closeIt(t, a)
	for life := range 3 {
		b := mk(t, "b")
		b.SetHooks(overlay.OpenHooks())
		var s Sink
		b.SetHandler(s.Take)
		a.Learn("b", []string{b.Addr()})
		began := time.Now()
		Eventually(t, "the frame is taken", func() bool { return a.Send("b", overlay.Control, []byte("x")) == nil })
		Eventually(t, "the frame arrives", func() bool { return s.Len() > 0 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("life %d of b heard a after %v, want at once", life, took)
		}
		closeIt(t, b)
		Eventually(t, "a has no connection to b", func() bool { return len(a.Peers()) == 0 })
	}
}

func testLarge(t *testing.T, mk Make) {
	a, b := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	var s Sink
	b.SetHandler(s.Take)
	big := make([]byte, overlay.ClassLimits[overlay.Control].Frame)
	big[len(big)-1] = 7
	if err := a.Send("b", overlay.Control, big); err != nil {
		t.Fatal(err)
	}
	if err := a.Send("b", overlay.Control, nil); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "both frames arrive", func() bool { return s.Len() == 2 })
	if f := s.All()[0]; len(f) != len(big) || f[len(f)-1] != 7 {
		t.Errorf("got %d bytes, want %d unharmed", len(f), len(big))
	}
	if f := s.All()[1]; len(f) != 0 {
		t.Errorf("got %d bytes, want an empty frame", len(f))
	}
}

func testClose(t *testing.T, mk Make) {
	a, b := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	if err := a.Send("b", overlay.Control, []byte("x")); err != nil {
		t.Fatal(err)
	}
	closeIt(t, a)
	if err := a.Send("b", overlay.Control, nil); !errors.Is(err, overlay.ErrClosed) {
		t.Errorf("got %v, want %v", err, overlay.ErrClosed)
	}
	Eventually(t, "b sees it go", func() bool { return len(b.Peers()) == 0 })
}

// A node that holds a frame, since it has no handler, does not hold up the end of the sender.
func testCloseUnderAFrame(t *testing.T, mk Make) {
	a, b := pair(t, mk, overlay.OpenHooks(), overlay.OpenHooks())
	if err := a.Send("b", overlay.Control, []byte("x")); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "b has a connection", func() bool { return len(b.Peers()) == 1 })
	closeIt(t, a)
}
