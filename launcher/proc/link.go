package proc

import (
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// readChunk is read at a time, of the link and of the ranks' pipes: what a
// Linux pipe holds.
const readChunk = 64 << 10

// link is the keeper's end of the stream to its launcher. What is sent is
// queued and flushed once per turn; a launcher that does not read never stops
// the keeper. The queue is bounded by the output window and the number of
// ranks.
type link struct {
	poll *poller
	fd   int  // -1: the launcher is gone
	mute bool // a new launcher has called and not said Adopt yet
	in   []byte
	out  []byte
	on   func(wire.Frame)
	lost func()
}

// open takes over fd, which must not block.
func (l *link) open(fd int) error {
	l.fd, l.in, l.out, l.mute = fd, nil, nil, false
	return l.poll.watch(fd, readable, l.ready)
}

func (l *link) ready(events uint32) {
	if events&^uint32(unix.EPOLLOUT) != 0 {
		l.read()
	}
	if l.fd >= 0 && events&unix.EPOLLOUT != 0 {
		l.flush()
	}
}

// read handles all frames that are there, up to a bound per turn so that a
// busy launcher does not starve the ranks.
func (l *link) read() {
	for range 16 {
		at := len(l.in)
		if cap(l.in)-at < 4096 {
			l.in = append(make([]byte, 0, 2*cap(l.in)+16<<10), l.in...)
		}
		n, err := unix.Read(l.fd, l.in[at:cap(l.in)])
		if err == unix.EAGAIN || err == unix.EINTR {
			return
		}
		if err != nil || n == 0 {
			l.close()
			return
		}
		short := n < cap(l.in)-at
		l.in = l.in[:at+n]
		if !l.handle() || short {
			return
		}
	}
}

// handle cuts frames off the input. The bodies are views of it, and handlers
// keep none.
func (l *link) handle() bool {
	rest := l.in
	for l.fd >= 0 {
		f, n, err := wire.Cut(rest)
		if err != nil {
			l.close()
			return false
		}
		if n == 0 {
			break
		}
		l.on(f)
		rest = rest[n:]
	}
	if l.fd < 0 {
		return false
	}
	if len(rest) == 0 && cap(l.in) > 4*readChunk {
		l.in = nil // a launch was long, what follows is not
		return true
	}
	l.in = append(l.in[:0], rest...)
	return true
}

// send queues a frame whose body is the encoding of v.
func (l *link) send(k wire.Kind, v any) {
	body, err := wire.Marshal(v)
	if err != nil {
		panic(err) // our own types
	}
	l.raw(k, body)
}

// raw queues a frame. Without a launcher it is dropped: what matters is told
// again after an adoption.
func (l *link) raw(k wire.Kind, parts ...[]byte) {
	if l.fd < 0 || l.mute {
		return
	}
	out, err := wire.AppendFrame(l.out, k, 0, parts...)
	if err != nil {
		panic(err)
	}
	l.out = out
}

// flush writes what the kernel takes at once.
func (l *link) flush() {
	for l.fd >= 0 && len(l.out) > 0 {
		n, err := unix.Write(l.fd, l.out)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			l.poll.ask(l.fd, readable|writable)
			return
		case err != nil:
			// The other end may have closed after its last words.
			l.read()
			l.close()
			return
		}
		l.out = l.out[:copy(l.out, l.out[n:])]
	}
	if l.fd >= 0 {
		l.poll.ask(l.fd, readable)
		if cap(l.out) > 4*readChunk {
			l.out = nil
		}
	}
}

func (l *link) close() {
	if l.fd < 0 {
		return
	}
	l.poll.drop(l.fd)
	unix.Close(l.fd)
	l.fd, l.in, l.out = -1, nil, nil
	l.lost()
}
