package overlay

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"golang.org/x/sys/unix"
)

// rawSecurity is a security transport over connections that are read and
// written by bare system calls.
//
// Go announces each system call to its scheduler, in case it blocks. Those on
// its sockets never do, but the announcement wakes the thread that watches for
// blocked ones, and in a process that wakes for one message and sleeps again
// that is a fifth of the CPU time.
type rawSecurity struct{ sec.SecureTransport }

// SecureInbound and SecureOutbound take connections that have passed the gate,
// from and to the peer that passed it.
func (s rawSecurity) SecureInbound(ctx context.Context, c net.Conn, _ peer.ID) (sec.SecureConn, error) {
	p, ok := c.(*proven)
	if !ok {
		return nil, errStranger
	}
	return s.SecureTransport.SecureInbound(ctx, rawOf(p.Conn), p.peer)
}

func (s rawSecurity) SecureOutbound(ctx context.Context, c net.Conn, _ peer.ID) (sec.SecureConn, error) {
	p, ok := c.(*proven)
	if !ok {
		return nil, errStranger
	}
	return s.SecureTransport.SecureOutbound(ctx, rawOf(p.Conn), p.peer)
}

// rawConn is a connection with such reads and writes. Waiting and deadlines are
// the runtime's, as before.
type rawConn struct {
	net.Conn
	raw   syscall.RawConn
	reads uint32
}

// announceEvery is how often a read is announced all the same: under load that
// thread is needed, to share the processor out, and then stays awake by itself.
const announceEvery = 64

// rawOf is c itself where it is no TCP connection of the net package: other
// descriptors may block.
func rawOf(c net.Conn) net.Conn {
	s, ok := c.(syscall.Conn)
	if _, tcp := c.RemoteAddr().(*net.TCPAddr); !ok || !tcp {
		return c
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return c
	}
	return &rawConn{Conn: c, raw: raw}
}

func (c *rawConn) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	if c.reads++; c.reads%announceEvery == 0 {
		return c.Conn.Read(b)
	}
	wait := c.raw.Read(func(fd uintptr) bool {
		n, err = bare(unix.SYS_READ, fd, b)
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case wait != nil:
		return 0, wait
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (c *rawConn) Write(b []byte) (n int, err error) {
	for n < len(b) {
		var m int
		wait := c.raw.Write(func(fd uintptr) bool {
			m, err = bare(unix.SYS_WRITE, fd, b[n:])
			return !errors.Is(err, unix.EAGAIN)
		})
		if wait != nil {
			return n, wait
		}
		if err != nil {
			return n, os.NewSyscallError("write", err)
		}
		n += m
	}
	return n, nil
}
