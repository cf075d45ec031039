package keeper

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// phase is the phase of a job on this node.
type phase uint8

const (
	checking phase = iota
	ready          // Ready was said
	refused        // Ready was said, with an error: nothing will run
	starting       // ranks are being forked
	running
	ended // every rank has ended; leftovers are being killed, output drained
	done  // KeeperDone was said
)

// job is an attempt of a job on this node.
type job struct {
	keeper *keeper
	order  launcher.Start
	what   launcher.Order
	ranks  []*rank
	byPID  map[int]*rank
	phase  phase
	failed *proc.Failure
	alive  int // ranks whose process lives

	io     *outputs
	in     *input
	mpi    *wireup
	spawns spawns
	copy   *copied // --bcast; nil none
	tmp    string  // the TMPDIR of the ranks; "" none
	stop   stopper

	news      []launcher.RankEnd // not sent yet
	forgotten bool
	began     time.Time
}

// rank is a process of the job, with its state.
type rank struct {
	id      filch.Rank
	local   int
	program int // index into Order.Programs
	argv    []string
	exe     proc.Program
	phase   rankPhase
	pid     int
	pidfd   int // -1 where the kernel has none
	told    bool
	said    bool // the end was reported
	end     launcher.RankEnd
	files   proc.Files
}

type rankPhase uint8

const (
	rankWaiting rankPhase = iota
	rankRunning
	rankGone
)

// newJob reads a Start. Only a Start that no launcher of ours would send is an error.
func newJob(k *keeper, body []byte) (*job, error) {
	j := &job{keeper: k, byPID: map[int]*rank{}, began: time.Now()}
	if err := wire.Unmarshal(body, &j.order); err != nil {
		return nil, err
	}
	if err := wire.Unmarshal(j.order.Launch.Order, &j.what); err != nil {
		return nil, err
	}
	j.spawns.job = j
	if j.order.Folder != "" {
		j.what.Cwd = j.order.Folder
	}
	l := &j.order.Launch
	if j.order.Index < 0 || int(j.order.Index) >= len(l.Nodes) {
		return nil, fmt.Errorf("node %d of %d", j.order.Index, len(l.Nodes))
	}
	for _, s := range l.Nodes[j.order.Index].Ranks {
		if s.Count < 0 || s.First < 0 || int64(s.First)+int64(s.Count) > int64(l.Size) || len(j.ranks)+int(s.Count) > launcher.MaxRanks {
			return nil, fmt.Errorf("ranks %d+%d of %d", s.First, s.Count, l.Size)
		}
		for i := range s.Count {
			r := &rank{id: s.First + filch.Rank(i), local: len(j.ranks), pidfd: -1}
			j.ranks = append(j.ranks, r)
		}
	}
	return j, j.assign()
}

// assign finds each rank's program.
func (j *job) assign() error {
	for _, r := range j.ranks {
		r.program = -1
		for i, p := range j.what.Programs {
			offset := 0
			for _, s := range p.Ranks {
				if r.id >= s.First && int64(r.id) < int64(s.First)+int64(s.Count) {
					r.program = i
					r.argv = expandArgs(p, r.id, offset+int(r.id-s.First))
				}
				offset += int(s.Count)
			}
		}
		if r.program < 0 || len(r.argv) == 0 {
			return fmt.Errorf("rank %d has no program", r.id)
		}
	}
	return nil
}

// expandArgs replaces %t and %o (srun --multi-prog).
func expandArgs(p launcher.Program, r filch.Rank, offset int) []string {
	if !p.Expand {
		return p.Argv
	}
	replace := strings.NewReplacer("%t", fmt.Sprint(int(r)), "%o", fmt.Sprint(offset))
	args := make([]string, len(p.Argv))
	for i, a := range p.Argv {
		args[i] = replace.Replace(a)
	}
	return args
}

func (j *job) ident() filch.Ident { return j.order.Launch.Ident }

// node is this node's name in the job.
func (j *job) node() filch.NodeName { return j.order.Launch.Nodes[j.order.Index].Node }

// now is the time since the job began: the clock of the PMI engine.
func (j *job) now() time.Duration { return time.Since(j.began) }

func (j *job) link() *proc.Link { return j.keeper.link }

// warn sends a line for the user.
func (j *job) warn(text string) {
	if len(text) > wire.MaxHello-64 {
		text = text[:wire.MaxHello-64]
	}
	j.link().Send(wire.KindWarn, wire.Warn{Text: text})
}

// prepare makes all the checks and answers with Ready. A program sent with the job is
// unpacked first, and the answer waits for the helper of the wire-up, where the job has a
// helper.
func (j *job) prepare() {
	if j.order.Launch.Copy == nil {
		j.examine()
		return
	}
	if j.failed = j.unpackCopy(); j.failed != nil {
		j.prepared()
	}
}

