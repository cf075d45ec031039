package wire_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher/wire"
)

// once is a stream that ends.
type once struct{ io.Reader }

func (once) Write(b []byte) (int, error) { return len(b), nil }
func (once) Close() error                { return nil }

// FuzzCut compares the two readers of frames.
func FuzzCut(f *testing.F) {
	b, err := wire.AppendFrame(nil, wire.KindLease, 0)
	if err != nil {
		f.Fatal(err)
	}
	if b, err = wire.AppendFrame(b, wire.KindWarn, 7, []byte("ab"), []byte("c")); err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		c := wire.NewConn(once{bytes.NewReader(b)})
		for rest := b; ; {
			want, wantErr := c.Read()
			got, n, err := wire.Cut(rest)
			if err == nil && n == 0 {
				err = io.EOF
			}
			if (err != nil) != (wantErr != nil) {
				t.Fatalf("got %v, the other reader %v", err, wantErr)
			}
			if err != nil {
				return
			}
			if got.Kind != want.Kind || got.Req != want.Req || !bytes.Equal(got.Body, want.Body) {
				t.Fatalf("got %+v, the other reader %+v", got, want)
			}
			rest = rest[n:]
		}
	})
}

// A frame encoded in place has the bytes of a frame whose body was encoded before.
func TestAppendValue(t *testing.T) {
	v := wire.Query{Verb: wire.VerbInfo, Args: []string{strings.Repeat("x", 300)}}
	body, err := wire.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	want, err := wire.AppendFrame([]byte("before"), wire.KindQuery, 7, body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := wire.AppendValue([]byte("before"), wire.KindQuery, 7, v); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	v.Args = []string{strings.Repeat("x", wire.KindQuery.Limit())}
	if got, err := wire.AppendValue([]byte("before"), wire.KindQuery, 7, v); err == nil || string(got) != "before" {
		t.Errorf("a body over the limit of its kind: got %d bytes, %v", len(got), err)
	}
}
