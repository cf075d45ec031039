package proc

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"golang.org/x/sys/unix"
)

// answerMax bounds the line with which a worker answers.
const answerMax = 4 << 10

// workerGrace is how long a worker may take to leave when its input has ended.
const workerGrace = 2 * time.Second

// worker is a process that does task after task of one job, for tasks of a
// millisecond in any language. It reads a line for each task,
//
//	INDEX ATTEMPT TEXT
//
// and answers with a line on its standard output when it has done it,
//
//	INDEX CODE [TEXT]
//
// where code 0 is success and the text, at most 4 KiB, is kept with the output of a
// task that failed. What it prints on its standard error meanwhile is the task's output.
// It does one task at a time, and leaves when its input ends.
type worker struct {
	order  *taskOrder
	pid    int
	pidfd  int
	in     int // we write
	answer int // we read
	out    *capture
	buf    []byte
	task   *task // that it does, nil none
	line   int   // length of what it was given for it, -1 it did not take it
	proven bool  // it has done a task
	gone   bool
}

// employ gives a task to a worker of its order.
func (o *taskOrder) employ(t *task) {
	r := o.runner
	t.began = time.Now()
	if strings.ContainsRune(t.start.Line, '\n') {
		r.refuse(t, fail(launcher.CauseOurs, filch.Invalid, "task %d.%d has more than one line, which no worker is given", t.start.Job, t.start.Index))
		return
	}
	var w *worker
	if n := len(o.idle); n > 0 {
		w = o.idle[n-1]
		o.idle = o.idle[:n-1]
	} else {
		var bad *failure
		if w, bad = o.hire(t); bad != nil {
			r.refuse(t, bad)
			return
		}
	}
	t.worker, t.out, w.task = w, w.out, t
	r.running(t)
	line := strconv.Itoa(int(t.start.Index)) + " " + strconv.Itoa(int(t.start.Attempt)) + " " + t.start.Line + "\n"
	w.line = len(line)
	if err := writeAll(w.in, []byte(line)); err != nil {
		w.line = -1
		killPID(w.pid, unix.SIGKILL) // it does not read; its end is the task's
	}
}

// hire starts a worker.
func (o *taskOrder) hire(t *task) (*worker, *failure) {
	r := o.runner
	if len(o.what.Argv) == 0 {
		return nil, fail(launcher.CauseNotFound, filch.Invalid, "job %d has no worker to run", t.start.Job)
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
	in, theirIn, err := pipe(false)
	if err != nil {
		w.close()
		return nil, fail(launcher.CauseOurs, filch.Internal, "cannot make the pipes of a worker: %s", reason(err))
	}
	answer, theirAnswer, err := pipe(true)
	if err != nil {
		unix.Close(in)
		unix.Close(theirIn)
		w.close()
		return nil, fail(launcher.CauseOurs, filch.Internal, "cannot make the pipes of a worker: %s", reason(err))
	}
	unix.SetNonblock(in, false) // a line fits: the worker has read the one before
	w.in, w.answer = in, answer
	path, argv := exe.path, o.what.Argv
	if exe.shell {
		path, argv = "/bin/sh", append([]string{"sh", exe.path}, argv[1:]...)
	}
	w.pid, w.pidfd, bad = r.fork(t, path, argv, []uintptr{uintptr(theirIn), uintptr(theirAnswer), uintptr(w.out.fds[1])})
	unix.Close(theirIn)
	unix.Close(theirAnswer)
	w.out.forked()
	if bad != nil {
		w.close()
		return nil, bad
	}
	_ = r.poll.watch(w.answer, readable, func(uint32) { w.read() })
	r.watch(w.pidfd, w.ended)
	return w, nil
}

// close gives back what a worker holds here.
func (w *worker) close() {
	if w.answer >= 0 {
		w.order.runner.poll.drop(w.answer)
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
		w.order.runner.poll.drop(w.answer) // its end comes by its pidfd
		w.order.runner.poll.after(workerGrace, func() {
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

// answered ends the task that a line speaks of.
func (w *worker) answered(line []byte) {
	t := w.task
	first, rest, _ := bytes.Cut(bytes.TrimRight(line, "\r"), []byte{' '})
	second, text, _ := bytes.Cut(rest, []byte{' '})
	index, err1 := strconv.ParseInt(string(first), 10, 32)
	code, err2 := strconv.ParseUint(string(second), 10, 8)
	if t == nil || err1 != nil || err2 != nil || launcher.TaskIndex(index) != t.start.Index {
		w.breach(fmt.Sprintf("answered %.80q, which is not INDEX CODE [TEXT] of the task it does", line))
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

// untouched reports whether a worker that has done tasks left before it read of
// the one that it has: another may have it. One that never did any is no worker.
func (w *worker) untouched() bool {
	if !w.proven || w.task == nil || w.task.told || w.task.late {
		return false
	}
	unread, err := unix.IoctlGetInt(w.in, unix.TIOCINQ)
	return w.line < 0 || err == nil && unread == w.line
}

// free ends the task of a worker; what was printed is the task's, the files
// stay the worker's.
func (w *worker) free(t *task, e launcher.TaskEnd) {
	r := w.order.runner
	w.task = nil
	keep := w.order.what.Keep
	if keep == launcher.KeepAll || keep == launcher.KeepFailed && e.Kind != launcher.CauseNone {
		r.keep.take(t, &e)
	}
	_, _ = w.out.empty(1)
	t.out = nil
	r.over(t, e, false)
}

// breach ends a worker that breaks the protocol, and its task with it.
func (w *worker) breach(what string) {
	if t := w.task; t != nil {
		w.free(t, launcher.TaskEnd{
			Serial: t.start.Serial, Kind: launcher.CauseProtocol, Code: 1, Told: t.told,
			Began: t.began.UnixNano(), Ended: time.Now().UnixNano(), Text: "its worker " + what,
		})
	}
	w.leave()
	killPID(w.pid, unix.SIGKILL)
}

// leave takes a worker off the idle ones.
func (w *worker) leave() {
	w.gone = true
	for i, x := range w.order.idle {
		if x == w {
			w.order.idle = append(w.order.idle[:i], w.order.idle[i+1:]...)
			return
		}
	}
}

// ended is the end of a worker's process; a task that it had ends with it.
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
		r.poll.drop(w.pidfd)
		unix.Close(w.pidfd)
		w.pidfd = -1
	}
	w.leave()
	if t := w.task; w.untouched() {
		r.poll.stop(t.limit)
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

// dismiss ends the idle workers of an order: their input ends, and soon they.
func (o *taskOrder) dismiss() {
	for _, w := range o.idle {
		unix.Close(w.in)
		w.in = -1
		pid := w.pid
		o.runner.poll.after(workerGrace, func() {
			if !w.gone {
				killPID(pid, unix.SIGKILL)
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
