package proc

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// How long a keeper bears what is wrong around it.
const (
	// AdoptWait is how long a keeper without a launcher waits for the next one
	// before it kills all: a launcher is back within 4 s or not at all.
	AdoptWait = 6500 * time.Millisecond
	// LeaseMax is how long a keeper goes on without a sign of life of a
	// launcher whose link is open.
	LeaseMax = 10 * time.Second
	// UnkillableAfter is how long processes may resist SIGKILL (they hang in
	// the kernel) before they are given up and counted.
	UnkillableAfter = 60 * time.Second
	// LingerMax is how long a keeper that was told to leave waits for output
	// that was sent and not taken.
	LingerMax = 10 * time.Second
	// guardMore is how much longer than the others an idle keeper stays when
	// the launcher has died, and guardEvery how often it looks.
	guardMore  = 2 * time.Second
	guardEvery = 250 * time.Millisecond
	// jobsMax is how many jobs one keeper does before a fresh one takes its
	// place; ranksReuse and orderReuse bound the largest after which it does
	// another, and memoryReuse what it may hold then, four times what a small
	// job leaves: what a large job has touched is best given back whole.
	jobsMax     = 1000
	ranksReuse  = 256
	orderReuse  = 1 << 20
	memoryReuse = 32 << 20
)

// keeper is the process: a link, a wait, and one attempt of a job at a time.
// When all of a job is done and forgotten it says Hello again and may be given
// another: a process that has done a job starts the next one faster.
type keeper struct {
	poll   *poller
	link   *link
	place  Place
	socket int // where a restarted launcher calls, -1 none
	room   *room
	job    *job

	lease    *timer
	leased   time.Time // the last sign of life
	until    time.Time // the ranks may run on without a launcher; zero: for ever
	adoption *timer    // runs while there is no launcher
	linger   *timer
	jobs     int // done so far

	scratches int  // made so far
	hung      bool // something of a job did not end
	leaving   bool

	scratch [readChunk]byte // of whoever reads at the moment
}

// KeeperMain is the whole of `filch keeper DIR INSTANCE NODE`. It returns the
// exit code.
func KeeperMain(args []string) int {
	runtime.LockOSThread() // forks all ranks; see the package comment
	if len(args) != 3 {
		fmt.Fprintln(os.Stderr, "filch: error: filch keeper is started by a launcher, not by hand")
		return filch.ExitUsage
	}
	k, err := newKeeper(Place{Dir: args[0], Instance: args[1], Node: filch.NodeName(args[2])})
	if err != nil {
		fmt.Fprintf(os.Stderr, "filch: error: keeper: %v\n", err)
		return filch.ExitOurs
	}
	defer k.close()
	for !k.leaving {
		if err := k.poll.turn(); err != nil {
			fmt.Fprintf(os.Stderr, "filch: error: keeper: %v\n", err)
			return filch.ExitOurs
		}
		if k.job != nil {
			k.job.settle()
		}
		k.link.flush()
	}
	return 0
}

