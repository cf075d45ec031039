package runner

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// Limits of looks at the output of running tasks.
const (
	// lookMax bounds the output in an answer, in bytes: a runner reads that much in well
	// under a millisecond, and forks no task meanwhile.
	lookMax = 256 << 10
	// lookQueueMax bounds the bytes that wait for a launcher before looks are answered
	// without output.
	lookQueueMax = 4 << 20
	// watchedMax bounds the watched spans; further looks are answered as if the limit of
	// an answer was reached, so the launcher looks again.
	watchedMax = 4096
	// lookAgain is the time between two looks where the kernel gives no watches.
	lookAgain = 100 * time.Millisecond
)

// looks answers the launcher's looks at the output of running tasks, and watches the
// files of the tasks for news. Without a look, looks does nothing.
type looks struct {
	runner  *runner
	watched map[launcher.TaskSpan]bool
	kernel  int              // descriptor of inotify, -1 before the first watch
	serials map[int32]uint64 // of the task, by the number of a watch
	again   *proc.Timer
}

func newLooks(r *runner) *looks {
	return &looks{runner: r, watched: map[launcher.TaskSpan]bool{}, kernel: -1, serials: map[int32]uint64{}}
}

// answer answers a look.
func (l *looks) answer(q *launcher.TaskLook) {
	r := l.runner
	if s := r.keep.jobs[q.Span.Job]; s != nil {
		if err := s.Flush(); err != nil {
			r.keep.complain(err)
		}
	}
	seen := &launcher.TaskSeen{Token: q.Token}
	if r.link.Queued() > lookQueueMax {
		seen.Running, seen.More = q.Marks, true
	} else {
		l.read(q, seen)
		if q.Watch && len(seen.Pieces) == 0 && !seen.More {
			seen.More = !l.watch(q)
		}
	}
	r.link.Send(wire.KindTaskSeen, seen)
	r.keep.boundSoon()
}

// streamOf names a stream of an attempt.
func streamOf(t *task, i int) launcher.StreamMark {
	return launcher.StreamMark{Index: t.start.Index, Nth: t.start.Nth, Stream: uint8(i + 1)}
}

// read adds the pieces beyond the marks, in any order of tasks: so no task is always last.
func (l *looks) read(q *launcher.TaskLook, seen *launcher.TaskSeen) {
	marks := make(map[launcher.StreamMark]int64, len(q.Marks))
	for _, m := range q.Marks {
		at := m.At
		m.At = 0
		marks[m] = at
	}
	limit := int(min(q.Limit, lookMax))
	left := limit
	for _, t := range l.runner.tasks {
		if t.out == nil || !q.Span.Has(t.start.Job, t.start.Index) {
			continue
		}
		for i := range t.out.fds {
			key := streamOf(t, i)
			m := key
			m.At = marks[key]
			if !q.Ended && left > 0 {
				p := launcher.TaskPiece{}
				at := m.At
				p.Data, m.At, p.Lost = t.out.after(i, at, left, q.Lines, l.runner.poll)
				switch n := len(p.Data); {
				case n == 0:
				case q.Lines && n == left && left < limit && p.Data[n-1] != '\n':
					m.At, seen.More = at, true // a line for the next answer, which has room
				default:
					p.Mark = m
					seen.Pieces = append(seen.Pieces, p)
					// Whole lines rarely fill the limit to the last byte.
					total, _, _ := t.out.gap(i)
					seen.More = seen.More || total-m.At+int64(len(p.Data)) > int64(left)
					left -= len(p.Data)
				}
			}
			if m.At > 0 {
				seen.Running = append(seen.Running, m)
			}
		}
	}
	seen.More = seen.More || left <= 0
}

// watch makes the next output of a span's tasks send the span; false: the span cannot be
// watched.
func (l *looks) watch(q *launcher.TaskLook) bool {
	if len(l.watched) >= watchedMax && !l.watched[q.Span] {
		return false
	}
	l.watched[q.Span] = true
	if q.Ended {
		return true
	}
	marks := make(map[launcher.StreamMark]int64, len(q.Marks))
	for _, m := range q.Marks {
		at := m.At
		m.At = 0
		marks[m] = at
	}
	for _, t := range l.runner.tasks {
		if t.out == nil || !q.Span.Has(t.start.Job, t.start.Index) {
			continue
		}
		before := t.out.sizes()
		l.arm(t)
		if t.out.sizes() != before {
			l.stir(t.start.Job, t.start.Index)
			return true
		}
	}
	return true
}

// started watches the output of a new task of a watched span.
func (l *looks) started(t *task) {
	for span := range l.watched {
		if t.out == nil || !span.Has(t.start.Job, t.start.Index) {
			continue
		}
		if l.arm(t); t.out.sizes() != [2]int64{} {
			l.stir(t.start.Job, t.start.Index)
		}
		return
	}
}

