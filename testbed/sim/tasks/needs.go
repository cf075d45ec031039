package tasks

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// common is the label of all hosts but one.
const common = "common"

// needs plans that tasks of one job take different slots, and that some run on hosts with
// a label only. Bare is the host without the label.
type needs struct {
	dice *engine.Dice
	bare int
}

func newNeeds(seed uint64, hosts int) needs {
	d := engine.NewDice(seed, 15)
	return needs{dice: d, bare: d.N(hosts)}
}

// labels are the labels of a host.
func (n *needs) labels(host int) filch.Labels {
	if host == n.bare {
		return ""
	}
	return common
}

// take gives the tasks of some jobs needs of their own.
func (n *needs) take(s *submit.Job, slots int32) {
	if !n.dice.Chance(0.3) {
		return
	}
	s.Spec.Each.Slots = 1
	s.Spec.Needs = []record.Need{
		{Each: filch.Room{Slots: min(2, slots)}},
		{Each: filch.Room{Slots: 1}, Nodes: &filch.Nodes{Labels: common}},
	}
	if len(s.Nodes) == 0 {
		s.Spec.Payloads, s.Lines = true, linesOf(0, s.Total)
		return
	}
	for i, line := range linesOf(0, int32(len(s.Nodes))) {
		s.Nodes[i].Body = line
	}
}

// needOf is the number of a task's need, by the last digit of its line, or by the last letter,
// where a is the first.
func needOf(line []byte) int {
	if len(line) == 0 {
		return 0
	}
	last := line[len(line)-1]
	if last >= 'a' {
		return int(last-'a') + 1
	}
	return int(last-'0') % 3
}

// Bind binds each task of a workflow to a host, the one with the number in hosts. At most 26
// hosts have tasks.
func Bind(s *submit.Job, hosts []int) {
	s.Nodes = slices.Clone(s.Nodes)
	for i, h := range hosts {
		for len(s.Spec.Needs) <= h {
			s.Spec.Needs = append(s.Spec.Needs, record.Need{Each: filch.Room{Slots: 1}, Nodes: &filch.Nodes{Only: []filch.NodeName{name(len(s.Spec.Needs))}}})
		}
		s.Nodes[i].Body = []byte{'a' + byte(h)}
	}
}

// needed checks that a task that begins has its own slots, on a host that suits, and that
// the host has the slots.
func (t *truth) needed(h *host, j *job, s mtc.Start) {
	line := s.Payload
	if len(j.Nodes) > 0 {
		line = j.Nodes[s.Index].Body
	}
	need := j.Spec.Need(0)
	if len(j.Spec.Needs) > 0 {
		need = j.Spec.Need(needOf(line))
		t.w.Stats.Needs++
	}
	if s.Room() != need.Each {
		t.breach("task %d.%d takes %+v, want %+v", s.Job, s.Index, s.Room(), need.Each)
	}
	if m := h.word().Member; need.Nodes != nil && !need.Nodes.Allows(&m) {
		t.breach("task %d.%d began on %s, which does not suit it", s.Job, s.Index, h.Name)
	}
	used := int32(0)
	for _, p := range h.running { // any order: a sum
		used += p.start.Room().Slots
	}
	if used > t.w.opt.Slots {
		t.breach("tasks on %s take %d slots of %d", h.Name, used, t.w.opt.Slots)
	}
}
