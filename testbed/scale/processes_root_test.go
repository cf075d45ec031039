//go:build root

package scale

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// processes are the pids that run a binary of this world. Launchers hide theirs from all
// users but root.
func (w *world) processes(t *testing.T) (pids []int) {
	t.Helper()
	list, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err == nil && strings.HasPrefix(exe, w.dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestRootLaunchersKeepFewConnections has one job touch every launcher, and then
// counts what stays open.
func TestRootLaunchersKeepFewConnections(t *testing.T) {
	const most = 64
	nodes := rig.Sized(72, 128)
	w := raise(t, nodes, 1)
	hosts := strings.Fields(w.run(t, "-n", strconv.Itoa(nodes), "hostname"))
	slices.Sort(hosts)
	if n := len(slices.Compact(hosts)); n != nodes {
		t.Fatalf("%d ranks ran on %d nodes", nodes, n)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		worst, total := 0, 0
		open := established(t)
		for _, pid := range w.processes(t) {
			n := connections(pid, open)
			worst, total = max(worst, n), total+n
		}
		if worst <= most && total > 0 {
			t.Logf("figure: %d launchers: at most %d connections each, %.1f on average", nodes, worst, float64(total)/float64(nodes))
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a launcher of %d keeps %d connections, at most %d (in all %d)", nodes, worst, most, total)
		}
		<-time.After(200 * time.Millisecond)
	}
}

// established are the inodes of the machine's established TCP sockets.
func established(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "01" {
				all["socket:["+f[9]+"]"] = true
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("no TCP connection on this machine at all")
	}
	return all
}

func connections(pid int, open map[string]bool) (n int) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range list {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && open[to] {
			n++
		}
	}
	return n
}

// TestRootFloodStaysBounded lets one rank on another node write without end to a
// client that reads, once in lines and once without a line end, and looks at
// the most memory that each process of ours ever had.
func TestRootFloodStaysBounded(t *testing.T) {
	const mostMB = 100
	mb := rig.Sized(400, 10<<10)
	w := raise(t, 2, 2)
	for _, flood := range []string{"yes 0123456789abcdefghijklmnopqrstuvwxyz", "cat /dev/zero"} {
		half := mb / 2
		cmd := w.command("run", "-n", "1", "-w", "n2", "sh", "-c", fmt.Sprintf("%s | head -c %dM", flood, half))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		got := make(chan int64, 1)
		go func() {
			n, _ := io.Copy(io.Discard, out)
			got <- n
		}()
		peak, looks := map[int]int{}, time.NewTicker(50*time.Millisecond)
		deadline := time.After(10 * time.Minute)
		for ended := false; !ended; {
			select {
			case n := <-got:
				if n != int64(half)<<20 {
					t.Errorf("%s: %d bytes arrived, want %d", flood, n, int64(half)<<20)
				}
				ended = true
			case <-deadline:
				_ = cmd.Process.Kill()
				t.Fatalf("%s: not over after 10 minutes", flood)
			case <-looks.C:
			}
			for _, pid := range w.processes(t) {
				peak[pid] = max(peak[pid], mostResident(pid))
			}
		}
		looks.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", flood, err)
		}
		worst := 0
		for _, kb := range peak {
			worst = max(worst, kb)
		}
		t.Logf("figure: %d MB of %q through %d processes: the largest had %d MB", half, flood, len(peak), worst>>10)
		if len(peak) < 4 || worst > mostMB<<10 {
			t.Errorf("%s: %d processes seen, the largest had %d MB, at most %d", flood, len(peak), worst>>10, mostMB)
		}
	}
}

// mostResident is the most memory that a process ever had, in KiB.
func mostResident(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			kb, _ := strconv.Atoi(f[1])
			return kb
		}
	}
	return 0
}
