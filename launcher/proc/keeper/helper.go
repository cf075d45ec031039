package keeper

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/pmix"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// Time limits of the helper, and the bound on its kept error output.
const (
	// helperReady bounds the start of the helper, including a compilation. The job's
	// origin waits a little longer (launcher.PrepareWait).
	helperReady = 50 * time.Second
	// helperQuit bounds the helper's work after the last rank.
	helperQuit = 1500 * time.Millisecond
	// hashMost is the largest number of ranks on a node that get each value by a request
	// of their own. For so few ranks libpmix's shared memory costs more than it saves: 20
	// ms at the end of a job alone.
	hashMost = 32
	// helperWords is how many bytes of the helper's standard error are kept.
	helperWords = 4 << 10
)

// helper is the PMIx server of a job on this node: a child of this process running from
// before the first rank until after the last. The helper dies with the keeper. All
// methods may be called on nil, which stands for a job without a helper.
type helper struct {
	w       *wireup
	pid     int // 0: not started, or gone
	pidfd   int
	stderr  int
	words   []byte
	scratch proc.Scratch
	timer   *proc.Timer
	begun   bool // the ranks may be started
	leaving bool
}

func newHelper(w *wireup) *helper {
	return &helper{w: w, pidfd: -1, stderr: -1, scratch: newScratch(w.job.keeper)}
}

func (h *helper) alive() bool     { return h != nil && h.pid > 0 }
func (h *helper) is(pid int) bool { return h != nil && h.pid == pid }

// start forks the helper. The helper reports later that it is ready.
func (h *helper) start() *proc.Failure {
	if h == nil {
		return nil
	}
	err := h.scratch.Make()
	if err == nil {
		err = h.fork()
	}
	if err != nil {
		h.scratch.Remove()
		return proc.Failf(launcher.CauseOurs, filch.Unavailable, "cannot start the PMIx server for %s on %s: %s",
			h.w.job.ranks[0].argv[0], h.w.job.node(), err)
	}
	h.timer = h.w.job.keeper.poll.After(helperReady, func() {
		h.timer = nil
		h.words = []byte("not ready after " + helperReady.String())
		h.kill()
	})
	h.w.pmix.Begin(&h.w.out)
	h.w.act()
	return nil
}

func (h *helper) fork() error {
	dir, err := programDir(h.w.job.keeper.place)
	if err != nil {
		return err
	}
	argv, err := pmix.Command(dir)
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[1])
	stderr, theirs, err := proc.Pipe(true)
	if err != nil {
		unix.Close(pair[0])
		return err
	}
	defer unix.Close(theirs)
	attr := &syscall.ProcAttr{
		Dir: "/", Env: h.env(),
		Files: []uintptr{uintptr(pair[1]), uintptr(theirs), uintptr(theirs)},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &h.pidfd},
	}
	pid, _, err := proc.ForkExec(argv[0], argv, attr, nil)
	if err != nil {
		h.pidfd = -1
		unix.Close(pair[0])
		unix.Close(stderr)
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	h.pid, h.stderr = pid, stderr
	poll := h.w.job.keeper.poll
	poll.Watch(stderr, proc.Readable, func(uint32) { h.listen() })
	if h.pidfd >= 0 {
		poll.Watch(h.pidfd, proc.Readable, func(uint32) { h.w.job.reap() })
	} else {
		h.w.job.pollChildren()
	}
	return h.w.serve(pmix.Helper, pair[0])
}

// programDir is the folder where programs of ours may be written: the folder of this
// executable, which the launcher wrote to the node-local folder.
func programDir(p proc.Place) (string, error) {
	self, err := os.Executable()
	if err == nil && unix.Access(filepath.Dir(self), unix.W_OK) == nil {
		return filepath.Dir(self), nil
	}
	dir := filepath.Join(p.Dir, "bin")
	return dir, os.MkdirAll(dir, 0o700)
}

