package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxQueued bounds the bytes a [Conn] holds for a peer that does not read. The data
// plane stays far below MaxQueued by its own credits.
const MaxQueued = 48 << 20

// readBuffer is small: an idle launcher keeps one per client and keeper.
const readBuffer = 16 << 10

// maxSpare is the largest buffer that an idle Conn keeps: a few pieces of output.
const maxSpare = 256 << 10

// ErrQueueFull is returned for a frame to a peer that has stopped reading.
var ErrQueueFull = errors.New("the peer does not read: its queue is full")

// Conn carries frames over a stream. One goroutine reads; any number write.
//
// Write and WriteRaw only queue; Flush hands the queue to the kernel without waiting if
// the stream is a socket or pipe, and leaves the rest to a goroutine that ends with the
// queue. So no writing goroutine waits for a peer, and a frame costs no hand-over
// between goroutines.
type Conn struct {
	rw   io.ReadWriteCloser
	raw  syscall.RawConn // nil if rw has no descriptor
	bare bool            // a write to raw never blocks
	r    *bufio.Reader
	head [headerStream]byte
	body []byte // of ReadShared

	large int // frames of ReadShared that are larger than eagerBody

	writers sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	idle      *sync.Cond // the queue was emptied, or the stream broke
	queue     []byte
	spare     []byte
	busy      bool // a goroutine is writing
	written   uint64
	queued    uint64
	err       error
	onWritten func(written uint64)
}

// NewConn makes a Conn of a stream and takes ownership of the stream.
func NewConn(rw io.ReadWriteCloser) *Conn {
	c := &Conn{rw: rw, r: bufio.NewReaderSize(readerOf(rw), readBuffer)}
	c.idle = sync.NewCond(&c.mu)
	if s, ok := rw.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			c.raw = raw
			_, c.bare = rw.(*net.UnixConn)
		}
	}
	return c
}

// OnWritten has f called with the number of bytes that the kernel has taken so far,
// each time the number grows; call OnWritten before the first write. f runs without
// locks, possibly on the goroutine that called Flush.
func (c *Conn) OnWritten(f func(written uint64)) { c.onWritten = f }

// Read waits for the next frame. An error is final.
func (c *Conn) Read() (Frame, error) { return readFrame(c.r, &c.head, nil) }

// ReadShared is Read of a frame whose Body is valid until the next call: for a reader
// that keeps no part of the frame, and has many frames to read.
func (c *Conn) ReadShared() (Frame, error) {
	if c.body == nil && c.r.Buffered() >= headerStream {
		// A second frame right after the first: a buffer pays.
		c.body = make([]byte, eagerBody)
	}
	f, err := readFrame(c.r, &c.head, c.body)
	if n := len(f.Body); n > eagerBody && n <= maxSpare+eagerBody {
		// A runner sends the output of running tasks again and again, to followers.
		if c.large++; c.large > 1 && len(c.body) < n {
			c.body = f.Body[:cap(f.Body)]
		}
	}
	return f, err
}

// Buffered reports whether another frame has begun to arrive, so that a reader can
// postpone a flush to the end of a burst.
func (c *Conn) Buffered() bool { return c.r.Buffered() >= headerStream }

// Write queues a frame whose body is the encoding of v; nil is no body.
func (c *Conn) Write(k Kind, req uint32, v any) error {
	if v == nil {
		return c.WriteRaw(k, req)
	}
	b, err := Marshal(v)
	if err != nil {
		return err
	}
	return c.WriteRaw(k, req, b)
}

// WriteRaw queues a frame whose body is the parts in a row, copied.
func (c *Conn) WriteRaw(k Kind, req uint32, parts ...[]byte) error {
	_, err := c.Queue(k, req, parts...)
	return err
}

// Queue is WriteRaw, and also returns the count that OnWritten will have reached when
// the kernel has taken this frame.
func (c *Conn) Queue(k Kind, req uint32, parts ...[]byte) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.queued, c.err
	}
	if c.queued-c.written > MaxQueued {
		return c.queued, ErrQueueFull
	}
	before := len(c.queue)
	q, err := appendFrame(c.queue, k, req, parts)
	if err != nil {
		return c.queued, err
	}
	c.queue = q
	c.queued += uint64(len(q) - before)
	return c.queued, nil
}

