package keeper

import (
	"fmt"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// makePty gives rank 0 a terminal (--pty): the terminal is all three standard streams,
// and the rank leads the terminal's session.
func (o *outputs) makePty(r *rank) error {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("cannot open a terminal: %w", err)
	}
	slave, err := openSlave(master)
	if err != nil {
		unix.Close(master)
		return fmt.Errorf("cannot open a terminal: %w", err)
	}
	r.files.Give(slave)
	r.files.Lend(slave)
	r.files.Lend(slave)
	r.files.IsPty = true
	o.pty = master
	if w := o.job.what.Pty; w != nil && w.Rows > 0 {
		o.resize(*w)
	}
	s := &stream{rank: r, no: 1, fd: master}
	f := &feed{rank: r, fd: master, tty: true}
	o.add(s)
	o.job.keeper.poll.Drop(master)
	o.job.in.feeds = append(o.job.in.feeds, f)
	return o.job.keeper.poll.Watch(master, proc.Readable, func(e uint32) {
		if e&unix.EPOLLOUT != 0 && f.fd >= 0 {
			o.job.keeper.poll.Ask(master, proc.Readable)
			o.job.in.ready(f, 0)
		}
		if e&^uint32(unix.EPOLLOUT) != 0 {
			o.read(s)
		}
	})
}

// openSlave opens the other side of a terminal.
func openSlave(master int) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	return unix.Open("/dev/pts/"+itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}

// resize follows the client's window.
func (o *outputs) resize(w launcher.Window) {
	if o.pty >= 0 {
		unix.IoctlSetWinsize(o.pty, unix.TIOCSWINSZ, &unix.Winsize{Row: w.Rows, Col: w.Cols})
	}
}
