//go:build root

package netns_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/netns"
)

func output(t *testing.T, h *netns.Host, name string, args ...string) string {
	t.Helper()
	out, err := h.Command(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s on %s: %v: %s", name, h.Name, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestHostsAreDistinct(t *testing.T) {
	n := netns.New(t, 2)
	a, b := n.Hosts[0], n.Hosts[1]
	if got := output(t, b, "hostname"); got != "n2" {
		t.Errorf("the second host is called %q, want n2", got)
	}
	output(t, a, "touch", "/dev/shm/netns-test")
	if got := output(t, b, "ls", "/dev/shm"); got != "" {
		t.Errorf("n2 sees %q in /dev/shm, want nothing", got)
	}
	if got := output(t, a, "ls", "/sys/class/net"); !strings.Contains(got, "eth0") || strings.Contains(got, "docker") {
		t.Errorf("n1 has the interfaces %q, want eth0 and lo", got)
	}
	if got := output(t, a, "sh", "-c", "ls /sys/fs/cgroup | wc -l"); got == "0" {
		t.Error("n1 sees no cgroups")
	}
	dir := t.TempDir()
	out, err := a.CommandIn(t.Context(), dir, "pwd").Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != dir {
		t.Errorf("a command in %s runs in %q, %v", dir, got, err)
	}
	if a.Addr == b.Addr {
		t.Errorf("both have the address %v", a.Addr)
	}
}

// TestMain makes the test binary a program to run on hosts: "echo" sends every
// datagram back, "ask ADDR N" wants an answer to N of a thousand bytes.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "echo":
		err = echo()
	case len(os.Args) == 4 && os.Args[1] == "ask":
		err = ask(os.Args[2], os.Args[3])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const port = 7

func echo() error {
	c, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
	if err != nil {
		return err
	}
	fmt.Println("listening")
	b := make([]byte, 2000)
	for {
		n, from, err := c.ReadFromUDP(b)
		if err != nil {
			return err
		}
		if _, err := c.WriteToUDP(b[:n], from); err != nil {
			return err
		}
	}
}

func ask(addr, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	c, err := net.Dial("udp", addr)
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	b := make([]byte, 1000)
	for range n {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	for range n {
		if _, err := c.Read(b); err != nil {
			return err
		}
	}
	return nil
}

// talk asks b something from a, in count messages or 8, and says whether all of
// it was answered.
func talk(t *testing.T, a, b *netns.Host, count ...int) bool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	server := b.Command(ctx, self, "echo")
	r, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = server.Wait()
	}()
	if _, err := r.Read(make([]byte, 20)); err != nil {
		t.Fatalf("%s does not listen: %v", b.Name, err)
	}
	return a.Command(ctx, self, "ask", netip.AddrPortFrom(b.Addr, port).String(), strconv.Itoa(append(count, 8)[0])).Run() == nil
}

func TestCounters(t *testing.T) {
	n := netns.New(t, 3)
	a, b, c := n.Hosts[0], n.Hosts[1], n.Hosts[2]
	_, before, err := a.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	_, quiet, _ := c.Bytes()
	if !talk(t, a, b) {
		t.Fatal("n1 does not reach n2")
	}
	_, after, _ := a.Bytes()
	if after-before < 8000 {
		t.Errorf("n1 sent %d bytes, want 8000 and more", after-before)
	}
	if _, now, _ := c.Bytes(); now-quiet > 2000 {
		t.Errorf("n3, which was not spoken to, sent %d bytes", now-quiet)
	}
}

func TestLinkDown(t *testing.T) {
	n := netns.New(t, 2)
	if err := n.Hosts[1].SetLink(false); err != nil {
		t.Fatal(err)
	}
	if talk(t, n.Hosts[0], n.Hosts[1]) {
		t.Error("n1 reaches n2 with its cable pulled")
	}
	if err := n.Hosts[1].SetLink(true); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(10 * time.Second)
	for !talk(t, n.Hosts[0], n.Hosts[1]) {
		if time.Now().After(end) {
			t.Fatal("n1 does not reach n2 10 s after the cable was plugged in")
		}
	}
}

func TestKillAll(t *testing.T) {
	n := netns.New(t, 2)
	cmd := n.Hosts[0].Command(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.Hosts[0].Command(t.Context(), "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &").Run(); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(10 * time.Second)
	for len(n.Hosts[0].Processes()) != 2 {
		if time.Now().After(end) {
			t.Fatalf("n1 runs %v, want 2 processes", n.Hosts[0].Processes())
		}
	}
	if got := n.Hosts[1].Processes(); len(got) != 0 {
		t.Errorf("n2 runs %v, want nothing", got)
	}
	n.Hosts[0].KillAll()
	err := cmd.Wait()
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || ws.Signal() != syscall.SIGKILL {
		t.Errorf("the sleeper ended with %v, want SIGKILL", err)
	}
}

// TestDeafen needs nftables in the kernel, as Debian's has.
func TestDeafen(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Fatal(netns.Install)
	}
	n := netns.New(t, 2)
	a, b := n.Hosts[0], n.Hosts[1]
	if err := b.Deafen(a); err != nil {
		t.Fatal(err)
	}
	if talk(t, a, b) {
		t.Error("n1 has answers of n2, which drops what it says")
	}
	if err := b.Hear(); err != nil {
		t.Fatal(err)
	}
	if !talk(t, a, b) {
		t.Error("n1 does not reach n2, which hears again")
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	before := rootLinks(t)
	n, err := netns.Open("a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if got := rootLinks(t); got != before {
		t.Errorf("the machine's own interfaces changed from %q to %q", before, got)
	}
	pids := n.Hosts[0].Processes()
	n.Close()
	if len(pids) != 0 {
		t.Errorf("a new host runs %v", pids)
	}
	if got := rootLinks(t); got != before {
		t.Errorf("left interfaces: %q, before %q", got, before)
	}
}

func rootLinks(t *testing.T) string {
	out, err := exec.Command("ls", "/sys/class/net").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestShape(t *testing.T) {
	n := netns.New(t, 2)
	if err := n.Hosts[1].Shape("16kbit"); err != nil {
		t.Logf("no token buckets in this kernel: %v", err)
		return
	}
	if talk(t, n.Hosts[0], n.Hosts[1], 60) {
		t.Error("60 kB go through 16 kbit/s within a second")
	}
	if err := n.Hosts[1].Shape(""); err != nil {
		t.Error(err)
	}
	if !talk(t, n.Hosts[0], n.Hosts[1]) {
		t.Error("n1 does not reach n2, which has no bound any more")
	}
}
