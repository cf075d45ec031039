package children

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/daemon/dataplane"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// noLinks is a loop without links to flush.
type noLinks struct{}

func (noLinks) Touch(*wire.Conn) {}

func (noLinks) TouchLast(*wire.Conn) {}

func (noLinks) RefillAt(time.Duration) {}

// A filch that cannot be a keeper any more must not be started again and again.
func TestKeepersThatDieAtOnceAreGivenUp(t *testing.T) {
	in := inputs.New("n1", watch.Discard())
	ks := NewKeepers(in, Config{Spare: 1}, noLinks{}, nil, dataplane.New(in, "i", t.TempDir()))
	var started atomic.Int32
	ks.Port = Port{
		Redial:     func() ([]*Process, error) { return nil, nil },
		EndOrphans: func() (int, error) { return 0, nil },
		Spawn: func() (*Process, error) {
			ours, theirs := net.Pipe()
			theirs.Close()
			return &Process{PID: 1<<30 + int(started.Add(1)), Link: ours, Wait: func() error { return nil }}, nil
		},
	}
	in.Go(func() {
		for {
			select {
			case f := <-in.Waiting():
				f(&inputs.Turn{Now: in.Now()})
			case <-in.Context().Done():
				return
			}
		}
	})
	defer func() { in.Stop(); in.Wait() }()
	ks.Begin()
	ks.Adopt()
	gaveUp := in.Idle(10*time.Second, func(*inputs.Turn) bool { return ks.gaveUp() && ks.spawning == 0 })
	if n := started.Load(); !gaveUp || n != maxSpawning {
		t.Errorf("%d keepers were started, want %d; given up: %t", n, maxSpawning, gaveUp)
	}
}
