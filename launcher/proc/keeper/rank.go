package keeper

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/pmi"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// forksPerTurn bounds the ranks forked before the keeper handles other events.
const forksPerTurn = 32

// start begins to fork the ranks; a second call changes nothing.
func (j *job) start() {
	if j.phase != ready {
		return
	}
	if j.stop.begun {
		j.phase = ended // cancelled before the start
		return
	}
	j.phase = starting
	j.fork()
}

// fork forks the next ranks.
func (j *job) fork() {
	limits := proc.RaiseLimits(j.what.Rlimits)
	defer limits.Restore()
	j.keeper.cgroup.JoinMemory()
	defer j.keeper.cgroup.LeaveMemory()
	n := 0
	for _, r := range j.ranks {
		if r.phase != rankWaiting {
			continue
		}
		if n++; n > forksPerTurn {
			j.keeper.poll.After(0, func() {}) // come back at once
			return
		}
		if j.stop.begun {
			r.told = true
			j.endRank(r, launcher.RankEnd{Kind: launcher.CauseSignal, Code: int32(unix.SIGTERM), Text: "not started: the job was stopped"})
			continue
		}
		j.forkRank(r)
	}
	j.phase, j.mpi.began = running, j.now()
	j.in.started()
	j.mpi.lookForSingletons(singletonFirst)
	j.sayStarted()
}

// forkRank forks and execs a rank. forkRank returns when the child has executed its
// program or failed to: until then the child shares our memory (vfork), so the cost does
// not grow with the size of this process.
func (j *job) forkRank(r *rank) {
	err := j.makeFiles(r)
	if err == nil {
		err = j.exec(r)
	}
	r.files.CloseTheirs()
	if err != nil {
		j.io.abandon(r)
		j.in.abandon(r)
		j.mpi.closed(r)
		j.endRank(r, execEnd(r, err))
		return
	}
	r.phase = rankRunning
	j.alive++
	j.byPID[r.pid] = r
	if r.pidfd >= 0 {
		j.keeper.poll.Watch(r.pidfd, proc.Readable, func(uint32) { j.reap() })
	} else {
		j.pollChildren()
	}
}

func (j *job) exec(r *rank) error {
	path, argv := r.exe.Path, r.argv
	if r.exe.Shell {
		path, argv = "/bin/sh", append([]string{"sh", r.exe.Path}, r.argv[1:]...)
	}
	if around, are := j.what.Hooks.Around(append([]string{path}, argv[1:]...)); are {
		path, argv = around[0], around
	}
	mask := j.bind(r)
	defer mask.Restore()
	env := append(append([]string(nil), j.mpi.env(r)...), j.rankEnv(r)...)
	session := r.files.IsPty || j.polls(r)
	attr := &syscall.ProcAttr{
		Dir:   cwdOf(&j.what, r.program),
		Env:   env,
		Files: r.files.Child,
		Sys: &syscall.SysProcAttr{
			Setsid:    session,
			Setpgid:   !session,
			Setctty:   r.files.IsPty,
			Pdeathsig: syscall.SIGKILL,
			PidFD:     &r.pidfd,
		},
	}
	j.keeper.cgroup.Enter(attr.Sys)
	pid, limited, err := proc.ForkExec(path, argv, attr, proc.Unraised(j.what.Rlimits))
	if err != nil {
		r.pid, r.pidfd = 0, -1
		return err
	}
	if r.pid = pid; !limited && !j.stop.unlimited {
		j.stop.unlimited = true
		j.warn(string(j.node()) + ": the limits on memory, processes and file size of the submitter could not be set")
	}
	j.reportBinding(r, mask)
	return nil
}

// polls reports whether a rank uses MPICH, which polls busily for the keeper's answers.
// Such a rank has a session of its own: where the kernel schedules by session, a rank in
// the keeper's session would take the keeper's share of the processor. For the other
// ranks a process group is enough for the kill, and costs less: see runner.fork.
func (j *job) polls(r *rank) bool {
	return j.mpi.engine != nil && j.mpi.pmix == nil &&
		slices.ContainsFunc(r.exe.Info.Needed, func(n string) bool { return strings.HasPrefix(n, "libmpi") })
}

// execEnd is the end of a rank after a failed exec.
func execEnd(r *rank, err error) launcher.RankEnd {
	e := launcher.RankEnd{Kind: launcher.CauseNotExec, Code: 126}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		e.Kind, e.Code = launcher.CauseNotFound, 127
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		e.Kind, e.Code = launcher.CauseOurs, 125
	}
	e.Text = fmt.Sprintf("cannot run %s: %s", r.argv[0], proc.Reason(err))
	return e
}

