package proc

import (
	"math"
	"os"
	"strconv"

	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// ReadChunk is the size in bytes of a read from the link and from the ranks' pipes: the
// capacity of a Linux pipe.
const ReadChunk = 64 << 10

// Link is the keeper's end of the stream to its launcher. Send queues frames, and Flush
// writes the queue once per turn: a launcher that does not read never blocks the keeper.
// The queue is bounded by the output window and the number of ranks.
type Link struct {
	Poll    *Epoll
	FD      int  // -1: the launcher is gone
	Mute    bool // a new launcher has connected and not sent Adopt yet
	in      []byte
	out     []byte
	OnFrame func(wire.Frame)
	OnLost  func()
}

// Open takes over fd, which must not block.
func (l *Link) Open(fd int) error {
	l.FD, l.in, l.out, l.Mute = fd, nil, nil, false
	return l.Poll.Watch(fd, Readable, l.ready)
}

func (l *Link) ready(events uint32) {
	if events&^uint32(unix.EPOLLOUT) != 0 {
		l.read()
	}
	if l.FD >= 0 && events&unix.EPOLLOUT != 0 {
		l.Flush()
	}
}

// read handles all frames at hand. A bound on the reads per turn keeps a busy launcher
// from starving the ranks.
func (l *Link) read() {
	for range 16 {
		at := len(l.in)
		if cap(l.in)-at < 4096 {
			l.in = append(make([]byte, 0, 2*cap(l.in)+16<<10), l.in...)
		}
		n, err := unix.Read(l.FD, l.in[at:cap(l.in)])
		if err == unix.EAGAIN || err == unix.EINTR {
			return
		}
		if err != nil || n == 0 {
			l.Close()
			return
		}
		short := n < cap(l.in)-at
		l.in = l.in[:at+n]
		if !l.handle() || short {
			return
		}
	}
}

// handle cuts frames off the input. The bodies are views of the input, and handlers keep
// no body.
func (l *Link) handle() bool {
	rest := l.in
	for l.FD >= 0 {
		f, n, err := wire.Cut(rest)
		if err != nil {
			l.Close()
			return false
		}
		if n == 0 {
			break
		}
		l.OnFrame(f)
		rest = rest[n:]
	}
	if l.FD < 0 {
		return false
	}
	if len(rest) == 0 && cap(l.in) > 4*ReadChunk {
		l.in = nil // a launch is a long frame, later frames are short
		return true
	}
	l.in = append(l.in[:0], rest...)
	return true
}

// Send queues a frame whose body is the encoding of v.
func (l *Link) Send(k wire.Kind, v any) {
	if l.FD < 0 || l.Mute {
		return
	}
	out, err := wire.AppendValue(l.out, k, 0, v)
	if err != nil {
		panic(err) // our own types
	}
	l.out = out
}

// SendRaw queues a frame. Without a launcher SendRaw drops the frame: after an adoption
// the keeper sends the important state again.
func (l *Link) SendRaw(k wire.Kind, parts ...[]byte) {
	if l.FD < 0 || l.Mute {
		return
	}
	out, err := wire.AppendFrame(l.out, k, 0, parts...)
	if err != nil {
		panic(err)
	}
	l.out = out
}

// Queued returns the number of bytes that wait for the launcher.
func (l *Link) Queued() int { return len(l.out) }

// Flush writes as much of the queue as the kernel takes without blocking.
func (l *Link) Flush() {
	for l.FD >= 0 && len(l.out) > 0 {
		n, err := unix.Write(l.FD, l.out)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			l.Poll.Ask(l.FD, Readable|Writable)
			return
		case err != nil:
			// The other end may have closed after sending a last frame.
			l.read()
			l.Close()
			return
		}
		l.out = l.out[:copy(l.out, l.out[n:])]
	}
	if l.FD >= 0 {
		l.Poll.Ask(l.FD, Readable)
		if cap(l.out) > 4*ReadChunk {
			l.out = nil
		}
	}
}

func (l *Link) Close() {
	if l.FD < 0 {
		return
	}
	l.Poll.Drop(l.FD)
	unix.Close(l.FD)
	l.FD, l.in, l.out = -1, nil, nil
	l.OnLost()
}

// CloseOnExec keeps the inherited descriptors of this process from the ranks: the link,
// and any descriptor that leaked from the parent.
func CloseOnExec() {
	if unix.CloseRange(LinkFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	names, _ := os.ReadDir("/proc/self/fd") // before Linux 5.11
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd >= LinkFD {
			unix.CloseOnExec(fd)
		}
	}
}
