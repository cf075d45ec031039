package spec

import (
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/slurmenv"
)

// srunDebug is SRUN_DEBUG without -v.
const srunDebug = 3

// withSlurm puts the client's part of SLURM_* into an environment. An srun in a job of
// filch with SLURM_* keeps the variables of that job, as a step of Slurm does.
func (r *Run) withSlurm(env []string, c Context) []string {
	f := slurmenv.Facts{Options: r.SlurmOptions()}
	if f.Options.Verbosity = srunDebug + r.Client.Verbose; r.Client.Quiet {
		f.Options.Verbosity--
	}
	job, kept, inside := slurmenv.Around(c.Env)
	if inside && r.Client.Srun && r.Request.Parent != 0 {
		f.Inherited = true
		r.Order.Slurm = &launcher.Slurm{Job: job.ID, Array: job.Array, Task: job.Task, Name: job.Name}
		if r.isGiven("job-name") {
			kept = slurmenv.Merge(kept, []string{"SLURM_JOB_NAME=" + r.Request.Name})
		}
		env = slurmenv.Merge(env, kept)
	} else if c.Submitter != nil {
		f.Submitter, f.Partition = c.Submitter(), slurmenv.Cluster
	}
	env = slurmenv.Merge(env, slurmenv.Environ(&f, slurmenv.Rank))
	if r.Client.Srun && slurmenv.Lookup(env, "TMPDIR") == "" {
		env = append(env, "TMPDIR=/tmp") // as slurmd does
	}
	return env
}

// SlurmOptions are the options as given, for SLURM_*.
func (r *Run) SlurmOptions() slurmenv.Options {
	o, s := r.Client.Slurm, &r.Request.Shape
	if s.Layout == launcher.LayoutPlane {
		o.Plane = s.Plane
	}
	if r.isGiven("ntasks") {
		o.Ranks = s.Ranks
	}
	if r.isGiven("ntasks-per-node") {
		if o.TasksPerNode = s.PerNode; o.Ranks == 0 {
			o.Ranks = int32(min(int64(s.PerNode)*int64(max(s.MinNodes, 1)), launcher.MaxRanks))
		}
	}
	o.CPUsPerTask = r.cpusGiven()
	o.MemPerNode, o.MemPerCPU = r.Client.Mem, r.Client.MemPerCPU
	o.Label, o.Overcommit, o.Exclusive = r.Order.IO.Label, s.Overcommit, s.Exclusive
	return o
}
