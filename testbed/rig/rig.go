// Package rig runs an instance of filch with one launcher on each of several
// hosts of testbed/netns, for tests that use it as people on those hosts would.
package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/testbed/netns"
)

// Limits of the rig.
const (
	commandWait = time.Minute // for a command that is not timed
	reviveWait  = time.Minute // for a launcher to be back: the one that it joins through may be away itself
	logShown    = 3000        // bytes of the end of each launcher's log
)

// Full reports whether tests are to be run in full size, as make proof has them.
func Full() bool { return os.Getenv("FILCH_PROOF") != "" }

// Sized is what a test takes in its small and in its full size.
func Sized[T any](small, full T) T {
	if Full() {
		return full
	}
	return small
}

var built string // the folder that the binary was built in

// Product is the filch to be tested: FILCH_BIN, or one built for the package.
var Product = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("FILCH_BIN"); bin != "" {
		return bin, nil
	}
	dir, err := os.MkdirTemp("", "filch-bin-")
	if err != nil {
		return "", err
	}
	built = dir
	if out, err := exec.Command("make", "-s", "-C", "../..", "build", "BIN="+dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("make build: %w: %s", err, out)
	}
	return filepath.Join(dir, "filch"), nil
})

// Main is the TestMain of a package that uses the rig; after its tests it calls
// each of last.
func Main(m *testing.M, last ...func()) {
	code := m.Run()
	for _, f := range last {
		f()
	}
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// Cluster is an instance with one launcher on each of several hosts.
type Cluster struct {
	T        *testing.T
	Instance string
	Slots    int    // of each launcher; 0 for the machine's
	Bin      string // of [Product]
	Dir      string // the home of the users, on all hosts; short, for there are sockets in it
	Hosts    []*netns.Host
	Extra    []string // in the environment of the users
}

// New makes a cluster that has no hosts yet.
func New(t *testing.T, instance string, slots int) *Cluster {
	t.Helper()
	bin, err := Product()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "fr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &Cluster{T: t, Instance: instance, Slots: slots, Bin: bin, Dir: dir}
}

// Open gives the cluster n hosts, on which nothing runs yet. What is mounted in
// Dir before is seen on all of them.
func (c *Cluster) Open(n int) {
	c.T.Helper()
	c.Hosts = netns.New(c.T, n).Hosts
}

// With is the same cluster for a test within that of c.
func (c *Cluster) With(t *testing.T) *Cluster {
	d := *c
	d.T = t
	return &d
}

// Start starts the launchers of all hosts, and has their logs shown if the
// test fails.
func (c *Cluster) Start() {
	c.T.Helper()
	for i := range c.Hosts {
		c.Join(i)
	}
	c.T.Cleanup(func() {
		if c.T.Failed() {
			c.Logs()
		}
	})
}

// invitation is the file that launchers join with.
func (c *Cluster) invitation() string { return filepath.Join(c.Dir, "invitation") }

// Join starts the launcher of host i for the first time; that of host 0 makes
// the instance.
func (c *Cluster) Join(i int) {
	c.T.Helper()
	if i > 0 {
		c.Must(i, "join", c.invitation(), "--slots", strconv.Itoa(c.Slots))
		return
	}
	c.Must(0, "up", "--instance", c.Instance, "--nodes", "1", "--iface", "eth0", "--slots", strconv.Itoa(c.Slots))
	c.Must(0, "invite", "-o", c.invitation())
}

// Revive starts the launcher of host i again.
func (c *Cluster) Revive(i int) {
	c.T.Helper()
	if i == 0 {
		c.Must(0, "up", "--instance", c.Instance)
		_ = os.Remove(c.invitation())
		c.Must(0, "invite", "-o", c.invitation())
		return
	}
	for end := time.Now().Add(reviveWait); ; pause() {
		out, err := c.Try(i, "join", c.invitation(), "--slots", strconv.Itoa(c.Slots))
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.T.Fatalf("%s was not back within %v: %v: %s", c.Hosts[i].Name, reviveWait, err, out)
		}
	}
}

// Local is the folder of host i that the others do not use.
func (c *Cluster) Local(i int) string {
	d := filepath.Join(c.Dir, c.Hosts[i].Name)
	_ = os.MkdirAll(d, 0o700)
	return d
}

// Env is what users on host i have.
func (c *Cluster) Env(i int) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.Dir, "TMPDIR=" + c.Dir, "USER=root", "LANG=C",
		"FILCH_INSTANCE=" + c.Instance, "FILCH_LOCAL=" + c.Local(i),
	}, c.Extra...)
}

// Command is filch on host i.
func (c *Cluster) Command(ctx context.Context, i int, args ...string) *exec.Cmd {
	cmd := c.Hosts[i].CommandIn(ctx, c.Dir, c.Bin, args...)
	cmd.Env = c.Env(i)
	return cmd
}

// Must runs a filch command that has to succeed, and returns what it printed.
func (c *Cluster) Must(i int, args ...string) string {
	c.T.Helper()
	out, err := c.Try(i, args...)
	if err != nil {
		c.Logs()
		c.T.Fatalf("filch %v on %s: %v\n%s", args, c.Hosts[i].Name, err, out)
	}
	return out
}

// Try runs a filch command; when it fails what it said is behind what it printed.
func (c *Cluster) Try(i int, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.T.Context(), commandWait)
	defer cancel()
	var out, said bytes.Buffer
	cmd := c.Command(ctx, i, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String() + said.String(), errors.Join(err, ctx.Err())
	}
	return out.String(), nil
}

// StateDir is the folder of host i's launcher.
func (c *Cluster) StateDir(i int) place.Dir {
	base := filepath.Join(c.Local(i), fmt.Sprintf("filch-%d", os.Getuid()))
	return place.Dir{Base: base, Instance: c.Instance, Node: c.Hosts[i].Name}
}

// Launcher is the pid of host i's launcher, 0 when none runs. Its keepers and
// runners are of the same program, and may be older than it.
func (c *Cluster) Launcher(i int) int {
	for _, pid := range c.Hosts[i].Processes() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		args := strings.Split(string(b), "\x00")
		if err == nil && strings.HasPrefix(filepath.Base(args[0]), "filchd") && !slices.Contains(args, "keeper") && !slices.Contains(args, "runner") {
			return pid
		}
	}
	return 0
}

// Signal sends sig to the launcher of host i, if one runs.
func (c *Cluster) Signal(i int, sig syscall.Signal) {
	if pid := c.Launcher(i); pid > 0 {
		_ = syscall.Kill(pid, sig)
	}
}

// Logs shows the ends of the launchers' logs.
func (c *Cluster) Logs() {
	for i, h := range c.Hosts {
		if b, err := os.ReadFile(c.StateDir(i).Log()); err == nil {
			c.T.Logf("log of %s:\n%s", h.Name, b[max(0, len(b)-logShown):])
		}
	}
}

// pause is the pause between looks.
func pause() { <-time.After(20 * time.Millisecond) }