// examine is the second part of the preparation.
func (j *job) examine() {
	j.failed = j.check()
	if j.failed == nil {
		j.mpi = newWireup(j)
		j.failed = j.mpi.helper.start()
	}
	if j.failed == nil && j.mpi.helper != nil {
		return
	}
	j.prepared()
}

// prepared is the last part of the preparation.
func (j *job) prepared() {
	if j.failed == nil {
		j.io = newOutputs(j)
		j.failed = j.io.openFiles()
	}
	if j.failed == nil {
		j.in, j.failed = newInput(j)
	}
	if j.failed != nil {
		j.phase = refused
		j.copy.remove()
		j.removeTmp()
		j.sayReady()
		if j.mpi != nil {
			j.mpi.helper.leave()
		}
		return
	}
	if !j.keeper.cgroup.Limit(j.order.Memory) {
		j.warn(string(j.node()) + ": no cgroup to limit memory in: the job's limit of " + itoa(int(j.order.Memory>>20)) + " MiB is not enforced")
	}
	j.phase = ready
	j.sayReady()
	if j.order.Go {
		j.start()
	}
}

func (j *job) sayReady() {
	if j.phase == checking {
		return // not yet
	}
	r := launcher.KeeperReady{Ident: j.ident()}
	if j.failed != nil {
		r.Err, r.Cause = j.failed.Err, j.failed.Cause
	}
	j.link().Send(wire.KindKeeperReady, r)
}

// check makes the checks that are possible before an exec.
func (j *job) check() *proc.Failure {
	unix.Umask(int(j.what.Umask))
	if f := j.checkDescriptors(); f != nil {
		return f
	}
	if f := proc.CheckCwd(j.what.Cwd, j.node()); f != nil {
		return f
	}
	for _, r := range j.ranks {
		if dir := cwdOf(&j.what, r.program); dir != j.what.Cwd {
			if f := proc.CheckCwd(dir, j.node()); f != nil {
				return f
			}
		}
	}
	known := map[string]proc.Program{}
	for _, r := range j.ranks {
		env := j.programEnv(r.program)
		key := fmt.Sprintf("%d %s", r.program, r.argv[0])
		p, ok := known[key]
		if !ok {
			var f *proc.Failure
			if p, f = j.findProgram(r.program, r.argv[0], env); f != nil {
				return f
			}
			known[key] = p
		}
		r.exe = p
	}
	return j.makeTmp()
}

// cwdOf is the working directory of program i.
func cwdOf(o *launcher.Order, i int) string { return cmp.Or(o.Programs[i].Cwd, o.Cwd) }

// findProgram finds program i, first in the folders of the program itself.
func (j *job) findProgram(i int, name string, env []string) (proc.Program, *proc.Failure) {
	if first := j.what.Programs[i].Path; first != "" && !strings.Contains(name, "/") {
		if p, f := proc.FindProgram(name, cwdOf(&j.what, i), append(env[:len(env):len(env)], "PATH="+first), j.node()); f == nil {
			return p, nil
		}
	}
	return proc.FindProgram(name, cwdOf(&j.what, i), env, j.node())
}

// fdsPerRank are the descriptors that a rank takes here: its process, three pipes, and
// its PMI connection; fdsMore is the number of descriptors that the keeper itself has
// open.
const (
	fdsPerRank = 5
	fdsMore    = 64
)

// checkDescriptors makes sure that this process may open as many files as the ranks need.
func (j *job) checkDescriptors() *proc.Failure {
	var l unix.Rlimit
	need := uint64(len(j.ranks)*fdsPerRank + fdsMore)
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || l.Cur >= need {
		return nil
	}
	return proc.Failf(launcher.CauseOurs, filch.Unavailable, "%s on %s take %d open files, and the limit there is %d",
		filch.Plural(len(j.ranks), "rank"), j.node(), need, l.Cur).Hint("raise the limit (ulimit -Hn) before starting the launcher")
}

// programEnv is the client's environment with the variables of program i; the last value
// of a name counts.
func (j *job) programEnv(i int) []string {
	extra := j.what.Programs[i].Env
	if len(extra) == 0 {
		return j.what.Env
	}
	given := map[string]bool{}
	for _, e := range extra {
		name, _, _ := strings.Cut(e, "=")
		given[name] = true
	}
	env := make([]string, 0, len(j.what.Env)+len(extra))
	for _, e := range j.what.Env {
		if name, _, _ := strings.Cut(e, "="); !given[name] {
			env = append(env, e)
		}
	}
	return append(env, extra...)
}

