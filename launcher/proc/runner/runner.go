package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// Limits of a runner.
const (
	// startsQueued bounds the tasks waiting in a runner for their fork: a launcher starts
	// no more tasks than the node has slots.
	startsQueued = 64 << 10
	// spawnsPerTurn bounds the forks before the runner handles other events.
	spawnsPerTurn = 8
	// boundFor is how long the thread stays on the CPU of its last child: while brief tasks
	// follow each other, the thread does not move. Beside a long task that needs the CPU,
	// the thread would wait.
	boundFor = 20 * time.Millisecond
	// strayEvery is how often the runner looks for processes left by ended tasks.
	strayEvery = time.Second
	// endsPerFrame bounds the ends reported in a frame.
	endsPerFrame = 512
	// endTextMax bounds the text of an end, in bytes: a frame full of ends stays below
	// the limit of its kind.
	endTextMax = 1 << 10
)

// runner is a process that starts tasks, a fork for each task and nothing else: no pipe,
// no thread, no goroutine. A task prints to a file without a name, from a small pool.
// When the task has ended, the runner moves the output to the node's segments.
//
// Tasks die with their runner (a death signal), and a runner ends its tasks when its
// launcher is gone. A task that may be started again is then started again; any other
// task is lost, and the task's home node reports the loss.
type runner struct {
	poll   *proc.Epoll
	link   *proc.Link
	place  proc.Place
	orders map[filch.JobID]*taskOrder
	tasks  map[uint64]*task // started, by serial
	byPID  map[int]*task
	queue  []launcher.TaskStart
	next   map[uint64]successor // by the serial of the task that ends first
	ends   []launcher.TaskEnd
	keep   *keeping
	looks  *looks
	strays strayWatch
	meter  proc.Meter
	cpus   proc.Binder
	idle   *proc.Timer // releases the thread
	forks  int         // since the timer was set
	again  *proc.Timer // more forks are due
	gone   bool        // the launcher

	cgroups     []*proc.Cgroup // empty cgroups, for tasks with a memory limit
	cgroupsMade int
	unlimited   bool // the warning that memory cannot be limited was logged
}

// Main is the whole of `filch runner DIR INSTANCE NODE`. It returns the
// exit code.
func Main(args []string) int {
	runtime.LockOSThread() // forks all tasks: their death signal is this thread's end
	if len(args) != 3 {
		fmt.Fprintln(os.Stderr, "filch: error: filch runner is started by a launcher, not by hand")
		return filch.ExitUsage
	}
	r, err := newRunner(proc.Place{Dir: args[0], Instance: args[1], Node: filch.NodeName(args[2])})
	if err != nil {
		fmt.Fprintf(os.Stderr, "filch: error: runner: %v\n", err)
		return filch.ExitOurs
	}
	defer r.close()
	for !r.gone || len(r.tasks) > 0 {
		if err := r.poll.Turn(); err != nil {
			fmt.Fprintf(os.Stderr, "filch: error: runner: %v\n", err)
			return filch.ExitOurs
		}
		r.spawn()
		if len(r.tasks) == 0 && len(r.ends) > 0 {
			r.keep.write() // a reader that knows of the last end must find the output
		}
		r.tell()
		r.link.Flush()
	}
	return 0
}

