package slurmenv

import (
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

// A rank of a step of a job of its own: all variables, and the mark.
func TestEnvironOfRank(t *testing.T) {
	f := &Facts{
		Job: 7, Name: "nm", Nodes: []filch.NodeName{"n1", "n2"}, CPUs: []int32{4, 2}, Tasks: []int32{2, 1}, Node: "n2", Index: 1, Restarts: 1,
		Step:    &Step{Number: 3, Address: "10.0.0.1", Umask: 0o22, Ranks: 3},
		Proc:    &Proc{Rank: 2, Ranks: []int32{2}},
		Options: Options{CPUsPerTask: 2, MemPerNode: 5 << 20, Distribution: "plane", Plane: 2},
	}
	want := strings.Fields(`SLURMD_NODENAME=n2 SLURM_CPUS_ON_NODE=2 SLURM_CPUS_PER_TASK=2 SLURM_DISTRIBUTION=plane SLURM_DIST_PLANESIZE=2
		SLURM_GTIDS=2 SLURM_JOBID=7 SLURM_JOB_CPUS_PER_NODE=4,2 SLURM_JOB_ID=7 SLURM_JOB_NAME=nm SLURM_JOB_NODELIST=n[1-2] SLURM_JOB_NUM_NODES=2
		SLURM_LAUNCH_NODE_IPADDR=10.0.0.1 SLURM_LOCALID=0 SLURM_MEM_PER_NODE=5 SLURM_NNODES=2 SLURM_NODEID=1 SLURM_NODELIST=n[1-2] SLURM_NPROCS=3 SLURM_NTASKS=3
		SLURM_PROCID=2 SLURM_RESTART_COUNT=1 SLURM_SRUN_COMM_HOST=10.0.0.1 SLURM_STEPID=3 SLURM_STEP_ID=3 SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_NUM_NODES=2
		SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=2,1 SLURM_TASKS_PER_NODE=2,1 SLURM_TOPOLOGY_ADDR=n2 SLURM_TOPOLOGY_ADDR_PATTERN=node SLURM_UMASK=0022 FILCH_SLURM_JOB=7`)
	if got := Environ(f, Rank); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	f.Inherited = true
	for _, kv := range Environ(f, Rank) {
		if strings.HasPrefix(kv, "SLURM_JOB_") || strings.HasPrefix(kv, "SLURM_NODELIST=") || strings.HasPrefix(kv, jobMark) {
			t.Errorf("a step of another job has %s", kv)
		}
	}
}

func TestArraySpan(t *testing.T) {
	for _, c := range []struct {
		indices             []int64
		count, low, top, by int64
	}{{[]int64{3}, 1, 3, 3, 1}, {[]int64{5, 3, 4}, 3, 3, 5, 1}, {[]int64{0, 4, 8}, 3, 0, 8, 4}, {[]int64{3, 5}, 2, 3, 5, 2}, {[]int64{0, 1, 4}, 3, 0, 4, 1}} {
		if s := (Array{Indices: c.indices}).span(); s.Count != c.count || s.Min != c.low || s.Max != c.top || s.By != c.by {
			t.Errorf("%v: got %+v", c.indices, s)
		}
	}
}

// A step in a job of filch keeps the job's variables; a job of a real Slurm has no mark.
func TestAround(t *testing.T) {
	env := []string{"A=1", "SLURM_JOB_ID=7", "SLURM_ARRAY_JOB_ID=5", "SLURM_ARRAY_TASK_ID=2", "SLURM_JOB_NAME=nm", "SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_CPUS_PER_TASK=2"}
	if _, _, ok := Around(env); ok {
		t.Error("a job without the mark was taken for a job of filch")
	}
	if _, _, ok := Around(append(slices.Clip(env), jobMark+"=6")); ok {
		t.Error("the mark of another job was taken")
	}
	job, kept, ok := Around(append(slices.Clip(env), jobMark+"=7"))
	if want := (Job{ID: 7, Array: 5, Task: "2", Name: "nm"}); !ok || job != want {
		t.Errorf("got %+v %v, want %+v", job, ok, want)
	}
	if want := "SLURM_JOB_ID=7 SLURM_ARRAY_JOB_ID=5 SLURM_ARRAY_TASK_ID=2 SLURM_JOB_NAME=nm SLURM_CPUS_PER_TASK=2 FILCH_SLURM_JOB=7"; strings.Join(kept, " ") != want {
		t.Errorf("got %q, want %q", kept, want)
	}
}

func TestMerge(t *testing.T) {
	got := Merge([]string{"A=1", "B=2", "A=3"}, []string{"A=4", "C=5"})
	if want := []string{"B=2", "A=4", "C=5"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestForScript(t *testing.T) {
	got := ForScript([]string{"A=1", "SLURM_NTASKS=2", "SLURM_NNODES=2", "SLURM_STEP_ID=0", "SLURM_JOB_ID=7", "SLURM_CPUS_ON_NODE=4"})
	if want := []string{"A=1", "SLURM_NNODES=2", "SLURM_JOB_ID=7", "SLURM_CPUS_ON_NODE=4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSpread(t *testing.T) {
	if got := counts(Spread(7, 3)); got != "3,2(x2)" {
		t.Errorf("got %s", got)
	}
}

// The table is in order, so that documents are, and without doubles.
func TestVariablesInOrder(t *testing.T) {
	for i := 1; i < len(Variables); i++ {
		if Variables[i-1].Name >= Variables[i].Name {
			t.Errorf("%s stands before %s", Variables[i-1].Name, Variables[i].Name)
		}
	}
}
