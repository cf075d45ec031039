package scale

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/testbed/rig"
)

// said is what strangers begin with: all that a dialer could say without the
// secret, half of it, what launchers of wire version 1 say, nothing that makes
// sense, and nothing.
func said() [][]byte {
	offer := binary.BigEndian.AppendUint16([]byte("filch\x00"), overlay.WireVersion)
	offer = append(offer, make([]byte, 64+32)...)
	rand.Read(offer[8:])
	return [][]byte{offer, offer[:40], []byte("\x13/multistream/1.0.0\n\x0b/tls/1.0.0\n"), []byte("GET / HTTP/1.1\r\n\r\n"), nil}
}

// besiege connects to an address so many times a second until ctx ends. Each
// connection is held for as long as the launcher lets it. It returns how many
// there were.
func besiege(ctx context.Context, addr string, rate int) (n int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	start := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var d net.Dialer
	for {
		select {
		case <-ctx.Done():
			return n
		case <-tick.C:
		}
		for ; n < int(time.Since(start).Seconds()*float64(rate)); n++ {
			say := said()[n%5]
			wg.Go(func() {
				c, err := d.DialContext(ctx, "tcp", addr)
				if err != nil {
					return
				}
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				c.Write(say)
				io.Copy(io.Discard, c)
			})
		}
	}
}

// TestLaunchersJoinAmongStrangers brings an instance up, while strangers come to
// the launcher through which all others join, and from the same address as
// those.
func TestLaunchersJoinAmongStrangers(t *testing.T) {
	const rate = 500
	nodes, most := rig.Sized(16, 64), rig.Sized(time.Minute, 20*time.Second)
	w := built(t)
	t.Setenv("FILCH_HOME", w.dir+"/home")
	home, err := place.HomeOf("scale")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	came := make(chan int, 1)
	go func() {
		// The first launcher has written it before any other is started.
		for ctx.Err() == nil {
			if c, err := home.ReadContact(); err == nil && len(c.Addrs) > 0 {
				came <- besiege(ctx, c.Addrs[0], rate)
				return
			}
			time.Sleep(time.Millisecond)
		}
		came <- 0
	}()
	start := time.Now()
	out, err := w.up(nodes, 1).CombinedOutput()
	took := time.Since(start)
	stop()
	n := <-came
	if err != nil {
		t.Fatalf("filch up --nodes %d among %d strange connections: %v\n%s", nodes, n, err, out)
	}
	t.Logf("figure: %d launchers are up after %.1f s, with %d strange connections meanwhile", nodes, took.Seconds(), n)
	if took > most {
		t.Errorf("%d launchers were up after %v, want at most %v", nodes, took, most)
	}
	if n < nodes {
		t.Errorf("%d strange connections came, want %d a second", n, rate)
	}
}
