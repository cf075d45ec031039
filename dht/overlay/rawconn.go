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

// rawSecurity is a security transport over connections read and written by bare
// system calls.
//
// Go announces each system call to its scheduler, in case the call blocks. Calls on
// Go's sockets never block, but the announcement wakes the thread watching for
// blocked calls. In a process waking for one message and sleeping again, this is a
// fifth of the CPU time.
type rawSecurity struct{ sec.SecureTransport }

// SecureInbound and SecureOutbound take connections past the gate, with the peer
// proven there.
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

// rawConn is a connection with bare reads and writes. Waiting and deadlines remain
// the runtime's.
type rawConn struct {
	net.Conn
	raw   syscall.RawConn
	reads uint32
}

// announceEvery is how often a read is announced all the same: under load the
// watching thread is needed, to share the processor out, and then stays awake by
// itself.
const announceEvery = 64

// rawOf is c itself unless c is a TCP connection of package net: other descriptors
// may block.
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
