package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// Limits of the kept output.
const (
	// outputLook is how often the runner looks at the size of streams.
	outputLook = 250 * time.Millisecond
	// sparesMax bounds the spare taskOutputs for later tasks.
	sparesMax = 256
)

// taskOutput receives the output of a task: in two files without a name, opened for
// appending and reused when the task has ended; or through two pipes, where the disk is
// nearly full.
type taskOutput struct {
	fds    [2]int    // the task's ends; of a pipe -1 after the fork
	lost   [2]int64  // bytes dropped from the middle of a file
	keep   int64     // the bound on kept bytes of a stream
	drains [2]*drain // of pipes
	task   *task     // prints here; nil none
}

// piped reports whether the output is of pipes.
func (c *taskOutput) piped() bool { return c.drains[0] != nil }

// forked closes the child's ends of the pipes.
func (c *taskOutput) forked() {
	for i, fd := range c.fds {
		if c.piped() && fd >= 0 {
			unix.Close(fd)
			c.fds[i] = -1
		}
	}
}

// read returns the kept bytes of a stream so far, and the number of bytes lost from its
// middle.
func (c *taskOutput) read(i int, p *proc.Epoll) (data []byte, lost int64, err error) {
	if d := c.drains[i]; d != nil {
		d.read(p)
		data, lost = d.kept()
		return data, lost, nil
	}
	n := size(c.fds[i])
	if n == 0 {
		return nil, 0, nil
	}
	return readCapture(c.fds[i], n, c.keep)
}

// empty empties a stream and reports whether the stream had bytes.
func (c *taskOutput) empty(i int) (had bool, err error) {
	if d := c.drains[i]; d != nil {
		had = d.total > 0
		d.reset()
		return had, nil
	}
	if had = size(c.fds[i]) > 0; had {
		err = unix.Ftruncate(c.fds[i], 0)
	}
	c.lost[i] = 0
	return had, err
}

// keeping is the output of this runner's tasks: the taskOutputs that the tasks print to, and
// the segments with the kept output.
type keeping struct {
	runner *runner
	dir    string
	spare  []*taskOutput
	jobs   map[filch.JobID]*output.Segments
	null   int
	look   *proc.Timer
	flush  *proc.Timer
	fault  string // the last reported fault
}

func newKeeping(r *runner) *keeping {
	null, err := proc.OpenNull()
	if err != nil {
		null = -1
	}
	return &keeping{runner: r, dir: r.place.OutputRoot(), jobs: map[filch.JobID]*output.Segments{}, null: null}
}

