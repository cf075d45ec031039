package keeper

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/pmi"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// Limits of the runs that ranks of a node spawn.
const (
	// spawnsMax bounds the spawned runs of a node that wait or run at a time: each has a
	// client here.
	spawnsMax = 256
	// spawnGrace is how long spawned ranks may run on after the last rank here has ended
	// well: the ranks on both sides leave MPI_Finalize together, and not at the same moment.
	spawnGrace = 5 * time.Second
	// spawnKillWait bounds the time from TERM to KILL of spawned ranks.
	spawnKillWait = 2 * time.Second
	// spawnStopMax bounds the wait for a client that was told to end its run. The client is
	// killed then, and the launcher ends the run.
	spawnStopMax = 15 * time.Second
)

// spawns holds the runs that ranks of this node spawned. Each run has a client of its own,
// a child of this process: the run ends with its client, and the client with this process.
// The output of the run is output of the rank that spawned the run.
type spawns struct {
	job   *job
	all   []*spawned
	timer *proc.Timer // ends the runs that go on after their job
}

// spawned is a run with its client.
type spawned struct {
	ask   pmi.Spawn
	by    *rank
	ranks int32
	id    filch.JobID // 0: not known yet

	attempt filch.Attempt // that runs

	pid, pidfd int
	news       int // our end of the client's pipe, -1 closed
	line       []byte

	answered bool // the rank knows how the spawn went
	over     bool // the last news came
	stopped  bool
}

// begin starts the client of a spawn.
func (s *spawns) begin(ask pmi.Spawn) {
	j := s.job
	x := &spawned{ask: ask, pidfd: -1, news: -1}
	for _, r := range j.ranks {
		if r.id == ask.Rank {
			x.by = r
		}
	}
	for _, a := range ask.Apps {
		x.ranks += a.Ranks
	}
	var err *filch.Error
	switch {
	case x.by == nil || j.stop.begun || j.phase != running && j.phase != starting:
		err = filch.Errorf(filch.Busy, "the job ends")
	case len(s.all) >= spawnsMax:
		err = filch.Errorf(filch.Busy, "%d spawned runs of %s wait or run already", spawnsMax, j.node())
	default:
		err = s.start(x)
	}
	if err != nil {
		s.refuse(x, err)
		return
	}
	s.all = append(s.all, x)
}

// start forks the client.
func (s *spawns) start(x *spawned) *filch.Error {
	request, err := s.request(x.ask)
	if err != nil {
		return err
	}
	if e := s.fork(x, request); e != nil {
		return filch.Errorf(filch.Unavailable, "cannot start the client of the new ranks: %s", proc.Reason(e))
	}
	return nil
}

func (s *spawns) fork(x *spawned, request *launcher.Request) error {
	j := s.job
	body, err := wire.Marshal(request)
	if err != nil {
		return err
	}
	file, err := unix.MemfdCreate("filch-spawn", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	if err := proc.WriteAll(file, body); err != nil {
		return err
	}
	if _, err := unix.Seek(file, 0, 0); err != nil {
		return err
	}
	news, theirs, err := proc.Pipe(true)
	if err != nil {
		return err
	}
	var files proc.Files
	files.Lend(j.io.null)
	if err := j.io.connectTo(x.by, &files); err != nil {
		unix.Close(news)
		unix.Close(theirs)
		return err
	}
	files.Lend(file)
	files.Give(theirs)
	attr := &syscall.ProcAttr{
		Dir: "/", Env: s.clientEnv(), Files: files.Child,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &x.pidfd},
	}
	self := "/proc/self/exe"
	x.pid, _, err = proc.ForkExec(self, []string{"filch", "spawn"}, attr, nil)
	files.CloseTheirs()
	if err != nil {
		unix.Close(news)
		return err
	}
	x.news = news
	j.keeper.poll.Watch(news, proc.Readable, func(uint32) { s.hear(x) })
	if x.pidfd >= 0 {
		j.keeper.poll.Watch(x.pidfd, proc.Readable, func(uint32) { j.reap() })
	} else {
		j.pollChildren()
	}
	return nil
}

// clientEnv is the environment of a client: where its launcher is, and the marks by which
// a sweep finds the client.
func (s *spawns) clientEnv() []string {
	j := s.job
	instance := j.keeper.place.Instance
	if instance == "" {
		instance = j.ident().Instance
	}
	return append(os.Environ(),
		"FILCH_INSTANCE="+instance, "FILCH_NODE="+string(j.keeper.place.Node),
		"FILCH_JOB="+j.ident().Job.String(), "FILCH_IDENT="+j.ident().String())
}

// hear reads the client's news.
func (s *spawns) hear(x *spawned) {
	buf := s.job.keeper.scratch[:4096]
	for x.news >= 0 {
		n, err := unix.Read(x.news, buf)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			return
		}
		if err != nil || n == 0 || len(x.line) > launcher.MaxSpawnNews {
			s.deaf(x)
			return
		}
		x.line = append(x.line, buf[:n]...)
		for {
			line, rest, whole := bytes.Cut(x.line, []byte{'\n'})
			if !whole {
				break
			}
			var news launcher.SpawnNews
			if json.Unmarshal(line, &news) == nil {
				s.learn(x, &news)
			}
			x.line = append([]byte(nil), rest...)
		}
	}
}

func (s *spawns) deaf(x *spawned) {
	if x.news >= 0 {
		s.job.keeper.poll.Drop(x.news)
		unix.Close(x.news)
		x.news = -1
	}
}

