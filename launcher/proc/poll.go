package proc

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Readiness that handlers ask for and are told of.
const (
	readable = unix.EPOLLIN | unix.EPOLLHUP | unix.EPOLLERR | unix.EPOLLRDHUP
	writable = unix.EPOLLOUT | unix.EPOLLHUP | unix.EPOLLERR
)

// poller is the keeper's one wait: descriptors and timers, all handled on the
// thread that calls turn.
type poller struct {
	ep     int
	fds    []watch // by descriptor
	gen    int32   // tells a reused descriptor from its past events
	timers []*timer
	events [64]unix.EpollEvent
	now    time.Time
}

type watch struct {
	fn   func(events uint32)
	gen  int32
	mask uint32
}

// timer calls fn once at its time; set and stop may be called from handlers.
type timer struct {
	at time.Time
	fn func()
}

func newPoller() (*poller, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &poller{ep: ep, fds: make([]watch, 64), now: time.Now()}, nil
}

// watch calls fn with what fd is ready for until drop.
func (p *poller) watch(fd int, mask uint32, fn func(events uint32)) error {
	for fd >= len(p.fds) {
		p.fds = append(p.fds, make([]watch, len(p.fds))...)
	}
	p.gen++
	p.fds[fd] = watch{fn: fn, gen: p.gen, mask: mask}
	return unix.EpollCtl(p.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: mask, Fd: int32(fd), Pad: p.gen})
}

// ask changes what a watched fd is watched for.
func (p *poller) ask(fd int, mask uint32) {
	w := &p.fds[fd]
	if w.fn == nil || w.mask == mask {
		return
	}
	w.mask = mask
	unix.EpollCtl(p.ep, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: mask, Fd: int32(fd), Pad: w.gen})
}

// drop stops watching fd; call it before the close.
func (p *poller) drop(fd int) {
	if fd < 0 || fd >= len(p.fds) || p.fds[fd].fn == nil {
		return
	}
	p.fds[fd] = watch{}
	unix.EpollCtl(p.ep, unix.EPOLL_CTL_DEL, fd, nil)
}

// after runs fn in d.
func (p *poller) after(d time.Duration, fn func()) *timer {
	t := &timer{at: time.Now().Add(d), fn: fn}
	p.timers = append(p.timers, t)
	return t
}

// stop forgets t, which may be nil.
func (p *poller) stop(t *timer) {
	if i := slices.Index(p.timers, t); t != nil && i >= 0 {
		p.timers = slices.Delete(p.timers, i, i+1)
	}
}

// turn waits for something and handles all that came.
func (p *poller) turn() error {
	n, err := unix.EpollWait(p.ep, p.events[:], p.pause())
	if err != nil && err != unix.EINTR {
		return err
	}
	p.now = time.Now()
	for i := range max(n, 0) {
		e := p.events[i]
		if w := p.fds[e.Fd]; w.fn != nil && w.gen == e.Pad {
			w.fn(e.Events)
		}
	}
	p.fire()
	return nil
}

// pause is the time to the next timer in milliseconds, rounded up.
func (p *poller) pause() int {
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

// fire runs the timers that are due, oldest first; those that they set wait
// for the next turn.
func (p *poller) fire() {
	var due []*timer
	for _, t := range p.timers {
		if !t.at.After(p.now) {
			due = append(due, t)
		}
	}
	slices.SortStableFunc(due, func(a, b *timer) int { return a.at.Compare(b.at) })
	for _, t := range due {
		if i := slices.Index(p.timers, t); i >= 0 {
			p.timers = slices.Delete(p.timers, i, i+1)
			t.fn()
		}
	}
}
