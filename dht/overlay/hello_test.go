// In package overlay, since the frames that it feeds are not exported.
package overlay

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/filch-hpc/filch"
)

func TestHelloRoundTrip(t *testing.T) {
	h := Hello{Version: WireVersion, Instance: "i", Name: "n1", Incarnation: 7, Card: []byte("card")}
	got, err := decodeHello(encodeHello(h), WireVersion)
	if err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("got %+v, %v, want %+v", got, err, h)
	}
	got, err = decodeAnswer(encodeAnswer(nil, h), WireVersion)
	if err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("got %+v, %v, want %+v", got, err, h)
	}
	_, err = decodeAnswer(encodeAnswer(&Refusal{Code: NameTaken, Text: "taken\x1b[2J", Incarnation: 9}, h), WireVersion)
	var r *Refusal
	if !errors.As(err, &r) || r.Code != NameTaken || r.Incarnation != 9 || r.Text != "taken?[2J" {
		t.Errorf("got %v, want the refusal without control bytes", err)
	}
}

// Whatever another version puts behind the version, that one is read.
func TestHelloOfAnotherVersion(t *testing.T) {
	h := Hello{Version: 7, Instance: "i", Name: "n1"}
	b := append(encodeHello(h), "and more"...)
	got, err := decodeHello(b, WireVersion)
	if err != nil || got.Version != 7 {
		t.Fatalf("got %+v, %v, want the version", got, err)
	}
}

// A length promises nothing: memory follows what has come.
func TestReadBlockAllocatesWhatCame(t *testing.T) {
	limit := ClassLimits[Control].Frame
	head := []byte{0x00, 0xff, 0xff, 0xff}
	n := testing.AllocsPerRun(5, func() {
		if _, err := readBlock(bytes.NewReader(append(head, make([]byte, 100)...)), limit); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("got %v, want an unexpected end", err)
		}
	})
	if n > 10 {
		t.Errorf("got %v allocations", n)
	}
	if _, err := readBlock(bytes.NewReader([]byte{0xff, 0, 0, 0}), limit); !errors.Is(err, errOversized) {
		t.Errorf("got %v, want that the frame is too large", err)
	}
}

// A member may not go by the name of another, nor tell of another instance than
// that of the gate it passed.
func TestHelloMustFitTheGate(t *testing.T) {
	for _, c := range []struct {
		name string
		lie  func(*Config)
		code Code
		text string
	}{
		{"name", func(c *Config) { c.Name = "friend" }, WrongSecret, "not that of node friend"},
		{"instance", func(c *Config) { c.Instance = "another" }, WrongInstance, "of instance another, the other one of " + testInstance},
		{"version", func(c *Config) { c.Version = 7 }, WrongVersion, "wire version 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var hosts []*Host
			for _, name := range []filch.NodeName{"seed", "evil"} {
				h, err := NewHost(Config{Instance: testInstance, Secret: testSecret, Name: name, Incarnation: 1, Listen: "127.0.0.1:0"})
				if err != nil {
					t.Fatal(err)
				}
				defer h.Close()
				hosts = append(hosts, h)
			}
			seed, evil := hosts[0], hosts[1]
			c.lie(&evil.cfg)
			_, err := evil.Dial(t.Context(), seed.Addr())
			var r *Refusal
			if !errors.As(err, &r) || r.Code != c.code || !strings.Contains(r.Text, c.text) {
				t.Errorf("got %v, want code %d and %q", err, c.code, c.text)
			}
			if n := len(seed.Peers()); n != 0 {
				t.Errorf("the seed has %d peers, want none", n)
			}
		})
	}
}

func FuzzHello(f *testing.F) {
	f.Add(encodeHello(Hello{Version: WireVersion, Instance: "i", Name: "n1", Incarnation: 7, Card: []byte("card")}))
	f.Add(encodeHello(Hello{Version: 2}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b, WireVersion)
		if err != nil || h.Version != WireVersion {
			return
		}
		if again := encodeHello(h); !bytes.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(encodeAnswer(nil, Hello{Version: WireVersion, Instance: "i", Name: "n1"}))
	f.Add(encodeAnswer(&Refusal{Code: Stale, Text: "x", Incarnation: 1}, Hello{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeAnswer(b, WireVersion)
		if err == nil && CheckName(h.Name) != nil {
			t.Errorf("got the name %q from %x", h.Name, b)
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add(appendBlock(appendBlock(nil, []byte("one")), nil), uint16(100))
	f.Add([]byte{0, 0, 1, 0, 1}, uint16(1000))
	f.Fuzz(func(t *testing.T, b []byte, limit uint16) {
		r := iotest.HalfReader(bytes.NewReader(b))
		var again []byte
		for {
			p, err := readBlock(r, int(limit))
			if err != nil {
				break
			}
			if len(p) > int(limit) {
				t.Fatalf("a frame of %d bytes, at most %d", len(p), limit)
			}
			again = appendBlock(again, p)
		}
		if !bytes.HasPrefix(b, again) {
			t.Errorf("%x was read as %x", b, again)
		}
	})
}
