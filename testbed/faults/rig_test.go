//go:build root

package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/testbed/rig"
)

// cluster is an instance with one launcher on each of several hosts.
type cluster struct{ *rig.Cluster }

// up makes a cluster of n hosts; those in small have their state on a file
// system of so many bytes.
func up(t *testing.T, n int, small map[int]int) *cluster {
	t.Helper()
	c := &cluster{rig.New(t, "faults", 2)}
	// Before the hosts: their mounts are copies of these.
	for i, size := range small {
		d := filepath.Join(c.Dir, "n"+strconv.Itoa(i+1))
		err := os.Mkdir(d, 0o700)
		if err == nil {
			err = syscall.Mount("tmpfs", d, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", size))
		}
		if err != nil {
			t.Fatalf("mount a small file system: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(d, syscall.MNT_DETACH) })
	}
	c.Open(n)
	c.Start()
	c.settled(30 * time.Second)
	return c
}

// dial connects to the launcher of host i; its socket is a file.
func (c *cluster) dial(i int) (*client.Client, error) {
	return client.DialDir(c.StateDir(i), "test")
}

// roster is what the launcher of host i knows of the store.
func (c *cluster) roster(i int) (wire.RosterInfo, error) {
	l, err := c.dial(i)
	if err != nil {
		return wire.RosterInfo{}, err
	}
	defer l.Close()
	b, err := l.Query(5*time.Second, wire.VerbRoster)
	if err != nil {
		return wire.RosterInfo{}, err
	}
	var all []wire.RosterInfo
	if err := json.Unmarshal(b, &all); err != nil || len(all) == 0 {
		return wire.RosterInfo{}, fmt.Errorf("%d rosters: %w", len(all), err)
	}
	return all[0], nil
}

// settled waits until every launcher knows all the others as members and no
// shard is short of replicas.
func (c *cluster) settled(limit time.Duration) {
	c.T.Helper()
	c.settledWithout(limit)
}

// settledWithout does the same where the launchers of some hosts are dead.
func (c *cluster) settledWithout(limit time.Duration, dead ...int) {
	c.T.Helper()
	var last wire.RosterInfo
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); pause() {
		good := len(dead)
		for i := range c.Hosts {
			if slices.Contains(dead, i) {
				continue
			}
			last, err = c.roster(i)
			if err != nil || !last.Known || len(last.Members) != len(c.Hosts)-len(dead) || last.Short > 0 || last.Learning > 0 || last.Sealed {
				break
			}
			good++
		}
		if good == len(c.Hosts) {
			return
		}
	}
	c.T.Fatalf("the store did not settle within %v: %+v, %v", limit, last, err)
}

// index is the host of that name.
func (c *cluster) index(name filch.NodeName) int {
	for i, h := range c.Hosts {
		if h.Name == string(name) {
			return i
		}
	}
	c.T.Fatalf("no host %s", name)
	return 0
}

// pause is the pause between looks.
func pause() { <-time.After(20 * time.Millisecond) }

// until ends goroutines together.
type until struct {
	done chan struct{}
	work sync.WaitGroup
}

func (u *until) over() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(attacksIn); dir != "" {
		attack(dir)
	}
	rig.Main(m)
}
