package slurmenv

import (
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// In is a set of kinds of programs.
type In uint8

// The kinds of programs: the script of sbatch, a rank of srun or of filch run
// --slurm-env, a task of filch submit.
const (
	Batch In = 1 << iota
	Rank
	Task
)

// owner says to what the value of a variable belongs.
type owner uint8

// A step keeps the variables of its job, and gets the variables of the step and of the
// rank anew.
const (
	ofTheJob owner = iota
	ofTheStep
	ofTheRank
)

// String names the owner of the value.
func (o owner) String() string { return [...]string{"job", "step", "rank"}[o] }

// String names the programs, for a table.
func (in In) String() string {
	var names []string
	for i, name := range [...]string{"scripts", "ranks", "tasks"} {
		if in&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Facts are what a process knows about a job. A zero field is an unknown fact.
type Facts struct {
	Job       filch.JobID
	Name      string
	Partition string
	Account   string
	Cluster   string
	Restarts  int32
	Begun     int64 // seconds since 1970
	Ends      int64
	Array     Array
	Submitter Submitter
	Options   Options

	Nodes []filch.NodeName // of the job; of the step, for a step
	CPUs  []int32          // of the job on each node
	Tasks []int32          // on each node
	Node  filch.NodeName   // of the program
	Index int32            // of Node in Nodes
	GPUs  []string         // on Node: of the job; of the step, for a step
	// The step; nil for a batch script and for a task.
	Step *Step
	// The process; nil where the process is not known.
	Proc *Proc
	// The job is another than the step's own: the variables of the job stay.
	Inherited bool
}

// Array is the place of a job in an array.
type Array struct {
	Job     filch.JobID // 0: no array
	Index   int64
	Indices []int64 // of the whole array, in any order; empty: not known
	Count   int64   // with Min, Max and By in place of Indices
	Min     int64
	Max     int64
	By      int64
}

// Submitter is the process that submitted a job.
type Submitter struct {
	Known     bool
	Dir, Host string
	User      string
	UID, GID  int
	Nice      int
}

// Options are options as the user gave them.
type Options struct {
	Ranks        int32
	CPUsPerTask  int32
	TasksPerNode int32
	MemPerNode   int64 // bytes
	MemPerCPU    int64
	Distribution string
	Plane        int32
	Label        bool
	Overcommit   bool
	Exclusive    bool
	// GPUs, with their kind
	GPUs, GPUsPerNode, GPUsPerTask string
	Export                         string
	Verbosity                      int // of srun: 3 and the number of -v
}

// Step is a step of a job.
type Step struct {
	Number  int32
	Address string // of the node of its client
	Umask   uint32
	Ranks   int32
}

// Proc is a process of a job.
type Proc struct {
	Rank, Local int32
	PID         int
	Ranks       []int32 // all ranks of the step on this node
}

// jobMark is the variable that says which SLURM_JOB_ID is a job of filch.
const jobMark = "FILCH_SLURM_JOB"

// Sentence is the meaning of a variable as a sentence.
func (v *variable) Sentence() string {
	return "Of the " + v.Of.String() + ": " + strings.ReplaceAll(v.Text, "`", "") + "."
}

// Environ returns the variables for a kind of program whose facts are known.
func Environ(f *Facts, in In) []string {
	var env []string
	for i := range Variables {
		v := &Variables[i]
		if v.In&in == 0 || f.Inherited && v.Of == ofTheJob {
			continue
		}
		if value := v.value(f); value != "" {
			env = append(env, v.Name+"="+value)
		}
	}
	if f.Job != 0 && !f.Inherited {
		env = append(env, jobMark+"="+f.Job.String())
	}
	return env
}

// Merge puts variables into an environment, in place of variables of the same names.
func Merge(env, set []string) []string {
	at := make(map[string]int, len(set))
	for i, kv := range set {
		name, _, _ := strings.Cut(kv, "=")
		at[name] = i
	}
	kept := make([]string, 0, len(env)+len(set))
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if _, ours := at[name]; !ours {
			kept = append(kept, kv)
		}
	}
	return append(kept, set...)
}

// ours reports whether a variable is one that Slurm or this package sets.
func ours(kv string) bool {
	return strings.HasPrefix(kv, "SLURM_") || strings.HasPrefix(kv, "SLURMD_") || strings.HasPrefix(kv, "SRUN_") || strings.HasPrefix(kv, jobMark+"=")
}

// Job is a job around a process, as file name patterns need the job.
type Job struct {
	ID    filch.JobID
	Array filch.JobID // 0: no array
	Task  string      // index in the array
	Name  string
}

// Without returns an environment without the variables of Slurm.
func Without(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), ours)
}

// Around finds the job of filch whose variables an environment has, and these variables
// without the ones of another step. ok is false outside of such a job.
func Around(env []string) (job Job, kept []string, ok bool) {
	id := Lookup(env, "SLURM_JOB_ID")
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || n == 0 || Lookup(env, jobMark) != id {
		return Job{}, nil, false
	}
	job.ID = filch.JobID(n)
	array, _ := strconv.ParseUint(Lookup(env, "SLURM_ARRAY_JOB_ID"), 10, 64)
	job.Array, job.Task, job.Name = filch.JobID(array), Lookup(env, "SLURM_ARRAY_TASK_ID"), Lookup(env, "SLURM_JOB_NAME")
	for _, kv := range env {
		if ours(kv) && !passing(kv) {
			kept = append(kept, kv)
		}
	}
	return job, kept, true
}

// passing reports whether a variable describes a process or a step, and not a job: steps
// inside do not take the value over.
func passing(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	i := slices.IndexFunc(Variables, func(v variable) bool { return v.Name == name })
	return i >= 0 && (Variables[i].Of == ofTheRank || Variables[i].In&Batch == 0)
}

// ForScript drops the variables of a step from the environment of the process that runs
// a batch script: the process is a rank that holds slots. The variables of the job and of
// the nodes stay.
func ForScript(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		i := slices.IndexFunc(Variables, func(v variable) bool { return v.Name == name })
		return i >= 0 && (Variables[i].Of == ofTheStep || Variables[i].In&Batch == 0) && name != "SLURM_NNODES" && name != "SLURM_TASKS_PER_NODE"
	})
}

// Spread is an even distribution of tasks over nodes: the first nodes have one more.
func Spread(tasks, nodes int32) []int32 {
	counts := make([]int32, nodes)
	for i := range counts {
		counts[i] = tasks / nodes
		if int32(i) < tasks%nodes {
			counts[i]++
		}
	}
	return counts
}

// Lookup returns the value of a variable; "" without the variable.
func Lookup(env []string, name string) string {
	for _, kv := range env {
		if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:]
		}
	}
	return ""
}
