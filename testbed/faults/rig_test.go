package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/testbed/netns"
)

// instance is the name of the one under test.
const instance = "faults"

// cluster is an instance with one launcher on each of several hosts.
type cluster struct {
	t     *testing.T
	bin   string
	dir   string
	hosts []*netns.Host
}

// up makes a cluster of n hosts; those in small have their state on a file
// system of so many bytes.
func up(t *testing.T, n int, small map[int]int) *cluster {
	t.Helper()
	// Sockets are in it, and their paths must be short.
	dir, err := os.MkdirTemp("", "ff")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, bin: os.Getenv("FILCH_BIN"), dir: dir}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if c.bin == "" {
		c.bin = filepath.Join(dir, "bin", "filch")
		if out, err := exec.Command("make", "-s", "-C", "../..", "build", "BIN="+filepath.Dir(c.bin)).CombinedOutput(); err != nil {
			t.Fatalf("make build: %v: %s", err, out)
		}
	}
	// Before the hosts: their mounts are copies of these.
	for i, size := range small {
		d := filepath.Join(dir, "n"+strconv.Itoa(i+1))
		err := os.Mkdir(d, 0o700)
		if err == nil {
			err = syscall.Mount("tmpfs", d, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", size))
		}
		if err != nil {
			t.Fatalf("mount a small file system: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(d, syscall.MNT_DETACH) })
	}
	c.hosts = netns.New(t, n).Hosts
	for i := range n {
		c.join(i)
	}
	c.settled(30 * time.Second)
	t.Cleanup(func() {
		if t.Failed() {
			c.logs()
		}
	})
	return c
}

// join starts the launcher of host i for the first time.
func (c *cluster) join(i int) {
	c.t.Helper()
	invitation := filepath.Join(c.dir, "invitation")
	if i > 0 {
		c.must(i, "join", invitation, "--slots", "2")
		return
	}
	c.must(0, "up", "--instance", instance, "--nodes", "1", "--iface", "eth0", "--slots", "2")
	c.must(0, "invite", "-o", invitation)
}

// reviveWait is how long a launcher may take to be back: the one that it joins
// through may be away itself.
const reviveWait = time.Minute

// revive starts the launcher of host i again.
func (c *cluster) revive(i int) {
	c.t.Helper()
	if i > 0 {
		for end := time.Now().Add(reviveWait); ; pause() {
			out, err := c.try(i, "join", filepath.Join(c.dir, "invitation"), "--slots", "2")
			if err == nil {
				return
			}
			if time.Now().After(end) {
				c.t.Fatalf("%s was not back within %v: %v: %s", c.hosts[i].Name, reviveWait, err, out)
			}
		}
	}
	c.must(0, "up", "--instance", instance)
	_ = os.Remove(filepath.Join(c.dir, "invitation"))
	c.must(0, "invite", "-o", filepath.Join(c.dir, "invitation"))
}

func (c *cluster) local(i int) string {
	d := filepath.Join(c.dir, c.hosts[i].Name)
	_ = os.MkdirAll(d, 0o700)
	return d
}

func (c *cluster) command(ctx context.Context, i int, args ...string) *exec.Cmd {
	cmd := c.hosts[i].CommandIn(ctx, c.dir, c.bin, args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "USER=root", "LANG=C",
		"FILCH_INSTANCE=" + instance, "FILCH_LOCAL=" + c.local(i),
	}
	return cmd
}

// must runs a filch command that has to succeed.
func (c *cluster) must(i int, args ...string) string {
	c.t.Helper()
	out, err := c.try(i, args...)
	if err != nil {
		c.logs()
		c.t.Fatalf("filch %v on %s: %v\n%s", args, c.hosts[i].Name, err, out)
	}
	return out
}

// try runs a filch command; when it fails what it said is behind what it printed.
func (c *cluster) try(i int, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	var out, said bytes.Buffer
	cmd := c.command(ctx, i, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String() + said.String(), err
	}
	return out.String(), nil
}

// stateDir is the folder of host i's launcher.
func (c *cluster) stateDir(i int) place.Dir {
	base := filepath.Join(c.local(i), fmt.Sprintf("filch-%d", os.Getuid()))
	return place.Dir{Base: base, Instance: instance, Node: c.hosts[i].Name}
}

// launcher is the pid of host i's launcher, 0 when none runs.
func (c *cluster) launcher(i int) int {
	for _, pid := range c.hosts[i].Processes() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.HasPrefix(filepath.Base(strings.Split(string(b), "\x00")[0]), "filchd") {
			return pid
		}
	}
	return 0
}

// signal sends sig to the launcher of host i.
func (c *cluster) signal(i int, sig syscall.Signal) {
	if pid := c.launcher(i); pid > 0 {
		_ = syscall.Kill(pid, sig)
	}
}

// dial connects to the launcher of host i; its socket is a file.
func (c *cluster) dial(i int) (*client.Client, error) {
	return client.DialDir(c.stateDir(i), "test")
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
	c.t.Helper()
	var last wire.RosterInfo
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); pause() {
		good := 0
		for i := range c.hosts {
			if last, err = c.roster(i); err != nil || !last.Known || len(last.Members) != len(c.hosts) || last.Short > 0 || last.Learning > 0 || last.Sealed {
				break
			}
			good++
		}
		if good == len(c.hosts) {
			return
		}
	}
	c.t.Fatalf("the store did not settle within %v: %+v, %v", limit, last, err)
}

// index is the host of that name.
func (c *cluster) index(name filch.NodeName) int {
	for i, h := range c.hosts {
		if h.Name == string(name) {
			return i
		}
	}
	c.t.Fatalf("no host %s", name)
	return 0
}

// logs prints the ends of the launchers' logs.
func (c *cluster) logs() {
	for i := range c.hosts {
		b, err := os.ReadFile(c.stateDir(i).Log())
		if err == nil {
			c.t.Logf("log of %s:\n%s", c.hosts[i].Name, b[max(0, len(b)-3000):])
		}
	}
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
