package slurmenv

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// variable is a variable that srun or sbatch sets.
type variable struct {
	Name  string
	In    In
	Of    owner
	Text  string
	value func(*Facts) string // "" leaves the variable out
}

const (
	everywhere = Batch | Rank | Task
	jobs       = Batch | Rank
)

// Cluster is the name of the cluster, of its partition and of its account.
const Cluster = "filch"

// Variables are all variables of this package, in the order of their names.
var Variables = []variable{
	{"SLURMD_NODENAME", everywhere, ofTheRank, "the node of the process", func(f *Facts) string { return string(f.Node) }},
	{"SLURM_ARRAY_JOB_ID", everywhere, ofTheJob, "the first job of the array; for a task, the job", func(f *Facts) string { return inArray(f, int64(f.Array.Job)) }},
	{"SLURM_ARRAY_TASK_COUNT", everywhere, ofTheJob, "the size of the array", func(f *Facts) string { return inArray(f, f.Array.span().Count) }},
	{"SLURM_ARRAY_TASK_ID", everywhere, ofTheJob, "the index in the array", func(f *Facts) string { return inArray(f, f.Array.Index) }},
	{"SLURM_ARRAY_TASK_MAX", everywhere, ofTheJob, "the highest index", func(f *Facts) string { return inArray(f, f.Array.span().Max) }},
	{"SLURM_ARRAY_TASK_MIN", everywhere, ofTheJob, "the lowest index", func(f *Facts) string { return inArray(f, f.Array.span().Min) }},
	{"SLURM_ARRAY_TASK_STEP", everywhere, ofTheJob, "the distance of the indices", func(f *Facts) string { return inArray(f, f.Array.span().By) }},
	{"SLURM_CLUSTER_NAME", everywhere, ofTheJob, "`filch`", func(f *Facts) string { return known(f, Cluster) }},
	{"SLURM_CPUS_ON_NODE", everywhere, ofTheRank, "CPUs of the job on the node; of the step, for a rank", cpusHere},
	{"SLURM_CPUS_PER_TASK", everywhere, ofTheStep, "the value of `-c`; only with `-c`", func(f *Facts) string { return some(f.Options.CPUsPerTask) }},
	{"SLURM_DISTRIBUTION", jobs, ofTheStep, "the value of `-m`; for a step of a batch job also without `-m`", func(f *Facts) string { return f.Options.Distribution }},
	{"SLURM_DIST_PLANESIZE", jobs, ofTheStep, "the size of `-m plane=SIZE`", func(f *Facts) string { return some(f.Options.Plane) }},
	{"SLURM_EXPORT_ENV", Batch, ofTheJob, "the value of `sbatch --export`, which an `srun` inside follows; only with `--export`", func(f *Facts) string { return f.Options.Export }},
	{"SLURM_GET_USER_ENV", Batch, ofTheJob, "1 for `sbatch --export` with a value other than `ALL`: the script has the variables of a login", func(f *Facts) string {
		return when(f.Options.Export != "" && !strings.EqualFold(f.Options.Export, "ALL"), "1")
	}},
	{"SLURM_GPUS", jobs, ofTheStep, "the value of `-G`; only with the option", func(f *Facts) string { return f.Options.GPUs }},
	{"SLURM_GPUS_ON_NODE", jobs, ofTheRank, "the number of GPUs of the job on the node; of the step, for a rank", func(f *Facts) string { return some(len(f.GPUs)) }},
	{"SLURM_GPUS_PER_NODE", jobs, ofTheStep, "the value of `--gpus-per-node`; only with the option", func(f *Facts) string { return f.Options.GPUsPerNode }},
	{"SLURM_GPUS_PER_TASK", jobs, ofTheStep, "the value of `--gpus-per-task`; only with the option", func(f *Facts) string { return f.Options.GPUsPerTask }},
	{"SLURM_GTIDS", everywhere, ofTheRank, "the ranks of the step on the node", func(f *Facts) string { return ofProc(f, func(p *Proc) string { return ids(p.Ranks) }) }},
	{"SLURM_JOBID", everywhere, ofTheJob, "the same as `SLURM_JOB_ID`", func(f *Facts) string { return some(f.Job) }},
	{"SLURM_JOB_ACCOUNT", everywhere, ofTheJob, "the account", func(f *Facts) string { return f.Account }},
	{"SLURM_JOB_CPUS_PER_NODE", everywhere, ofTheJob, "CPUs of the job on each node, like `4(x2),2`", func(f *Facts) string { return counts(f.CPUs) }},
	{"SLURM_JOB_END_TIME", everywhere, ofTheJob, "the end by the time limit, in seconds since 1970; only with a time limit", func(f *Facts) string { return some(f.Ends) }},
	{"SLURM_JOB_GID", everywhere, ofTheJob, "the group id of the user", func(f *Facts) string { return known(f, strconv.Itoa(f.Submitter.GID)) }},
	{"SLURM_JOB_GPUS", Batch, ofTheJob, "the numbers of the GPUs of the job on the node of the script", numbers},
	{"SLURM_JOB_ID", everywhere, ofTheJob, "the number of the job", func(f *Facts) string { return some(f.Job) }},
	{"SLURM_JOB_NAME", everywhere, ofTheJob, "the name of the job", func(f *Facts) string { return f.Name }},
	{"SLURM_JOB_NODELIST", everywhere, ofTheJob, "the nodes of the job, like `n[1-3,7]`", func(f *Facts) string { return Hostlist(f.Nodes) }},
	{"SLURM_JOB_NUM_NODES", everywhere, ofTheJob, "the number of nodes of the job", func(f *Facts) string { return some(len(f.Nodes)) }},
	{"SLURM_JOB_PARTITION", everywhere, ofTheJob, "the partition", func(f *Facts) string { return f.Partition }},
	{"SLURM_JOB_START_TIME", everywhere, ofTheJob, "the start, in seconds since 1970", func(f *Facts) string { return some(f.Begun) }},
	{"SLURM_JOB_UID", everywhere, ofTheJob, "the user id", func(f *Facts) string { return known(f, strconv.Itoa(f.Submitter.UID)) }},
	{"SLURM_JOB_USER", everywhere, ofTheJob, "the name of the user", func(f *Facts) string { return f.Submitter.User }},
	{"SLURM_LABELIO", Rank, ofTheStep, "1 with `-l`", func(f *Facts) string { return when(f.Options.Label, "1") }},
	{"SLURM_LAUNCH_NODE_IPADDR", Rank, ofTheStep, "the address of the node where the step was started", address},
	{"SLURM_LOCALID", everywhere, ofTheRank, "the number of the rank on its node, from 0", func(f *Facts) string { return ofProc(f, func(p *Proc) string { return strconv.Itoa(int(p.Local)) }) }},
	{"SLURM_MEM_PER_CPU", everywhere, ofTheStep, "the value of `--mem-per-cpu` in MiB; only with the option", func(f *Facts) string { return some(f.Options.MemPerCPU >> 20) }},
	{"SLURM_MEM_PER_NODE", everywhere, ofTheStep, "the value of `--mem` in MiB; only with the option", func(f *Facts) string { return some(f.Options.MemPerNode >> 20) }},
	{"SLURM_NNODES", everywhere, ofTheStep, "the number of nodes of the step, or of the job", func(f *Facts) string { return some(len(f.Nodes)) }},
	{"SLURM_NODEID", everywhere, ofTheRank, "the number of the node in the step, from 0", func(f *Facts) string { return when(f.Node != "", strconv.Itoa(int(f.Index))) }},
	{"SLURM_NODELIST", everywhere, ofTheJob, "the same as `SLURM_JOB_NODELIST`", func(f *Facts) string { return Hostlist(f.Nodes) }},
	{"SLURM_NODE_ALIASES", Batch, ofTheJob, "`(null)`", func(f *Facts) string { return known(f, "(null)") }},
	{"SLURM_NPROCS", everywhere, ofTheStep, "the same as `SLURM_NTASKS`", tasks},
	{"SLURM_NTASKS", everywhere, ofTheStep, "the number of ranks; for a batch script only with `-n` or `--ntasks-per-node`; 1 for a task of one process", tasks},
	{"SLURM_NTASKS_PER_NODE", jobs, ofTheStep, "the value of `--ntasks-per-node`; only with the option", func(f *Facts) string { return some(f.Options.TasksPerNode) }},
	{"SLURM_OVERCOMMIT", Batch, ofTheStep, "1 for `sbatch --overcommit`, which an `srun` inside follows", func(f *Facts) string { return when(f.Options.Overcommit, "1") }},
	{"SLURM_PRIO_PROCESS", jobs, ofTheJob, "the nice value of the submitter", func(f *Facts) string { return known(f, strconv.Itoa(f.Submitter.Nice)) }},
	{"SLURM_PROCID", everywhere, ofTheRank, "the rank", func(f *Facts) string { return ofProc(f, func(p *Proc) string { return strconv.Itoa(int(p.Rank)) }) }},
	{"SLURM_RESTART_COUNT", everywhere, ofTheJob, "how often the job was started again; not set at the first start", func(f *Facts) string { return some(f.Restarts) }},
	{"SLURM_SRUN_COMM_HOST", Rank, ofTheStep, "the same as `SLURM_LAUNCH_NODE_IPADDR`", address},
	{"SLURM_STEPID", Rank, ofTheStep, "the same as `SLURM_STEP_ID`", step},
	{"SLURM_STEP_GPUS", Rank, ofTheRank, "the numbers of the GPUs of the step on the node; of the rank, with `--gpus-per-task`", numbers},
	{"SLURM_STEP_ID", Rank, ofTheStep, "the number of the step in its job, from 0", step},
	{"SLURM_STEP_NODELIST", Rank, ofTheStep, "the nodes of the step", func(f *Facts) string { return ofStep(f, func(*Step) string { return Hostlist(f.Nodes) }) }},
	{"SLURM_STEP_NUM_NODES", Rank, ofTheStep, "the number of nodes of the step", func(f *Facts) string { return ofStep(f, func(*Step) string { return some(len(f.Nodes)) }) }},
	{"SLURM_STEP_NUM_TASKS", Rank, ofTheStep, "the number of ranks of the step", func(f *Facts) string { return ofStep(f, func(s *Step) string { return some(s.Ranks) }) }},
	{"SLURM_STEP_TASKS_PER_NODE", Rank, ofTheStep, "the number of ranks on each node of the step", func(f *Facts) string { return ofStep(f, func(*Step) string { return counts(f.Tasks) }) }},
	{"SLURM_SUBMIT_DIR", everywhere, ofTheJob, "the folder of the submission", func(f *Facts) string { return f.Submitter.Dir }},
	{"SLURM_SUBMIT_HOST", everywhere, ofTheJob, "the machine of the submission", func(f *Facts) string { return f.Submitter.Host }},
	{"SLURM_TASKS_PER_NODE", everywhere, ofTheStep, "the number of ranks on each node, like `2(x3),1`", func(f *Facts) string { return counts(f.Tasks) }},
	{"SLURM_TASK_PID", Batch, ofTheRank, "the process id of the script", func(f *Facts) string { return ofProc(f, func(p *Proc) string { return some(p.PID) }) }},
	{"SLURM_TOPOLOGY_ADDR", everywhere, ofTheRank, "the node of the process", func(f *Facts) string { return string(f.Node) }},
	{"SLURM_TOPOLOGY_ADDR_PATTERN", everywhere, ofTheJob, "`node`", func(f *Facts) string { return when(f.Node != "", "node") }},
	{"SLURM_UMASK", Rank, ofTheStep, "the umask of the submitter", func(f *Facts) string { return ofStep(f, func(s *Step) string { return fmt.Sprintf("%04o", s.Umask) }) }},
	{"SRUN_DEBUG", Rank, ofTheStep, "3, and the number of `-v` of srun", func(f *Facts) string { return some(f.Options.Verbosity) }},
}

