package overlay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// pair is a connection whose first end is read and written by bare calls.
func pair(t *testing.T) (raw, other net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); d.Close() })
	raw = rawOf(c)
	if _, ok := raw.(*rawConn); !ok {
		t.Fatalf("a TCP connection became %T", raw)
	}
	return raw, d
}

func TestRawConnCarriesAll(t *testing.T) {
	raw, other := pair(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // more than the kernel takes at once
	var back []byte
	var backErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, backErr = io.Copy(other, other); backErr == nil {
			backErr = other.(*net.TCPConn).CloseWrite()
		}
	}()
	go func() {
		if n, err := raw.Write(sent); n != len(sent) || err != nil {
			t.Errorf("wrote %d of %d, %v", n, len(sent), err)
		}
		raw.(*rawConn).Conn.(*net.TCPConn).CloseWrite()
	}()
	back, err := io.ReadAll(raw)
	<-done
	if err != nil || backErr != nil || !bytes.Equal(back, sent) {
		t.Errorf("got %d of %d bytes back, %v, %v", len(back), len(sent), err, backErr)
	}
}

func TestRawConnEnds(t *testing.T) {
	raw, other := pair(t)
	if err := raw.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	if err := raw.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := raw.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write that nobody reads: %v", err)
	}
	go other.Close()
	for {
		_, err := raw.Read(make([]byte, 1000))
		if err == nil {
			continue
		}
		if raw.Close() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the other end closed: %v", err)
		}
		break
	}
	if _, err := raw.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after this end closed: %v", err)
	}
	if a, _ := net.Pipe(); rawOf(a) != a {
		t.Error("a pipe is read by bare calls")
	}
}
