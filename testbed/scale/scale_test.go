package scale

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// world is a pair of binaries and an instance made of them.
type world struct {
	dir, filch string
}

// raise builds filch and brings up an instance that ends with the test.
func raise(t *testing.T, nodes, slots int, env ...string) *world {
	t.Helper()
	w := built(t)
	up := w.up(nodes, slots)
	up.Env = append(up.Env, env...)
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("filch up --nodes %d: %v\n%s", nodes, err, out)
	}
	return w
}

func (w *world) up(nodes, slots int) *exec.Cmd {
	return w.command("up", "--nodes", strconv.Itoa(nodes), "--slots", strconv.Itoa(slots))
}

// built builds filch; an instance that is brought up ends with the test.
func built(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "filchscale")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{dir: dir, filch: filepath.Join(dir, "filch")}
	t.Cleanup(func() {
		if out, err := w.command("down").CombinedOutput(); err != nil {
			t.Errorf("filch down: %v\n%s", err, out)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"filch", "filchd"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "../../cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cannot build %s: %v\n%s", name, err, out)
		}
	}
	return w
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.filch, args...)
	cmd.Env = append(os.Environ(), "HOME="+w.dir, "FILCH_HOME="+filepath.Join(w.dir, "home"),
		"FILCH_LOCAL="+w.dir, "FILCH_FILCHD="+filepath.Join(w.dir, "filchd"), "FILCH_INSTANCE=scale")
	return cmd
}

func (w *world) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := w.command(append([]string{"run"}, args...)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("filch run %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	return out.String()
}

// sent is a line of a launcher's trace.
type sent struct {
	From    string `json:"-"`
	Msg     string `json:"msg"`
	Kind    string `json:"kind"`
	To      string `json:"peer"`
	Message struct {
		Job, Want, Held, Free int
		Half                  bool
		Round                 int
	} `json:"message"`
}

// trace is what all launchers sent about a job.
func (w *world) trace(t *testing.T, job int) (all []sent) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(w.dir, "filch-*", "scale", "*", "log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs under %s: %v", w.dir, err)
	}
	for _, path := range logs {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			s := sent{From: filepath.Base(filepath.Dir(path))}
			if json.Unmarshal(lines.Bytes(), &s) == nil && s.Msg == "sent" && s.Message.Job == job {
				all = append(all, s)
			}
		}
		f.Close()
	}
	return all
}

func (w *world) lastJob(t *testing.T) int {
	t.Helper()
	out, err := w.command("info", "last", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var job struct{ ID int }
	if err := json.Unmarshal(out, &job); err != nil || job.ID == 0 {
		t.Fatalf("%v in %s", err, out)
	}
	return job.ID
}

// processes are the pids that run a binary of this world.
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

// TestGatherAsksFewAndIsLentHalf reads the trace of real launchers. A job that
// fits on its node says nothing to anybody; a larger one asks at most
// max(sqrt N, twice the nodes that it needs) in its first circle, and each of
// them lends at most half of what it has free, rounded up (MATRIX, section 3.8,
// without its all-or-nothing).
func TestGatherAsksFewAndIsLentHalf(t *testing.T) {
	nodes, slots, ranks := rig.Sized(20, 64), 4, 12
	w := raise(t, nodes, slots, "FILCH_DEBUG=1")

	w.run(t, "-n", "3", "true")
	if said := w.trace(t, w.lastJob(t)); len(said) > 0 {
		t.Errorf("a job that fits on its node sent %d messages, the first %+v", len(said), said[0])
	}

	w.run(t, "-n", strconv.Itoa(ranks), "true")
	said := w.trace(t, w.lastJob(t))
	need := (ranks - slots + slots - 1) / slots
	most := 2 * need
	for k := 1; k*k <= nodes; k++ {
		most = max(most, k)
		if k*k < nodes {
			most = max(most, k+1)
		}
	}
	first, asked := 0, map[string]bool{}
	for _, s := range said {
		if s.Kind == "launcher.Ask" && s.Message.Half && (first == 0 || s.Message.Round <= first) {
			first = s.Message.Round
		}
	}
	for _, s := range said {
		if s.Kind == "launcher.Ask" && s.Message.Round == first {
			asked[s.To] = true
		}
	}
	if first == 0 || len(asked) == 0 {
		t.Fatalf("no circle was asked for half: %d messages in the trace", len(said))
	}
	if len(asked) > most {
		t.Errorf("the first circle of %d launchers asked %d, at most %d", nodes, len(asked), most)
	}
	lent := 0
	for _, s := range said {
		m := s.Message
		if s.Kind != "launcher.Grant" || m.Round != first || m.Held == 0 {
			continue
		}
		lent++
		if m.Held > (m.Held+m.Free+1)/2 {
			t.Errorf("%s lent %d of %d free slots, more than half", s.From, m.Held, m.Held+m.Free)
		}
	}
	if lent == 0 {
		t.Error("nobody lent anything in the first circle")
	}
	t.Logf("figure: %d launchers: %d asked (at most %d), %d lent, %d messages for %d ranks", nodes, len(asked), most, lent, len(said), ranks)
}

// TestLaunchersKeepFewConnections has one job touch every launcher, and then
// counts what stays open.
func TestLaunchersKeepFewConnections(t *testing.T) {
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

// TestFloodStaysBounded lets one rank on another node write without end to a
// client that reads, once in lines and once without a line end, and looks at
// the most memory that each process of ours ever had.
func TestFloodStaysBounded(t *testing.T) {
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
