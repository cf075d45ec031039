// Package netns makes several hosts out of one machine, for tests and benches:
// each has its own network, host name, IPC and /dev/shm, and all share the file
// system, as nodes with a home on NFS do.
//
// A host is a sleeping process that holds the namespaces. The hosts' cables end
// at a bridge that is in a namespace of its own, so nothing of it is ever seen
// in the machine's network, two networks may use the same addresses at once,
// and the kernel removes all of it when the holders die: they do so with the
// process that made them, however it ends.
//
// It needs root, and the programs ip, unshare, nsenter and mount.
package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Install is the line that installs what the package runs.
const Install = "apt-get install -y iproute2 util-linux mount nftables"

// MaxHosts bounds a network: they are numbered 10.77.0.1 to 10.77.0.250.
const MaxHosts = 250

// Net is a network of hosts on one switch.
type Net struct {
	Hosts  []*Host
	hold   *holder
	bridge *exec.Cmd
}

// Host is one of them.
type Host struct {
	Name string
	Addr netip.Addr
	net  *Net
	port string // the switch's end of its cable
	cmd  *exec.Cmd
	ns   string // its network namespace, as /proc names it
}

// Usable says why no network can be made here, and what to do about it.
func Usable() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	for _, p := range []string{"ip", "unshare", "nsenter", "mount"} {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s is not installed: %s", p, Install)
		}
	}
	return nil
}

// New makes a network of n hosts named n1 to nN for a test, which fails where
// that is not possible, and takes it down when the test ends.
func New(t testing.TB, n int) *Net {
	t.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = "n" + strconv.Itoa(i+1)
	}
	net, err := Open(names...)
	if err != nil {
		t.Fatalf("make a network of %d hosts: %v", n, err)
	}
	t.Cleanup(net.Close)
	return net
}

// Open makes a network of hosts with these names.
func Open(names ...string) (*Net, error) {
	if err := Usable(); err != nil {
		return nil, err
	}
	if len(names) == 0 || len(names) > MaxHosts {
		return nil, fmt.Errorf("cannot make %d hosts: 1 to %d", len(names), MaxHosts)
	}
	n := &Net{hold: newHolder()}
	err := n.open(names)
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Net) open(names []string) error {
	var err error
	n.bridge, err = n.hold.start("ip link add sw0 type bridge && ip link set sw0 up && ip link set lo up", "--net")
	if err != nil {
		return fmt.Errorf("make the switch: %w", err)
	}
	for i, name := range names {
		h := &Host{Name: name, Addr: netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}), net: n, port: "port" + strconv.Itoa(i+1)}
		h.cmd, err = n.hold.start(setup(name), "--net", "--uts", "--ipc", "--mount", "--propagation", "private")
		if err != nil {
			return fmt.Errorf("make host %s: %w", name, err)
		}
		n.Hosts = append(n.Hosts, h)
		pid := strconv.Itoa(h.cmd.Process.Pid)
		if h.ns, err = os.Readlink("/proc/" + pid + "/ns/net"); err != nil {
			return err
		}
		err = n.inSwitch("ip", "link", "add", h.port, "type", "veth", "peer", "name", "eth0", "netns", pid)
		if err == nil {
			err = n.inSwitch("ip", "link", "set", h.port, "master", "sw0", "up")
		}
		if err == nil {
			err = run(h.Command(context.Background(), "sh", "-ec",
				"ip link set lo up; ip addr add "+h.Addr.String()+"/24 dev eth0; ip link set eth0 up"))
		}
		if err != nil {
			return fmt.Errorf("connect host %s: %w", name, err)
		}
	}
	return nil
}

// setup is what a host's holder does first. sysfs shows the network devices of
// the namespace that mounted it, and UCX finds its devices there; the cgroups
// under the old one are kept.
func setup(name string) string {
	return `hostname ` + name + `
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
d=$(mktemp -d)
mount --rbind /sys/fs/cgroup "$d"
mount -t sysfs sysfs /sys
mount --rbind "$d" /sys/fs/cgroup
umount -l "$d"
rmdir "$d"`
}

// Close ends every process of the hosts and removes the network.
func (n *Net) Close() {
	for _, h := range n.Hosts {
		h.KillAll()
	}
	n.hold.close()
}

func (n *Net) inSwitch(args ...string) error {
	args = append([]string{"--target", strconv.Itoa(n.bridge.Process.Pid), "--net", "--"}, args...)
	return run(exec.Command("nsenter", args...))
}

// run runs a command and puts what it printed into the error.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// Command is a command that will run on h, in the current directory. The
// process is the command itself: no wrapper is left between.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	return h.CommandIn(ctx, dir, name, args...)
}

// CommandIn is the same in another directory, as the host sees it: its mounts
// are its own, so exec.Cmd's Dir is of no use.
func (h *Host) CommandIn(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	words := append(h.Enter(dir), name)
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], args...)...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Enter is what stands before a command that is to run on h, in a directory of
// it: for scripts that stand for ssh.
func (h *Host) Enter(dir string) []string {
	return []string{
		"nsenter", "--target", strconv.Itoa(h.cmd.Process.Pid), "--net", "--uts", "--ipc", "--mount", "--wdns=" + dir, "--",
	}
}

