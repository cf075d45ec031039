package local

import (
	"fmt"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/stealer"
)

// NeverFits decides from the members' totals whether a job can ever start; nil if the job
// can.
func (s *Self) NeverFits(d *stealer.Need) *filch.Error {
	for _, name := range d.Only {
		if why := s.unusable(name); why != "" {
			return filch.Errorf(filch.NoFit, "cannot use node %s: %s", name, why).
				WithHint("filch nodes lists the nodes")
		}
	}
	ranks, nodes := d.Ceiling(s.Members)
	switch {
	case ranks == 0 && s.roleBars(d):
		return noRole(d)
	case ranks == 0 && d.Labels != "" && !s.labelled(d):
		which := "no node"
		if len(d.Only)+len(d.Exclude) > 0 {
			which = "none of the nodes asked for"
		}
		return filch.Errorf(filch.NoFit, "cannot use nodes with the labels %s: %s has them", d.Labels, which).
			WithHint("%s", s.labelsText())
	case ranks == 0:
		return filch.Errorf(filch.NoFit, "cannot run a rank of %s: no node has that much", RoomText(d)).
			WithHint("%s", s.largestNode(d))
	case nodes < d.MinNodes:
		return filch.Errorf(filch.NoFit, "cannot use %d nodes: %d could take part", d.MinNodes, nodes).
			WithHint("largest that fits: -N %d", nodes)
	case ranks < int64(d.Ranks):
		if d.MaxNodes > 0 { // the ranks are those of so many nodes
			nodes = min(nodes, d.MaxNodes)
		}
		return filch.Errorf(filch.NoFit, "cannot run %s of %s: %s room for %d", filch.Plural(d.Ranks, "rank"), RoomText(d), nodesHave(nodes), ranks).
			WithHint("largest %s%d", launcher.MostRanks, ranks)
	}
	if spare, ok := d.Spared(s.Members); d.Spare > 0 && ok && spare < d.Spare {
		return filch.Errorf(filch.NoFit, "cannot hold %s besides the nodes of %s of %s: %s left", filch.Plural(d.Spare, "spare node"), filch.Plural(d.Ranks, "rank"), RoomText(d), filch.Plural(spare, "such node")+" "+filch.Agree(spare, "is", "are")).
			WithHint("largest that fits: --spare %d; a spare node has room for as many ranks as any node of the job has", spare)
	}
	return nil
}

// unusable says why no job can use a node; "" if jobs can.
func (s *Self) unusable(name filch.NodeName) string {
	i := s.Members.Find(name)
	if i < 0 {
		return "there is no such node"
	}
	switch s.Members.At(i).Standing {
	case filch.Dead:
		return "the node is dead"
	case filch.Left:
		return "the node has left the instance"
	}
	return ""
}

func nodesHave(n int32) string {
	if n == 1 {
		return "1 node has"
	}
	return fmt.Sprintf("%d nodes have", n)
}

// Allows reports whether a job may use the named node. A node that is no member has no
// labels.
func (s *Self) Allows(d *stealer.Need, name filch.NodeName) bool {
	if m := s.Members.Get(name); m != nil {
		return d.Allows(m)
	}
	return d.Allows(&filch.Member{Name: name})
}

// NeverFitsTask decides from the members' totals whether each task of a job can ever
// start; nil if all can. Number is of the need that no node meets, as in [record.Spec.Need].
func (s *Self) NeverFitsTask(spec *record.Spec) (number int32, err *filch.Error) {
	for n := range len(spec.Needs) + 1 {
		need := spec.Need(n)
		d := launcher.NeedOfTask(&need)
		if err := s.NeverFits(&d); err != nil {
			if need.Gang.Ranks == 0 && !s.roleBars(&d) && (d.Labels == "" || s.labelled(&d)) && len(d.Only) == 0 {
				err.Text = fmt.Sprintf("cannot run a task of %s: no node has that much", RoomText(&d))
			}
			return int32(n), err
		}
	}
	return 0, nil
}

// LacksNodes says why a task with the need cannot start on the nodes of today, in the words of
// [Self.NeverFits]; nil if the task can. Spare nodes are no condition: a task starts without.
func (s *Self) LacksNodes(n record.Need) *filch.Error {
	d := launcher.NeedOfTask(&n)
	d.Spare = 0
	return s.NeverFits(&d)
}

