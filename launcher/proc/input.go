package proc

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// stdinAhead is how much stdin is asked for beyond what has come.
const stdinAhead = 256 << 10

// input gives the ranks of this node their stdin. Each reads the client's at
// its own pace, from one spool: a rank that never reads holds up nobody.
type input struct {
	job    *job
	spool  *spool
	feeds  []*feed
	null   int
	wanted uint64
	eof    bool
	all    bool // every rank has been started; before, nothing may be forgotten
}

// feed is the writing end of a rank's stdin.
type feed struct {
	rank *rank
	fd   int
	off  uint64 // of the next byte that it takes
	tty  bool
}

func newInput(j *job) (*input, *failure) {
	in := &input{job: j, spool: &spool{dir: j.keeper.place.Dir}, null: -1}
	fd, err := openNull()
	if err != nil {
		return nil, fail(launcher.CauseOurs, filch.Unavailable, "cannot open /dev/null on %s: %s", j.node(), reason(err))
	}
	in.null = fd
	if j.what.IO.StdinMode != launcher.StdinFile {
		return in, nil
	}
	for _, r := range j.ranks {
		name := j.resolve(j.what.IO.Stdin, r)
		fd, err := openInput(name)
		if err != nil {
			return in, fail(launcher.CauseOurs, kindOf(err), "cannot read %s on %s: %s", name, j.node(), reason(err))
		}
		unix.Close(fd)
	}
	return in, nil
}

// connect gives r its stdin.
func (in *input) connect(r *rank) error {
	io := &in.job.what.IO
	switch {
	case in.job.what.Pty != nil, io.StdinMode == launcher.StdinNone,
		io.StdinMode == launcher.StdinOne && io.StdinRank != r.id:
		r.files.lend(in.null)
		return nil
	case io.StdinMode == launcher.StdinFile:
		fd, err := openInput(in.job.resolve(io.Stdin, r))
		if err != nil {
			return err
		}
		r.files.give(fd)
		return nil
	}
	ours, theirs, err := pipe(false)
	if err != nil {
		return err
	}
	r.files.give(theirs)
	in.attach(&feed{rank: r, fd: ours})
	return nil
}

// attach adds a feed. An idle one is still watched: the end of its reader is
// an error of the pipe.
func (in *input) attach(f *feed) {
	in.feeds = append(in.feeds, f)
	mask := uint32(unix.EPOLLERR)
	in.job.keeper.poll.watch(f.fd, mask, func(e uint32) { in.ready(f, e) })
}

// started hands out what came while the ranks were forked and asks for more, or
// says that nobody wants any.
func (in *input) started() {
	unix.Close(in.null)
	in.null = -1
	in.all = true
	in.feedAll()
}

// want asks for what the spool has room for.
func (in *input) want() {
	upTo := in.spool.end + stdinAhead
	switch {
	case in.eof || !in.all:
		return
	case len(in.feeds) == 0:
		upTo = wire.NoStdin
	case in.spool.kept() >= spoolMax:
		in.shed()
		return
	}
	if upTo >= in.wanted+stdinAhead/2 || in.wanted == 0 {
		in.wanted = upTo
		in.job.link().raw(wire.KindStdinWant, wire.Place{Index: in.job.order.Index, Offset: upTo}.Encode())
	}
}

// adopted asks again, for a launcher that does not know.
func (in *input) adopted() {
	in.wanted = 0
	in.want()
}

// add takes a piece of stdin. What was seen already is dropped, and so is what
// leaves a gap: it will be sent again.
func (in *input) add(s wire.Stdin) {
	end := in.spool.end
	if in.eof || s.Offset > end {
		return
	}
	if skip := end - s.Offset; skip <= uint64(len(s.Data)) {
		s.Data = s.Data[skip:]
	} else {
		return
	}
	if len(in.feeds) == 0 && in.all {
		in.spool.skip(len(s.Data))
	} else if err := in.spool.add(s.Data); err != nil {
		in.job.warn(string(in.job.node()) + ": cannot keep stdin for slow ranks: " + reason(err))
		in.spool.skip(len(s.Data))
		in.eof = true
	}
	in.eof = in.eof || s.EOF
	if in.all {
		in.feedAll()
	}
}

// feedAll gives every rank what it takes.
func (in *input) feedAll() {
	for _, f := range append([]*feed(nil), in.feeds...) {
		in.feed(f)
	}
	in.trim()
	in.want()
}

func (in *input) ready(f *feed, events uint32) {
	if events&unix.EPOLLERR != 0 && !f.tty {
		in.drop(f)
		in.want()
		return
	}
	in.feed(f)
	in.trim()
	in.want()
}

// feed writes what f's pipe takes.
func (in *input) feed(f *feed) {
	for f.fd >= 0 && f.off < in.spool.end {
		b, err := in.spool.read(f.off, in.job.keeper.scratch[:])
		if err != nil {
			in.job.warn(string(in.job.node()) + ": cannot read the stdin kept for a slow rank: " + reason(err))
			in.drop(f)
			return
		}
		n, err := unix.Write(f.fd, b)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			in.job.keeper.poll.ask(f.fd, writable)
			return
		case err != nil:
			in.drop(f)
			return
		default:
			f.off += uint64(n)
		}
	}
	if f.fd < 0 {
		return
	}
	if in.eof {
		if f.tty {
			unix.Write(f.fd, []byte{4}) // VEOF
			in.unlist(f)
			return
		}
		in.drop(f)
		return
	}
	if !f.tty {
		in.job.keeper.poll.ask(f.fd, unix.EPOLLERR)
	}
}

// trim forgets what every rank has.
func (in *input) trim() {
	if !in.all {
		return
	}
	low := in.spool.end
	for _, f := range in.feeds {
		low = min(low, f.off)
	}
	in.spool.trim(low)
}

// shed makes room in a full spool: ranks that have not read what their pipe
// holds while others read on are given no more.
func (in *input) shed() {
	high := uint64(0)
	for _, f := range in.feeds {
		high = max(high, f.off)
	}
	for _, f := range append([]*feed(nil), in.feeds...) {
		if f.off <= pipeHolds && high > f.off+spoolMax/2 {
			in.job.warn("rank " + itoa(int(f.rank.id)) + " has left 1 GiB of stdin unread: its stdin ends here")
			in.drop(f)
		}
	}
	before := in.spool.kept()
	in.trim()
	if in.spool.kept() < before {
		in.want()
	}
}

// drop ends the stdin of one rank.
func (in *input) drop(f *feed) {
	if f.fd < 0 {
		return
	}
	if !f.tty {
		in.job.keeper.poll.drop(f.fd)
		unix.Close(f.fd)
	}
	in.unlist(f)
}

func (in *input) unlist(f *feed) {
	f.fd = -1
	for i, g := range in.feeds {
		if g == f {
			in.feeds = append(in.feeds[:i], in.feeds[i+1:]...)
			return
		}
	}
}

// close closes what is open.
func (in *input) close() {
	for len(in.feeds) > 0 {
		in.drop(in.feeds[0])
	}
	in.all = true
	in.trim()
	if in.null >= 0 {
		unix.Close(in.null)
	}
}

// abandon ends the stdin of a rank that is gone.
func (in *input) abandon(r *rank) {
	for _, f := range in.feeds {
		if f.rank == r {
			in.drop(f)
			in.trim()
			if len(in.feeds) == 0 && in.job.alive > 0 {
				in.want()
			}
			return
		}
	}
}
