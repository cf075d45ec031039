package overlay_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// An idle launcher costs next to nothing, also among many: run with
// FILCH_PROOF=1, since it takes half a minute and a quiet machine.
func TestRealMeshIdleCost(t *testing.T) {
	if os.Getenv("FILCH_PROOF") == "" {
		t.Skip("a proof: FILCH_PROOF=1 runs it")
	}
	all := realCluster(t, 2)
	var ps []*process
	for i := range 14 {
		ps = append(ps, spawn(t, fmt.Sprintf("p%02d", i), all[0].addr))
	}
	settle(t, all, 16)
	<-time.After(3 * time.Second) // what the joins left behind
	start, before := time.Now(), total(t, ps)
	<-time.After(20 * time.Second)
	share := (total(t, ps) - before).Seconds() / time.Since(start).Seconds() / float64(len(ps))
	rss := 0
	for _, p := range ps {
		rss = max(rss, status(t, p, "VmRSS"))
	}
	t.Logf("idle among 16: %.4f %% of a core, %d KiB RSS at most, as a test binary", 100*share, rss)
	if share > 0.001 {
		t.Errorf("got %.4f %% of a core, want at most 0.1 %%", 100*share)
	}
	if rss > 40<<10 {
		t.Errorf("got %d KiB, want at most 40 MiB", rss)
	}
}

// total is the CPU time of all processes, to the nanosecond.
func total(t *testing.T, ps []*process) time.Duration {
	t.Helper()
	var sum time.Duration
	for _, p := range ps {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", p.cmd.Process.Pid, task.Name()))
			if err != nil {
				t.Fatal(err)
			}
			ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += time.Duration(ns)
		}
	}
	return sum
}

// status reads a number from a process's status.
func status(t *testing.T, p *process, key string) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] == key+":" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s of process %d", key, p.cmd.Process.Pid)
	return 0
}