// files returns the descriptors that t inherits.
func (k *keeping) files(t *task) (f proc.Files, bad *proc.Failure) {
	o := t.order.what
	in := k.null
	stdin, stdout, stderr := t.stream(0, o.Stdin), t.stream(1, o.Stdout), t.stream(2, o.Stderr)
	switch {
	case stdin == launcher.NoFile:
	case stdin != "":
		fd, err := unix.Open(stdin, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		if err != nil {
			return f, proc.Failf(launcher.CauseOurs, filch.NotFound, "cannot read %s as the input of task %d.%d on %s: %s", stdin, t.start.Job, t.start.Index, k.runner.place.Node, proc.Reason(err))
		}
		in = fd
		f.Theirs = append(f.Theirs, fd)
	case t.start.Line != "":
		fd, err := lineFile(k.runner.place.Dir, t.start.Line)
		if err != nil {
			return f, proc.Failf(launcher.CauseOurs, filch.Internal, "cannot give task %d.%d its input on %s: %s", t.start.Job, t.start.Index, k.runner.place.Node, proc.Reason(err))
		}
		in = fd
		f.Theirs = append(f.Theirs, fd)
	}
	f.Child = []uintptr{uintptr(in), uintptr(k.null), uintptr(k.null)}
	if o.Keep != launcher.KeepNone && (stdout == "" || stderr == "") {
		if bad = k.lend(t); bad != nil {
			return f, bad
		}
		f.Child[1], f.Child[2] = uintptr(t.out.fds[0]), uintptr(t.out.fds[1])
	}
	for i, name := range []string{stdout, stderr} {
		if name == "" {
			continue
		}
		if name == launcher.NoFile {
			f.Child[1+i] = uintptr(k.null)
			continue
		}
		if i == 1 && (name == "-" || name == stdout) {
			f.Child[2] = f.Child[1]
			continue
		}
		fd, bad := k.open(t, name)
		if bad != nil {
			return f, bad
		}
		f.Child[1+i] = uintptr(fd)
		f.Theirs = append(f.Theirs, fd)
	}
	return f, nil
}

// stream names the file of one of the three streams: the task's own name, or the expanded
// pattern of the order; "" where the node keeps the stream, "-" for stderr to the file of
// stdout.
func (t *task) stream(i int, pattern string) string {
	if s := t.start.Streams; s != nil {
		if own := [...]string{s.Stdin, s.Stdout, s.Stderr}[i]; own != "" {
			if t.order.what.Graph != nil {
				return filepath.Join(t.start.Cwd, own)
			}
			pattern = own
		}
	}
	if pattern == "" || pattern == launcher.NoFile || i == 2 && pattern == "-" {
		return pattern
	}
	return t.name(pattern)
}

// open opens a file named by the user.
func (k *keeping) open(t *task, name string) (int, *proc.Failure) {
	fd, err := proc.OpenOutput(name, t.order.what.Append)
	if err != nil {
		return -1, proc.Failf(launcher.CauseOurs, filch.Denied, "cannot write %s, the output of task %d.%d, on %s: %s", name, t.start.Job, t.start.Index, k.runner.place.Node, proc.Reason(err))
	}
	return fd, nil
}

// lineFile makes a file without a name, containing text.
func lineFile(dir, text string) (int, error) {
	fd, err := unix.MemfdCreate("filch-task", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if _, err := unix.Pwrite(fd, []byte(text), 0); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// lend gives t a taskOutput.
func (k *keeping) lend(t *task) *proc.Failure {
	if k.scarce() {
		c, err := k.pipes()
		if err != nil {
			return proc.Failf(launcher.CauseOurs, filch.Internal, "cannot make the pipes of task %d.%d: %s", t.start.Job, t.start.Index, proc.Reason(err))
		}
		t.out, c.task = c, t
		return nil
	}
	if n := len(k.spare); n > 0 {
		t.out = k.spare[n-1]
		k.spare = k.spare[:n-1]
	} else {
		c := &taskOutput{keep: output.KeptMax}
		for i := range c.fds {
			fd, err := outputFile(k.runner.place.Dir)
			if err != nil {
				if i == 1 {
					unix.Close(c.fds[0])
				}
				return proc.Failf(launcher.CauseOurs, filch.Internal, "cannot keep the output of task %d.%d in %s: %s", t.start.Job, t.start.Index, k.runner.place.Dir, proc.Reason(err))
			}
			c.fds[i] = fd
		}
		t.out = c
	}
	if k.look == nil {
		k.look = k.runner.poll.After(outputLook, k.bound)
	}
	return nil
}

// outputFile makes a file without a name, opened for appending.
func outputFile(dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return fd, nil
	}
	f, err := os.CreateTemp(dir, "output-")
	if err != nil {
		return -1, err
	}
	defer f.Close()
	defer os.Remove(f.Name())
	return unix.Open(f.Name(), unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0)
}

// giveBack takes a taskOutput back. A taskOutput that a process may still write to is not used
// again.
func (k *keeping) giveBack(t *task, clean bool) {
	c := t.out
	if c == nil {
		return
	}
	t.out, c.task = nil, nil
	for i := range c.fds {
		if had, err := c.empty(i); clean && had {
			// The task printed, so the task may have left a process that still prints.
			clean = err == nil && !k.runner.leftover()
		}
	}
	if clean && len(k.spare) < sparesMax && c.keep == output.KeptMax {
		k.spare = append(k.spare, c)
		return
	}
	c.close(k.runner.poll)
}

func (c *taskOutput) close(p *proc.Epoll) {
	for i, fd := range c.fds {
		if fd >= 0 {
			unix.Close(fd)
		}
		if d := c.drains[i]; d != nil {
			d.close(p)
		}
	}
}

// leftover reports whether this process has a child that is neither a task's nor a
// worker's process.
func (r *runner) leftover() bool {
	children, ok := proc.Children(os.Getpid())
	if !ok {
		return true
	}
	for _, pid := range children {
		if r.byPID[pid] == nil && !r.isWorker(pid) {
			return true
		}
	}
	return false
}

func size(fd int) int64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Size
}

// boundSoon calls bound if its time is near: the runner is awake, and a wake costs more than
// a look at the sizes. So a follower of output adds no wakes of its own.
func (k *keeping) boundSoon() {
	if k.runner.poll.Near(k.look, outputLook/2) {
		k.runner.poll.Stop(k.look)
		k.bound()
	}
}

// bound drops the middle of streams longer than the bound, so a flooding task does not
// fill the disk.
func (k *keeping) bound() {
	k.look = nil
	scarce := k.scarce()
	for _, t := range k.runner.tasks {
		c := t.out
		if c == nil || c.piped() {
			continue
		}
		if scarce {
			c.keep = scarceKeep
		}
		for i, fd := range c.fds {
			if drop := size(fd) - c.lost[i] - c.keep; drop > c.keep/4 {
				if unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, c.keep/2, c.lost[i]+drop) == nil {
					c.lost[i] += drop
				}
			}
		}
	}
	if len(k.runner.tasks) > 0 {
		k.look = k.runner.poll.After(outputLook, k.bound)
	}
}

