package keeper

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// stdinAhead is how many bytes of stdin the keeper asks for beyond the received bytes.
const stdinAhead = 256 << 10

// input gives the ranks of this node their stdin. Each rank reads the client's stdin at
// its own pace, from a common spool: a rank that never reads does not block the others.
type input struct {
	job    *job
	spool  *spool
	feeds  []*feed
	null   int
	wanted uint64
	eof    bool
	all    bool // every rank has been started; until then the spool keeps every byte
}

// feed is the writing end of a rank's stdin.
type feed struct {
	rank *rank
	fd   int
	off  uint64 // offset of the next byte to write
	tty  bool
}

func newInput(j *job) (*input, *proc.Failure) {
	in := &input{job: j, spool: &spool{dir: j.keeper.place.Dir}, null: -1}
	fd, err := proc.OpenNull()
	if err != nil {
		return nil, proc.Failf(launcher.CauseOurs, filch.Unavailable, "cannot open /dev/null on %s: %s", j.node(), proc.Reason(err))
	}
	in.null = fd
	if j.what.IO.StdinMode != launcher.StdinFile {
		return in, nil
	}
	for _, r := range j.ranks {
		name := j.resolve(j.what.IO.Stdin, r)
		fd, err := openInput(name)
		if err != nil {
			return in, proc.Failf(launcher.CauseOurs, proc.ErrorKind(err), "cannot read %s on %s: %s", name, j.node(), proc.Reason(err))
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
		r.files.Lend(in.null)
		return nil
	case io.StdinMode == launcher.StdinFile:
		fd, err := openInput(in.job.resolve(io.Stdin, r))
		if err != nil {
			return err
		}
		r.files.Give(fd)
		return nil
	}
	ours, theirs, err := proc.Pipe(false)
	if err != nil {
		return err
	}
	r.files.Give(theirs)
	in.attach(&feed{rank: r, fd: ours})
	return nil
}

// attach adds a feed. An idle feed is still watched: when the reader ends, the pipe
// reports an error.
func (in *input) attach(f *feed) {
	in.feeds = append(in.feeds, f)
	mask := uint32(unix.EPOLLERR)
	in.job.keeper.poll.Watch(f.fd, mask, func(e uint32) { in.ready(f, e) })
}

// started writes the stdin received during the forks and asks for more, or reports that
// no rank reads stdin.
func (in *input) started() {
	unix.Close(in.null)
	in.null = -1
	in.all = true
	in.feedAll()
}

// want asks for as much stdin as the spool can take.
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
		in.job.link().SendRaw(wire.KindStdinWant, wire.Place{Index: in.job.order.Index, Offset: upTo}.Encode())
	}
}

// adopted asks again, as a new launcher does not know the earlier request.
func (in *input) adopted() {
	in.wanted = 0
	in.want()
}

// add takes a piece of stdin. Bytes received before are dropped. A piece beyond a gap is
// dropped, too: the launcher will send those bytes again.
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
		in.job.warn(string(in.job.node()) + ": cannot keep stdin for slow ranks: " + proc.Reason(err))
		in.spool.skip(len(s.Data))
		in.eof = true
	}
	in.eof = in.eof || s.EOF
	if in.all {
		in.feedAll()
	}
}

// feedAll writes to every rank as much as its pipe takes.
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

// feed writes as much as f's pipe takes.
func (in *input) feed(f *feed) {
	for f.fd >= 0 && f.off < in.spool.end {
		b, err := in.spool.read(f.off, in.job.keeper.scratch[:])
		if err != nil {
			in.job.warn(string(in.job.node()) + ": cannot read the stdin kept for a slow rank: " + proc.Reason(err))
			in.drop(f)
			return
		}
		n, err := unix.Write(f.fd, b)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			in.job.keeper.poll.Ask(f.fd, proc.Writable)
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
		in.job.keeper.poll.Ask(f.fd, unix.EPOLLERR)
	}
}

// trim drops the bytes already written to every rank.
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

// shed shrinks a full spool: stdin ends for a rank that has read nothing beyond its
// pipe's capacity while others have read on.
func (in *input) shed() {
	high := uint64(0)
	for _, f := range in.feeds {
		high = max(high, f.off)
	}
	for _, f := range append([]*feed(nil), in.feeds...) {
		if f.off <= pipeHolds && high > f.off+spoolMax/2 {
			in.job.warn("rank " + itoa(int(f.rank.id)) + " has not read 1 GiB of standard input: its standard input ends here")
			in.drop(f)
		}
	}
	before := in.spool.kept()
	in.trim()
	if in.spool.kept() < before {
		in.want()
	}
}

// drop ends the stdin of a rank.
func (in *input) drop(f *feed) {
	if f.fd < 0 {
		return
	}
	if !f.tty {
		in.job.keeper.poll.Drop(f.fd)
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

// close closes all feeds.
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
