package launcher

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// Submit takes in a request of a local client. unixNS is the time of day; it
// only orders waiting jobs. The client is told Accepted or Refused at once.
func (n *Node) Submit(now time.Duration, client ClientID, r Request, unixNS int64, out *Outbox) {
	need, err := needOf(r)
	if err == nil && r.Parent == 0 {
		r.Shape.even(&need, func() bool { ranks, _ := need.Ceiling(n.members); return ranks >= int64(need.Ranks) })
		err = n.neverFits(&need)
	}
	if err == nil {
		err = n.fitWalltime(now, &r, &need)
	}
	if err == nil && r.Detach {
		err = n.noRoom()
	}
	if err == nil {
		err = r.Copy.Check()
	}
	if err != nil {
		code := int32(filch.ExitOurs)
		if err.Kind == filch.Invalid {
			code = filch.ExitUsage
		}
		out.Replies = append(out.Replies, Reply{client, Refused{Err: *err, Code: code}})
		return
	}
	if r.Copy != nil {
		at := *r.Copy
		at.From = n.cfg.Name
		r.Copy = &at
	}
	if !n.meta.block.have() {
		n.unnumbered(now, unnumbered{client: client, req: r, unixNS: unixNS, since: now}, out)
	} else {
		n.accept(now, client, r, unixNS, now, out)
	}
	n.settle(now, out)
}

// accept makes a job of a request that was found good. One that is to outlive
// its client is acknowledged, and begins, when its record is kept.
func (n *Node) accept(now time.Duration, client ClientID, r Request, unixNS int64, since time.Duration, out *Outbox) {
	need, _ := needOf(r)
	j := n.newJob(since, n.meta.block.id(), r, need, unixNS)
	j.seen = audience{client: client, here: true}
	n.clients[client] = append(n.clients[client], j.id)
	if r.Patient > 0 {
		j.clock.patient = since + r.Patient
	}
	if r.Detach {
		n.register(now, j)
		n.wakeJob(j, j.deadline())
		return
	}
	n.tell(j, Accepted{Job: j.id, Size: need.Ranks}, out)
	n.mark(now, j, BookPause)
	n.begin(now, j, out)
}

// begin starts an attempt: as a step, here if there is room, else by a gather. Who has
// no client yet since its launcher was restarted begins when that is back.
func (n *Node) begin(now time.Duration, j *job, out *Outbox) {
	switch {
	case j.unclaimed():
		n.keep(now, j, out)
	case j.req.Parent != 0:
		n.beginStep(now, j, out)
	case len(n.line.jobs) == 0 && n.local(now, j, out):
	default:
		n.keep(now, j, out)
		n.lookFor(now, j)
		j.clock.say, j.clock.refresh = j.submitted+SayAfter, j.submitted+SayAfter-refreshBefore
		if j.clock.say <= now {
			j.clock.say, j.clock.refresh = now+SayEvery, now+SayEvery-refreshBefore
		}
		if !n.standsInLine(now, j, out) {
			n.beginGather(now, j, out)
		}
	}
	if n.jobs[j.id] == j {
		n.wakeJob(j, j.deadline())
	}
}

// local launches a job that fits on this node, without a message.
func (n *Node) local(now time.Duration, j *job, out *Outbox) bool {
	d := &j.need
	if d.MinNodes > 1 || !d.Allows(n.cfg.Name) || d.PerNode > 0 && d.PerNode < d.Ranks {
		return false
	}
	if d.MaxNodes > 1 && d.Ranks > 1 {
		return false // a range: as many nodes as there are
	}
	a := n.claimOf(j)
	a.Want = d.Ranks
	takes := n.takes(j)
	a.Ends = takes > 0 && n.cfg.Walltime.Fits(now, takes)
	loan, ok := n.ledger.Take(now, a)
	if !ok {
		return false
	}
	shares := d.Assign([]stealer.Offer{{Node: n.cfg.Name, Lease: loan.Lease, Ranks: d.Ranks}}, n.cfg.Name)
	n.launch(now, j, shares, &loan, out)
	return true
}

// claimOf is what the job asks of this node's ledger.
func (n *Node) claimOf(j *job) slots.Ask {
	return slots.Ask{
		Key: j.key(), Ticket: j.ticket, Origin: n.cfg.Name, Incarnation: n.cfg.Incarnation,
		Base: j.need.Base, Each: j.need.Each, Exclusive: j.need.Exclusive,
	}
}

