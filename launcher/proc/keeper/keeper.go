package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// Time limits of a keeper, and bounds on its reuse.
const (
	// AdoptWait is how long a keeper without a launcher waits for the next one before
	// killing all processes: a launcher is back within 4 s or not at all.
	AdoptWait = 6500 * time.Millisecond
	// LeaseMax is how long a keeper goes on without a sign of life of a launcher with an
	// open link.
	LeaseMax = 10 * time.Second
	// lingerMax is how long a keeper with an order to leave waits for credit for its sent
	// output.
	lingerMax = 10 * time.Second
	// guardMore is how much longer than busy keepers an idle keeper stays when the
	// launcher has died, and guardEvery how often the idle keeper looks for orphans.
	guardMore  = 2 * time.Second
	guardEvery = 250 * time.Millisecond
	// jobsMax is how many jobs a keeper runs before a fresh keeper takes its place. A
	// keeper is reused only after a job of at most ranksReuse ranks and orderReuse bytes
	// of order, while holding at most memoryReuse bytes, four times the memory after a
	// small job: after a large job, memory is best given back by ending the process.
	jobsMax     = 1000
	ranksReuse  = 256
	orderReuse  = 1 << 20
	memoryReuse = 32 << 20
)

// keeper is the process: a link, a wait, and a single attempt of a job at a time. When a
// job is done and forgotten the keeper sends Hello again and may receive another job: a
// process that has run a job starts the next job faster.
type keeper struct {
	poll   *proc.Epoll
	link   *proc.Link
	place  proc.Place
	socket int // the socket for a restarted launcher, -1 none
	cgroup *proc.Cgroup
	job    *job

	lease    *proc.Timer
	leased   time.Time   // the last sign of life
	hush     *proc.Timer // see watchSilence
	silent   bool        // the launcher stands still: other nodes end their ranks
	until    time.Time   // end of the time without a launcher; zero: for ever
	adoption *proc.Timer // runs while there is no launcher
	linger   *proc.Timer
	jobs     int // done so far

	scratches int            // made so far
	removals  sync.WaitGroup // of the private folders of ended jobs
	hung      bool           // a goroutine of a job did not end
	meter     proc.Meter
	leaving   bool

	scratch [proc.ReadChunk]byte // a buffer for the current read
}

// Main is the whole of `filch keeper DIR INSTANCE NODE`. It returns the
// exit code.
func Main(args []string) int {
	runtime.LockOSThread() // forks all ranks; see the package comment
	if len(args) != 3 {
		fmt.Fprintln(os.Stderr, "filch: error: filch keeper is started by a launcher, not by hand")
		return filch.ExitUsage
	}
	k, err := newKeeper(proc.Place{Dir: args[0], Instance: args[1], Node: filch.NodeName(args[2])})
	if err != nil {
		fmt.Fprintf(os.Stderr, "filch: error: keeper: %v\n", err)
		return filch.ExitOurs
	}
	defer k.close()
	for !k.leaving {
		if err := k.poll.Turn(); err != nil {
			fmt.Fprintf(os.Stderr, "filch: error: keeper: %v\n", err)
			return filch.ExitOurs
		}
		if k.job != nil {
			k.job.settle()
		}
		k.link.Flush()
	}
	return 0
}

