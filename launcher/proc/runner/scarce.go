package runner

import (
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// On a nearly full disk, a file with a task's output would make the task's own writes
// fail. There the task prints into pipes, and the runner drops the bytes beyond the
// bound.
const (
	// scarceBytes is the free space in bytes below which a disk is scarce: more than
	// tasks write between two looks at the disk.
	scarceBytes = 512 << 20
	// scarceKeep replaces the usual bound on a scarce disk, as the output is kept in
	// memory until the task ends.
	scarceKeep = output.KeptScarce
)

// scarce reports whether the disk of the kept output is nearly full.
func (k *keeping) scarce() bool {
	free, _, err := output.Disk(k.runner.place.Dir)
	return err == nil && free < scarceBytes
}

// drain receives the bytes of a pipe. The writer never waits for longer than the runner
// is busy.
type drain struct {
	fd    int // our end; -1 when all writers have closed theirs
	head  []byte
	tail  []byte
	total int64
}

// pipes gives t a taskOutput of pipes.
func (k *keeping) pipes() (*taskOutput, error) {
	c := &taskOutput{keep: scarceKeep, fds: [2]int{-1, -1}}
	for i := range c.fds {
		ours, theirs, err := proc.Pipe(true)
		if err != nil {
			c.close(k.runner.poll)
			return nil, err
		}
		c.fds[i], c.drains[i] = theirs, &drain{fd: ours}
		d := c.drains[i]
		if err := k.runner.poll.Watch(ours, proc.Readable, func(uint32) {
			d.read(k.runner.poll)
			if t := c.task; t != nil {
				k.runner.looks.stir(t.start.Job, t.start.Index)
			}
		}); err != nil {
			c.close(k.runner.poll)
			return nil, err
		}
	}
	return c, nil
}

// drainMax bounds the bytes read from a pipe per turn, so a flooding task does not keep
// the runner from the other tasks.
const drainMax = 1 << 20

// read reads the bytes in the pipe.
func (d *drain) read(p *proc.Epoll) {
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

// kept returns the kept bytes, and the number of bytes lost between the two halves.
func (d *drain) kept() (data []byte, lost int64) {
	tail := d.tail[max(0, len(d.tail)-scarceKeep/2):]
	data = append(append(data, d.head...), tail...)
	return data, d.total - int64(len(data))
}

// reset drops the received bytes.
func (d *drain) reset() { d.head, d.tail, d.total = d.head[:0], d.tail[:0], 0 }

func (d *drain) close(p *proc.Epoll) {
	if d.fd >= 0 {
		p.Drop(d.fd)
		unix.Close(d.fd)
		d.fd = -1
	}
}