// take moves the output of a task to the segments of its job. The end of the task then
// holds the number of kept bytes, and whether output was cut.
func (k *keeping) take(t *task, e *launcher.TaskEnd) {
	total, scarce := int64(0), t.out.keep == scarceKeep
	for i := range t.out.fds {
		data, lost, err := t.out.read(i, k.runner.poll)
		if len(data) == 0 && err == nil {
			continue
		}
		e.Cut = e.Cut || lost > 0
		if err == nil {
			err = k.segments(t.start.Job).Add(output.Printed{
				Index: int32(t.start.Index), Attempt: t.start.Nth, Stream: uint8(i + 1),
				Failed: e.Kind != launcher.CauseNone, Lost: lost, Data: data,
			})
		}
		if err == nil && scarce {
			err = k.segments(t.start.Job).Flush() // write errors go into the end
		}
		if err != nil {
			e.Cut = true
			k.complain(err)
			continue
		}
		total += int64(len(data))
	}
	if total > 0 && k.flush == nil {
		k.flush = k.runner.poll.After(outputLook, k.write)
	}
	e.Bytes = total
}

// explain keeps the reason of a failed task in the task's output, for readers of the
// output, and returns the number of bytes.
func (k *keeping) explain(t *task, e *launcher.TaskEnd) int64 {
	if e.Kind == launcher.CauseNone || e.Text == "" || t.order.what.Keep == launcher.KeepNone {
		return 0
	}
	line := "filch: " + e.Text + "\n"
	err := k.segments(t.start.Job).Add(output.Printed{
		Index: int32(t.start.Index), Attempt: t.start.Nth, Stream: 2, Failed: true, Data: []byte(line),
	})
	if err != nil {
		k.complain(err)
		return 0
	}
	if k.flush == nil {
		k.flush = k.runner.poll.After(outputLook, k.write)
	}
	return int64(len(line))
}

// write writes the output taken so far to the segments' files.
func (k *keeping) write() {
	k.runner.poll.Stop(k.flush)
	k.flush = nil
	for _, s := range k.jobs {
		if err := s.Flush(); err != nil {
			k.complain(err)
		}
	}
}

// readCapture reads n bytes, or, of more than keep bytes, the beginning and the end.
func readCapture(fd int, n, keep int64) (data []byte, lost int64, err error) {
	if n <= keep {
		data = make([]byte, n)
		got, err := unix.Pread(fd, data, 0)
		return data[:max(got, 0)], 0, err
	}
	data = make([]byte, keep)
	if _, err = unix.Pread(fd, data[:keep/2], 0); err == nil {
		_, err = unix.Pread(fd, data[keep/2:], n-keep/2)
	}
	return data, n - keep, err
}

func (k *keeping) segments(job filch.JobID) *output.Segments {
	s := k.jobs[job]
	if s == nil {
		s = output.NewSegments(k.runner.place.OutputDir(job), os.Getpid())
		k.jobs[job] = s
	}
	return s
}

// complain logs once that output could not be kept.
func (k *keeping) complain(err error) {
	if text := err.Error(); text != k.fault {
		k.fault = text
		fmt.Fprintf(os.Stderr, "filch: warning: runner on %s: %s\n", k.runner.place.Node, text)
	}
}

// complete writes all kept output of a job.
func (k *keeping) complete(job filch.JobID) {
	if s := k.jobs[job]; s != nil {
		if err := s.Close(); err != nil {
			k.complain(err)
		}
		delete(k.jobs, job)
	}
}

func (k *keeping) close() {
	for job := range k.jobs {
		k.complete(job)
	}
	for _, c := range k.spare {
		c.close(k.runner.poll)
	}
	if k.null >= 0 {
		unix.Close(k.null)
	}
}
