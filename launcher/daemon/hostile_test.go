package daemon

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// stream is bytes as they come over a client's link.
func stream(t *testing.T, k wire.Kind, body []byte) []byte {
	t.Helper()
	b, err := wire.AppendFrame(nil, k, 1, body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func helloBytes(t *testing.T) []byte {
	t.Helper()
	b, err := wire.EncodeHello(wire.Hello{Role: "client"})
	if err != nil {
		t.Fatal(err)
	}
	return stream(t, wire.KindHello, b)
}

func TestHostileClientsAreTurnedAway(t *testing.T) {
	r := start(t, testConfig(t))
	otherVersion := helloBytes(t)
	otherVersion[9+6] = 77
	bomb := []byte{0xdd, 0x3f, 0xff, 0xff, 0xff}
	for name, c := range map[string]struct {
		bytes []byte
		said  string
	}{
		"another-protocol": {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "refused"},
		"another-version":  {otherVersion, fmt.Sprintf("version 77, this is version %d", wire.Version)},
		"no-hello":         {stream(t, wire.KindQuery, bomb), "not hello"},
		"bomb":             {append(helloBytes(t), stream(t, wire.KindSubmit, bomb)...), "msgpack refused"},
		"deep":             {append(helloBytes(t), stream(t, wire.KindQuery, bytes.Repeat([]byte{0x91}, 100000))...), "nested deeper"},
		"oversized":        {append(helloBytes(t), binary.BigEndian.AppendUint32(nil, 1<<31)...), "cut"},
		"unknown-kind":     {append(helloBytes(t), 0, 0, 0, 5, 240, 0, 0, 0, 0), "unknown kind"},
		"a-keeper's-frame": {append(helloBytes(t), stream(t, wire.KindKeeperDone, []byte{0xc0})...), "does not send keeper-done"},
		"a-node's-frame":   {append(helloBytes(t), stream(t, wire.KindMessageRenew, []byte{0xc0})...), "does not send"},
		"short-stdin":      {append(helloBytes(t), stream(t, wire.KindStdin, []byte{1})...), "stdin refused"},
	} {
		t.Run(name, func(t *testing.T) {
			before := r.in.Watch.Count(watch.FramesBad)
			sock, err := net.Dial("unix", r.cfg.Dir.Socket())
			if err != nil {
				t.Fatal(err)
			}
			defer sock.Close()
			if _, err := sock.Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			if name == "oversized" {
				sock.(*net.UnixConn).CloseWrite()
			}
			_ = sock.SetReadDeadline(time.Now().Add(10 * time.Second))
			said, err := io.ReadAll(sock)
			if err != nil {
				t.Fatal(err)
			}
			if name != "oversized" && !strings.Contains(string(said), c.said) {
				t.Errorf("got %q, want %q", said, c.said)
			}
			poll(t, "the refusal to be counted", func() bool { return name == "oversized" || r.in.Watch.Count(watch.FramesBad) > before })
		})
	}
	if o := r.run(1, "true"); o.ended.Code != 0 {
		t.Errorf("afterwards: got %+v", o.ended)
	}
}

// A client that connects and says nothing holds up nobody and is let go.
func TestSilentClientsHoldUpNobody(t *testing.T) {
	r := start(t, testConfig(t))
	for range 100 {
		sock, err := net.Dial("unix", r.cfg.Dir.Socket())
		if err != nil {
			t.Fatal(err)
		}
		defer sock.Close()
	}
	if o := r.run(1, "true"); o.ended.Code != 0 {
		t.Errorf("got %+v", o.ended)
	}
}

func TestHostileNodesAreCounted(t *testing.T) {
	r := start(t, testConfig(t))
	relay := func(k wire.Kind, body []byte) []byte {
		p, err := wire.Payload(wire.KindRelay, 5, wire.Relay{Attempt: 1, Kind: k}.Head(nil), body)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, b := range map[string][]byte{
		"nothing":            {},
		"unknown-kind":       {200, 0, 0, 0, 0},
		"bomb":               append([]byte{byte(wire.KindMessageAsk), 0, 0, 0, 0}, 0xdd, 0x3f, 0xff, 0xff, 0xff),
		"client's-frame":     append([]byte{byte(wire.KindSubmit), 0, 0, 0, 0}, 0xc0),
		"relay-of-a-start":   {byte(wire.KindRelay), 0, 0, 0, 5, 0, 0, 0, 1, byte(wire.KindStart)},
		"relay-cut-short":    {byte(wire.KindRelay), 0, 0, 0, 5, 0},
		"query-of-a-million": append([]byte{byte(wire.KindAsk), 0, 0, 0, 0}, bytes.Repeat([]byte{0x91}, 1<<18)...),
	} {
		t.Run(name, func(t *testing.T) {
			before := r.in.Watch.Count(watch.FramesBad)
			class := overlay.Control
			if len(b) > 0 && wire.Kind(b[0]) == wire.KindRelay {
				class = overlay.Bulk
			}
			r.inbound.receive("n9", class, b)
			if r.in.Watch.Count(watch.FramesBad) != before+1 {
				t.Error("it was not counted")
			}
		})
	}
	// A kind on a stream of another class.
	before := r.in.Watch.Count(watch.FramesBad)
	r.inbound.receive("n9", overlay.Gossip, relay(wire.KindOutput, wire.Output{Stream: 1}.Head(nil)))
	if r.in.Watch.Count(watch.FramesBad) != before+1 {
		t.Error("a relay on the stream of gossip was not counted")
	}
	// Of a job that is not known here: no fault, and no effect.
	r.inbound.receive("n9", overlay.Bulk, relay(wire.KindOutput, wire.Output{Stream: 1}.Head(nil)))
	if o := r.run(1, "true"); o.ended.Code != 0 {
		t.Errorf("afterwards: got %+v", o.ended)
	}
}

// speak prints what a launcher says to this process.
func speak(path string) int {
	sock, err := net.Dial("unix", path)
	if err != nil {
		os.Stdout.WriteString(err.Error())
		return 1
	}
	defer sock.Close()
	_ = sock.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.Copy(os.Stdout, sock)
	return 0
}