// some is a number, "" for zero.
func some[N ~int | ~int32 | ~int64 | ~uint64](n N) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(uint64(n))
}

func when(ok bool, value string) string {
	if !ok {
		return ""
	}
	return value
}

// known is a value that only the submitter's side sets.
func known(f *Facts, value string) string { return when(f.Submitter.Known, value) }

func inArray(f *Facts, n int64) string {
	return when(f.Array.Job != 0, strconv.FormatInt(n, 10))
}

// span fills Count, Min, Max and By from Indices.
func (a Array) span() Array {
	if len(a.Indices) > 0 {
		sorted := slices.Sorted(slices.Values(a.Indices))
		a.Count, a.Min, a.Max, a.By = int64(len(sorted)), sorted[0], sorted[len(sorted)-1], 1
		if len(sorted) > 1 && (a.Max-a.Min)%(a.Count-1) == 0 {
			a.By = (a.Max - a.Min) / (a.Count - 1)
			for i := range sorted {
				if sorted[i] != a.Min+int64(i)*a.By {
					a.By = 1
					break
				}
			}
		}
	}
	a.By = max(a.By, 1)
	return a
}

func cpusHere(f *Facts) string {
	if f.Node == "" || int(f.Index) >= len(f.CPUs) {
		return ""
	}
	return some(f.CPUs[f.Index])
}

func tasks(f *Facts) string {
	if f.Step != nil {
		return some(f.Step.Ranks)
	}
	return some(f.Options.Ranks)
}

func numbers(f *Facts) string { return GPUNumbers(f.GPUs) }

// GPUNumbers are the numbers of GPUs, with commas.
func GPUNumbers(gpus []string) string {
	words := make([]string, len(gpus))
	for i, g := range gpus {
		words[i] = filch.GPUNumber(g)
	}
	return strings.Join(words, ",")
}

func address(f *Facts) string { return ofStep(f, func(s *Step) string { return s.Address }) }

func step(f *Facts) string {
	return ofStep(f, func(s *Step) string { return strconv.Itoa(int(s.Number)) })
}

func ofStep(f *Facts, value func(*Step) string) string {
	if f.Step == nil {
		return ""
	}
	return value(f.Step)
}

func ofProc(f *Facts, value func(*Proc) string) string {
	if f.Proc == nil {
		return ""
	}
	return value(f.Proc)
}

func ids(ranks []int32) string {
	words := make([]string, len(ranks))
	for i, r := range ranks {
		words[i] = strconv.Itoa(int(r))
	}
	return strings.Join(words, ",")
}
