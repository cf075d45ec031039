package runner

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// answerMax bounds the answer line of a worker, in bytes.
const answerMax = 4 << 10

// workerGrace is how long a worker may take to leave when its input has ended.
const workerGrace = 2 * time.Second

// worker is a process that runs task after task of a job, for tasks of a millisecond in
// any language. The worker reads a line for each task,
//
//	INDEX ATTEMPT TEXT
//
// and, when the task is done, answers with a line on its standard output,
//
//	INDEX CODE [TEXT]
//
// where code 0 is success and the text, at most 4 KiB, is kept with the output of a
// failed task. The worker's standard error meanwhile is the task's output. The worker
// runs a single task at a time, and exits when its input ends.
type worker struct {
	order  *taskOrder
	pid    int
	pidfd  int
	in     int // we write
	answer int // we read
	out    *taskOutput
	buf    []byte
	task   *task // the current task, nil none
	line   int   // length of the line sent for the task, -1 the write failed
	proven bool  // the worker has done a task
	gone   bool
}

// employ gives a task to a worker of its order.
func (o *taskOrder) employ(t *task) {
	r := o.runner
	t.began = time.Now()
	if strings.ContainsRune(t.start.Line, '\n') {
		r.refuse(t, proc.Failf(launcher.CauseOurs, filch.Invalid, "task %d.%d has more than one line, and a worker takes one line per task", t.start.Job, t.start.Index))
		return
	}
	var w *worker
	if n := len(o.idle); n > 0 {
		w = o.idle[n-1]
		o.idle = o.idle[:n-1]
	} else {
		var bad *proc.Failure
		if w, bad = o.hire(t); bad != nil {
			r.refuse(t, bad)
			return
		}
	}
	t.worker, t.out, w.task = w, w.out, t
	w.out.task = t
	r.running(t)
	line := strconv.Itoa(int(t.start.Index)) + " " + strconv.Itoa(int(t.start.Attempt)) + " " + t.start.Line + "\n"
	w.line = len(line)
	if err := proc.WriteAll(w.in, []byte(line)); err != nil {
		w.line = -1
		proc.KillPID(w.pid, unix.SIGKILL) // it does not read; its end ends the task
	}
}

// hire starts a worker.
func (o *taskOrder) hire(t *task) (*worker, *proc.Failure) {
	r := o.runner
	if len(o.what.Argv) == 0 {
		return nil, proc.Failf(launcher.CauseNotFound, filch.Invalid, "job %d has no worker to run", t.start.Job)
	}
	exe, bad := o.find(o.what.Argv[0], t.start.Cwd)
	if bad != nil {
		return nil, bad
	}
	if bad := r.keep.lend(t); bad != nil {
		return nil, bad
	}
	w := &worker{order: o, out: t.out, in: -1, answer: -1, pidfd: -1}
	t.out = nil
	in, theirIn, err := proc.Pipe(false)
	if err != nil {
		w.close()
		return nil, proc.Failf(launcher.CauseOurs, filch.Internal, "cannot make the pipes of a worker: %s", proc.Reason(err))
	}
	answer, theirAnswer, err := proc.Pipe(true)
	if err != nil {
		unix.Close(in)
		unix.Close(theirIn)
		w.close()
		return nil, proc.Failf(launcher.CauseOurs, filch.Internal, "cannot make the pipes of a worker: %s", proc.Reason(err))
	}
	unix.SetNonblock(in, false) // a line fits: the worker has read the line before
	w.in, w.answer = in, answer
	path, argv := exe.Path, o.what.Argv
	if exe.Shell {
		path, argv = "/bin/sh", append([]string{"sh", exe.Path}, argv[1:]...)
	}
	w.pid, w.pidfd, bad = r.fork(t, path, argv, []uintptr{uintptr(theirIn), uintptr(theirAnswer), uintptr(w.out.fds[1])})
	unix.Close(theirIn)
	unix.Close(theirAnswer)
	w.out.forked()
	if bad != nil {
		w.close()
		return nil, bad
	}
	_ = r.poll.Watch(w.answer, proc.Readable, func(uint32) { w.read() })
	r.watch(w.pidfd, w.ended)
	return w, nil
}

// close closes the runner's descriptors of a worker.
func (w *worker) close() {
	if w.answer >= 0 {
		w.order.runner.poll.Drop(w.answer)
		unix.Close(w.answer)
	}
	if w.in >= 0 {
		unix.Close(w.in)
	}
	if w.out != nil {
		w.out.close(w.order.runner.poll)
	}
	w.in, w.answer, w.out = -1, -1, nil
}

// read takes answers.
func (w *worker) read() {
	var chunk [answerMax]byte
	n, err := unix.Read(w.answer, chunk[:])
	if err == unix.EAGAIN || err == unix.EINTR {
		return
	}
	if err != nil || n == 0 {
		w.order.runner.poll.Drop(w.answer) // the pidfd reports the worker's end
		w.order.runner.poll.After(workerGrace, func() {
			if !w.gone {
				w.breach("closed its standard output and stayed")
			}
		})
		return
	}
	w.buf = append(w.buf, chunk[:n]...)
	for {
		line, rest, ok := bytes.Cut(w.buf, []byte{'\n'})
		if !ok {
			break
		}
		w.answered(line)
		w.buf = w.buf[:copy(w.buf, rest)]
	}
	if len(w.buf) > answerMax {
		w.breach("answered with a line of more than " + strconv.Itoa(answerMax) + " bytes")
	}
}