func newRunner(p proc.Place) (*runner, error) {
	poll, err := proc.NewEpoll()
	if err != nil {
		return nil, err
	}
	r := &runner{
		poll: poll, place: p, cpus: proc.NewBinder(),
		orders: map[filch.JobID]*taskOrder{}, tasks: map[uint64]*task{}, next: map[uint64]successor{}, byPID: map[int]*task{},
	}
	proc.CloseOnExec()
	if err := unix.SetNonblock(proc.LinkFD, true); err != nil {
		return nil, fmt.Errorf("no link on descriptor %d: %w", proc.LinkFD, err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	proc.DefaultSignals()
	if err := os.WriteFile(r.sign(), nil, 0o600); err != nil {
		return nil, err
	}
	r.keep, r.looks = newKeeping(r), newLooks(r)
	r.link = &proc.Link{Poll: poll, OnFrame: r.frame, OnLost: r.launcherGone}
	if err := r.link.Open(proc.LinkFD); err != nil {
		return nil, err
	}
	body, err := wire.EncodeHello(wire.Hello{Role: "runner", PID: int32(os.Getpid())})
	if err != nil {
		return nil, err
	}
	r.link.SendRaw(wire.KindHello, body)
	r.link.Flush()
	return r, nil
}

func (r *runner) close() {
	for job := range r.orders {
		r.forget(job)
	}
	r.looks.close()
	r.keep.close()
	for _, m := range r.cgroups {
		m.Remove()
	}
	os.Remove(r.sign())
}

// sign is the file by which a sweep finds this process.
func (r *runner) sign() string {
	return filepath.Join(r.place.KeepersDir(), fmt.Sprintf("r%d", os.Getpid()))
}

// cgroup is a cgroup with a memory limit for a task, nil where a limit is impossible.
func (r *runner) cgroup(bytes int64) *proc.Cgroup {
	var m *proc.Cgroup
	if n := len(r.cgroups); n > 0 {
		m, r.cgroups = r.cgroups[n-1], r.cgroups[:n-1]
	} else {
		r.cgroupsMade++
		m = proc.NewNumberedCgroup(r.place, r.cgroupsMade)
	}
	if !m.Limit(bytes) {
		m.Remove()
		return nil
	}
	return m
}

// vacate returns a cgroup to the pool, if the cgroup can be emptied and reused.
func (r *runner) vacate(m *proc.Cgroup) {
	if m.Populated() {
		m.Kill()
	}
	if !m.Reset() {
		m.Remove()
		return
	}
	r.cgroups = append(r.cgroups, m)
}

// frame handles a frame of the launcher.
func (r *runner) frame(f wire.Frame) {
	switch f.Kind {
	case wire.KindTaskOrder:
		var o launcher.TaskOrder
		if r.decode(f, &o) && r.orders[o.Ident.Job] == nil {
			r.orders[o.Ident.Job] = newTaskOrder(r, &o)
		}
	case wire.KindTaskStarts:
		var starts []launcher.TaskStart
		if r.decode(f, &starts) {
			r.accept(starts)
		}
	case wire.KindTaskStop:
		var s launcher.TaskStop
		if r.decode(f, &s) {
			r.halt(s)
		}
	case wire.KindTaskForget:
		var o launcher.TaskForget
		if r.decode(f, &o) {
			r.forget(o.Job)
		}
	case wire.KindTaskLook:
		var q launcher.TaskLook
		if r.decode(f, &q) {
			r.looks.answer(&q)
		}
	}
}

// decode reads a frame's body. An unreadable body ends the link and so the runner: the
// launcher starts another runner.
func (r *runner) decode(f wire.Frame, v any) bool {
	err := wire.Unmarshal(f.Body, v)
	if err != nil {
		fmt.Fprintf(os.Stderr, "filch: error: runner: %s from the launcher: %v\n", f.Kind, err)
		r.link.Close()
	}
	return err == nil
}

func (r *runner) accept(starts []launcher.TaskStart) {
	for _, s := range starts {
		if len(r.queue) >= startsQueued || r.orders[s.Job] == nil {
			r.end(launcher.TaskEnd{
				Serial: s.Serial, Kind: launcher.CauseOurs, Code: filch.ExitOurs,
				Text: fmt.Sprintf("task %d.%d came to a runner with %d tasks waiting and no order for it", s.Job, s.Index, len(r.queue)),
			})
			continue
		}
		if !r.follows(s) {
			r.queue = append(r.queue, s)
		}
	}
}

// spawn starts the next tasks.
func (r *runner) spawn() {
	n := min(len(r.queue), spawnsPerTurn)
	for i := range n {
		r.start(&r.queue[i])
	}
	r.queue = r.queue[:copy(r.queue, r.queue[n:])]
	if len(r.queue) > 0 && r.again == nil {
		r.again = r.poll.After(0, func() { r.again = nil })
	}
}

// bind makes the next child start on some CPUs, and releases the thread once no child has
// followed for boundFor.
func (r *runner) bind(cpus []int32) {
	r.cpus.Bind(proc.MaskOf(cpus))
	r.forks++
	if r.idle == nil && r.cpus.Bound() {
		r.watchForks()
	}
}

func (r *runner) watchForks() {
	r.forks = 0
	r.idle = r.poll.After(boundFor, func() {
		r.idle = nil
		if r.forks > 0 {
			r.watchForks()
			return
		}
		r.cpus.Release()
	})
}

// end notes an end, to be reported with the other ends of this turn.
func (r *runner) end(e launcher.TaskEnd) {
	e.Text = strings.ToValidUTF8(e.Text[:min(len(e.Text), endTextMax)], "")
	r.ends = append(r.ends, e)
	r.succeed(&e)
}

// notStarted is the end of a task without a process.
func notStarted(serial uint64, why string) launcher.TaskEnd {
	return launcher.TaskEnd{
		Serial: serial, Kind: launcher.CauseSignal, Code: int32(unix.SIGTERM), Told: true, Text: "not started: " + why,
	}
}

func (r *runner) tell() {
	for len(r.ends) > 0 {
		n := min(len(r.ends), endsPerFrame)
		r.link.Send(wire.KindTaskEnds, r.ends[:n])
		r.ends = r.ends[:copy(r.ends, r.ends[n:])]
	}
}

// launcherGone ends all tasks.
func (r *runner) launcherGone() {
	r.gone = true
	r.queue, r.next = nil, nil
	for _, t := range r.tasks {
		r.kill(t)
	}
}

// forget drops a job: its tasks waiting for a fork never begin, its workers are
// dismissed, and its output is completed.
func (r *runner) forget(job filch.JobID) {
	o := r.orders[job]
	if o == nil {
		return
	}
	for after, s := range r.next { // in any order: each gets its end
		if s.start.Job == job {
			r.takeBack(after, "the job is over")
		}
	}
	r.queue = slices.DeleteFunc(r.queue, func(s launcher.TaskStart) bool {
		if s.Job == job {
			r.end(notStarted(s.Serial, "the job is over"))
		}
		return s.Job == job
	})
	delete(r.orders, job)
	o.dismiss()
	r.keep.complete(job)
}