// pollChildren looks for ended ranks every few milliseconds, where the kernel
// (before 5.4) has no pidfd to wait for.
func (j *job) pollChildren() {
	if j.stop.polling {
		return
	}
	j.stop.polling = true
	j.keeper.poll.After(5*time.Millisecond, func() {
		j.stop.polling = false
		j.reap()
		if j.alive > 0 || j.mpi.helper.alive() || len(j.spawns.all) > 0 {
			j.pollChildren()
		}
	})
}

// reap takes the status of all children that have ended: ranks, and orphans of ranks that
// became our children.
func (j *job) reap() {
	for {
		var ws unix.WaitStatus
		var ru unix.Rusage
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, &ru)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if r, ok := j.byPID[pid]; ok {
			delete(j.byPID, pid)
			j.gone(r, ws, &ru)
		} else if j.mpi != nil && !j.spawns.reaped(pid, ws) {
			j.mpi.helper.reaped(pid, ws)
		}
	}
}

// gone judges the end of a rank's process.
func (j *job) gone(r *rank, ws unix.WaitStatus, ru *unix.Rusage) {
	j.alive--
	r.phase = rankGone
	if r.pidfd >= 0 {
		j.keeper.poll.Drop(r.pidfd)
		unix.Close(r.pidfd)
		r.pidfd = -1
	}
	j.in.abandon(r)
	state := j.mpi.closed(r)
	j.mpi.explainRefusal(r)
	j.mpi.tellAlone()
	e := launcher.RankEnd{Usage: j.keeper.meter.Usage(ru)}
	switch {
	case ws.Signaled():
		e.Kind, e.Code, e.Core = launcher.CauseSignal, int32(ws.Signal()), ws.CoreDump()
		e.Text = "killed by " + unix.SignalName(ws.Signal())
		if e.Core {
			e.Text += " (core dumped)"
		}
		switch {
		case ws.Signal() == unix.SIGKILL && !r.told:
			j.judgeKill(&e)
		case ws.Signal() == unix.SIGABRT && state.unfinished():
			e.Doubt = j.doubtAbort(r.id)
		}
	case ws.ExitStatus() != 0:
		e.Kind, e.Code = launcher.CauseExit, int32(ws.ExitStatus())
		e.Text = fmt.Sprintf("exited with %d", e.Code)
		if e.Code == 137 && !r.told && j.keeper.cgroup.OOMKilled() {
			e.Kind, e.Text = launcher.CauseOOM, "a child process was killed: out of memory"
		} else if dir := j.io.full(r); dir != "" {
			e.Text += "; the disk of " + dir + ", where the rank's output goes, is full"
		}
	case state.state == pmi.Fresh && j.mpi.awaited():
		e.Kind, e.Code = launcher.CauseProtocol, 1
		e.Text = "exited with 0 before MPI_Init, and the ranks that spawned it wait for it"
	case state.unfinished():
		e.Kind, e.Code = launcher.CauseNoFinalize, 1
		e.Text = "exited with 0 after MPI_Init without MPI_Finalize"
	}
	j.endRank(r, e)
}

// awaited reports whether ranks wait for each rank of this job to come to MPI_Init: the
// ranks that spawned the job.
func (w *wireup) awaited() bool {
	s := w.job.what.Spawn
	return s != nil && !s.NoMPI && w.engine != nil
}

// judgeKill gives the cause of a SIGKILL not sent by us, where known.
func (j *job) judgeKill(e *launcher.RankEnd) {
	known, limit := j.keeper.cgroup.OOMKilled(), j.order.Memory
	switch {
	case known && limit > 0:
		e.Kind = launcher.CauseOOM
		e.Text = fmt.Sprintf("killed: out of memory (the job's limit here is %d MiB)", limit>>20)
	case known:
		e.Kind, e.Text = launcher.CauseOOM, "killed: out of memory"
	default:
		e.Text = "killed by SIGKILL, perhaps out of memory"
	}
}

// endRank reports the end of r, once. An abort reported earlier stays the rank's end.
func (j *job) endRank(r *rank, e launcher.RankEnd) {
	r.phase = rankGone
	if r.said {
		return
	}
	r.said = true
	e.Rank, e.Told = r.id, r.told || follows(j, &e)
	r.end = e
	j.news = append(j.news, e)
}