// newKeeper does all the work that needs no job.
func newKeeper(p proc.Place) (*keeper, error) {
	poll, err := proc.NewEpoll()
	if err != nil {
		return nil, err
	}
	k := &keeper{poll: poll, place: p, socket: -1}
	proc.CloseOnExec()
	if err := unix.SetNonblock(proc.LinkFD, true); err != nil {
		return nil, fmt.Errorf("no link on descriptor %d: %w", proc.LinkFD, err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	proc.DefaultSignals()
	k.link = &proc.Link{Poll: poll, OnFrame: k.frame, OnLost: k.linkLost}
	if err := k.link.Open(proc.LinkFD); err != nil {
		return nil, err
	}
	if err := k.listen(); err != nil {
		// Without the socket a restarted launcher cannot take the job over;
		// everything else works.
		fmt.Fprintf(os.Stderr, "filch: warning: keeper: no socket for re-adoption: %v\n", err)
	}
	k.cgroup = proc.NewCgroup(p)
	k.hello()
	k.link.Flush()
	k.warmUp()
	return k, nil
}

func (k *keeper) hello() {
	h := wire.Hello{Role: "keeper", PID: int32(os.Getpid())}
	if k.job != nil {
		h.Ident = k.job.ident().String()
	}
	body, err := wire.EncodeHello(h)
	if err != nil {
		panic(err)
	}
	k.link.SendRaw(wire.KindHello, body)
}

func (k *keeper) socketPath() string {
	return filepath.Join(k.place.KeepersDir(), fmt.Sprintf("k%d.sock", os.Getpid()))
}

// listen opens the socket for a restarted launcher.
func (k *keeper) listen() error {
	path := k.socketPath()
	short, done, err := proc.ShortPath(path)
	if err != nil {
		return err
	}
	defer done()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	os.Remove(path)
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: short}); err == nil {
		if err = unix.Chmod(short, 0o600); err == nil {
			err = unix.Listen(fd, 4)
		}
	}
	if err == nil {
		err = k.poll.Watch(fd, proc.Readable, func(uint32) { k.called() })
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	k.socket = fd
	return nil
}

// called accepts a connection of a launcher of the same user: the newest launcher is the
// launcher of the node, as it holds the lock of the state folder.
func (k *keeper) called() {
	fd, _, err := unix.Accept4(k.socket, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return
	}
	if _, err := place.CheckPeer(fd); err != nil || k.job == nil {
		unix.Close(fd)
		return
	}
	k.link.Close()
	k.poll.Stop(k.adoption)
	k.adoption = nil
	if k.job.stop.abandoned {
		unix.Close(fd) // too late: the kill has begun
		return
	}
	if err := k.link.Open(fd); err != nil {
		unix.Close(fd)
		k.linkLost()
		return
	}
	k.alive()
	k.hello()
	k.link.Mute = true // live output would overtake the state sent again after Adopt
}

func (k *keeper) close() {
	if k.socket >= 0 {
		os.Remove(k.socketPath())
	}
	k.cgroup.Remove()
	k.removals.Wait()
}

// frame handles a frame of the launcher.
func (k *keeper) frame(f wire.Frame) {
	k.alive()
	switch f.Kind {
	case wire.KindHello:
		if _, err := wire.DecodeHello(f.Body); err != nil {
			k.link.SendRaw(wire.KindRefusal, wire.EncodeRefusal(err.Error(), ""))
			k.link.Flush()
			k.link.Close()
		}
		return
	case wire.KindLease:
		return
	case wire.KindStart:
		k.begin(f.Body)
		return
	}
	if k.job == nil {
		return
	}
	switch f.Kind {
	case wire.KindDeed:
		var d launcher.Deed
		if wire.Unmarshal(f.Body, &d) == nil && d.Ident == k.job.ident() {
			k.deed(d)
		}
	case wire.KindAdopt:
		k.job.adopted()
	default:
		k.job.data(f)
	}
}

// begin takes a Start. A second Start gets the answer of the first.
func (k *keeper) begin(body []byte) {
	if k.job != nil {
		k.job.sayReady()
		return
	}
	j, err := newJob(k, body)
	if err != nil {
		fmt.Fprintf(os.Stderr, "filch: error: keeper: a start was refused: %v\n", err)
		k.leaving = true
		return
	}
	k.job = j
	k.leaseFor(j.order.Lease)
	k.watchLease()
	if len(j.order.Launch.Nodes) > 1 {
		k.watchSilence()
	}
	j.prepare()
}

func (k *keeper) deed(d launcher.Deed) {
	switch d.Kind {
	case launcher.DeedGo:
		k.job.start()
	case launcher.DeedSignal:
		k.job.signal(unix.Signal(d.Signal))
	case launcher.DeedStop:
		k.job.halt(unix.Signal(d.Signal), d.Grace)
	case launcher.DeedForget:
		k.forget()
	case launcher.DeedLease:
		k.leaseFor(d.Grace)
	}
}

// leaseFor notes how long the ranks may run on when there is no launcher; 0: for ever.
func (k *keeper) leaseFor(left time.Duration) {
	if k.until = (time.Time{}); left > 0 {
		k.until = time.Now().Add(left)
	}
}

// leaseLeft is the rest of that time, for a new launcher.
func (k *keeper) leaseLeft() time.Duration {
	if k.until.IsZero() {
		return 0
	}
	return max(time.Until(k.until), 1)
}

// forget lets the keeper drop the job, once the launcher has credited all sent output;
// see settle.
func (k *keeper) forget() {
	k.job.forgotten = true
	if k.linger == nil {
		k.linger = k.poll.After(lingerMax, func() { k.leaving = true })
	}
}

// again makes the keeper ready for another job, or makes the keeper exit.
func (k *keeper) again() {
	j := k.job
	j.close()
	k.poll.Stop(k.linger)
	k.poll.Stop(k.lease)
	k.poll.Stop(k.hush)
	k.job, k.linger, k.lease, k.hush = nil, nil, nil, nil
	large := len(j.ranks) > ranksReuse || len(j.order.Launch.Order) > orderReuse || memoryHeld() > memoryReuse
	hung := k.hung || j.io != nil && j.io.hung
	if k.jobs++; j.stop.left > 0 || hung || large || k.jobs >= jobsMax || k.link.FD < 0 || !k.cgroup.Reset() {
		k.leaving = true
		return
	}
	k.hello()
}

// memoryHeld is how much of the machine's memory this process has, in bytes.
func memoryHeld() uint64 {
	var m runtime.MemStats // runtime/metrics has an init that each start would pay for
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}

// alive notes a sign of life of the launcher.
func (k *keeper) alive() { k.leased, k.silent = time.Now(), false }

// watchLease ends the job when the launcher is silent for too long. The time in which
// this process itself was stopped does not count: messages sent by the launcher meanwhile
// are still unread.
func (k *keeper) watchLease() {
	due := k.leased.Add(LeaseMax)
	k.lease = k.poll.After(time.Until(due), func() {
		if late := time.Since(due); late > time.Second && k.leased.Add(LeaseMax).Before(time.Now()) {
			k.leased = time.Now().Add(-LeaseMax / 2)
		}
		if k.link.FD >= 0 && k.leased.Add(LeaseMax).Before(time.Now()) {
			k.abandon("the launcher was silent for "+LeaseMax.String(), k.job.order.Launch.KillWait)
			return
		}
		if k.link.FD < 0 {
			k.alive() // the adoption has its own timer: look again later
		}
		k.watchLease()
	})
}

// linkLost waits for the next launcher; an idle keeper keeps guard meanwhile. A step of a
// task does not wait for a launcher: the task ended with its launcher.
func (k *keeper) linkLost() {
	if k.job == nil {
		k.guard(time.Now().Add(AdoptWait + guardMore))
		return
	}
	if k.adoption == nil {
		wait := AdoptWait
		if left := k.leaseLeft(); left > 0 {
			wait = min(wait, left) // other nodes may then count this attempt as over
		}
		if k.job.order.Launch.Task != 0 {
			wait = 0
		}
		k.adoption = k.poll.After(wait, func() { k.abandon("the launcher is gone", 0) })
	}
}

// guard sweeps up after keepers that die with their launcher or soon afterwards, until no
// keeper has a process left. guard looks at the keepers before the sweep: the next sweep
// handles a keeper that dies between the two.
func (k *keeper) guard(until time.Time) {
	busy := false
	for pid := range proc.LivingKeepers(k.place) {
		ranks, _ := proc.Children(pid)
		busy = busy || len(ranks) > 0 && pid != os.Getpid()
	}
	proc.SweepOrphans(k.place)
	if !busy || time.Now().After(until) {
		k.leaving = true
		return
	}
	k.poll.After(guardEvery, func() { k.guard(until) })
}

// abandon ends the job, at once or with some grace, and leaves.
func (k *keeper) abandon(why string, grace time.Duration) {
	if k.job.stop.abandoned {
		return
	}
	k.job.stop.abandoned = true
	k.job.warn("job " + k.job.ident().Job.String() + " is ended on " + string(k.place.Node) + ": " + why)
	k.job.halt(unix.SIGTERM, grace)
}
