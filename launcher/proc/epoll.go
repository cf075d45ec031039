package proc

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The event masks that handlers ask for and receive.
const (
	Readable = unix.EPOLLIN | unix.EPOLLHUP | unix.EPOLLERR | unix.EPOLLRDHUP
	Writable = unix.EPOLLOUT | unix.EPOLLHUP | unix.EPOLLERR
)

// Epoll is the only place where a keeper waits: the thread that calls Turn runs the
// handlers of all descriptors and timers.
type Epoll struct {
	FD     int
	fds    []watch // by descriptor
	gen    int32   // tells a reused descriptor from its past events
	timers []*Timer
	events [64]unix.EpollEvent
	Now    time.Time
}

type watch struct {
	fn   func(events uint32)
	gen  int32
	mask uint32
}

// Timer calls fn once, at a set time. Handlers may call After and Stop.
type Timer struct {
	at time.Time
	fn func()
}

func NewEpoll() (*Epoll, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &Epoll{FD: ep, fds: make([]watch, 64), Now: time.Now()}, nil
}

// Watch calls fn with the events that fd is ready for, until Drop.
func (p *Epoll) Watch(fd int, mask uint32, fn func(events uint32)) error {
	for fd >= len(p.fds) {
		p.fds = append(p.fds, make([]watch, len(p.fds))...)
	}
	p.gen++
	p.fds[fd] = watch{fn: fn, gen: p.gen, mask: mask}
	return unix.EpollCtl(p.FD, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: mask, Fd: int32(fd), Pad: p.gen})
}

// Ask changes the events that a watched fd is watched for.
func (p *Epoll) Ask(fd int, mask uint32) {
	w := &p.fds[fd]
	if w.fn == nil || w.mask == mask {
		return
	}
	w.mask = mask
	unix.EpollCtl(p.FD, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: mask, Fd: int32(fd), Pad: w.gen})
}

// Drop stops watching fd; call it before the close.
func (p *Epoll) Drop(fd int) {
	if fd < 0 || fd >= len(p.fds) || p.fds[fd].fn == nil {
		return
	}
	p.fds[fd] = watch{}
	unix.EpollCtl(p.FD, unix.EPOLL_CTL_DEL, fd, nil)
}

// After runs fn in d.
func (p *Epoll) After(d time.Duration, fn func()) *Timer {
	t := &Timer{at: time.Now().Add(d), fn: fn}
	p.timers = append(p.timers, t)
	return t
}

// Stop forgets t, which may be nil.
func (p *Epoll) Stop(t *Timer) {
	if i := slices.Index(p.timers, t); t != nil && i >= 0 {
		p.timers = slices.Delete(p.timers, i, i+1)
	}
}

// Near reports whether t, which may be nil, is due within d of this turn.
func (p *Epoll) Near(t *Timer, d time.Duration) bool { return t != nil && t.at.Sub(p.Now) < d }

// Turn waits for the next event or timer, then handles all events that have come.
func (p *Epoll) Turn() error {
	n, err := unix.EpollWait(p.FD, p.events[:], p.Pause())
	if err != nil && err != unix.EINTR {
		return err
	}
	p.Now = time.Now()
	for i := range max(n, 0) {
		e := p.events[i]
		if w := p.fds[e.Fd]; w.fn != nil && w.gen == e.Pad {
			w.fn(e.Events)
		}
	}
	p.fire()
	return nil
}

// Pause is the time to the next timer in milliseconds, rounded up.
func (p *Epoll) Pause() int {
	if len(p.timers) == 0 {
		return -1
	}
	next := p.timers[0].at
	for _, t := range p.timers[1:] {
		if t.at.Before(next) {
			next = t.at
		}
	}
	d := time.Until(next)
	if d <= 0 {
		return 0
	}
	return int((d + time.Millisecond - 1) / time.Millisecond)
}

// fire runs the timers that are due, oldest first. Timers set by these handlers wait for
// the next turn.
func (p *Epoll) fire() {
	var due []*Timer
	for _, t := range p.timers {
		if !t.at.After(p.Now) {
			due = append(due, t)
		}
	}
	slices.SortStableFunc(due, func(a, b *Timer) int { return a.at.Compare(b.at) })
	for _, t := range due {
		if i := slices.Index(p.timers, t); i >= 0 {
			p.timers = slices.Delete(p.timers, i, i+1)
			t.fn()
		}
	}
}
