package alloc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func from(m map[string]string) func(string) string {
	return func(name string) string { return m[name] }
}

func show(a *Allocation) string {
	if a == nil {
		return "none"
	}
	var s strings.Builder
	s.WriteString(a.Kind + " " + a.ID)
	for _, n := range a.Nodes {
		s.WriteString(fmt.Sprintf(" %s:%d:%dM", n.Name, n.Slots, n.MemBytes>>20))
	}
	return s.String()
}

func TestRead(t *testing.T) {
	nodes := filepath.Join(t.TempDir(), "nodes")
	if err := os.WriteFile(nodes, []byte("c1\nc1\nc2\nc2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"outside":      {nil, "none"},
		"no-node-list": {map[string]string{"SLURM_JOB_ID": "7"}, "none"},
		"slurm": {map[string]string{
			"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2,4]", "SLURM_JOB_CPUS_PER_NODE": "4(x2),2", "SLURM_MEM_PER_CPU": "100",
		}, "slurm 7 n1:4:400M n2:4:400M n4:2:200M"},
		"slurm-memory-per-node": {map[string]string{
			"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_CPUS_PER_NODE": "nonsense", "SLURM_MEM_PER_NODE": "512",
		}, "slurm 7 n1:0:512M"},
		"pbs-a-line-a-slot":  {map[string]string{"PBS_JOBID": "9.head", "PBS_NODEFILE": nodes}, "pbs 9 c1:2:0M c2:2:0M"},
		"pbs-without-a-file": {map[string]string{"PBS_JOBID": "9.head"}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := Read(from(c.env))
			if got := show(a); err != nil || got != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
	if _, err := Read(from(map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-"})); err == nil {
		t.Error("half a node list was read")
	}
}

func TestList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("# mine\na slots=3\nb:2 # two\nc\nc\n\nd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"n[1-2]:4,m": "hosts  n1:4:0M n2:4:0M m:0:0M",
		"a,a":        "hosts  a:2:0M",
		file:         "hosts  a:3:0M b:2:0M c:2:0M d:0:0M",
	} {
		a, err := List(in)
		if got := show(a); err != nil || got != want {
			t.Errorf("List(%q) = %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"./nofile", "a:0", "a:x", "a;b", ""} {
		if a, err := List(in); err == nil {
			t.Errorf("List(%q) = %s, want an error", in, show(a))
		}
	}
}

func TestEnds(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	if got := slurmTime("2026-01-02T04:04:05"); !got.Equal(now.Add(time.Hour)) {
		t.Errorf("squeue's: got %v", got)
	}
	if !slurmTime("N/A").IsZero() || !slurmTime("").IsZero() {
		t.Error("no end was read as one")
	}
	text := "Job Id: 9.head\n    resources_used.walltime = 00:10:00\n    Resource_List.walltime = 01:00:00\n"
	if got := pbsEnd(text, now); !got.Equal(now.Add(50 * time.Minute)) {
		t.Errorf("qstat's: got %v", got)
	}
	if !pbsEnd("", now).IsZero() {
		t.Error("no walltime was read as one")
	}
}
