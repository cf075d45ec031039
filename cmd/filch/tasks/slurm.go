package tasks

import (
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/slurmenv"
	"github.com/filch-hpc/filch/launcher/spec"
)

// slurmExtra gives the tasks SLURM_*: the submitter's part goes into the environment of
// the order, and the nodes add the rest by the result.
func (f *submitFlags) slurmExtra(o *launcher.TaskOrder, extra *launcher.OrderExtra, around spec.Context) (*launcher.OrderExtra, error) {
	facts := slurmenv.Facts{
		Partition: slurmenv.Cluster, Submitter: around.Submitter(), Options: slurmenv.Options{Ranks: 1, CPUsPerTask: f.threads},
	}
	in := slurmenv.Task
	if f.each != nil {
		facts.Options, in = f.shape, slurmenv.Rank
		facts.Options.CPUsPerTask = f.threads
	}
	if f.mem != "" {
		bytes, err := spec.Memory(f.mem)
		if err != nil {
			return nil, ofOption("mem", err)
		}
		facts.Options.MemPerNode = bytes
	}
	o.Env = slurmenv.Merge(slurmenv.Without(o.Env), slurmenv.Environ(&facts, in))
	if extra == nil {
		extra = &launcher.OrderExtra{}
	}
	extra.Slurm = &launcher.TaskSlurm{}
	if f.array != "" {
		a, err := readArray(f.array)
		if err != nil {
			return nil, err
		}
		extra.Slurm.Count, extra.Slurm.Min, extra.Slurm.Max, extra.Slurm.Step = a.Span()
	}
	return extra, nil
}
