package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// taskOrder is an order with the values computed once for all tasks of the order.
type taskOrder struct {
	runner   *runner
	what     *launcher.TaskOrder
	env      []string
	programs map[string]proc.Program // by name, of this order's PATH and cwd
	idle     []*worker
	user     string
}

// maxPrograms bounds the programs that an order remembers.
const maxPrograms = 1024

func newTaskOrder(r *runner, what *launcher.TaskOrder) *taskOrder {
	o := &taskOrder{runner: r, what: what, programs: map[string]proc.Program{}}
	env := proc.Scrub(what.Env)
	instance := r.place.Instance
	if instance == "" {
		instance = what.Ident.Instance
	}
	o.env = append(
		env, "FILCH_INSTANCE="+instance, "FILCH_IDENT="+what.Ident.String(),
		"FILCH_SOCKET="+filepath.Join(r.place.Dir, "launcher.sock"),
		"FILCH_JOB="+what.Ident.Job.String(), "FILCH_NODE="+string(r.place.Node),
	)
	return o
}

// find looks a program up, once for all tasks with that name.
func (o *taskOrder) find(name, cwd string) (proc.Program, *proc.Failure) {
	key := name
	if cwd != o.what.Cwd {
		key = cwd + "\x00" + name
	}
	if p, ok := o.programs[key]; ok {
		return p, nil
	}
	p, bad := proc.FindProgram(name, cwd, o.env, o.runner.place.Node)
	if bad == nil && len(o.programs) < maxPrograms {
		o.programs[key] = p
	}
	return p, bad
}

// task is a started attempt of a task.
type task struct {
	order  *taskOrder
	start  launcher.TaskStart
	pid    int
	pidfd  int
	began  time.Time
	out    *taskOutput  // nil: the task prints to files of its own
	cgroup *proc.Cgroup // nil: no memory limit
	worker *worker      // the worker with the task; nil: the task is a process of its own
	limit  *proc.Timer
	warn   *proc.Timer // before the limit
	killer *proc.Timer
	killAt time.Time
	late   bool // the time limit has run out
	told   bool
	tries  int
}

// start forks and execs a task.
func (r *runner) start(s *launcher.TaskStart) {
	o := r.orders[s.Job]
	t := &task{order: o, start: *s, pidfd: -1}
	if s.Cwd == "" {
		t.start.Cwd = o.what.Cwd
	}
	if len(s.Argv) == 0 {
		t.start.Argv = o.what.Argv
	}
	if o.what.Worker && len(s.Argv) == 0 {
		o.employ(t)
		return
	}
	t.began = time.Now()
	if bad := r.exec(t); bad != nil {
		r.refuse(t, bad)
		return
	}
	r.running(t)
}

// refuse ends a task that could not be started.
func (r *runner) refuse(t *task, bad *proc.Failure) {
	e := launcher.TaskEnd{Serial: t.start.Serial, Kind: bad.Cause, Code: codeOf(bad.Cause), Text: bad.Err.Text}
	e.Bytes = r.keep.explain(t, &e)
	r.looks.stir(t.start.Job, t.start.Index)
	r.end(e)
}

// running notes a task with a running process.
func (r *runner) running(t *task) {
	r.tasks[t.start.Serial] = t
	r.looks.started(t)
	if t.start.Limit > 0 {
		t.limit = r.poll.After(t.start.Limit, func() {
			t.limit, t.late = nil, true
			r.stop(t, unix.SIGTERM, t.order.what.KillWait)
		})
		if w := t.start.Warn; w.Signal > 0 {
			t.warn = r.poll.After(max(t.start.Limit-w.Before, 0), func() {
				t.warn = nil
				t.each(func(pid int) {
					if !w.First || pid == t.pid {
						unix.Kill(pid, unix.Signal(w.Signal))
					}
				})
			})
		}
	}
	if t.worker != nil {
		return
	}
	r.byPID[t.pid] = t
	r.watch(t.pidfd, func() { r.ended(t) })
}

// watch calls f when the process of a pidfd has ended; before Linux 5.4, where there are
// no pidfds, f is called after a few milliseconds to look.
func (r *runner) watch(pidfd int, f func()) {
	if pidfd >= 0 {
		_ = r.poll.Watch(pidfd, proc.Readable, func(uint32) { f() })
		return
	}
	r.poll.After(5*time.Millisecond, f)
}

