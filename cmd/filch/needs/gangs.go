package needs

import (
	"cmp"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Gangs makes the gangs of tasks that say themselves that they are gangs.
type Gangs struct {
	Job   *launcher.GangOrder // of the tasks that say nothing; nil: these are processes
	plain *launcher.GangOrder // the defaults of filch run
}

// Of is the gang of a task, nil for a task of one process. Own reports whether the task
// needs an order of its own.
func (m *Gangs) Of(g *workflow.Gang) (order *launcher.GangOrder, own bool, err error) {
	if *g == (workflow.Gang{}) {
		return m.Job, false, nil
	}
	from := m.Job
	if from == nil {
		if g.Ranks == 0 {
			return nil, false, filch.Errorf(filch.Invalid, "nodes, ranks_per_node and mpi are for a gang, and this task is one process").
				WithHint("ranks: N makes the task a gang of N ranks")
		}
		if m.plain == nil {
			r, err := spec.Parse([]string{"-n", "1", "gang"})
			if err == nil {
				_, err = r.Finish(spec.Context{})
			}
			if err != nil {
				return nil, false, err
			}
			m.plain = &launcher.GangOrder{Shape: r.Request.Shape, Policy: r.Request.Policy, MPI: r.Order.MPI, Bind: r.Order.Bind}
		}
		from = m.plain
	}
	o := *from
	s := &o.Shape
	s.Ranks, s.PerNode, o.MPI = cmp.Or(g.Ranks, s.Ranks), cmp.Or(g.PerNode, s.PerNode), cmp.Or(g.MPI, o.MPI)
	if g.MinNodes > 0 {
		s.MinNodes, s.MaxNodes = g.MinNodes, g.MaxNodes
	}
	all := workflow.Gang{Ranks: s.Ranks, MinNodes: s.MinNodes, MaxNodes: s.MaxNodes, PerNode: s.PerNode}
	if why := all.Fault(); why != "" {
		return nil, false, filch.Errorf(filch.Invalid, "%s", why)
	}
	return &o, true, nil
}

// ShapeOf is the shape of a gang; nil for a process.
func ShapeOf(g *launcher.GangOrder) *launcher.Shape {
	if g == nil {
		return nil
	}
	return &g.Shape
}

// GangOf is the size of a gang with a shape on some nodes; nil nodes are all. Every node of
// a list is used.
func GangOf(s *launcher.Shape, nodes *filch.Nodes) (record.Gang, error) {
	named := int32(0)
	if nodes != nil {
		named = int32(len(nodes.Only))
	}
	switch {
	case named > s.Ranks:
		return record.Gang{}, filch.Errorf(filch.Invalid, "nodelist names %d nodes for %s: each node of a gang has at least one rank", named, filch.Plural(s.Ranks, "rank"))
	case named > 0 && (s.MinNodes > named || s.MaxNodes > 0 && s.MaxNodes < named):
		return record.Gang{}, filch.Errorf(filch.Invalid, "nodelist names %s, all of which a gang uses, and nodes asks for another number", filch.Plural(named, "node"))
	}
	least := max(s.MinNodes, named)
	if s.PerNode > 0 {
		least = max(least, (s.Ranks+s.PerNode-1)/s.PerNode)
	}
	return record.Gang{Ranks: s.Ranks, Nodes: least, Most: s.MaxNodes, PerNode: s.PerNode, NodeGPUs: s.NodeGPUs, Spare: s.Spare}, nil
}
