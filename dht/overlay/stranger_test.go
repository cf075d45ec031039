package overlay_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/multiformats/go-multistream"

	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

// offer is a dialer's first frame, of which nothing shows that it is a
// stranger's, and forged a proof, of which everything does.
func offer() []byte {
	b := append([]byte("filch\x00"), 0, overlay.WireVersion)
	return append(b, random(64)...)
}

func forged() []byte { return random(32) }

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// flood is what strangers got of a launcher.
type flood struct {
	addr             string
	streams, secured atomic.Int64
}

// stranger goes as far as it is let, and keeps what it got until the launcher
// ends it: one that speaks libp2p at once, one that passes for a member at first,
// one that sends whatever it can, one that says half of what it should, and one
// that says nothing.
func (f *flood) stranger(t *testing.T, kind, streams int) {
	c, err := net.Dial("tcp", f.addr)
	if err != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(networktest.Patience))
	switch kind {
	case 1:
		c.Write(offer())
		io.ReadFull(c, make([]byte, 120))
		c.Write(forged())
	case 2:
		c.Write(offer())
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	case 3:
		c.Write(offer()[:50])
		io.Copy(io.Discard, c)
		return
	case 4:
		io.Copy(io.Discard, c)
		return
	}
	if multistream.SelectProtoOrFail(libp2ptls.ID, io.ReadWriteCloser(c)) != nil {
		return
	}
	key, _, err := crypto.GenerateEd25519Key(nil)
	if err != nil {
		t.Error(err)
		return
	}
	tls, err := libp2ptls.New(libp2ptls.ID, key, []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}})
	if err != nil {
		t.Error(err)
		return
	}
	sc, err := tls.SecureOutbound(t.Context(), c, "")
	if err != nil {
		return
	}
	f.secured.Add(1)
	mux, err := yamux.DefaultTransport.NewConn(sc, false, nil)
	if err != nil {
		return
	}
	defer mux.Close()
	for range streams {
		s, err := mux.OpenStream(t.Context())
		if err != nil {
			return
		}
		lazy := multistream.NewMSSelect(s, "/filch/control/1")
		if _, err := lazy.Write(make([]byte, 250_000)); err != nil {
			return
		}
		f.streams.Add(1)
	}
	if s, err := mux.AcceptStream(); err == nil {
		io.Copy(io.Discard, s)
	}
}

// attacked is a launcher in a process of its own, and where it listens.
func attacked(t *testing.T) (*process, *flood) {
	t.Helper()
	all := realCluster(t, 1)
	p := spawn(t, "victim", all[0].addr)
	settle(t, all, 2)
	for _, m := range all[0].Members() {
		if m.Name == p.name {
			return p, &flood{addr: m.Addrs[0]}
		}
	}
	t.Fatal("the victim is no member")
	return nil, nil
}

// Strangers get no TLS, no stream and next to no memory of a launcher, and what
// they had is gone soon.
func TestStrangersCostNoMemory(t *testing.T) {
	const strangers, streams, mostKB = 80, 64, 10 << 10
	p, f := attacked(t)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Fatal(err) // it sets the peak to what the process has
	}
	before := status(t, p, "VmHWM")
	var wg sync.WaitGroup
	for i := range strangers {
		wg.Go(func() { f.stranger(t, i%5, streams) })
	}
	wg.Wait()
	grown := status(t, p, "VmHWM") - before
	t.Logf("figure: %d strangers with %d streams each: %d got TLS, %d streams, the launcher grew by %.1f MB",
		strangers, streams, f.secured.Load(), f.streams.Load(), float64(grown)/1024)
	if f.secured.Load() != 0 || f.streams.Load() != 0 || grown > mostKB {
		t.Errorf("%d strangers got TLS and %d streams, and the launcher grew by %d KiB, want none, none and at most %d KiB",
			f.secured.Load(), f.streams.Load(), grown, mostKB)
	}
	if err := newHost(t, "friend").Probe(wait(t), p.name, []string{f.addr}); err != nil {
		t.Errorf("a probe after that: %v", err)
	}
}

// Strangers that come all the time, and go as far as they are let, cost next to
// no CPU. In its small size the test allows for a machine that is busy with
// others.
func TestStrangersCostNoCPU(t *testing.T) {
	const rate = 50
	span, most := 4*time.Second, 0.05
	if os.Getenv("FILCH_PROOF") != "" {
		span, most = 20*time.Second, 0.02
	}
	p, f := attacked(t)
	var wg sync.WaitGroup
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	start, before := time.Now(), total(t, []*process{p})
	n := 0
	for ; time.Since(start) < span; n++ {
		<-tick.C
		kind := n % 2
		wg.Go(func() { f.stranger(t, kind, 1) })
	}
	share := (total(t, []*process{p}) - before).Seconds() / time.Since(start).Seconds()
	wg.Wait()
	t.Logf("figure: %d strange connections in %v cost %.2f %% of a core", n, span, 100*share)
	if n < int(span.Seconds())*rate/2 || share > most {
		t.Errorf("%d strange connections cost %.2f %% of a core, want %d and at most %.0f %%", n, 100*share, int(span.Seconds())*rate, 100*most)
	}
}
