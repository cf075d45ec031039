package plan

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// draw is the seed of the gather. A launcher draws another number for each run, so a run that
// does not need every node may take other nodes of the same size.
const draw = 1

// play is the gather of a run that would start now, with the ledgers of the nodes.
type play struct {
	need    *stealer.Need
	all     *filch.Members
	ledgers map[filch.NodeName]*slots.Ledger
	first   filch.NodeName
	held    int64 // ranks with room, if the room did not suffice
}

// places are the nodes of the ranks, and the spare nodes: the own node alone if the run fits
// there, else the nodes that a gather finds. False if the run would wait.
func (p *play) places() (shares, spares []stealer.Share, ok bool) {
	d := p.need
	own := p.ledgers[p.first]
	if own != nil && d.Local() && d.Allows(p.all.Get(p.first)) && own.Spare(p.ask(stealer.Ask{})) >= d.Ranks {
		return d.Assign([]stealer.Offer{{Node: p.first, Ranks: d.Ranks}}, p.first), nil, true
	}
	g := stealer.NewGather(*d, p.all, p.first, stealer.Policy{}, draw)
	var moves stealer.Moves
	g.Begin(0, &moves)
	for len(moves.Asks) > 0 {
		a := moves.Asks[0]
		moves.Asks = moves.Asks[1:]
		g.Granted(0, a.To, p.grant(a), &moves)
		if shares, spares, ok = g.Placed(); ok {
			return shares, spares, true
		}
	}
	p.held, _ = g.Held()
	return nil, nil, false
}

// grant is the answer of a launcher.
func (p *play) grant(a stealer.Ask) stealer.Grant {
	l := p.ledgers[a.To]
	if l == nil {
		return stealer.Grant{Round: a.Round, Refused: true}
	}
	s := local.Lend(l, 0, p.ask(a), a.Half)
	return stealer.Grant{Lease: s.Lease, Held: s.Held, Version: s.Version, Round: s.Round, Waiting: s.Waiting, Refused: s.Refused, Older: s.Older}
}

func (p *play) ask(a stealer.Ask) slots.Ask {
	d := p.need
	return slots.Ask{Origin: p.first, Base: d.Base, Each: d.Each, Exclusive: d.Exclusive, Wait: a.Wait, Want: a.Want, Round: a.Round}
}

// ledgers have what the nodes lend. A node that is not idle lends nothing to a run that takes
// whole nodes.
func ledgers(d *stealer.Need, nodes []wire.NodeInfo, lends func(*wire.NodeInfo) slots.Capacity) map[filch.NodeName]*slots.Ledger {
	all := make(map[filch.NodeName]*slots.Ledger, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		if c := lends(n); standing(n) == filch.Up && (!d.Exclusive || c.Total() == total(n)) {
			all[n.Node] = slots.New(c, 1)
		}
	}
	return all
}

// whole is all that a node lends.
func whole(n *wire.NodeInfo) slots.Capacity {
	return slots.Capacity{Slots: n.Slots, MemBytes: n.MemBytes, GPUs: n.GPUs, Named: n.Named}
}

// free is what a node lends at the moment.
func free(n *wire.NodeInfo) slots.Capacity {
	return slots.Capacity{Slots: n.Free, MemBytes: n.MemFree, GPUs: n.GPUsFree, Named: n.NamedFree}
}