func codeOf(c launcher.CauseKind) int32 {
	switch c {
	case launcher.CauseNotFound:
		return filch.ExitNotFound
	case launcher.CauseNotExec:
		return filch.ExitNotExec
	}
	return filch.ExitOurs
}

// exec makes the process of t.
func (r *runner) exec(t *task) *proc.Failure {
	s := &t.start
	if len(s.Argv) == 0 {
		return proc.Failf(launcher.CauseNotFound, filch.Invalid, "task %d.%d has no command", s.Job, s.Index)
	}
	exe, bad := t.order.find(s.Argv[0], s.Cwd)
	if bad != nil {
		return bad
	}
	if s.Tmp != "" {
		if err := os.Mkdir(s.Tmp, 0o700); err != nil {
			return proc.Failf(launcher.CauseOurs, filch.Unavailable, "cannot make the private TMPDIR of task %d.%d on %s: %s", s.Job, s.Index, r.place.Node, proc.Reason(err))
		}
	}
	fds, bad := r.keep.files(t)
	defer fds.CloseTheirs()
	if bad == nil && s.Memory > 0 {
		if t.cgroup = r.cgroup(s.Memory); t.cgroup == nil && !r.unlimited {
			r.unlimited = true
			fmt.Fprintf(os.Stderr, "filch: warning: runner on %s: memory limits of tasks cannot be enforced here\n", r.place.Node)
		}
	}
	if bad != nil {
		return bad
	}
	path, argv := exe.Path, s.Argv
	if exe.Shell {
		path, argv = "/bin/sh", append([]string{"sh", exe.Path}, s.Argv[1:]...)
	}
	t.pid, t.pidfd, bad = r.fork(t, path, argv, fds.Child)
	if t.out != nil {
		t.out.forked()
	}
	if bad != nil {
		r.keep.giveBack(t, false)
		if t.cgroup != nil {
			r.vacate(t.cgroup)
		}
	}
	return bad
}

// fork starts the process of a task, or of the worker for the task. The process leads a
// group, which can be killed by its number, and dies when this thread ends. The process
// has no session of its own: where the kernel schedules by session, a new session costs a
// short task a tenth of its time.
func (r *runner) fork(t *task, path string, argv []string, fds []uintptr) (pid, pidfd int, bad *proc.Failure) {
	o, s := t.order, &t.start
	pidfd = -1
	limits := proc.RaiseLimits(o.what.Rlimits)
	defer limits.Restore()
	r.bind(s.CPUs)
	old := unix.Umask(int(o.what.Umask))
	defer unix.Umask(old)
	attr := &syscall.ProcAttr{
		Dir: s.Cwd, Env: o.taskEnv(s), Files: fds,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &pidfd},
	}
	if t.cgroup != nil {
		t.cgroup.Enter(attr.Sys)
		t.cgroup.JoinMemory()
		defer t.cgroup.LeaveMemory()
	}
	pid, _, err := proc.ForkExec(path, argv, attr, proc.Unraised(o.what.Rlimits))
	if err == nil {
		return pid, pidfd, nil
	}
	cause := launcher.CauseNotExec
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		cause = launcher.CauseNotFound
		delete(o.programs, argv[0])
		if !proc.PathExists(s.Cwd) {
			return 0, -1, proc.Failf(launcher.CauseOurs, filch.Denied, "cannot run %s on %s: there is no folder %s", argv[0], r.place.Node, s.Cwd)
		}
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		cause = launcher.CauseOurs
	}
	return 0, -1, proc.Failf(cause, filch.Denied, "cannot run %s in %s on %s: %s", argv[0], s.Cwd, r.place.Node, proc.Reason(err))
}

// taskEnv is the environment of a task.
func (o *taskOrder) taskEnv(s *launcher.TaskStart) []string {
	env := make([]string, 0, len(o.env)+len(s.Env)+8)
	env = append(env, o.env...)
	env = append(env, "FILCH_TASK="+strconv.Itoa(int(s.Number)), "FILCH_ATTEMPT="+strconv.Itoa(int(s.Attempt)))
	if !o.what.Worker { // a worker outlives the task
		env = append(env, "FILCH_SERIAL="+strconv.FormatUint(s.Serial, 10))
	}
	env = append(env, s.Env...)
	if s.Tmp != "" {
		env = append(env, "TMPDIR="+s.Tmp, "FILCH_TMP="+s.Tmp)
	}
	if len(s.GPUs) > 0 {
		env = append(proc.WithoutGPUs(env), proc.GPUEnv(s.GPUs, 0, 1)...)
	}
	return env
}

