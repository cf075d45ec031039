package proc

import (
	"github.com/filch-hpc/filch/launcher/output"
	"golang.org/x/sys/unix"
)

// Where a disk has little room, a file that takes what a task prints would make
// the task's own writes fail. So the task prints into pipes, and what finds no
// room is given up here, not there.
const (
	// scarceBytes is how much room makes a disk scarce: more than tasks write
	// between two looks at the disk.
	scarceBytes = 512 << 20
	// scarceKeep replaces captureMax there, as it is kept in memory until the
	// task ends: of what is longer, the first and the last half stay.
	scarceKeep = 256 << 10
)

// scarce reports whether the disk of the kept output has little room.
func (k *keeping) scarce() bool {
	free, _, err := output.Disk(k.runner.place.Dir)
	return err == nil && free < scarceBytes
}

// drain takes what comes through a pipe. It never lets the writer wait for
// longer than the runner is busy.
type drain struct {
	fd    int // our end; -1 when all writers have closed theirs
	head  []byte
	tail  []byte
	total int64
}

// pipes gives t a capture of pipes.
func (k *keeping) pipes() (*capture, error) {
	c := &capture{keep: scarceKeep, fds: [2]int{-1, -1}}
	for i := range c.fds {
		ours, theirs, err := pipe(true)
		if err != nil {
			c.close(k.runner.poll)
			return nil, err
		}
		c.fds[i], c.drains[i] = theirs, &drain{fd: ours}
		d := c.drains[i]
		if err := k.runner.poll.watch(ours, readable, func(uint32) { d.read(k.runner.poll) }); err != nil {
			c.close(k.runner.poll)
			return nil, err
		}
	}
	return c, nil
}

// drainMax bounds what one turn reads of one pipe, so that a task that floods
// does not keep the runner from the others.
const drainMax = 1 << 20

// read takes what is in the pipe.
func (d *drain) read(p *poller) {
	var chunk [64 << 10]byte
	for got := 0; d.fd >= 0 && got < drainMax; {
		n, err := unix.Read(d.fd, chunk[:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return
		case err != nil || n == 0:
			d.close(p)
			return
		}
		d.add(chunk[:n])
		got += n
	}
}

// add keeps the beginning and the end.
func (d *drain) add(b []byte) {
	d.total += int64(len(b))
	n := min(scarceKeep/2-len(d.head), len(b))
	d.head, b = append(d.head, b[:n]...), b[n:]
	if d.tail = append(d.tail, b...); len(d.tail) > scarceKeep {
		d.tail = append(d.tail[:0], d.tail[len(d.tail)-scarceKeep/2:]...)
	}
}

// kept is what was kept of all that came, and how much is missing between its
// halves.
func (d *drain) kept() (data []byte, lost int64) {
	tail := d.tail[max(0, len(d.tail)-scarceKeep/2):]
	data = append(append(data, d.head...), tail...)
	return data, d.total - int64(len(data))
}

// reset forgets what came.
func (d *drain) reset() { d.head, d.tail, d.total = d.head[:0], d.tail[:0], 0 }

func (d *drain) close(p *poller) {
	if d.fd >= 0 {
		p.drop(d.fd)
		unix.Close(d.fd)
		d.fd = -1
	}
}