// LacksText is the refusal of [Self.LacksNodes] as the reason of a wait.
func LacksText(err *filch.Error) string {
	return "filch " + err.Text + "; this ends when more nodes are there"
}

// TaskKind says what a task with the need takes of its node, "" if every live node suits;
// and how many live nodes suit.
func (s *Self) TaskKind(n record.Need) (text string, suited int) {
	all, roles := true, false
	for i := range s.Members.All() {
		m := s.Members.At(int32(i))
		switch {
		case m.Standing > filch.Draining:
		case policy.SuitsNeed(n, m):
			suited++
		default:
			all, roles = false, roles || !m.Role.Takes(n.Gang.Ranks > 0)
		}
	}
	if all {
		return "", 0
	}
	d := launcher.NeedOfTask(&n)
	text = RoomText(&d)
	if len(d.Only) > 0 {
		text += ", on " + launcher.ListNames(d.Only)
	}
	if len(d.Exclude) > 0 {
		text += ", not on " + launcher.ListNames(d.Exclude)
	}
	if roles {
		text += ", of a node for " + kindOf(&d)
	}
	return text, suited
}

// RoomText describes the room of a rank, by the options of the job.
func RoomText(d *stealer.Need) string {
	parts := []string{fmt.Sprintf("%d slots", d.Each.Slots)}
	if d.Each.Slots == 1 {
		parts[0] = "1 slot"
	}
	if d.Each.MemBytes > 0 {
		parts = append(parts, memText(d.Each.MemBytes))
	}
	if d.Each.GPUs > 0 {
		parts = append(parts, GPUText(d.Each.GPUs))
	}
	if d.Base.GPUs > 0 {
		parts = append(parts, GPUText(d.Base.GPUs)+" for its node")
	}
	if d.Each.Named != "" {
		parts = append(parts, amountsText(d.Each.Named))
	}
	if d.Labels != "" {
		parts = append(parts, "with the labels "+string(d.Labels))
	}
	return strings.Join(parts, ", ")
}

// amountsText lists resources as in "license=1, scratch=10".
func amountsText(a filch.Amounts) string { return strings.ReplaceAll(string(a), ",", ", ") }

// labelled reports whether a live node has the labels that the job asks for.
func (s *Self) labelled(d *stealer.Need) bool {
	return slices.ContainsFunc(s.Members.All(), func(m filch.Member) bool {
		return m.Standing <= filch.Draining && d.Allows(&m)
	})
}

// labelsText lists the labels of all live nodes.
func (s *Self) labelsText() string {
	var all filch.Labels
	for _, m := range s.Members.All() {
		if m.Standing <= filch.Draining {
			all = all.With(m.Labels)
		}
	}
	if all == "" {
		return "no node has labels; filch up --label gives labels to nodes"
	}
	return "labels of the nodes: " + strings.ReplaceAll(string(all), ",", ", ")
}

// GPUText is thousandths of GPUs as in "2 GPUs", "0.25 GPUs".
func GPUText(n int32) string {
	if n == filch.GPU {
		return "1 GPU"
	}
	return filch.FormatGPUs(n) + " GPUs"
}

func memText(b int64) string {
	switch {
	case b >= 1<<30 && b%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", b>>30)
	case b >= 1<<20:
		return fmt.Sprintf("%d MiB", b>>20)
	}
	return fmt.Sprintf("%d bytes", b)
}

// largestNode describes the largest amounts on any single node.
func (s *Self) largestNode(d *stealer.Need) string {
	var most filch.Room
	for i := range s.Members.Len() {
		p := s.Members.At(int32(i))
		if p.Standing <= filch.Draining && d.Allows(p) {
			most.Slots = max(most.Slots, p.Total.Slots)
			most.MemBytes = max(most.MemBytes, p.Total.MemBytes)
			most.GPUs = max(most.GPUs, p.Total.GPUs)
			most.Named = most.Named.Max(p.Total.Named)
		}
	}
	slots := "1 slot"
	if most.Slots != 1 {
		slots = fmt.Sprintf("%d slots", most.Slots)
	}
	text := fmt.Sprintf("the most on one node: %s, %s, %s", slots, memText(most.MemBytes), GPUText(most.GPUs))
	if most.Named != "" {
		text += ", " + amountsText(most.Named)
	}
	return text
}
