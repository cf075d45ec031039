package keeper

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/slurmenv"
)

// jobEnv is the environment common to all ranks of the job on this node, on top of base.
func (j *job) jobEnv(base []string) []string {
	l := &j.order.Launch
	env := proc.Scrub(base)
	if len(j.gpus()) > 0 || j.what.NoGPUs {
		env = proc.WithoutGPUs(env)
	}
	add := func(name, value string) { env = append(env, name+"="+value) }
	instance := j.keeper.place.Instance
	if instance == "" {
		instance = l.Ident.Instance
	}
	add("FILCH_INSTANCE", instance)
	add("FILCH_IDENT", l.Ident.String())
	add("FILCH_SOCKET", filepath.Join(j.keeper.place.Dir, "launcher.sock"))
	if g := j.what.Task; g != nil {
		add("FILCH_JOB", g.Job.String())
		add("FILCH_TASK", strconv.Itoa(int(g.Number)))
		add("FILCH_ATTEMPT", strconv.Itoa(int(g.Attempt)))
		add("FILCH_RUN", l.Ident.Job.String())
	} else {
		add("FILCH_JOB", l.Ident.Job.String())
		add("FILCH_ATTEMPT", strconv.Itoa(int(l.Try())))
	}
	add("FILCH_SIZE", strconv.Itoa(int(l.Size)))
	add("FILCH_LOCAL_SIZE", strconv.Itoa(len(j.ranks)))
	add("FILCH_NODE", string(j.node()))
	add("FILCH_NODES", strconv.Itoa(len(l.Nodes)))
	add("FILCH_NODELIST", slurmenv.Hostlist(nodeNames(l.Nodes)))
	add("MPI_LOCALNRANKS", strconv.Itoa(len(j.ranks)))
	if _, ok := proc.LookupEnv(env, "GFORTRAN_UNBUFFERED_PRECONNECTED"); !ok {
		add("GFORTRAN_UNBUFFERED_PRECONNECTED", "y")
	}
	if j.tmp != "" {
		env = slurmenv.Merge(env, []string{"TMPDIR=" + j.tmp, "FILCH_TMP=" + j.tmp})
	}
	if j.what.Slurm != nil {
		env = slurmenv.Merge(env, slurmenv.Environ(j.slurmFacts(), slurmenv.Rank))
		env = slices.DeleteFunc(env, func(kv string) bool { // of each rank: see rankEnv
			return strings.HasPrefix(kv, "SLURM_PROCID=") || strings.HasPrefix(kv, "SLURM_LOCALID=") || strings.HasPrefix(kv, "SLURM_STEP_GPUS=")
		})
	}
	return env
}

// rankEnv is the environment of r alone.
func (j *job) rankEnv(r *rank) []string {
	local := strconv.Itoa(r.local)
	id := strconv.Itoa(int(r.id))
	env := []string{
		"FILCH_RANK=" + id, "FILCH_LOCAL_RANK=" + local, "MPI_LOCALRANKID=" + local,
	}
	if j.what.Slurm != nil {
		env = append(env, "SLURM_PROCID="+id, "SLURM_LOCALID="+local)
	}
	if j.what.NoGPUs {
		return append(env, proc.NoGPUs()...)
	}
	gpus, i, n := j.gpus(), r.local, len(j.ranks)
	if j.sharesGPUs() {
		gpus, i, n = slices.Compact(slices.Clone(gpus)), 0, 1
	}
	if len(gpus) > 0 && j.what.Slurm != nil && !j.what.Slurm.Script {
		env = append(env, "SLURM_STEP_GPUS="+slurmenv.GPUNumbers(proc.GPUShare(gpus, i, n)))
	}
	return append(env, proc.GPUEnv(gpus, i, n)...)
}

// gpus are the GPUs that the ranks use: their own, or the GPUs of the job around.
func (j *job) gpus() []string {
	if j.what.NoGPUs {
		return nil
	}
	if len(j.order.GPUs) > 0 {
		return j.order.GPUs
	}
	return j.order.ParentGPUs
}

// sharesGPUs reports whether every rank of the node uses all GPUs of the job there: with
// --gpus-per-node, in a step without GPUs of its own, and in the script of a batch job.
func (j *job) sharesGPUs() bool {
	return j.order.Launch.Base.GPUs > 0 || len(j.order.GPUs) == 0 || j.what.Slurm != nil && j.what.Slurm.Script
}

// slurmFacts are the facts about the job and this node. A client has already put its own
// facts into the environment.
func (j *job) slurmFacts() *slurmenv.Facts {
	l := &j.order.Launch
	f := &slurmenv.Facts{
		Inherited: j.what.Slurm.Job != 0, Job: l.Ident.Job, Name: l.Name, Restarts: int32(l.Try()) - 1,
		Nodes: nodeNames(l.Nodes), Node: j.node(), Index: j.order.Index,
		GPUs: slices.Compact(slices.Clone(j.gpus())),
		Step: &slurmenv.Step{Number: l.Step, Address: j.order.Home, Umask: j.what.Umask, Ranks: l.Size},
		Proc: &slurmenv.Proc{},
	}
	if g := j.what.Task; g != nil {
		now := time.Now()
		f.Job, f.Restarts, f.Begun = g.Job, int32(g.Attempt)-1, now.Unix()
		if g.Limit > 0 {
			f.Ends = now.Add(g.Limit).Unix()
		}
	}
	for i := range l.Nodes {
		n := launcher.CountRanks(l.Nodes[i].Ranks)
		f.Tasks = append(f.Tasks, n)
		f.CPUs = append(f.CPUs, cmp.Or(l.Nodes[i].Slots, l.Base.Slots+n*l.Each.Slots))
	}
	if n := len(j.order.Processors); n > 0 && l.Nodes[f.Index].Slots == 0 {
		f.CPUs[f.Index] = int32(n)
	}
	for _, r := range j.ranks {
		f.Proc.Ranks = append(f.Proc.Ranks, int32(r.id))
	}
	if f.Inherited && slurmenv.Lookup(j.what.Env, "SLURM_DISTRIBUTION") == "" {
		f.Options.Distribution = "block"
		if int(l.Size) <= len(l.Nodes) {
			f.Options.Distribution = "cyclic"
		}
	}
	return f
}

func nodeNames(nodes []launcher.NodeRanks) []filch.NodeName {
	names := make([]filch.NodeName, len(nodes))
	for i := range nodes {
		names[i] = nodes[i].Node
	}
	return names
}
