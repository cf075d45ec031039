package tasks

import (
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/mtc/record"
)

// gpuFlags are the GPUs of a task. A task of one process is one rank on one node, so the
// three options mean the same for the task; for a gang they differ, as for filch run.
type gpuFlags struct{ perRank, perNode, all string }

var gpuOptions = [...]string{"gpus", "gpus-per-task", "gpus-per-node"}

func (f *gpuFlags) declare(p *pflag.FlagSet) {
	p.StringVarP(&f.all, "gpus", "G", "", "`[KIND:]N` GPUs for each task, on nodes with the label KIND; 0.25: a quarter of one GPU; a gang divides the N evenly among its ranks, or among the nodes of -N")
	p.StringVar(&f.perRank, "gpus-per-task", "", "`[KIND:]N` GPUs for each task, or for each rank of a gang")
	p.StringVar(&f.perNode, "gpus-per-node", "", "`[KIND:]N` GPUs for each task, or for all ranks of a gang on a node")
}

// read reads the GPUs of a task of one process.
func (f *gpuFlags) read(sp *record.Spec) error {
	given := ""
	for i, value := range [len(gpuOptions)]string{f.all, f.perRank, f.perNode} {
		name := gpuOptions[i]
		if value == "" {
			continue
		}
		if given != "" {
			return filch.Errorf(filch.Invalid, "--%s with --%s: give one of them", given, name)
		}
		given = name
		kind, n, err := spec.Devices(value)
		if err != nil {
			return ofOption(name, err)
		}
		sp.Each.GPUs, sp.Nodes = n, sp.Nodes.With(filch.Constraint(kind))
	}
	return nil
}
