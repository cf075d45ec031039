package proc

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
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// Limits of a runner.
const (
	// startsQueued bounds the tasks that wait in a runner for their fork: its
	// launcher starts as many as it has slots.
	startsQueued = 64 << 10
	// spawnsPerTurn bounds the forks before the runner looks at anything else.
	spawnsPerTurn = 8
	// strayEvery is how often it looks for what ended tasks left behind.
	strayEvery = time.Second
	// endsPerFrame bounds the ends that are told together.
	endsPerFrame = 512
	// endTextMax bounds what is said of one end, in bytes: a full frame of them
	// stays below the limit of its kind.
	endTextMax = 1 << 10
)

// runner is a process that starts tasks, one fork each and nothing else: no
// pipe, no thread, no goroutine for a task. What a task prints goes to one of a
// few files without a name, and from there to the node's segments when it has
// ended.
//
// Tasks die with their runner (a death signal), and a runner ends its tasks when
// its launcher is gone: a task that may be started again will be, and one that
// may not is lost, which its home says.
type runner struct {
	poll   *poller
	link   *link
	place  Place
	orders map[filch.JobID]*taskOrder
	tasks  map[uint64]*task // started, by serial
	byPID  map[int]*task
	queue  []launcher.TaskStart
	ends   []launcher.TaskEnd
	keep   *keeping
	strays strayWatch
	again  *timer // more forks are due
	gone   bool   // the launcher

	rooms     []*room // empty, for tasks with a memory limit
	roomsMade int
	unlimited bool // it was said that memory cannot be limited
}

// RunnerMain is the whole of `filch runner DIR INSTANCE NODE`. It returns the
// exit code.
func RunnerMain(args []string) int {
	runtime.LockOSThread() // forks all tasks: their death signal is this thread's end
	if len(args) != 3 {
		fmt.Fprintln(os.Stderr, "filch: error: filch runner is started by a launcher, not by hand")
		return filch.ExitUsage
	}
	r, err := newRunner(Place{Dir: args[0], Instance: args[1], Node: filch.NodeName(args[2])})
	if err != nil {
		fmt.Fprintf(os.Stderr, "filch: error: runner: %v\n", err)
		return filch.ExitOurs
	}
	defer r.close()
	for !r.gone || len(r.tasks) > 0 {
		if err := r.poll.turn(); err != nil {
			fmt.Fprintf(os.Stderr, "filch: error: runner: %v\n", err)
			return filch.ExitOurs
		}
		r.spawn()
		if len(r.tasks) == 0 && len(r.ends) > 0 {
			r.keep.write() // whoever hears of the last end finds its output
		}
		r.tell()
		r.link.flush()
	}
	return 0
}

func newRunner(p Place) (*runner, error) {
	poll, err := newPoller()
	if err != nil {
		return nil, err
	}
	r := &runner{
		poll: poll, place: p,
		orders: map[filch.JobID]*taskOrder{}, tasks: map[uint64]*task{}, byPID: map[int]*task{},
	}
	closeOnExec()
	if err := unix.SetNonblock(linkFD, true); err != nil {
		return nil, fmt.Errorf("no link on descriptor %d: %w", linkFD, err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	defaultSignals()
	if err := os.WriteFile(r.sign(), nil, 0o600); err != nil {
		return nil, err
	}
	r.keep = newKeeping(r)
	r.link = &link{poll: poll, on: r.frame, lost: r.launcherGone}
	if err := r.link.open(linkFD); err != nil {
		return nil, err
	}
	body, err := wire.EncodeHello(wire.Hello{Role: "runner", PID: int32(os.Getpid())})
	if err != nil {
		return nil, err
	}
	r.link.raw(wire.KindHello, body)
	r.link.flush()
	return r, nil
}

func (r *runner) close() {
	for job := range r.orders {
		r.forget(job)
	}
	r.keep.close()
	for _, m := range r.rooms {
		m.remove()
	}
	os.Remove(r.sign())
}

// sign is the file by which a sweep knows that this process lives.
func (r *runner) sign() string {
	return filepath.Join(r.place.keepersDir(), fmt.Sprintf("r%d", os.Getpid()))
}

// room is a cgroup with a limit for one task, nil where there can be none.
func (r *runner) room(bytes int64) *room {
	var m *room
	if n := len(r.rooms); n > 0 {
		m, r.rooms = r.rooms[n-1], r.rooms[:n-1]
	} else {
		r.roomsMade++
		m = newRoomFor(r.place, r.roomsMade)
	}
	if !m.limit(bytes) {
		m.remove()
		return nil
	}
	return m
}

// vacate takes a room back, if it is empty and good for another task.
func (r *runner) vacate(m *room) {
	if m.populated() {
		m.kill()
	}
	if !m.reset() {
		m.remove()
		return
	}
	r.rooms = append(r.rooms, m)
}

// frame handles one frame of the launcher.
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
	}
}

// decode reads a frame's body; what cannot be read ends the link, and with it
// the runner: its launcher starts another.
func (r *runner) decode(f wire.Frame, v any) bool {
	err := wire.Unmarshal(f.Body, v)
	if err != nil {
		fmt.Fprintf(os.Stderr, "filch: error: runner: %s from the launcher: %v\n", f.Kind, err)
		r.link.close()
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
		r.queue = append(r.queue, s)
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
		r.again = r.poll.after(0, func() { r.again = nil })
	}
}

// end notes an end, to be told with the others of this turn.
func (r *runner) end(e launcher.TaskEnd) {
	e.Text = strings.ToValidUTF8(e.Text[:min(len(e.Text), endTextMax)], "")
	r.ends = append(r.ends, e)
}

// notStarted is the end of a task that never began.
func notStarted(serial uint64, why string) launcher.TaskEnd {
	return launcher.TaskEnd{
		Serial: serial, Kind: launcher.CauseSignal, Code: int32(unix.SIGTERM), Told: true, Text: "not started: " + why,
	}
}

func (r *runner) tell() {
	for len(r.ends) > 0 {
		n := min(len(r.ends), endsPerFrame)
		r.link.send(wire.KindTaskEnds, r.ends[:n])
		r.ends = r.ends[:copy(r.ends, r.ends[n:])]
	}
}

// launcherGone ends all tasks.
func (r *runner) launcherGone() {
	r.gone = true
	r.queue = nil
	for _, t := range r.tasks {
		r.kill(t)
	}
}

// forget ends the care for a job: what of it waits for its fork never begins,
// its workers leave, its output is complete.
func (r *runner) forget(job filch.JobID) {
	o := r.orders[job]
	if o == nil {
		return
	}
	r.queue = slices.DeleteFunc(r.queue, func(s launcher.TaskStart) bool {
		if s.Job == job {
			r.end(notStarted(s.Serial, "its job is over"))
		}
		return s.Job == job
	})
	delete(r.orders, job)
	o.dismiss()
	r.keep.complete(job)
}
