// In package overlay, since the frames that it feeds are not exported.
package overlay

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/iotest"
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