// needOf fills in what a request leaves open, or says what is wrong with it.
func needOf(r Request) (stealer.Need, *filch.Error) {
	s := r.Shape
	if err := checkShape(r); err != nil {
		return stealer.Need{}, err
	}
	d := stealer.Need{
		Ranks: s.Ranks, Each: s.PerRank, MinNodes: max(s.MinNodes, int32(len(s.Only)), 1), MaxNodes: s.MaxNodes,
		PerNode: s.PerNode, Only: s.Only, Exclude: s.Exclude, Exclusive: s.Exclusive,
		Layout: s.Layout, Plane: s.Plane,
	}
	if d.Ranks == 0 {
		d.Ranks = d.MinNodes * max(s.PerNode, 1)
	}
	if s.Overcommit {
		// As srun does: one slot of each node, and as many ranks as wanted.
		d.Base.Slots, d.Each.Slots = 1, 0
	} else {
		d.Each.Slots = max(d.Each.Slots, 1)
	}
	if d.MinNodes > d.Ranks && len(s.Only) == 0 {
		d.MinNodes = d.Ranks
		d.MaxNodes = min(d.MaxNodes, d.Ranks)
	}
	if d.MinNodes > d.Ranks {
		return d, filch.Errorf(filch.Invalid, "cannot use each of %d nodes for %d ranks", d.MinNodes, d.Ranks)
	}
	if d.Ranks > MaxRanks {
		return d, filch.Errorf(filch.Invalid, "cannot run %d ranks: the most is %d", d.Ranks, MaxRanks)
	}
	return d, nil
}

// even sets the most ranks of one node where they are to be laid out evenly.
func (s *Shape) even(d *stealer.Need, fits func() bool) {
	if s.Even && s.PerNode == 0 {
		d.Even(fits)
		s.PerNode = d.PerNode
	}
}

func checkShape(r Request) *filch.Error {
	s := r.Shape
	neg := func(what string, v int64) *filch.Error {
		return filch.Errorf(filch.Invalid, "%s is %d: less than nothing", what, v)
	}
	switch {
	case s.Ranks < 0:
		return neg("the number of ranks", int64(s.Ranks))
	case s.MinNodes < 0 || s.MaxNodes < 0:
		return neg("the number of nodes", int64(min(s.MinNodes, s.MaxNodes)))
	case s.PerNode < 0:
		return neg("the number of ranks per node", int64(s.PerNode))
	case s.PerRank.Slots < 0 || s.PerRank.MemBytes < 0 || s.PerRank.GPUs < 0:
		return neg("the room of a rank", min(int64(s.PerRank.Slots), s.PerRank.MemBytes, int64(s.PerRank.GPUs)))
	case s.MaxNodes > 0 && s.MinNodes > s.MaxNodes:
		return filch.Errorf(filch.Invalid, "cannot use at least %d and at most %d nodes", s.MinNodes, s.MaxNodes)
	case s.MaxNodes > 0 && int(s.MaxNodes) < len(s.Only):
		return filch.Errorf(filch.Invalid, "cannot use each of %d nodes and at most %d", len(s.Only), s.MaxNodes)
	case len(r.Order) > MaxOrderBytes:
		return filch.Errorf(filch.Invalid, "arguments and environment take %d bytes, the most is %d", len(r.Order), MaxOrderBytes)
	}
	for _, name := range s.Only {
		if slices.Contains(s.Exclude, name) {
			return filch.Errorf(filch.Invalid, "node %s is both wanted and excluded", name)
		}
	}
	return nil
}

// neverFits decides from what the members have in all whether such a job can
// ever start.
func (n *Node) neverFits(d *stealer.Need) *filch.Error {
	for _, name := range d.Only {
		if i := n.members.Find(name); i < 0 || n.members.At(i).Standing > stealer.Draining {
			return filch.Errorf(filch.NoFit, "cannot use node %s: there is no such node", name).
				WithHint("filch nodes lists the nodes")
		}
	}
	ranks, nodes := d.Ceiling(n.members)
	switch {
	case ranks == 0:
		return filch.Errorf(filch.NoFit, "cannot run a rank of %s: no node has that much", roomText(d)).
			WithHint("%s", n.largestNode(d))
	case nodes < d.MinNodes:
		return filch.Errorf(filch.NoFit, "cannot use %d nodes: %d could take part", d.MinNodes, nodes).
			WithHint("largest that fits: -N %d", nodes)
	case ranks < int64(d.Ranks):
		return filch.Errorf(filch.NoFit, "cannot run %d ranks of %s: %d nodes have room for %d", d.Ranks, roomText(d), nodes, ranks).
			WithHint("largest that fits: -n %d", ranks)
	}
	return nil
}