// answered ends the task named by the answer line.
func (w *worker) answered(line []byte) {
	t := w.task
	first, rest, _ := bytes.Cut(bytes.TrimRight(line, "\r"), []byte{' '})
	second, text, _ := bytes.Cut(rest, []byte{' '})
	index, err1 := strconv.ParseInt(string(first), 10, 32)
	code, err2 := strconv.ParseUint(string(second), 10, 8)
	if t == nil || err1 != nil || err2 != nil || launcher.TaskIndex(index) != t.start.Index {
		w.breach(fmt.Sprintf("answered %.80q, which is not INDEX CODE [TEXT] of its task", line))
		return
	}
	e := launcher.TaskEnd{Serial: t.start.Serial, Began: t.began.UnixNano(), Ended: time.Now().UnixNano(), Told: t.told, Text: string(text)}
	if code != 0 {
		e.Kind, e.Code = launcher.CauseExit, int32(code)
		if e.Text == "" {
			e.Text = fmt.Sprintf("ended with %d", code)
		}
	}
	w.free(t, e)
	w.proven = true
	w.order.idle = append(w.order.idle, w)
}

// untouched reports whether a worker that has done tasks ended before reading the line of
// its current task: another worker may then take the task. A program that never did a
// task is no worker.
func (w *worker) untouched() bool {
	if !w.proven || w.task == nil || w.task.told || w.task.late {
		return false
	}
	unread, err := unix.IoctlGetInt(w.in, unix.TIOCINQ)
	return w.line < 0 || err == nil && unread == w.line
}

// free ends the task of a worker. The output goes to the task; the taskOutput stays with the
// worker.
func (w *worker) free(t *task, e launcher.TaskEnd) {
	r := w.order.runner
	w.task = nil
	keep := w.order.what.Keep
	if keep == launcher.KeepAll || keep == launcher.KeepFailed && e.Kind != launcher.CauseNone {
		r.keep.take(t, &e)
	}
	_, _ = w.out.empty(1)
	t.out, w.out.task = nil, nil
	r.over(t, e, false)
}

// breach ends a worker that breaks the protocol, and the worker's task.
func (w *worker) breach(what string) {
	if t := w.task; t != nil {
		w.free(t, launcher.TaskEnd{
			Serial: t.start.Serial, Kind: launcher.CauseProtocol, Code: 1, Told: t.told,
			Began: t.began.UnixNano(), Ended: time.Now().UnixNano(), Text: "its worker " + what,
		})
	}
	w.leave()
	proc.KillPID(w.pid, unix.SIGKILL)
}

// leave takes a worker off the idle workers.
func (w *worker) leave() {
	w.gone = true
	for i, x := range w.order.idle {
		if x == w {
			w.order.idle = append(w.order.idle[:i], w.order.idle[i+1:]...)
			return
		}
	}
}

// ended handles the end of a worker's process and ends the worker's task.
func (w *worker) ended() {
	r := w.order.runner
	unix.Kill(-w.pid, unix.SIGKILL)
	var ws unix.WaitStatus
	pid, err := unix.Wait4(w.pid, &ws, unix.WNOHANG, nil)
	if err == unix.EINTR || err == nil && pid == 0 {
		if w.pidfd < 0 {
			r.watch(-1, w.ended)
		}
		return
	}
	if w.pidfd >= 0 {
		r.poll.Drop(w.pidfd)
		unix.Close(w.pidfd)
		w.pidfd = -1
	}
	w.leave()
	if t := w.task; w.untouched() {
		r.poll.Stop(t.limit)
		w.task, t.limit, t.worker, t.out = nil, nil, nil, nil
		w.close()
		w.order.employ(t)
		return
	} else if t != nil {
		e := launcher.TaskEnd{Serial: t.start.Serial, Began: t.began.UnixNano(), Ended: time.Now().UnixNano(), Told: t.told}
		if t.judge(&e, ws); e.Kind == launcher.CauseNone {
			e.Kind, e.Code, e.Text = launcher.CauseProtocol, 1, "its worker ended with 0 without an answer"
		} else {
			e.Text = "its worker " + e.Text
		}
		w.free(t, e)
	}
	w.close()
}

// dismiss ends the idle workers of an order by closing their input.
func (o *taskOrder) dismiss() {
	for _, w := range o.idle {
		unix.Close(w.in)
		w.in = -1
		pid := w.pid
		o.runner.poll.After(workerGrace, func() {
			if !w.gone {
				proc.KillPID(pid, unix.SIGKILL)
			}
		})
	}
	o.idle = nil
}

// isWorker reports whether a child is a worker.
func (r *runner) isWorker(pid int) bool {
	for _, o := range r.orders {
		for _, w := range o.idle {
			if w.pid == pid {
				return true
			}
		}
	}
	for _, t := range r.tasks {
		if t.worker != nil && t.worker.pid == pid {
			return true
		}
	}
	return false
}
