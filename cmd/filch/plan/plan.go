// Package plan foretells where the ranks of a run would go: the nodes, slots and CPUs.
//
// [Make] plays the gather of a launcher (stealer) with copies of the ledgers of the nodes as
// the nodes are now (slots), and binds the ranks as keepers do (launcher/topology). The
// launchers are not asked for slots, and nothing starts.
package plan

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/request"
	"github.com/filch-hpc/filch/launcher/topology"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// Rank is the place of a rank. CPUs is a list in Linux's form, "" for a rank that runs
// unbound. Slots are numbers; none if the slots of the node are no processors.
type Rank struct {
	Rank  filch.Rank     `json:"rank"`
	Node  filch.NodeName `json:"node"`
	Slots []int32        `json:"slots"`
	CPUs  string         `json:"cpus"`
	Spare bool           `json:"spare,omitempty"` // no rank: the node is held for the ranks of a lost node
}

// Plan is the places of all ranks. Now is how many ranks have room at the moment; with
// fewer than all, the run would wait, and the plan shows the run on idle nodes.
type Plan struct {
	Ranks  []Rank
	Spares []filch.NodeName // the nodes of --spare
	Now    int32
}

// Make plans a run. The nodes are the answers to [wire.WithProcessors]; the node that
// answers for the client is marked as local. Make fails as a launcher refuses a run that can
// never fit.
func Make(r launcher.Request, bind launcher.Bind, nodes []wire.NodeInfo) (*Plan, error) {
	need, err := request.NeedOf(r)
	if err != nil {
		return nil, err
	}
	all := filch.NewMembers()
	first := filch.NodeName("")
	for i := range nodes {
		n := &nodes[i]
		if n.Local {
			first = n.Node
		}
		all.Set(filch.Member{Name: n.Node, Standing: standing(n), Total: total(n), Labels: n.Labels, Role: n.Role})
	}
	if r.Shape.Even && r.Shape.PerNode == 0 {
		need.Even(func() bool { ranks, _ := need.Ceiling(all); return ranks >= int64(need.Ranks) })
	}
	if err := (&local.Self{Members: all}).NeverFits(&need); err != nil {
		return nil, err
	}
	p := &Plan{Now: need.Ranks}
	now := play{need: &need, all: all, ledgers: ledgers(&need, nodes, free), first: first}
	shares, spares, ok := now.places()
	if !ok {
		p.Now = min(int32(now.held), need.Ranks-1)
		idle := play{need: &need, all: all, ledgers: ledgers(&need, nodes, whole), first: first}
		if shares, spares, ok = idle.places(); !ok {
			return nil, filch.Errorf(filch.NoFit, "cannot plan %s: too few nodes take work", filch.Plural(need.Ranks, "rank")).WithHint("filch nodes lists the nodes")
		}
	}
	for _, share := range spares {
		p.Spares = append(p.Spares, share.Node)
	}
	for _, share := range shares {
		i := slices.IndexFunc(nodes, func(n wire.NodeInfo) bool { return n.Node == share.Node })
		p.place(&need, bind, &nodes[i], share, p.Now < need.Ranks)
	}
	slices.SortFunc(p.Ranks, func(a, b Rank) int { return int(a.Rank) - int(b.Rank) })
	return p, nil
}

// place gives the ranks of a node their slots. With idle set, all slots of the node are
// free.
func (p *Plan) place(d *stealer.Need, bind launcher.Bind, n *wire.NodeInfo, share stealer.Share, idle bool) {
	open := n.FreeSlots
	if idle {
		open = nil
		for i := range n.Processors {
			open = append(open, int32(i))
		}
	}
	count := d.Base.Slots + d.Each.Slots*share.Ranks
	if d.Exclusive {
		count = n.Slots
	}
	var lent []filch.Processor
	var numbers []int32
	if len(n.Processors) == int(n.Slots) && int(count) <= len(open) {
		numbers = slots.Near(open, n.Processors, max(count/share.Ranks, 1), count)
		for _, s := range numbers {
			lent = append(lent, n.Processors[s])
		}
	}
	i, ranks := 0, int(share.Ranks)
	if len(lent) > 0 {
		numbers, lent = topology.Ordered(bind.Order, lent, ranks, numbers), topology.Ordered(bind.Order, lent, ranks, lent)
	}
	for _, span := range share.Spans {
		for k := range span.Count {
			cpus, _ := topology.Choose(bind.Kind, bind.List, lent, i, ranks)
			own := numbers
			if len(numbers) >= ranks {
				own = numbers[i*len(numbers)/ranks : (i+1)*len(numbers)/ranks]
			}
			p.Ranks = append(p.Ranks, Rank{Rank: span.First + filch.Rank(k), Node: n.Node, Slots: own, CPUs: topology.FormatList(cpus)})
			i++
		}
	}
}

// standing reads the state of a node.
func standing(n *wire.NodeInfo) filch.Standing {
	for s := range filch.Left {
		if s.String() == n.State {
			return s
		}
	}
	return filch.Left
}

func total(n *wire.NodeInfo) filch.Room { return whole(n).Total() }
