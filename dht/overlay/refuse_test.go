package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/multiformats/go-multistream"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

func wait(t testing.TB) context.Context {
	ctx, cancel := contextFor(networktest.Patience)
	t.Cleanup(cancel)
	return ctx
}

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// Each reason not to be admitted reaches the dialer as its own code and words.
func TestHostRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		tune func(*overlay.Config)
		code overlay.Code
		text string
	}{
		{"wrong-secret", func(c *overlay.Config) { c.Secret = []byte("another secret of enough bytes") }, overlay.WrongSecret, "the secret of node stranger is not the one"},
		{"other-instance", func(c *overlay.Config) { c.Instance = "another" }, overlay.WrongInstance, "of instance another, the other one of another that has the same secret"},
		{"other-version", func(c *overlay.Config) { c.Version = 7 }, overlay.WrongVersion, fmt.Sprintf("that dialed speaks wire version 7, the one that it dialed %d", overlay.WireVersion)},
		{"other-instance-and-secret", func(c *overlay.Config) {
			c.Instance, c.Secret = "another", []byte("another secret of enough bytes")
		}, overlay.WrongInstance, "different instances and have different secrets"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed, stranger := newHost(t, "seed"), newHost(t, "stranger", c.tune)
			_, err := stranger.Dial(wait(t), seed.Addr())
			var r *overlay.Refusal
			if !errors.As(err, &r) || r.Code != c.code || !strings.Contains(r.Text, c.text) {
				t.Errorf("got %v, want code %d and %q", err, c.code, c.text)
			}
			networktest.Eventually(t, "the refusal is counted", func() bool { return seed.Stats().Refused == 1 })
			if n := len(seed.Peers()); n != 0 {
				t.Errorf("the seed has %d peers, want none", n)
			}
		})
	}
}

// Launchers of wire version 1 begin with multistream at once, and know nothing
// of the gate. Either side says which versions met, without a wait.
func TestHostRefusesLaunchersWithoutAGate(t *testing.T) {
	const proto = "/tls/1.0.0"
	h := newHost(t, "h")
	t.Run("that-dials", func(t *testing.T) {
		c, err := net.Dial("tcp", h.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(networktest.Patience))
		err = multistream.SelectProtoOrFail(proto, c)
		if want := fmt.Sprintf("the launcher that dialed speaks wire version 1, the one that it dialed %d", overlay.WireVersion); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it got %v, want %q", err, want)
		}
		c.Close()
		networktest.Eventually(t, "the refusal is counted", func() bool { return h.Stats().Refused == 1 })
	})
	t.Run("that-is-dialed", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		mux := multistream.NewMultistreamMuxer[string]()
		mux.AddHandler(proto, nil)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.SetDeadline(time.Now().Add(networktest.Patience))
				go func() {
					defer c.Close()
					mux.Negotiate(c)
				}()
			}
		}()
		start := time.Now()
		_, err = h.Dial(wait(t), l.Addr().String())
		var r *overlay.Refusal
		if want := fmt.Sprintf("the launcher that dialed speaks wire version %d, the one that it dialed 1", overlay.WireVersion); !errors.As(err, &r) || r.Code != overlay.WrongVersion || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if d := time.Since(start); d > overlay.ProbeTimeout {
			t.Errorf("that took %v", d)
		}
	})
}

func TestHostRefusesBadConfig(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  overlay.Config
		want string
	}{
		{"name", overlay.Config{Instance: "i", Secret: secret, Name: "a/b"}, "letters"},
		{"secret", overlay.Config{Instance: "i", Secret: []byte("short"), Name: "a"}, "5 bytes"},
		{"instance", overlay.Config{Secret: secret, Name: "a"}, "instance"},
		{"port", overlay.Config{Instance: "i", Secret: secret, Name: "a", Listen: "127.0.0.1:99999"}, "65535"},
		{"interface", overlay.Config{Instance: "i", Secret: secret, Name: "a", Listen: "no-such-interface:0"}, "no address, interface or host name"},
		{"foreign-address", overlay.Config{Instance: "i", Secret: secret, Name: "a", Listen: "192.0.2.1:0"}, "no interface of this machine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := overlay.NewHost(c.cfg)
			if err == nil {
				h.Close()
				t.Fatal("got a host, want an error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, want %q in it", err, c.want)
			}
		})
	}
}

func TestHostSaysThatThePortIsTaken(t *testing.T) {
	a := newHost(t, "a")
	_, err := overlay.NewHost(overlay.Config{Instance: instance, Secret: secret, Name: "b", Listen: a.Addr()})
	var e *filch.Error
	if !errors.As(err, &e) || !strings.Contains(e.Text, a.Addr()+": the port is taken") || e.Hint == "" {
		t.Errorf("got %v, want that the port is taken, and a hint", err)
	}
}

func TestHostListensOnAnInterface(t *testing.T) {
	h := newHost(t, "a", func(c *overlay.Config) { c.Listen = "lo:0" })
	if host, _, _ := net.SplitHostPort(h.Addr()); host != "127.0.0.1" {
		t.Errorf("got address %s, want one of lo", h.Addr())
	}
	all := newHost(t, "b", func(c *overlay.Config) { c.Listen = ":0"; c.Advertise = "127.0.0.1" })
	if _, err := h.Dial(wait(t), all.Addr()); err != nil {
		t.Errorf("dial of a host on all interfaces: %v", err)
	}
}

// Whatever a stranger sends, the host goes on, and serves it nothing.
func TestHostSurvivesStrangers(t *testing.T) {
	h, friend := newHost(t, "h"), newHost(t, "friend")
	for _, junk := range []string{"", "GET / HTTP/1.1\r\n\r\n", "\x13/multistream/1.0.0\n\x0b/tls/1.0.0\n\x16\x03\x01\xff\xff", strings.Repeat("\xff", 100_000)} {
		c, err := net.Dial("tcp", h.Addr())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(networktest.Patience))
		c.Write([]byte(junk))
		c.(*net.TCPConn).CloseWrite()
		buf := make([]byte, 64<<10)
		for {
			if _, err := c.Read(buf); err != nil {
				break
			}
		}
		c.Close()
	}
	if name, err := friend.Dial(wait(t), h.Addr()); err != nil || name != "h" {
		t.Errorf("after the strangers a friend got %q, %v", name, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
			c.Close()
		}
	}()
	if _, err := h.Dial(wait(t), l.Addr().String()); err == nil || !strings.Contains(err.Error(), "no launcher of filch answers") {
		t.Errorf("dial of an ssh server: got %v, want that it is no launcher", err)
	}
}