// learn acts on a line of the client.
func (s *spawns) learn(x *spawned, news *launcher.SpawnNews) {
	if news.Job != 0 {
		x.id = news.Job
	}
	switch {
	case news.Waits != "":
		s.job.warn(fmt.Sprintf("%s: job %d waits: %s", x.text(), x.id, news.Waits))
	case news.Refused != nil:
		x.over = true
		s.refuse(x, news.Refused)
	case news.Started != 0 && !x.answered:
		x.answered = true
		x.attempt = news.Started
		s.job.mpi.spawned(x.ask.ID, pmi.SpawnResult{Namespace: s.namespace(x), Ranks: x.ranks})
	case news.Ended:
		x.over = true
		s.job.mpi.spawnOver(s.namespace(x))
		if !x.answered {
			s.refuse(x, filch.Errorf(filch.Unavailable, "%s", cmp.Or(news.Cause, "the ranks did not start")))
		} else if news.Cause != "" {
			s.failed(x, news.Code, news.Cause)
		}
	}
}

// text names a spawn for the user.
func (x *spawned) text() string {
	return fmt.Sprintf("rank %d spawns %s of %s", x.ask.Rank, filch.Plural(x.ranks, "rank"), x.ask.Apps[0].Argv[0])
}

// refuse tells the rank, and the user, that there are no new ranks.
func (s *spawns) refuse(x *spawned, err *filch.Error) {
	if x.answered {
		return
	}
	x.answered = true
	if !s.job.stop.begun {
		text := x.text() + ": refused: " + err.Text
		if err.Hint != "" {
			text += " (" + err.Hint + ")"
		}
		if err.Kind == filch.Timeout {
			text += "; " + spawnWaitName + " in the environment of the job allows more time"
		}
		s.job.warn(text)
	}
	s.job.mpi.spawned(x.ask.ID, pmi.SpawnResult{Refused: err.Text, Kind: err.Kind})
}

// failed ends the job: spawned ranks and the ranks of their job wait for each other, so the
// bad end of a rank on one side ends both.
func (s *spawns) failed(x *spawned, code int32, cause string) {
	j := s.job
	if x.stopped || j.stop.begun {
		return
	}
	text := fmt.Sprintf("spawned job %d, and %s", x.id, cause)
	r := x.by
	for _, o := range j.ranks {
		if r.said && !o.said {
			r = o
		}
	}
	if r.said {
		j.warn(fmt.Sprintf("rank %d %s", x.by.id, text))
		return
	}
	j.mpi.verdict(r.id, launcher.RankEnd{Kind: launcher.CauseAbort, Code: max(code, 0), Text: text})
}

// reaped handles the end of a client's process.
func (s *spawns) reaped(pid int, ws unix.WaitStatus) bool {
	i := slices.IndexFunc(s.all, func(x *spawned) bool { return x.pid == pid })
	if i < 0 {
		return false
	}
	x := s.all[i]
	s.hear(x)
	s.deaf(x)
	if x.pidfd >= 0 {
		s.job.keeper.poll.Drop(x.pidfd)
		unix.Close(x.pidfd)
		x.pidfd = -1
	}
	s.all = slices.Delete(s.all, i, i+1)
	if !x.over {
		s.refuse(x, filch.Errorf(filch.Unavailable, "the client of the new ranks ended: %s", endOf(ws)))
		s.failed(x, 1, "the client of the spawned ranks ended: "+endOf(ws))
	}
	return true
}

// is reports whether a process is a client.
func (s *spawns) is(pid int) bool {
	return slices.ContainsFunc(s.all, func(x *spawned) bool { return x.pid == pid })
}

// stop tells all clients to end their runs, and kills the clients that take too long.
func (s *spawns) stop() {
	fresh := false
	for _, x := range s.all {
		if !x.stopped {
			x.stopped, fresh = true, true
			unix.Kill(x.pid, unix.SIGTERM)
		}
	}
	if fresh {
		s.job.keeper.poll.Stop(s.timer)
		s.timer = s.job.keeper.poll.After(spawnStopMax, s.kill)
	}
}

func (s *spawns) kill() {
	s.timer = nil
	for _, x := range s.all {
		unix.Kill(x.pid, unix.SIGKILL)
	}
}

// finished reports whether no spawned run is left. Runs that go on after the last rank here
// have spawnGrace to end.
func (s *spawns) finished() bool {
	if len(s.all) == 0 {
		s.job.keeper.poll.Stop(s.timer)
		s.timer = nil
		return true
	}
	switch {
	case s.job.stop.begun:
		s.stop()
	case s.timer == nil && !s.all[0].stopped:
		s.timer = s.job.keeper.poll.After(spawnGrace, func() {
			s.timer = nil
			for _, x := range s.all {
				s.job.warn(fmt.Sprintf("rank %d spawned job %d, which is ended: its job is over since %s", x.ask.Rank, x.id, spawnGrace))
			}
			s.stop()
		})
	}
	return false
}

// end kills and reaps the clients that are left.
func (s *spawns) end() {
	s.job.keeper.poll.Stop(s.timer)
	s.kill()
	for len(s.all) > 0 {
		var ws unix.WaitStatus
		pid := s.all[0].pid
		s.all[0].over = true
		for {
			if _, err := unix.Wait4(pid, &ws, 0, nil); err != unix.EINTR {
				break
			}
		}
		s.reaped(pid, ws)
	}
}

// namespace is the name by which ranks know a spawned run.
func (s *spawns) namespace(x *spawned) string {
	ident := filch.Ident{Instance: s.job.ident().Instance, Job: x.id, Attempt: x.attempt}
	if s.job.mpi.pmix != nil {
		return pmixNamespace(ident)
	}
	return ident.String()
}