// env is the helper's environment: the variables that make the helper find the same
// libpmix as the ranks, and the marks by which a sweep finds the helper.
func (h *helper) env() []string {
	j := h.w.job
	env := []string{
		"FILCH_SOCKET=" + filepath.Join(j.keeper.place.Dir, "launcher.sock"),
		"FILCH_JOB=" + j.ident().Job.String(), "FILCH_IDENT=" + j.ident().String(),
		// Not needed, and slow to load: plugins of hwloc that look for displays and
		// devices, and munge, where the kernel gives the caller's credentials.
		"HWLOC_PLUGINS_PATH=/nonexistent", "PMIX_MCA_psec=native",
	}
	if len(j.ranks) <= hashMost {
		env = append(env, "PMIX_MCA_gds=hash")
	}
	for _, name := range []string{"PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "FILCH_LIBPMIX", "CC", "PKG_CONFIG_PATH"} {
		if v, ok := proc.LookupEnv(j.what.Env, name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// listen passes on the helper's standard error, where the helper reports faults.
func (h *helper) listen() {
	buf := h.w.job.keeper.scratch[:]
	n, err := unix.Read(h.stderr, buf)
	if err == unix.EAGAIN || err == unix.EINTR {
		return
	}
	if err != nil || n == 0 {
		h.deaf()
		return
	}
	os.Stderr.Write(buf[:n])
	h.words = append(h.words, buf[:n]...)
	h.words = h.words[max(0, len(h.words)-helperWords):]
}

func (h *helper) deaf() {
	if h.stderr >= 0 {
		h.w.job.keeper.poll.Drop(h.stderr)
		unix.Close(h.stderr)
		h.stderr = -1
	}
}

// heard continues the preparation of the job once the engine has the helper's ready
// message.
func (h *helper) heard() {
	if h == nil || h.begun || !h.w.pmix.Ready() || h.w.job.phase != checking {
		return
	}
	h.begun = true
	h.w.job.keeper.poll.Stop(h.timer)
	h.timer = nil
	h.w.job.prepared()
}

// reaped handles the end of the helper's process.
func (h *helper) reaped(pid int, ws unix.WaitStatus) {
	if h == nil || pid != h.pid {
		return
	}
	j := h.w.job
	h.pid = 0
	j.keeper.poll.Stop(h.timer)
	h.timer = nil
	if h.pidfd >= 0 {
		j.keeper.poll.Drop(h.pidfd)
		unix.Close(h.pidfd)
		h.pidfd = -1
	}
	if c := h.w.clients[pmix.Helper]; c != nil {
		for h.w.read(c) {
		}
		h.w.hangUp(c)
		h.w.act()
	}
	for h.stderr >= 0 {
		before := len(h.words)
		if h.listen(); len(h.words) == before {
			break
		}
	}
	h.deaf()
	switch {
	case j.phase == checking:
		j.failed = h.failed(ws)
		j.prepared()
	case j.phase == ready, j.phase == starting, j.phase == running:
		if !h.leaving {
			h.lost(ws)
		}
	}
}

// failed gives the reason why there is no helper.
func (h *helper) failed(ws unix.WaitStatus) *proc.Failure {
	j := h.w.job
	what := fmt.Sprintf("cannot serve PMIx to %s", j.ranks[0].argv[0])
	if f := h.w.pmix.Failure(); f != nil {
		text, hint := f.Explain(j.node())
		x := proc.Failf(launcher.CauseOurs, filch.Unavailable, "%s: %s", what, text)
		if hint != "" {
			x = x.Hint(hint)
		}
		return x
	}
	last := string(lastLine(h.words))
	if ws.Exited() && ws.ExitStatus() == pmix.NotBuilt {
		why, remedy, _ := strings.Cut(last, " (")
		return proc.Failf(launcher.CauseOurs, filch.Unavailable, "%s: this filch was built without pmixd, and cannot compile pmixd on %s: %s",
			what, j.node(), why).Hint(strings.TrimSuffix(remedy, ")"))
	}
	if last == "" {
		last = endOf(ws)
	}
	return proc.Failf(launcher.CauseOurs, filch.Unavailable, "%s: the PMIx server (pmixd) on %s: %s", what, j.node(), last)
}

// lost ends the job: without the helper the ranks can go on computing but cannot finish
// MPI.
func (h *helper) lost(ws unix.WaitStatus) {
	j := h.w.job
	text := "the PMIx server (pmixd) ended: " + endOf(ws)
	if j.phase == ready {
		j.failed = proc.Failf(launcher.CauseOurs, filch.Unavailable, "%s: %s", j.node(), text)
	}
	for _, r := range j.ranks {
		if !r.said {
			h.w.verdict(r.id, launcher.RankEnd{Kind: launcher.CauseOurs, Code: filch.ExitOurs, Text: text})
			break
		}
	}
	j.halt(unix.SIGTERM, 0)
}

func endOf(ws unix.WaitStatus) string {
	if ws.Signaled() {
		return "killed by " + unix.SignalName(ws.Signal())
	}
	return fmt.Sprintf("exited with %d", ws.ExitStatus())
}

func lastLine(b []byte) []byte {
	b = bytes.TrimSpace(b)
	return bytes.TrimSpace(b[bytes.LastIndexByte(b, '\n')+1:])
}

// leave asks the helper to end, after all ranks have ended, and reports whether the
// helper is gone.
func (h *helper) leave() bool {
	if !h.alive() {
		if h != nil {
			h.scratch.Remove()
		}
		return true
	}
	if h.leaving {
		return false
	}
	h.leaving = true
	h.w.pmix.Quit(&h.w.out)
	h.w.act()
	h.w.job.keeper.poll.Stop(h.timer)
	h.timer = h.w.job.keeper.poll.After(helperQuit, func() { h.timer = nil; h.kill() })
	return false
}

func (h *helper) kill() {
	if h.alive() {
		unix.Kill(h.pid, unix.SIGKILL) // a child that was not reaped
	}
}

// end kills and reaps the helper and removes its files.
func (h *helper) end() {
	if h == nil {
		return
	}
	h.leaving = true
	if pid := h.pid; pid > 0 {
		h.kill()
		var ws unix.WaitStatus
		for {
			if _, err := unix.Wait4(pid, &ws, 0, nil); err != unix.EINTR {
				break
			}
		}
		h.reaped(pid, ws)
	}
	h.scratch.Remove()
}