// arm has the kernel report the next write to the files of a task, once. The runner
// itself sees the bytes of pipes.
func (l *looks) arm(t *task) {
	if t.out.piped() {
		return
	}
	for _, fd := range t.out.fds {
		n, err := l.add(fd)
		if err != nil {
			l.lookLater()
			return
		}
		l.serials[int32(n)] = t.start.Serial
	}
}

// add adds a watch of one write.
func (l *looks) add(fd int) (int, error) {
	if l.kernel < 0 {
		n, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return 0, err
		}
		if err := l.runner.poll.Watch(n, proc.Readable, func(uint32) { l.onEvents() }); err != nil {
			unix.Close(n)
			return 0, err
		}
		l.kernel = n
	}
	return unix.InotifyAddWatch(l.kernel, "/proc/self/fd/"+strconv.Itoa(fd), unix.IN_MODIFY|unix.IN_ONESHOT)
}

// onEvents reads the events of the kernel.
func (l *looks) onEvents() {
	var b [4096]byte
	n, err := unix.Read(l.kernel, b[:])
	if err != nil {
		return
	}
	for rest := b[:n]; len(rest) >= unix.SizeofInotifyEvent; {
		number := int32(binary.NativeEndian.Uint32(rest))
		mask := binary.NativeEndian.Uint32(rest[4:])
		serial, ok := l.serials[number]
		switch {
		case mask&unix.IN_IGNORED != 0:
			delete(l.serials, number)
		case ok:
			if t := l.runner.tasks[serial]; t != nil {
				l.stir(t.start.Job, t.start.Index)
			}
		}
		rest = rest[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(rest[12:])):]
	}
}

// lookLater has the launcher look again soon: the kernel gives no watches.
func (l *looks) lookLater() {
	if l.again != nil {
		return
	}
	l.again = l.runner.poll.After(lookAgain, func() {
		l.again = nil
		for span := range l.watched {
			l.send(span)
		}
	})
}

// stir tells the launcher of the output of a task, if the task is watched.
func (l *looks) stir(job filch.JobID, i launcher.TaskIndex) {
	for span := range l.watched {
		if span.Has(job, i) {
			l.send(span)
		}
	}
}

func (l *looks) send(span launcher.TaskSpan) {
	delete(l.watched, span)
	l.runner.link.Send(wire.KindTaskStir, &span)
}

func (l *looks) close() {
	if l.kernel >= 0 {
		l.runner.poll.Drop(l.kernel)
		unix.Close(l.kernel)
	}
}

// sizes returns the numbers of bytes that the task has printed.
func (c *taskOutput) sizes() (n [2]int64) {
	for i := range c.fds {
		if d := c.drains[i]; d != nil {
			n[i] = d.total
		} else {
			n[i] = size(c.fds[i])
		}
	}
	return n
}

// gap returns the number of bytes printed, and the place of the dropped bytes.
func (c *taskOutput) gap(i int) (total, from, to int64) {
	if d := c.drains[i]; d != nil {
		return d.total, int64(len(d.head)), d.total - int64(len(d.tail))
	}
	return size(c.fds[i]), c.keep / 2, c.keep/2 + c.lost[i]
}

// after returns at most n bytes of a stream from a place on, the place after these
// bytes, and the number of dropped bytes before these bytes. With lines, a line is returned
// once the line has its end, or has n or [output.LineMax] bytes.
func (c *taskOutput) after(i int, at int64, n int, lines bool, p *proc.Epoll) (data []byte, next, lost int64) {
	if d := c.drains[i]; d != nil {
		d.read(p)
	}
	total, from, to := c.gap(i)
	begin, end := at, total
	switch {
	case from < to && at < from:
		end = min(from, total)
	case at >= from && at < to:
		begin, lost = to, to-at
	}
	if n = int(min(end-begin, int64(n))); n <= 0 {
		return nil, at, 0
	}
	data = make([]byte, n)
	if d := c.drains[i]; d != nil {
		copied := 0
		if begin < from {
			copied = copy(data, d.head[begin:])
		}
		copy(data[copied:], d.tail[max(begin, to)-to:])
	} else {
		got, err := unix.Pread(c.fds[i], data, begin)
		if err != nil || got <= 0 {
			return nil, at, 0
		}
		data = data[:got]
	}
	if lines && begin+int64(len(data)) == total && len(data) < output.LineMax {
		data = data[:bytes.LastIndexByte(data, '\n')+1]
	} else if cut := bytes.LastIndexByte(data, '\n') + 1; lines && cut > 0 {
		data = data[:cut]
	}
	if len(data) == 0 {
		return nil, at, 0
	}
	return data, begin + int64(len(data)), lost
}
