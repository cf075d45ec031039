package keeper

import (
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"

	"golang.org/x/sys/unix"
)

// stopper is the state of a job's ending.
type stopper struct {
	begun     bool
	killing   bool
	abandoned bool // no launcher will receive the ends
	polling   bool // see pollChildren
	unbound   bool // the user was warned that a rank could not be bound
	unlimited bool // the user was warned that limits could not be set
	timer     *proc.Timer
	killAt    time.Time // when TERM becomes KILL
	giveUpAt  time.Time
	tries     int
	left      int // processes that could not be killed
}

// signal sends sig to every process of the ranks' groups. A terminal's stop signal
// becomes SIGSTOP: the groups are orphaned, without a parent that could continue the
// processes, and so the kernel would ignore the signal (setpgid(2)).
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
	j.spawns.stop()
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
		j.keeper.poll.Stop(j.stop.timer)
		j.stop.killAt = at
		j.stop.timer = j.keeper.poll.After(grace, j.kill)
	}
}

// tell marks the ranks that end because of us: the running ranks that are not exiting
// already.
func (j *job) tell() {
	j.reap()
	for _, r := range j.ranks {
		if r.phase == rankRunning && !r.told {
			r.told = !proc.IsExiting(r.pid)
		}
	}
}

// kill sends SIGKILL until no process is left, or gives up and counts the rest.
func (j *job) kill() {
	if j.stop.killing || j.phase == done {
		return
	}
	j.stop.begun, j.stop.killing = true, true
	j.stop.giveUpAt = time.Now().Add(proc.UnkillableAfter)
	j.tell()
	j.spawns.stop()
	if j.phase < starting {
		j.phase = ended
	}
	j.killOnce()
}

// killOnce kills the present processes; the next call kills the processes forked
// meanwhile.
func (j *job) killOnce() {
	j.stop.timer = nil
	j.keeper.cgroup.Kill()
	j.each(func(pid int) { proc.KillPID(pid, unix.SIGKILL) })
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
	j.stop.timer = j.keeper.poll.After(pause, j.killOnce)
}

// giveUp counts the processes that resist SIGKILL by hanging in the kernel.
func (j *job) giveUp() {
	j.each(func(int) { j.stop.left++ })
	for _, r := range j.ranks {
		if r.phase != rankRunning {
			continue
		}
		e := r.end
		e.Kind, e.Text = launcher.CauseOurs, "could not be killed within "+proc.UnkillableAfter.String()
		e.Code = 125
		j.endRank(r, e)
	}
	j.alive = 0
	if j.phase < ended {
		j.phase = ended
	}
}

// nothingLeft reports whether the job has no process on this node: this process is a
// subreaper, so every process left of the job descends from a child.
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
	return err == unix.ECHILD && !j.keeper.cgroup.Populated()
}

// each calls f with every process of the job but the wire-up's helper: the descendants of
// this process and, where there is a cgroup, the members of the cgroup.
func (j *job) each(f func(pid int)) {
	seen := map[int]bool{}
	visit := func(pid int) {
		if !seen[pid] {
			seen[pid] = true
			f(pid)
		}
	}
	for _, pid := range proc.Descendants(unix.Getpid()) {
		if j.mpi != nil && j.mpi.helper.is(pid) {
			continue // the helper cleans up after the ranks, see finish
		}
		if j.spawns.is(pid) {
			continue // the client ends its run, see spawns.stop
		}
		visit(pid)
	}
	for _, pid := range j.keeper.cgroup.PIDs() {
		visit(pid)
	}
}
