package keeper

import (
	"bytes"
	"path/filepath"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// Limits of the output waiting in a keeper.
const (
	// windowMax is how many bytes may be sent to the client and not credited; the keepers
	// of a wide job share the window, down to windowMin.
	windowMax = 1 << 20
	windowMin = 64 << 10
	// keptMax bounds the pieces on their way: a rank that writes single bytes
	// unbuffered would else cost far more than its bytes.
	keptMax = 4096
	// endKept is how many bytes are kept of the end of a rank's stderr: enough for a last
	// line of MPICH or UCX.
	endKept = 256
	// partialAfter is how long a line without an end is held back.
	partialAfter = time.Second
)

// outputs carries the output of the ranks of this node: to the client, by frames within a
// window of credits, or to files of this node. When the window is used up the pipes are
// not read, and the ranks block in their writes.
type outputs struct {
	job     *job
	streams []*stream
	files   map[string]*outputFile
	writer  *fileWriter
	null    int

	window   uint64
	offset   uint64 // bytes of this node handed on so far
	credited uint64
	kept     []piece // handed on and not credited, for a resend
	paused   []*stream
	open     int
	hung     bool // a file system does not answer
	pty      int  // the master of rank 0's terminal, -1 none
	flusher  *proc.Timer
}

// piece is an Output frame that may have to be sent again.
type piece struct {
	rank    filch.Rank
	stream  uint8
	partial bool
	offset  uint64
	data    []byte
}

// stream is a pipe from a rank.
type stream struct {
	rank *rank
	no   uint8 // 1 stdout, 2 stderr
	fd   int   // -1 closed
	cut  output.Cutter
	last time.Time   // the time of the last byte held back
	file *outputFile // nil: the client
	end  []byte      // the last bytes of stderr, see said

	aside bool // not watched, while the file is full
}

// outputFile is a file of this node.
type outputFile struct {
	name  string
	fd    int
	label bool
}

func newOutputs(j *job) *outputs {
	nodes := len(j.order.Launch.Nodes)
	w := max(windowMax/max(1, nodes/16), windowMin)
	return &outputs{job: j, files: map[string]*outputFile{}, null: -1, window: uint64(w), pty: -1}
}

// pattern is the destination of a stream of r: "" for the client, none, or a file.
func (o *outputs) pattern(r *rank, no uint8) string {
	io := &o.job.what.IO
	p, only := io.Stdout, io.OutRank
	if no == 2 && (io.Stderr != "" || io.ErrRank >= 0) {
		p, only = io.Stderr, io.ErrRank
	}
	switch {
	case o.job.what.Pty != nil && r.id != 0:
		return launcher.NoFile
	case only >= 0 && r.id != only:
		return launcher.NoFile
	case p == launcher.NoFile || p == "/dev/null":
		return launcher.NoFile
	case p == "" || output.SideOf(p) == output.SideClient:
		return ""
	}
	return p
}

// openFiles opens the files that the ranks of this node write.
func (o *outputs) openFiles() *proc.Failure {
	fd, err := proc.OpenNull()
	if err != nil {
		return proc.Failf(launcher.CauseOurs, filch.Unavailable, "cannot open /dev/null on %s: %s", o.job.node(), proc.Reason(err))
	}
	o.null = fd
	for _, r := range o.job.ranks {
		for no := uint8(1); no <= 2; no++ {
			p := o.pattern(r, no)
			if p == "" || p == launcher.NoFile {
				continue
			}
			name := o.job.resolve(p, r)
			if o.files[name] != nil {
				continue
			}
			fd, f := o.job.openOutput(name)
			if f != nil {
				return f
			}
			o.files[name] = &outputFile{name: name, fd: fd, label: o.job.what.IO.Label}
		}
	}
	if len(o.files) > 0 {
		o.writer, err = newFileWriter(o)
		if err != nil {
			return proc.Failf(launcher.CauseOurs, filch.Unavailable, "cannot write files on %s: %s", o.job.node(), proc.Reason(err))
		}
	}
	return nil
}

// connect gives r its stdout and stderr. The rank receives an unlabeled file of its own
// directly. All other output goes through a pipe, so lines of several ranks do not mix.
func (o *outputs) connect(r *rank) error { return o.connectTo(r, &r.files) }

// connectTo gives a process the stdout and stderr of r.
func (o *outputs) connectTo(r *rank, files *proc.Files) error {
	for no := uint8(1); no <= 2; no++ {
		p := o.pattern(r, no)
		if p == launcher.NoFile {
			files.Lend(o.null)
			continue
		}
		var to *outputFile
		if p != "" {
			to = o.files[o.job.resolve(p, r)]
			if output.SideOf(p) == output.SidePerRank && !to.label {
				files.Lend(to.fd)
				continue
			}
		}
		ours, theirs, err := proc.Pipe(true)
		if err != nil {
			return err
		}
		files.Give(theirs)
		o.add(&stream{rank: r, no: no, fd: ours, file: to})
	}
	return nil
}

// diskFull is the number of free bytes from which on a disk is not full.
const diskFull = 64 << 10

// full returns the folder of a file that r writes directly, if the disk of the file is
// full: r alone met the error, and r's own words about the error may be in that file.
func (o *outputs) full(r *rank) (dir string) {
	for no := uint8(1); no <= 2; no++ {
		p := o.pattern(r, no)
		if p == "" || p == launcher.NoFile || output.SideOf(p) != output.SidePerRank {
			continue
		}
		name := o.job.resolve(p, r)
		f := o.files[name]
		if f == nil || f.label {
			continue
		}
		var st unix.Statfs_t
		if err := unix.Fstatfs(f.fd, &st); err == nil && int64(st.Bavail)*st.Bsize < diskFull {
			return filepath.Dir(name)
		}
	}
	return ""
}

func (o *outputs) add(s *stream) {
	s.cut.Raw = o.job.what.IO.Unbuffered || s.fd == o.pty
	o.streams = append(o.streams, s)
	o.open++
	o.job.keeper.poll.Watch(s.fd, proc.Readable, func(uint32) { o.read(s) })
}

// abandon closes the pipes of a rank that never ran.
func (o *outputs) abandon(r *rank) {
	for _, s := range o.streams {
		if s.rank == r && s.fd >= 0 {
			o.closeStream(s)
		}
	}
}

// may reports whether more may be read for the destination of s.
func (o *outputs) may(s *stream) bool {
	if s.file != nil {
		return o.writer.waiting() < windowMax
	}
	return o.offset-o.credited < o.window && len(o.kept) < keptMax
}

// read reads once from a pipe, or sets the stream aside while its destination is full.
func (o *outputs) read(s *stream) bool {
	if s.fd < 0 {
		return false
	}
	if !o.may(s) {
		if !s.aside {
			s.aside = true
			o.job.keeper.poll.Drop(s.fd)
			o.paused = append(o.paused, s)
		}
		return false
	}
	buf := o.job.keeper.scratch[:]
	n, err := unix.Read(s.fd, buf)
	switch {
	case err == unix.EINTR:
		return true
	case err == unix.EAGAIN:
		return false
	case err != nil || n == 0: // EIO is the end of a terminal
		o.closeStream(s)
		return false
	}
	if s.no == 2 {
		last := buf[max(n-endKept, 0):n]
		s.end = append(s.end[max(len(s.end)+len(last)-endKept, 0):], last...)
	}
	s.cut.Add(buf[:n], func(b []byte, partial bool) { o.emit(s, b, partial) })
	if s.cut.Held() > 0 {
		s.last = o.job.keeper.poll.Now
		o.flushLater()
	}
	return true
}

// said reports whether text is at the end of the stderr of r; known is false where r
// writes the file directly, without passing through the keeper.
func (o *outputs) said(r filch.Rank, text string) (yes, known bool) {
	for _, s := range o.streams {
		if s.rank.id == r && s.no == 2 {
			for o.read(s) {
			}
			return bytes.Contains(s.end, []byte(text)), true
		}
	}
	return false, false
}

// closeStream ends a stream after handing on the bytes held back.
func (o *outputs) closeStream(s *stream) {
	s.cut.Flush(func(b []byte, partial bool) { o.emit(s, b, partial) })
	o.job.keeper.poll.Drop(s.fd)
	if s.fd == o.pty {
		o.pty = -1
		o.job.in.abandon(s.rank)
	}
	unix.Close(s.fd)
	s.fd = -1
	o.open--
}

// flushLater hands on beginnings of lines that have waited for long: a prompt.
func (o *outputs) flushLater() {
	if o.flusher != nil {
		return
	}
	o.flusher = o.job.keeper.poll.After(partialAfter/2, func() {
		o.flusher = nil
		for _, s := range o.streams {
			if s.fd < 0 || s.cut.Held() == 0 {
				continue
			}
			if o.job.keeper.poll.Now.Sub(s.last) >= partialAfter && o.may(s) {
				s.cut.Flush(func(b []byte, partial bool) { o.emit(s, b, partial) })
			} else {
				o.flushLater()
			}
		}
	})
}

// emit hands on a cut piece.
func (o *outputs) emit(s *stream, b []byte, partial bool) {
	if s.file != nil {
		if s.file.label {
			b = output.AppendLabeled(nil, s.rank.id, output.Width(o.job.order.Launch.Size), b)
		} else {
			b = append([]byte(nil), b...)
		}
		o.writer.write(s.file, b)
		return
	}
	for len(b) > 0 {
		n := min(len(b), wire.MaxChunk)
		p := piece{rank: s.rank.id, stream: s.no, partial: partial || n < len(b), offset: o.offset, data: append([]byte(nil), b[:n]...)}
		o.offset += uint64(n)
		o.kept = append(o.kept, p)
		o.send(p)
		b = b[n:]
	}
}

func (o *outputs) send(p piece) {
	head := wire.Output{
		Index: o.job.order.Index, Rank: p.rank, Offset: p.offset, Stream: p.stream, Partial: p.partial,
	}
	var b [32]byte
	o.job.link().SendRaw(wire.KindOutput, head.Head(b[:0]), p.data)
}

// credit notes that the client has taken all bytes before offset.
func (o *outputs) credit(offset uint64) {
	if offset <= o.credited || offset > o.offset {
		return
	}
	o.credited = offset
	n := 0
	for n < len(o.kept) && o.kept[n].offset+uint64(len(o.kept[n].data)) <= offset {
		o.kept[n].data = nil
		n++
	}
	if o.kept = o.kept[n:]; len(o.kept) == 0 {
		o.kept = nil
	}
	o.resume()
}

// resume reads again from the streams set aside.
func (o *outputs) resume() {
	paused := o.paused
	o.paused = nil
	for i, s := range paused {
		if s.fd < 0 {
			continue
		}
		if !o.may(s) {
			o.paused = append(o.paused, paused[i])
			continue
		}
		s.aside = false
		o.job.keeper.poll.Watch(s.fd, proc.Readable, func(uint32) { o.read(s) })
	}
}

// resend sends the pieces from offset again.
func (o *outputs) resend(offset uint64) {
	for _, p := range o.kept {
		if p.offset+uint64(len(p.data)) > offset {
			o.send(p)
		}
	}
	if o.job.phase == done {
		o.sendEnd()
	}
}

func (o *outputs) adopted() { o.resend(o.credited) }

func (o *outputs) sendEnd() {
	o.job.link().SendRaw(wire.KindOutputEnd, wire.Place{Index: o.job.order.Index, Offset: o.offset}.Encode())
}

// discard drops the output held back for the client.
func (o *outputs) discard() {
	for _, s := range o.streams {
		if s.fd >= 0 && s.file == nil {
			o.closeStream(s)
		}
	}
}

// drained reads the rest of the pipes, when no process of the job is left, and reports
// whether all output was handed on. A pipe still held open by a foreign process is
// closed: no process of the job writes there.
func (o *outputs) drained() bool {
	for _, s := range o.streams {
		for o.read(s) {
		}
	}
	for _, s := range o.streams {
		if s.fd >= 0 && o.may(s) {
			o.closeStream(s)
		}
	}
	return o.open == 0 && (o.writer == nil || o.writer.finished())
}

// close closes all streams and files.
func (o *outputs) close() {
	for _, s := range o.streams {
		if s.fd >= 0 {
			o.closeStream(s)
		}
	}
	if o.writer != nil {
		o.writer.close()
	}
	for _, f := range o.files {
		if !o.hung { // else a late write could go to a reused descriptor
			unix.Close(f.fd)
		}
	}
	unix.Close(o.null)
	o.streams, o.files, o.null = nil, nil, -1
	o.job.keeper.poll.Stop(o.flusher)
}
