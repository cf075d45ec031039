package children

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Process is a keeper as the operating system sees it.
type Process struct {
	PID  int
	Link net.Conn
	Wait func() error // returns when the keeper has ended
	Wake func()       // continues a stopped keeper
}

// Port is the part of launcher/proc that the daemon needs.
type Port struct {
	Spawn  func() (*Process, error)
	Runner func() (*Process, error)
	Redial func() ([]*Process, error)
	// Sweep kills the processes of dead attempts on this node, within a time limit, and
	// returns the number of killed processes.
	EndOrphans func() (int, error)
}

// Links is the part of the loop that flushes links.
type Links interface {
	// Touch has a link flushed at the end of the turn.
	Touch(c *wire.Conn)
	// TouchLast has a link flushed after the links with a waiting reader.
	TouchLast(c *wire.Conn)
	// RefillAt starts keepers at the given time or earlier.
	RefillAt(at time.Duration)
}

// Nodes knows the addresses of nodes.
type Nodes interface {
	Net(nodes []launcher.NodeRanks) string
	Address(name filch.NodeName) string
}

// Copies learns that a keeper has unpacked its archive.
type Copies interface{ OnReady(id filch.Ident) }

// Gangs brings the files of gangs.
type Gangs interface {
	OnAdopted(s *launcher.Start)
	Settle() // after the last OnAdopted
	// Hold has done called when the outputs of ended ranks are kept; false: no rank has any.
	Hold(id filch.Ident, done func()) bool
	OnGone(id filch.Ident)
}

// newPort returns launcher/proc as the daemon uses it.
func newPort(ks *Keepers) Port {
	where := proc.Place{Dir: ks.cfg.Dir, Instance: ks.cfg.Name, Node: ks.in.Self}
	return Port{
		Spawn:  func() (*Process, error) { return ks.spawn(proc.Spawn, where) },
		Runner: func() (*Process, error) { return ks.spawn(proc.SpawnRunner, where) },
		Redial: func() ([]*Process, error) {
			found, err := proc.Redial(where)
			all := make([]*Process, len(found))
			for i, k := range found {
				all[i] = processOf(k)
			}
			return all, err
		},
		EndOrphans: func() (int, error) {
			killed, left := proc.SweepOrphans(where)
			if left > 0 {
				return killed, filch.Errorf(filch.Internal, "%d processes are left", left)
			}
			return killed, nil
		},
	}
}

// spawn starts a keeper or a runner; both write their own faults into one file.
func (ks *Keepers) spawn(start func(string, proc.Place, *os.File) (*proc.Keeper, error), where proc.Place) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(ks.cfg.Dir, "keepers.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	k, err := start(ks.cfg.Program, where, log)
	if err != nil {
		return nil, err
	}
	return processOf(k), nil
}

func processOf(k *proc.Keeper) *Process {
	return &Process{PID: k.PID, Link: k.Link, Wait: k.Wait, Wake: func() { _ = unix.Kill(k.PID, unix.SIGCONT) }}
}

// plainThread binds the caller to a thread with the given priority, which its
// children inherit.
func plainThread(nice int) (release func()) {
	runtime.LockOSThread()
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || 20-now == nice {
		return runtime.UnlockOSThread
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), nice)
	return func() {} // the thread differs from the others, and ends with its goroutine
}
