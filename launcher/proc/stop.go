package proc

import (
	"time"

	"github.com/filch-hpc/filch/launcher"

	"golang.org/x/sys/unix"
)

// stopper is where the ending of a job stands.
type stopper struct {
	begun     bool
	killing   bool
	abandoned bool // nobody will be told
	polling   bool // see pollChildren
	unbound   bool // it was said that a rank could not be bound
	unlimited bool // the same of its limits
	timer     *timer
	killAt    time.Time // when TERM becomes KILL
	giveUpAt  time.Time
	tries     int
	left      int // processes that could not be killed
}

// signal sends sig to every process of the ranks' groups. The stop of a
// terminal becomes a real one: nobody is there to continue them, and so the
// kernel would ignore it (an orphaned process group, setpgid(2)).
func (j *job) signal(sig unix.Signal) {
	switch sig {
	case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
		sig = unix.SIGSTOP
	}
	for _, r := range j.ranks {
		if r.phase == rankRunning {
			unix.Kill(-r.pid, sig)
		}
	}
}

// halt ends the job: CONT, since a stopped process takes no signal but KILL,
// then sig, and KILL after grace. A later call can only shorten the grace.
func (j *job) halt(sig unix.Signal, grace time.Duration) {
	if j.phase == done || j.stop.killing {
		return
	}
	first := !j.stop.begun
	j.stop.begun = true
	if j.phase < starting {
		j.phase = ended
		return
	}
	if sig == 0 {
		sig = unix.SIGTERM
	}
	j.tell()
	if sig == unix.SIGKILL || grace <= 0 {
		j.kill()
		return
	}
	j.each(func(pid int) {
		unix.Kill(pid, unix.SIGCONT)
		unix.Kill(pid, sig)
	})
	at := time.Now().Add(grace)
	if first || at.Before(j.stop.killAt) {
		j.keeper.poll.stop(j.stop.timer)
		j.stop.killAt = at
		j.stop.timer = j.keeper.poll.after(grace, j.kill)
	}
}

// tell notes which ranks are to end because of us: not those that are on their
// way out already.
func (j *job) tell() {
	j.reap()
	for _, r := range j.ranks {
		if r.phase == rankRunning && !r.told {
			r.told = !exiting(r.pid)
		}
	}
}

// kill sends SIGKILL until nothing is left, or gives up and says how much is.
func (j *job) kill() {
	if j.stop.killing || j.phase == done {
		return
	}
	j.stop.begun, j.stop.killing = true, true
	j.stop.giveUpAt = time.Now().Add(UnkillableAfter)
	j.tell()
	if j.phase < starting {
		j.phase = ended
	}
	j.killOnce()
}

// killOnce kills what is there; what is forked meanwhile is met next time.
func (j *job) killOnce() {
	j.stop.timer = nil
	j.keeper.room.kill()
	j.each(func(pid int) { killPID(pid, unix.SIGKILL) })
	j.reap()
	if j.nothingLeft() {
		return
	}
	if time.Now().After(j.stop.giveUpAt) {
		j.giveUp()
		return
	}
	j.stop.tries++
	pause := min(time.Duration(j.stop.tries)*time.Millisecond, 100*time.Millisecond)
	j.stop.timer = j.keeper.poll.after(pause, j.killOnce)
}

// giveUp counts what resists SIGKILL: it hangs in the kernel.
func (j *job) giveUp() {
	j.each(func(int) { j.stop.left++ })
	for _, r := range j.ranks {
		if r.phase != rankRunning {
			continue
		}
		e := r.end
		e.Kind, e.Text = launcher.CauseOurs, "could not be killed within "+UnkillableAfter.String()
		e.Code = 125
		j.endRank(r, e)
	}
	j.alive = 0
	if j.phase < ended {
		j.phase = ended
	}
}

// nothingLeft reports whether the job has no process on this node: this
// process is a subreaper, so whatever is left of it descends from a child.
func (j *job) nothingLeft() bool {
	if j.stop.left > 0 {
		return true
	}
	j.reap()
	if j.alive > 0 {
		return false
	}
	var si unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &si, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == unix.ECHILD && !j.keeper.room.populated()
}

// each calls f with every process of the job but the wire-up's helper: the
// descendants of this process and, where there is a cgroup, its members.
func (j *job) each(f func(pid int)) {
	seen := map[int]bool{}
	visit := func(pid int) {
		if !seen[pid] {
			seen[pid] = true
			f(pid)
		}
	}
	for _, pid := range descendants(unix.Getpid()) {
		if j.mpi != nil && j.mpi.helper.is(pid) {
			continue // it cleans up after the ranks, see finish
		}
		visit(pid)
	}
	for _, pid := range j.keeper.room.pids() {
		visit(pid)
	}
}