// newKeeper does all that can be done before a job is known.
func newKeeper(p Place) (*keeper, error) {
	poll, err := newPoller()
	if err != nil {
		return nil, err
	}
	k := &keeper{poll: poll, place: p, socket: -1}
	closeOnExec()
	if err := unix.SetNonblock(linkFD, true); err != nil {
		return nil, fmt.Errorf("no link on descriptor %d: %w", linkFD, err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	defaultSignals()
	k.link = &link{poll: poll, on: k.frame, lost: k.linkLost}
	if err := k.link.open(linkFD); err != nil {
		return nil, err
	}
	if err := k.listen(); err != nil {
		// Without the socket a restarted launcher cannot take the job over;
		// everything else works.
		fmt.Fprintf(os.Stderr, "filch: warning: keeper: no socket for re-adoption: %v\n", err)
	}
	k.room = newRoom(p)
	k.hello()
	k.link.flush()
	k.rehearse()
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
	k.link.raw(wire.KindHello, body)
}

func (k *keeper) socketPath() string {
	return filepath.Join(k.place.keepersDir(), fmt.Sprintf("k%d.sock", os.Getpid()))
}

// listen opens the socket on which a restarted launcher calls.
func (k *keeper) listen() error {
	path := k.socketPath()
	short, done, err := shortPath(path)
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
		err = k.poll.watch(fd, readable, func(uint32) { k.called() })
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	k.socket = fd
	return nil
}

// called takes the call of a launcher of the same user: the newest one is the
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
	k.link.close()
	k.poll.stop(k.adoption)
	k.adoption = nil
	if k.job.stop.abandoned {
		unix.Close(fd) // too late: the kill has begun
		return
	}
	if err := k.link.open(fd); err != nil {
		unix.Close(fd)
		k.linkLost()
		return
	}
	k.alive()
	k.hello()
	k.link.mute = true // what is live would overtake what is told again
}

func (k *keeper) close() {
	if k.socket >= 0 {
		os.Remove(k.socketPath())
	}
	k.room.remove()
}

// frame handles one frame of the launcher.
func (k *keeper) frame(f wire.Frame) {
	k.alive()
	switch f.Kind {
	case wire.KindHello:
		if _, err := wire.DecodeHello(f.Body); err != nil {
			k.link.raw(wire.KindRefusal, wire.EncodeRefusal(err.Error(), ""))
			k.link.flush()
			k.link.close()
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

// begin takes a Start. A second one is answered as the first was.
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

// leaseLeft is what a new launcher is told of that.
func (k *keeper) leaseLeft() time.Duration {
	if k.until.IsZero() {
		return 0
	}
	return max(time.Until(k.until), 1)
}

// forget ends the care for a job, when everything that was sent has been
// taken; see settle.
func (k *keeper) forget() {
	k.job.forgotten = true
	if k.linger == nil {
		k.linger = k.poll.after(LingerMax, func() { k.leaving = true })
	}
}

// again is ready for another job, or leaves.
func (k *keeper) again() {
	j := k.job
	j.close()
	k.poll.stop(k.linger)
	k.poll.stop(k.lease)
	k.job, k.linger, k.lease = nil, nil, nil
	large := len(j.ranks) > ranksReuse || len(j.order.Launch.Order) > orderReuse || memoryHeld() > memoryReuse
	hung := k.hung || j.io != nil && j.io.hung
	if k.jobs++; j.stop.left > 0 || hung || large || k.jobs >= jobsMax || k.link.fd < 0 || !k.room.reset() {
		k.leaving = true
		return
	}
	k.hello()
}

// memoryHeld is how much of the machine's memory this process has, in bytes.
func memoryHeld() uint64 {
	all := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(all)
	return all[0].Value.Uint64() - all[1].Value.Uint64()
}

// alive notes a sign of life of the launcher.
func (k *keeper) alive() { k.leased = time.Now() }

// watchLease ends the job when the launcher is silent for too long. The time
// in which this process itself was stopped does not count: what the launcher
// said meanwhile is still unread.
func (k *keeper) watchLease() {
	due := k.leased.Add(LeaseMax)
	k.lease = k.poll.after(time.Until(due), func() {
		if late := time.Since(due); late > time.Second && k.leased.Add(LeaseMax).Before(time.Now()) {
			k.leased = time.Now().Add(-LeaseMax / 2)
		}
		if k.link.fd >= 0 && k.leased.Add(LeaseMax).Before(time.Now()) {
			k.abandon("its launcher said nothing for "+LeaseMax.String(), k.job.order.Launch.KillWait)
			return
		}
		if k.link.fd < 0 {
			k.alive() // the wait for the next launcher has a time of its own: look again later, not at once
		}
		k.watchLease()
	})
}

// linkLost waits for the next launcher; an idle keeper keeps guard meanwhile. A
// step of a task has none to wait for: the task ended with its launcher.
func (k *keeper) linkLost() {
	if k.job == nil {
		k.guard(time.Now().Add(AdoptWait + guardMore))
		return
	}
	if k.adoption == nil {
		wait := AdoptWait
		if left := k.leaseLeft(); left > 0 {
			wait = min(wait, left) // to the others that may count as over, whoever comes
		}
		if k.job.order.Launch.Task != 0 {
			wait = 0
		}
		k.adoption = k.poll.after(wait, func() { k.abandon("its launcher is gone", 0) })
	}
}

// guard sweeps up after keepers that die with their launcher, or soon after
// it, until none has any process left. It looks at them before the sweep: one
// that dies between the two is swept up after.
func (k *keeper) guard(until time.Time) {
	busy := false
	for pid := range livingKeepers(k.place) {
		ranks, _ := childrenOf(pid)
		busy = busy || len(ranks) > 0 && pid != os.Getpid()
	}
	SweepOrphans(k.place)
	if !busy || time.Now().After(until) {
		k.leaving = true
		return
	}
	k.poll.after(guardEvery, func() { k.guard(until) })
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

// closeOnExec keeps what this process was born with, its link and whatever
// leaked to it, from the ranks.
func closeOnExec() {
	if unix.CloseRange(linkFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	names, _ := os.ReadDir("/proc/self/fd") // before Linux 5.11
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd >= linkFD {
			unix.CloseOnExec(fd)
		}
	}
}

// defaultSignals undoes what a launcher under nohup ignores: an ignored signal
// stays ignored over an exec, and a rank must see the defaults.
func defaultSignals() {
	for sig := unix.Signal(1); sig < 32; sig++ {
		if sig != unix.SIGKILL && sig != unix.SIGSTOP {
			restoreIfIgnored(sig)
		}
	}
}
