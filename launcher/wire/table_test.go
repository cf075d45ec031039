package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/filch-hpc/filch/launcher"
)

// Each kind has a name of its own, a limit and a link; each type of a body has one
// kind, and comes back on the links of the kind and on no other.
func TestKindsAreWhole(t *testing.T) {
	names, types := map[string]Kind{}, map[reflect.Type]Kind{}
	for i, row := range kinds {
		k := Kind(i)
		if row.name == "" {
			if row.limit != 0 || row.links != 0 || k.Limit() >= 0 {
				t.Errorf("kind %d has no name and a limit of %d", i, row.limit)
			}
			continue
		}
		most := MaxFrame
		if k == KindTaskSubmit {
			most = MaxSubmit
		}
		if row.links == 0 || row.limit < 0 || row.limit > most {
			t.Errorf("%s has links %b and a limit of %d", k, row.links, row.limit)
		}
		if other, twice := names[row.name]; twice {
			t.Errorf("kinds %d and %d are both called %s", other, k, k)
		}
		names[row.name] = k
		typ := row.body.kind
		if typ == nil {
			continue
		}
		if other, twice := types[typ]; twice {
			t.Errorf("%s and %s both have the body %s", other, k, typ)
		}
		types[typ] = k
		v := reflect.New(typ).Elem()
		if typ.Kind() == reflect.Pointer {
			v = reflect.New(typ.Elem())
		}
		for _, l := range []Link{FromClient, toClient, FromKeeper, toKeeper, FromRunner, toRunner, FromNode, inRelay} {
			got, b, err := encode(l, v.Interface())
			if err != nil != !k.On(l) || err == nil && got != k {
				t.Errorf("%s on link %b: got %s, %v", k, l, got, err)
			}
			back, err := decode[any](l, "body", k, b)
			if k.On(l) && (err != nil || reflect.TypeOf(back) != typ) || !k.On(l) && err == nil {
				t.Errorf("%s on link %b came back as %T, %v", k, l, back, err)
			}
		}
	}
	if len(names) < 60 {
		t.Errorf("the table has %d kinds", len(names))
	}
	if !KindMessageTaskWord.IsMessage() || KindRelay.IsMessage() || KindEnded.IsMessage() {
		t.Error("the kinds of messages between Nodes are others")
	}
	if _, _, err := EncodeEvent(nil); err == nil {
		t.Error("no event was encoded")
	}
	var unknown struct{ launcher.Message }
	if _, _, err := EncodeMessage(unknown); err == nil {
		t.Error("an unknown message was encoded")
	}
}

// The headers of the data plane have these bytes in version 2.
func TestHeadersHaveTheseBytes(t *testing.T) {
	for name, c := range map[string]struct{ got, want []byte }{
		"output":     {Output{Index: 1, Rank: 70000, Offset: 1 << 40, Stream: 2, Partial: true}.Head(nil), []byte{0, 0, 0, 1, 0, 1, 0x11, 0x70, 0, 0, 1, 0, 0, 0, 0, 0, 2, 1}},
		"place":      {Place{Index: 2, Offset: 3}.Encode(), []byte{0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3}},
		"stdin":      {Stdin{Offset: 4, EOF: true}.Head(nil), []byte{0, 0, 0, 0, 0, 0, 0, 4, 1}},
		"peer-frame": {PeerFrame{From: 5, To: 6}.Head(nil), []byte{0, 0, 0, 5, 0, 0, 0, 6}},
		"relay":      {Relay{Attempt: 7, Kind: KindOutput}.Head(nil), []byte{0, 0, 0, 7, 72}},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
}

// A header is written into the caller's buffer, which stays on the stack of the caller,
// and read without a buffer.
func TestHeadersDoNotAllocate(t *testing.T) {
	var sum uint64
	if n := testing.AllocsPerRun(100, func() {
		var buf [64]byte
		b := Output{Index: 1, Stream: 1, Offset: 9}.Head(buf[:0])
		if o, err := DecodeOutput(b); err == nil {
			sum += o.Offset
		}
	}); n > 0 || sum < 900 {
		t.Errorf("%v allocations, and the offsets sum up to %d", n, sum)
	}
}
