package scale

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// world is a binary and an instance made of it.
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

// built is a folder with filch in it; an instance that is brought up ends with the test.
func built(t *testing.T) *world {
	t.Helper()
	bin, err := rig.Product()
	if err != nil {
		t.Fatal(err)
	}
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
	// A copy, so that its processes are known by the folder of their program.
	b, err := os.ReadFile(bin)
	if err == nil {
		err = os.WriteFile(w.filch, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.filch, args...)
	cmd.Env = append(os.Environ(), "HOME="+w.dir, "FILCH_HOME="+filepath.Join(w.dir, "home"),
		"FILCH_LOCAL="+w.dir, "FILCH_INSTANCE=scale")
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
