package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/launcher/wire"
)

// pair is two ends of a unix stream.
func pair(t *testing.T) (*wire.Conn, *wire.Conn) {
	t.Helper()
	a, b := rawPair(t)
	ca, cb := wire.NewConn(a), wire.NewConn(b)
	t.Cleanup(func() { ca.Close(); cb.Close() })
	return ca, cb
}

func rawPair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		out[i] = c
	}
	return out[0], out[1]
}

func TestConnCarriesFramesInOrder(t *testing.T) {
	a, b := pair(t)
	const n = 1000
	go func() {
		for i := range n {
			if err := a.Write(wire.KindWarn, uint32(i), wire.Warn{Text: "w"}); err != nil {
				t.Error(err)
			}
			if i%7 == 0 {
				a.Flush()
			}
		}
		a.Flush()
	}()
	for i := range n {
		f, err := b.Read()
		if err != nil {
			t.Fatal(err)
		}
		if f.Req != uint32(i) || f.Kind != wire.KindWarn {
			t.Fatalf("got %v %d, want warn %d", f.Kind, f.Req, i)
		}
	}
}

func TestConnTakesManyWriters(t *testing.T) {
	a, b := pair(t)
	const writers, each = 8, 200
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := a.WriteRaw(wire.KindOutput, uint32(w), binary.BigEndian.AppendUint32(nil, uint32(i))); err != nil {
					t.Error(err)
				}
				a.Flush()
			}
		})
	}
	next := make([]uint32, writers)
	for range writers * each {
		f, err := b.Read()
		if err != nil {
			t.Fatal(err)
		}
		if got := binary.BigEndian.Uint32(f.Body); got != next[f.Req] {
			t.Fatalf("writer %d: got frame %d, want %d", f.Req, got, next[f.Req])
		}
		next[f.Req]++
	}
	wg.Wait()
}

func TestConnFlushDoesNotWaitForTheReader(t *testing.T) {
	a, b := pair(t)
	var taken atomic.Uint64
	a.OnWritten(func(n uint64) { taken.Store(n) })
	chunk := bytes.Repeat([]byte{'x'}, wire.MaxChunk)
	var last uint64
	for range 64 {
		q, err := a.Queue(wire.KindOutput, 0, chunk)
		if err != nil {
			t.Fatal(err)
		}
		last = q
		if err := a.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if got := taken.Load(); got >= last {
		t.Fatalf("the kernel took all %d bytes, the test needs more", got)
	}
	for range 64 {
		f, err := b.Read()
		if err != nil || !bytes.Equal(f.Body, chunk) {
			t.Fatalf("got %d bytes, %v", len(f.Body), err)
		}
	}
	if err := a.Drain(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if got := taken.Load(); got != last {
		t.Errorf("got %d bytes taken, want %d", got, last)
	}
}

func TestConnRefusesToQueueWithoutEnd(t *testing.T) {
	a, _ := pair(t)
	chunk := make([]byte, wire.MaxData)
	for range wire.MaxQueued/wire.MaxData + 8 {
		if err := a.WriteRaw(wire.KindOutput, 0, chunk); err != nil {
			if !errors.Is(err, wire.ErrQueueFull) {
				t.Errorf("got %v, want ErrQueueFull", err)
			}
			return
		}
		a.Flush()
	}
	t.Error("everything was queued")
}

func TestConnDrainGivesUp(t *testing.T) {
	a, _ := pair(t)
	for range 32 {
		if err := a.WriteRaw(wire.KindOutput, 0, make([]byte, wire.MaxChunk)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Drain(time.Millisecond); err == nil {
		t.Error("a queue that nobody reads was drained")
	}
}

func TestConnCloseEndsWriterAndReader(t *testing.T) {
	a, _ := pair(t)
	for range 32 {
		if err := a.WriteRaw(wire.KindOutput, 0, make([]byte, wire.MaxChunk)); err != nil {
			t.Fatal(err)
		}
	}
	a.Flush()
	read := make(chan error)
	go func() {
		_, err := a.Read()
		read <- err
	}()
	a.Close()
	if err := <-read; err == nil {
		t.Error("read went on after close")
	}
	if err := a.WriteRaw(wire.KindLease, 0); err == nil {
		t.Error("a frame was queued after close")
	}
}

func TestConnWithoutDescriptor(t *testing.T) {
	x, y := net.Pipe()
	a, b := wire.NewConn(x), wire.NewConn(y)
	defer a.Close()
	defer b.Close()
	if err := a.Send(wire.KindWarn, 1, wire.Warn{Text: "t"}); err != nil {
		t.Fatal(err)
	}
	if f, err := b.Read(); err != nil || f.Req != 1 {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestConnRefusesHostileBytes(t *testing.T) {
	for name, c := range map[string]struct {
		bytes []byte
		want  string
	}{
		"unknown-kind":        {[]byte{0, 0, 0, 5, 255, 0, 0, 0, 0}, "unknown kind 255"},
		"longer-than-any":     {[]byte{0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0}, "the limit is"},
		"longer-than-its-own": {[]byte{0, 1, 0, 0, byte(wire.KindHello), 0, 0, 0, 0}, "hello of 65531 bytes"},
		"shorter-than-a-head": {[]byte{0, 0, 0, 4, 1, 0, 0, 0, 0}, "length 4"},
		"cut-off":             {[]byte{0, 0, 0, 9, byte(wire.KindHello), 0, 0, 0, 0, 1}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			x, y := rawPair(t)
			b := wire.NewConn(y)
			defer b.Close()
			if _, err := x.Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			x.Close()
			_, err := b.Read()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestConnDoesNotTrustALongHeader(t *testing.T) {
	x, y := rawPair(t)
	b := wire.NewConn(y)
	defer b.Close()
	head := binary.BigEndian.AppendUint32(nil, wire.MaxFrame)
	if _, err := x.Write(append(head, byte(wire.KindStart), 0, 0, 0, 0, 1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	x.Close()
	if _, err := b.Read(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want unexpected EOF", err)
	}
}

func FuzzConn(f *testing.F) {
	f.Add([]byte{0, 0, 0, 5, byte(wire.KindLease), 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 7, byte(wire.KindOutput), 0, 0, 0, 0, 1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		c := wire.NewConn(struct {
			io.Reader
			io.WriteCloser
		}{bytes.NewReader(b), nil})
		for range len(b) + 1 {
			fr, err := c.Read()
			if err != nil {
				return
			}
			if len(fr.Body) > fr.Kind.Limit() {
				t.Fatalf("%s of %d bytes", fr.Kind, len(fr.Body))
			}
		}
		t.Fatal("more frames than bytes")
	})
}

func BenchmarkConnRoundTrip(b *testing.B) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		b.Fatal(err)
	}
	x := wire.NewConn(os.NewFile(uintptr(fds[0]), "x"))
	y := wire.NewConn(os.NewFile(uintptr(fds[1]), "y"))
	defer y.Close()
	defer x.Close()
	go func() {
		for {
			f, err := y.Read()
			if err != nil {
				return
			}
			if y.WriteRaw(f.Kind, f.Req, f.Body) != nil || y.Flush() != nil {
				return
			}
		}
	}()
	for b.Loop() {
		if err := x.Send(wire.KindStart, 1, sampleStart()); err != nil {
			b.Fatal(err)
		}
		if _, err := x.Read(); err != nil {
			b.Fatal(err)
		}
	}
}
