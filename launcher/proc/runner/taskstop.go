package runner

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// halt ends a task on the launcher's order; a task still waiting for its fork never
// starts.
func (r *runner) halt(s launcher.TaskStop) {
	for after, n := range r.next {
		if n.start.Serial == s.Serial {
			r.takeBack(after, "the task was stopped")
			return
		}
	}
	if s.Unrun {
		return
	}
	if t := r.tasks[s.Serial]; t != nil {
		t.told = true
		sig := unix.Signal(s.Signal)
		if sig == 0 {
			sig = unix.SIGTERM
		}
		r.stop(t, sig, s.Grace)
		return
	}
	for i := range r.queue {
		if r.queue[i].Serial == s.Serial {
			r.queue = append(r.queue[:i], r.queue[i+1:]...)
			r.end(notStarted(s.Serial, "the task was stopped"))
			return
		}
	}
}

// stop sends CONT, since a stopped process takes no signal but KILL, then sig,
// and KILL after grace.
func (r *runner) stop(t *task, sig unix.Signal, grace time.Duration) {
	if sig == unix.SIGKILL || grace <= 0 {
		r.kill(t)
		return
	}
	t.each(func(pid int) {
		unix.Kill(pid, unix.SIGCONT)
		unix.Kill(pid, sig)
	})
	at := time.Now().Add(grace)
	if t.killer != nil && !at.Before(t.killAt) {
		return
	}
	r.poll.Stop(t.killer)
	t.killAt = at
	t.killer = r.poll.After(grace, func() { r.kill(t) })
}

// kill sends SIGKILL to the whole tree until the task has ended, or gives up and reports
// that.
func (r *runner) kill(t *task) {
	r.poll.Stop(t.killer)
	t.killer = nil
	if t.tries == 0 {
		t.killAt = time.Now()
	}
	if time.Since(t.killAt) > proc.UnkillableAfter {
		r.giveUp(t)
		return
	}
	t.each(func(pid int) { proc.KillPID(pid, unix.SIGKILL) })
	t.tries++
	pause := min(time.Duration(t.tries)*time.Millisecond, 100*time.Millisecond)
	t.killer = r.poll.After(pause, func() { r.kill(t) })
}

// giveUp reports the end of a task that hangs in the kernel. Left in the report means
// that the slot must not be lent again.
func (r *runner) giveUp(t *task) {
	e := launcher.TaskEnd{
		Serial: t.start.Serial, Kind: launcher.CauseOurs, Code: codeOf(launcher.CauseOurs), Told: t.told, Left: true,
		Began: t.began.UnixNano(), Ended: time.Now().UnixNano(),
		Text: "could not be killed within " + proc.UnkillableAfter.String(),
	}
	if w := t.worker; w != nil {
		// When the worker ends at last, it has no task, and ended closes its files.
		w.free(t, e)
		w.leave()
		return
	}
	delete(r.byPID, t.pid)
	if t.pidfd >= 0 {
		r.poll.Drop(t.pidfd)
		unix.Close(t.pidfd)
	}
	r.over(t, e, true)
}

// processID is the process running the task.
func (t *task) processID() int {
	if t.worker != nil {
		return t.worker.pid
	}
	return t.pid
}

// each calls f with the process of the task and all below it.
func (t *task) each(f func(pid int)) {
	pid := t.processID()
	below := proc.Descendants(pid)
	f(pid)
	for _, p := range below {
		f(p)
	}
}

// strayWatch looks for processes that left the group of their task and outlived the task:
// such orphans become children of the runner, a subreaper.
type strayWatch struct {
	due *proc.Timer
}

// ended schedules a look for strays after the end of a task.
func (w *strayWatch) ended(r *runner) {
	if w.due == nil {
		w.due = r.poll.After(strayEvery, func() {
			w.due = nil
			if r.endStrays() {
				w.ended(r)
			}
		})
	}
}

// endStrays kills the children without a running task, and reports whether there were
// any. A child carrying the mark of a running task was detached by that task, and is left
// alone until the task has ended.
func (r *runner) endStrays() bool {
	children, ok := proc.Children(os.Getpid())
	if !ok {
		children = proc.DescendantsByParent(os.Getpid())
	}
	found := false
	for _, pid := range children {
		if r.byPID[pid] != nil || r.isWorker(pid) {
			continue
		}
		if r.runs(pid) {
			continue
		}
		found = true
		for _, p := range proc.Descendants(pid) {
			proc.KillPID(p, unix.SIGKILL)
		}
		proc.KillPID(pid, unix.SIGKILL)
		unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
	return found
}

// runs reports whether a process carries the mark of a running task.
func (r *runner) runs(pid int) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || len(env) == 0 {
		return false // a zombie has none
	}
	for _, t := range r.tasks {
		s := &t.start
		if carriesAll(env, "FILCH_JOB="+s.Job.String(), "FILCH_TASK="+strconv.Itoa(int(s.Number))) {
			return true
		}
	}
	return false
}

// carriesAll reports whether an environment has all of these entries.
func carriesAll(env []byte, entries ...string) bool {
	for _, e := range entries {
		if !bytes.Contains(env, []byte("\x00"+e+"\x00")) && !bytes.HasPrefix(env, []byte(e+"\x00")) {
			return false
		}
	}
	return true
}
