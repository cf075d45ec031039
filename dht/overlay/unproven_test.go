// In package overlay, since it is not exported.
package overlay

import (
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// caller is a connection from somewhere.
type caller struct {
	net.Conn
	from   string
	closed bool
}

func (c *caller) RemoteAddr() net.Addr {
	a, err := net.ResolveTCPAddr("tcp", c.from)
	if err != nil {
		panic(err)
	}
	return a
}

func (c *caller) Close() error {
	c.closed = true
	return nil
}

func TestUnprovenDropsTheOldestOfItsSource(t *testing.T) {
	const most = 8
	u := newUnproven()
	u.most = most
	other := &caller{from: "10.0.0.2:1"}
	u.add(other)
	var all []*caller
	for i := range most {
		c := &caller{from: fmt.Sprintf("10.0.0.1:%d", i+1)}
		all = append(all, c)
		u.add(c)
	}
	for i, c := range all {
		if want := i < most-most/sourceShare; c.closed != want {
			t.Errorf("connection %d of the source: closed %v, want %v", i, c.closed, want)
		}
	}
	if other.closed {
		t.Error("the one of another source was closed")
	}
}

// One who has proved itself, or has gone, takes no place of others.
func TestUnprovenCountsTheUnprovenOnly(t *testing.T) {
	u := newUnproven()
	u.most = 8
	first := &caller{from: "10.0.0.1:1"}
	u.add(first)
	for i := range 100 {
		c := &caller{from: fmt.Sprintf("10.0.0.1:%d", i+2)}
		p := u.add(c)
		u.remove(p)
		u.remove(p)
		if c.closed {
			t.Fatalf("connection %d was closed", i)
		}
	}
	if first.closed || u.all.Len() != 1 || len(u.sources) != 1 {
		t.Errorf("the first is closed: %v, %d of %d sources are left, want the first only", first.closed, u.all.Len(), len(u.sources))
	}
}

// Strangers with many addresses take the places of the oldest, and there are
// never more than there may be.
func TestUnprovenDropsTheOldestOfAll(t *testing.T) {
	u := newUnproven()
	u.most = 8
	var all []*caller
	for i := range 100 {
		c := &caller{from: fmt.Sprintf("10.0.%d.1:1", i)}
		all = append(all, c)
		u.add(c)
		if n := u.all.Len(); n != min(i+1, u.most) || len(u.sources) != n {
			t.Fatalf("%d connections of %d sources after %d came, at most %d", n, len(u.sources), i+1, u.most)
		}
	}
	for i, c := range all {
		if want := i < len(all)-u.most; c.closed != want {
			t.Errorf("connection %d: closed %v, want %v", i, c.closed, want)
		}
	}
}

// Where the system has no descriptor for one more, the oldest gives its own.
func TestUnprovenSparesOne(t *testing.T) {
	u := newUnproven()
	u.spare()
	first, second := &caller{from: "10.0.0.1:1"}, &caller{from: "10.0.0.2:1"}
	u.add(first)
	u.add(second)
	if u.spare(); !first.closed || second.closed {
		t.Errorf("closed %v and %v, want the first only", first.closed, second.closed)
	}
}

func TestUnprovenSources(t *testing.T) {
	for _, c := range []struct{ addr, want string }{
		{"10.0.0.1:5", "10.0.0.1/32"},
		{"[::ffff:10.0.0.1]:5", "10.0.0.1/32"},
		{"[2001:db8:1:2:3::4]:5", "2001:db8:1:2::/64"},
		{"[fe80::1%lo]:5", "fe80::/64"},
		{"127.3.2.1:5", "127.0.0.0/8"},
	} {
		if got := sourceOf((&caller{from: c.addr}).RemoteAddr()).String(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.addr, got, c.want)
		}
	}
}

func TestUnprovenCloses(t *testing.T) {
	u := newUnproven()
	c, late := &caller{from: "10.0.0.1:1"}, &caller{from: "10.0.0.1:2"}
	p := u.add(c)
	u.close()
	if u.add(late); !c.closed || !late.closed || u.all.Len() != 0 {
		t.Errorf("closed %v and %v, %d left, want both and none", c.closed, late.closed, u.all.Len())
	}
	u.remove(p)
}

// A stranger that sends its offer byte by byte, or nothing, is gone when the
// time for a proof is over.
func TestListenerEndsSlowStrangers(t *testing.T) {
	for _, pause := range []time.Duration{time.Second, time.Minute} {
		t.Run(pause.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &listener{host: &Host{gate: memberGate(t, "b")}, unproven: newUnproven()}
				drip, c := net.Pipe()
				start := time.Now()
				l.begin(c)
				done := make(chan struct{})
				go func() {
					defer close(done)
					for _, b := range append(l.host.gate.head(), make([]byte, offerSize)...) {
						time.Sleep(pause)
						if _, err := drip.Write([]byte{b}); err != nil {
							return
						}
					}
				}()
				if _, err := io.Copy(io.Discard, drip); err != nil {
					t.Fatal(err)
				}
				l.wg.Wait()
				took := time.Since(start)
				<-done
				if took != proofTimeout {
					t.Errorf("it was ended after %v, want %v", took, proofTimeout)
				}
				if l.unproven.all.Len() != 0 || l.host.count.refused.Load() != 1 {
					t.Errorf("%d are left and %d refused, want none and one", l.unproven.all.Len(), l.host.count.refused.Load())
				}
			})
		})
	}
}