// Bytes says what the host has received and sent over its cable.
func (h *Host) Bytes() (rx, tx uint64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", h.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for l := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(l, ":")
		f := strings.Fields(rest)
		if strings.TrimSpace(name) != "eth0" || len(f) < 9 {
			continue
		}
		rx, err = strconv.ParseUint(f[0], 10, 64)
		if err == nil {
			tx, err = strconv.ParseUint(f[8], 10, 64)
		}
		return rx, tx, err
	}
	return 0, 0, fmt.Errorf("host %s has no eth0", h.Name)
}

// SetLink pulls the host's cable, or plugs it in again. The host itself sees
// its interface lose the carrier and keeps its address.
func (h *Host) SetLink(up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	return h.net.inSwitch("ip", "link", "set", h.port, state)
}

// Shape bounds what the host is sent, to rate as tc writes it ("10mbit"); ""
// takes the bound away. It is an error where the kernel has no token buckets.
func (h *Host) Shape(rate string) error {
	if rate == "" {
		return h.net.inSwitch("tc", "qdisc", "del", "dev", h.port, "root")
	}
	return h.net.inSwitch("tc", "qdisc", "replace", "dev", h.port, "root", "tbf",
		"rate", rate, "burst", "32kb", "latency", "200ms")
}

// Deafen makes h drop all that comes from o, while o still hears h; see
// [Host.Hear]. It is an error where the kernel has no nftables.
func (h *Host) Deafen(o *Host) error {
	rules := "add table inet netns; add chain inet netns in { type filter hook input priority 0; }; " +
		"add rule inet netns in ip saddr " + o.Addr.String() + " drop"
	return run(h.Command(context.Background(), "nft", rules))
}

// Reject makes h answer what comes to a TCP port, or with "" to any, as if nobody
// listened there, and so end the connections to it, as some firewalls do; see
// [Host.Hear].
func (h *Host) Reject(port string) error {
	what := "meta l4proto tcp"
	if port != "" {
		what = "tcp dport " + port
	}
	rules := "add table inet netns; add chain inet netns in { type filter hook input priority 0; }; " +
		"add rule inet netns in iifname eth0 " + what + " reject with tcp reset"
	return run(h.Command(context.Background(), "nft", rules))
}

// Hear undoes every [Host.Deafen], [Host.Reject] and [Host.Lose].
func (h *Host) Hear() error {
	return run(h.Command(context.Background(), "nft", "delete table inet netns"))
}

// Processes lists what runs on h, besides its holder.
func (h *Host) Processes() []int {
	var pids []int
	links, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	for _, l := range links {
		pid, err := strconv.Atoi(strings.Split(l, "/")[2])
		if err != nil || pid == h.cmd.Process.Pid {
			continue
		}
		if ns, err := os.Readlink(l); err == nil && ns == h.ns {
			pids = append(pids, pid)
		}
	}
	return pids
}

// SignalAll sends sig to every process of h.
func (h *Host) SignalAll(sig syscall.Signal) {
	for _, pid := range h.Processes() {
		_ = syscall.Kill(pid, sig)
	}
}

// KillAll ends every process of h, those started meanwhile too. With the cable
// pulled before, that is a node which lost its power.
func (h *Host) KillAll() {
	end := time.Now().Add(5 * time.Second)
	for time.Now().Before(end) {
		alive := false
		for _, pid := range h.Processes() {
			if !dead(pid) {
				alive = true
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if !alive {
			return
		}
		runtime.Gosched()
	}
}

// dead reports whether pid has ended; a zombie has.
func dead(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	i := bytes.LastIndexByte(b, ')')
	return i < 0 || i+2 >= len(b) || b[i+2] == 'Z' || b[i+2] == 'X'
}

// holder starts processes from one thread that lives as long as they shall:
// the signal that ends them with us is sent when that thread ends.
type holder struct {
	jobs chan func()
	cmds []*exec.Cmd
	done sync.WaitGroup
}

func newHolder() *holder {
	h := &holder{jobs: make(chan func())}
	h.done.Go(func() {
		runtime.LockOSThread()
		for f := range h.jobs {
			f()
		}
	})
	return h
}

// start runs script in new namespaces and returns when it has ended well; the
// process then sleeps until close.
func (h *holder) start(script string, namespaces ...string) (*exec.Cmd, error) {
	args := append(namespaces, "sh", "-ec", script+"\necho ready\nexec sleep infinity")
	cmd := exec.Command("unshare", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	r, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	h.jobs <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	h.cmds = append(h.cmds, cmd)
	b := make([]byte, len("ready\n"))
	if n, _ := r.Read(b); string(b[:n]) != "ready\n" {
		_ = cmd.Wait()
		return nil, fmt.Errorf("%s", bytes.TrimSpace(errs.Bytes()))
	}
	return cmd, nil
}

func (h *holder) close() {
	for _, c := range h.cmds {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	close(h.jobs)
	h.done.Wait()
}

// Lose makes h drop so many of a hundred packets that it is sent, at random,
// until [Host.Hear].
func (h *Host) Lose(percent int) error {
	rules := "add table inet netns; add chain inet netns in { type filter hook input priority 0; }; " +
		"add rule inet netns in iifname eth0 numgen random mod 100 < " + strconv.Itoa(percent) + " drop"
	return run(h.Command(context.Background(), "nft", rules))
}
