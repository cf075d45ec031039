package mem_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/mem"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	networktest.Run(t, func(*testing.T) networktest.Make {
		f := mem.NewFabric()
		return func(_ *testing.T, name filch.NodeName) overlay.Carrier { return f.Node(name, 1) }
	})
}

// In a bubble time is the test's: a frame takes exactly the delay, a stalled
// node costs a probe exactly the dial timeout.
func TestFabricKeepsFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		f.SetDelay(time.Millisecond)
		a, b := f.Node("a", 1), f.Node("b", 1)
		a.Learn("b", []string{b.Addr()})
		got := make(chan time.Time, 1)
		b.SetHandler(func(filch.NodeName, overlay.Class, []byte) { got <- time.Now() })
		start := time.Now()
		if err := a.Send("b", overlay.Control, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if took := (<-got).Sub(start); took != 2*time.Millisecond {
			t.Errorf("dial and frame took %v, want 2ms", took)
		}
		f.Stall(b.Addr())
		start = time.Now()
		if err := a.Probe(t.Context(), "b", []string{b.Addr()}); err == nil {
			t.Error("probe of a stalled node: got no error, want one")
		}
		if took := time.Since(start); took != mem.DialTimeout {
			t.Errorf("the probe took %v, want %v", took, mem.DialTimeout)
		}
		if err := a.Send("b", overlay.Control, []byte("y")); err != nil {
			t.Fatal(err)
		}
		f.Resume(b.Addr())
		<-got
		a.Close()
		b.Close()
	})
}