// name expands a pattern for a task: %t and %a are its number.
func (t *task) name(pattern string) string {
	o := t.order
	if o.user == "" {
		o.user = proc.UserName()
	}
	name := output.Expand(pattern, output.Place{
		Job: t.start.Job, Name: o.what.Name, User: o.user,
		Rank: filch.Rank(t.start.Number), Node: o.runner.place.Node,
		Task: strconv.Itoa(int(t.start.Number)),
	})
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.start.Cwd, name)
	}
	return name
}

// ended judges the end of a task's own process. The group is killed while the
// zombie still holds its number.
func (r *runner) ended(t *task) {
	unix.Kill(-t.pid, unix.SIGKILL)
	var ws unix.WaitStatus
	var ru unix.Rusage
	pid, err := unix.Wait4(t.pid, &ws, unix.WNOHANG, &ru)
	if err == unix.EINTR || err == nil && pid == 0 {
		if t.pidfd < 0 {
			r.watch(-1, func() { r.ended(t) })
		}
		return
	}
	delete(r.byPID, t.pid)
	if t.pidfd >= 0 {
		r.poll.Drop(t.pidfd)
		unix.Close(t.pidfd)
	}
	e := launcher.TaskEnd{
		Serial: t.start.Serial, Began: t.began.UnixNano(), Ended: time.Now().UnixNano(), Told: t.told,
		Usage: r.meter.Usage(&ru),
	}
	t.judge(&e, ws)
	if t.cgroup != nil {
		r.vacate(t.cgroup)
	}
	r.over(t, e, unix.Kill(-t.pid, 0) == nil)
}

// over reports the end of a task, after the end of its process, or of its turn in a
// worker.
func (r *runner) over(t *task, e launcher.TaskEnd, straggler bool) {
	r.poll.Stop(t.limit)
	r.poll.Stop(t.warn)
	r.poll.Stop(t.killer)
	delete(r.tasks, t.start.Serial)
	keep := t.order.what.Keep == launcher.KeepAll || t.order.what.Keep == launcher.KeepFailed && e.Kind != launcher.CauseNone
	if t.out != nil && keep {
		r.keep.take(t, &e)
	}
	disk := r.keep.blame(t, &e)
	if t.out != nil {
		r.keep.giveBack(t, !straggler)
	}
	switch {
	case disk != "" && e.Text != "":
		e.Text += "; " + disk
	case disk != "":
		e.Text = disk
	}
	if e.Kind != launcher.CauseExit && !e.Told || t.worker != nil || disk != "" {
		e.Bytes += r.keep.explain(t, &e)
	}
	e.Full = disk != "" && !(e.Cut && output.Overlong(e.Bytes))
	r.looks.stir(t.start.Job, t.start.Index)
	r.strays.ended(r)
	r.end(e)
}

// judge turns an exit status into the cause of an end.
func (t *task) judge(e *launcher.TaskEnd, ws unix.WaitStatus) {
	switch {
	case ws.Signaled():
		e.Kind, e.Code = launcher.CauseSignal, int32(ws.Signal())
		e.Text = "killed by " + unix.SignalName(ws.Signal())
		if ws.CoreDump() {
			e.Text += " (core dumped)"
		}
		switch {
		case ws.Signal() != unix.SIGKILL || t.told || t.late:
		case t.order.runner.gone:
			e.Text = "killed, because the launcher of the node is gone; the task may be started again"
		case t.cgroup != nil && t.cgroup.OOMKilled():
			e.Kind = launcher.CauseOOM
			e.Text = fmt.Sprintf("killed: out of memory (its limit is %d MiB)", t.start.Memory>>20)
		default:
			e.Text += ", perhaps out of memory"
		}
	case ws.ExitStatus() != 0:
		e.Kind, e.Code = launcher.CauseExit, int32(ws.ExitStatus())
		e.Text = fmt.Sprintf("exited with %d", e.Code)
	}
	if t.late {
		e.Kind, e.Code = launcher.CauseTimeLimit, filch.ExitTimeLimit
		e.Text = "ran longer than its limit of " + t.start.Limit.String()
	}
}