// data handles a frame of the data plane.
func (j *job) data(f wire.Frame) {
	switch f.Kind {
	case wire.KindCredit:
		if p, err := wire.DecodePlace(f.Body); err == nil && j.io != nil {
			j.io.credit(p.Offset)
		}
	case wire.KindResend:
		if p, err := wire.DecodePlace(f.Body); err == nil && j.io != nil {
			j.io.resend(p.Offset)
		}
	case wire.KindOutputSeen:
		if j.io != nil {
			j.io.credit(j.io.offset)
		}
	case wire.KindStdin:
		if s, err := wire.DecodeStdin(f.Body); err == nil && j.in != nil {
			j.in.add(s)
		}
	case wire.KindPeerFrame:
		if p, err := wire.DecodePeerFrame(f.Body); err == nil && j.mpi != nil {
			j.mpi.peer(p)
		}
	case wire.KindKinFrame:
		if k, err := wire.DecodeKinFrame(f.Body); err == nil && j.mpi != nil {
			j.mpi.kin(k)
		}
	case wire.KindResize:
		var w launcher.Window
		if wire.Unmarshal(f.Body, &w) == nil && j.io != nil {
			j.io.resize(w)
		}
	}
}

// adopted sends a new launcher all the state that the launcher may have missed.
func (j *job) adopted() {
	j.link().Mute = false
	a := launcher.Adopted{Start: j.order}
	a.Start.Lease = j.keeper.leaseLeft()
	for _, r := range j.ranks {
		if r.said {
			a.Ended = append(a.Ended, r.end)
		}
	}
	j.link().Send(wire.KindAdopted, a)
	j.news = nil
	if j.phase == ready || j.phase == refused {
		j.sayReady()
		return
	}
	if j.phase >= running {
		j.sayStarted()
	}
	if j.io != nil && j.in != nil {
		j.io.adopted()
		j.in.adopted()
	}
	if j.phase == done {
		j.sayDone()
	}
}

func (j *job) sayStarted() {
	pids := make([]int32, len(j.ranks))
	for i, r := range j.ranks {
		pids[i] = int32(r.pid)
	}
	j.link().Send(wire.KindRanksStarted, launcher.RanksStarted{Ident: j.ident(), PIDs: pids})
}

func (j *job) sayDone() {
	j.link().Send(wire.KindKeeperDone, launcher.KeeperDone{Ident: j.ident(), Left: int32(j.stop.left)})
}

// settle runs once per turn, after all events of the turn were handled: settle sends the
// gathered ends of ranks and takes the steps with several conditions.
func (j *job) settle() {
	if j.phase == starting {
		j.fork()
	}
	if j.mpi != nil {
		j.mpi.settle()
	}
	if len(j.news) > 0 {
		j.link().Send(wire.KindRanksEnded, launcher.RanksEnded{Ident: j.ident(), Ends: j.news})
		j.news = nil
	}
	if j.phase == running && j.alive == 0 {
		j.phase = ended
	}
	if j.phase == ended {
		j.finish()
	}
	k := j.keeper
	over := j.phase == refused || j.phase == done
	switch {
	case over && j.unheard():
		k.leaving = true
	case over && j.forgotten && (j.io == nil || len(j.io.kept) == 0):
		k.again()
	}
}

// close frees all resources of the job here. The job's processes have ended.
func (j *job) close() {
	poll := j.keeper.poll
	poll.Stop(j.stop.timer)
	j.copy.remove()
	j.spawns.end()
	if j.mpi != nil {
		j.mpi.close()
	}
	if j.in != nil {
		j.in.close()
	}
	if j.io != nil && j.io.null >= 0 {
		j.io.close()
	}
	for _, r := range j.ranks {
		if r.pidfd >= 0 {
			poll.Drop(r.pidfd)
			unix.Close(r.pidfd)
		}
	}
}

// unheard reports whether no launcher is left to receive the ranks' output: the launcher
// is gone for good.
func (j *job) unheard() bool { return j.stop.abandoned && j.keeper.link.FD < 0 }

// finish kills the processes that the ranks left behind and waits for the last output.
func (j *job) finish() {
	if !j.copy.ending() {
		return
	}
	if !j.spawns.finished() {
		return
	}
	if j.mpi != nil && !j.mpi.helper.leave() {
		return
	}
	if !j.nothingLeft() {
		j.kill()
		return
	}
	if j.io != nil && j.unheard() {
		j.io.discard()
	}
	if j.io != nil && !j.io.drained() {
		return
	}
	j.phase = done
	j.keeper.poll.Stop(j.stop.timer)
	j.copy.remove()
	j.removeTmp()
	if j.io != nil {
		j.io.sendEnd()
		j.io.close()
	}
	j.sayDone()
}