// Send is Write and Flush.
func (c *Conn) Send(k Kind, req uint32, v any) error {
	if err := c.Write(k, req, v); err != nil {
		return err
	}
	return c.Flush()
}

// Flush writes the part of the queue that needs no waiting; a goroutine writes the
// rest.
func (c *Conn) Flush() error {
	c.mu.Lock()
	for c.err == nil && !c.busy && len(c.queue) > 0 {
		if c.raw == nil {
			c.spawn(c.take())
			break
		}
		b := c.take()
		c.mu.Unlock()
		n, err := c.tryWrite(b)
		c.mu.Lock()
		c.wrote(n, err)
		if err == nil && n < len(b) {
			c.spawn(b[n:])
			break
		}
		c.give(b)
		c.notifyWritten()
	}
	err := c.err
	c.mu.Unlock()
	return err
}

// take makes the caller the writer, and returns the queue.
func (c *Conn) take() []byte {
	b := c.queue
	c.queue, c.spare = c.spare[:0], nil
	c.busy = true
	return b
}

// give ends the caller's time as the writer, begun by take.
func (c *Conn) give(b []byte) {
	c.busy = false
	if cap(b) <= maxSpare {
		c.spare = b[:0]
	}
	c.idle.Broadcast()
}

// wrote adds n bytes to the written count; with the lock held.
func (c *Conn) wrote(n int, err error) {
	c.written += uint64(n)
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("cannot write to the peer: %w", err)
		c.queue = nil
	}
}

// notifyWritten calls the OnWritten function with the lock released.
func (c *Conn) notifyWritten() {
	if c.onWritten == nil {
		return
	}
	w := c.written
	c.mu.Unlock()
	c.onWritten(w)
	c.mu.Lock()
}

// spawn leaves b, and frames queued meanwhile, to a goroutine that may wait.
func (c *Conn) spawn(b []byte) {
	c.writers.Go(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for {
			c.mu.Unlock()
			n, err := writePart(c.rw, b)
			c.mu.Lock()
			c.wrote(n, err)
			c.notifyWritten()
			if err != nil {
				break
			}
			if b = b[n:]; len(b) > 0 {
				continue
			}
			if len(c.queue) == 0 {
				break
			}
			b, c.queue = c.queue, nil
		}
		c.give(nil)
	})
}

// writePart writes a bounded part of b, so that credits flow while a write waits.
func writePart(w io.Writer, b []byte) (int, error) {
	return w.Write(b[:min(len(b), MaxChunk)])
}

// tryWrite writes as many bytes as the kernel takes at once.
func (c *Conn) tryWrite(b []byte) (int, error) {
	done := 0
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		for done < len(b) {
			n, err := c.write(fd, b[done:])
			if n > 0 {
				done += n
			}
			switch err {
			case nil:
			case syscall.EINTR:
			case syscall.EAGAIN:
				return true
			default:
				failed = err
				return true
			}
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return done, err
}

func (c *Conn) write(fd uintptr, b []byte) (int, error) {
	if !c.bare {
		return syscall.Write(int(fd), b)
	}
	n, errno := bareCall(unix.SYS_WRITE, fd, b)
	if errno != 0 {
		return n, errno
	}
	return n, nil
}

// Drain waits until the kernel has taken the whole queue, at most for d.
func (c *Conn) Drain(d time.Duration) error {
	if err := c.Flush(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.busy && len(c.queue) == 0 {
		return c.err
	}
	late := false
	t := time.AfterFunc(d, func() {
		c.mu.Lock()
		late = true
		c.idle.Broadcast()
		c.mu.Unlock()
	})
	defer t.Stop()
	for c.err == nil && (c.busy || len(c.queue) > 0) {
		if late {
			return fmt.Errorf("cannot hand %d bytes to the peer within %v", c.queued-c.written, d)
		}
		c.idle.Wait()
	}
	return c.err
}

// Close ends the stream; frames still queued are lost. Close returns when all writing
// goroutines have ended. Read fails from then on.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.err == nil {
		c.err = io.ErrClosedPipe
	}
	c.queue = nil
	c.idle.Broadcast()
	c.mu.Unlock()
	err := c.rw.Close()
	c.writers.Wait()
	return err
}
