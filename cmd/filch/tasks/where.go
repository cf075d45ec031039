package tasks

import (
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/mtc/record"
)

// whereFlags say which nodes may run tasks, and what a task takes of a resource that the
// site names.
type whereFlags struct{ only, exclude, labels, resources string }

func (f *whereFlags) declare(p *pflag.FlagSet) {
	p.StringVarP(&f.only, "nodelist", "w", "", "run tasks only on these nodes: `LIST`, as in n[1-3,7]")
	p.StringVarP(&f.exclude, "exclude", "x", "", "run no task on these nodes: `LIST`")
	p.StringVarP(&f.labels, "constraint", "C", "", "run tasks only on nodes with these `LABELS`: a100, 'a100&bigmem', '(a100|v100)&!slow'")
	p.StringVar(&f.resources, "resource", "", "what each task takes of a resource that the site names: `NAME=N`, as in license=1,scratch=10")
}

// read sets the nodes and the named resources of a spec.
func (f *whereFlags) read(sp *record.Spec) error {
	a, bad := filch.ReadAmounts(f.resources)
	if bad != nil {
		return ofOption("resource", bad)
	}
	sp.Each.Named = a
	n := filch.Nodes{}
	if f.labels != "" {
		if n.Labels, bad = filch.ReadConstraint(f.labels); bad != nil {
			return ofOption("constraint", bad)
		}
	}
	for _, list := range []struct {
		name, value string
		to          *[]filch.NodeName
	}{{"nodelist", f.only, &n.Only}, {"exclude", f.exclude, &n.Exclude}} {
		if list.value == "" {
			continue
		}
		var err error
		if *list.to, err = spec.Hosts(list.value); err != nil {
			return ofOption(list.name, err)
		}
	}
	if f.only+f.exclude+f.labels != "" {
		sp.Nodes = &n
	}
	return nil
}
