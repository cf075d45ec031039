package workflow

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// ranksMax bounds the ranks of a task.
const ranksMax = 1 << 20

// Gang is what a task says that is a gang of ranks. Zero values mean the default: as many
// nodes as needed, as many ranks on a node as fit, and the wire-up that fits the program.
type Gang struct {
	Ranks, MinNodes, MaxNodes, PerNode int32
	MPI                                string
}

// gangKeys are the keys that only gangs have.
var gangKeys = []string{"ranks", "nodes", "ranks_per_node", "mpi", "outputs_from"}

// mpiKinds are the values of mpi, as of filch run --mpi.
var mpiKinds = []string{"auto", "pmi1", "pmi2", "pmix", "none"}

// set sets the value of a key; why describes the expected text.
func (g *Gang) set(key, text string) (why string, ok bool) {
	switch key {
	case "ranks":
		g.Ranks, ok = count(text, 1, ranksMax)
		why = "a number of ranks from 1 to " + strconv.Itoa(ranksMax)
	case "ranks_per_node":
		g.PerNode, ok = count(text, 1, ranksMax)
		why = "a number of ranks from 1 to " + strconv.Itoa(ranksMax)
	case "nodes":
		least, most, two := strings.Cut(text, "-")
		if g.MinNodes, ok = count(least, 1, filch.MaxNodes); two && ok {
			g.MaxNodes, ok = count(most, 1, filch.MaxNodes)
			ok = ok && g.MinNodes <= g.MaxNodes
		} else {
			g.MaxNodes = g.MinNodes
		}
		why = "a number of nodes, or a range like 2-4"
	case "mpi":
		g.MPI, ok = text, slices.Contains(mpiKinds, text)
		why = "one of " + strings.Join(mpiKinds, ", ")
		if near := nearest(text, slices.Values(mpiKinds)); !ok && near != "" {
			why += " (did you mean " + near + "?)"
		}
	}
	return why, ok
}

// Fault says why no nodes can ever hold the ranks; "" if some can.
func (g *Gang) Fault() string {
	switch {
	case g.MinNodes > g.Ranks:
		return filch.Plural(g.MinNodes, "node") + " for " + filch.Plural(g.Ranks, "rank") + ": each node of a gang has at least one rank"
	case g.PerNode > 0 && g.MaxNodes > 0 && int64(g.PerNode)*int64(g.MaxNodes) < int64(g.Ranks):
		return filch.Plural(g.Ranks, "rank") + " do not fit on " + filch.Plural(g.MaxNodes, "node") + " with at most " + strconv.Itoa(int(g.PerNode)) + " on each"
	}
	return ""
}

// gang completes what a task says about its ranks. What defaults say is for the tasks with
// ranks.
func (n *native) gang(task *Task, what string, m *node) error {
	g := &task.Need.Gang
	if m.find("ranks") == nil {
		*g = Gang{}
		for _, key := range gangKeys {
			if v := m.find(key); v != nil {
				return n.src.errorf(v.line, "%s: %s is for a gang, and this task is one process", what, key).WithHint("ranks: N makes the task a gang of N ranks")
			}
		}
		return nil
	}
	if why := g.Fault(); why != "" {
		return n.src.errorf(m.find("ranks").line, "%s: %s", what, why)
	}
	from := m.find("outputs_from")
	if from == nil {
		return nil
	}
	text, err := n.text(from, what+": outputs_from")
	if err != nil {
		return err
	}
	if task.AllNodes = text == "all"; !task.AllNodes && text != "rank0" {
		return n.src.errorf(from.line, "%s: outputs_from: %s is not rank0 or all", what, quote(text)).
			WithHint("rank0: the outputs are on the node of rank 0; all: each is on one of the nodes of the ranks")
	}
	return nil
}

// slots are the slots of a task, of all its ranks together.
func (n *Need) slots() int32 {
	if n.Gang.Ranks == 0 {
		return n.CPUs
	}
	return int32(min(int64(n.Gang.Ranks)*int64(max(n.CPUs, 1)), math.MaxInt32))
}

// appendGang appends the part of a mark that only gangs have.
func appendGang(b []byte, t *Task) []byte {
	g := &t.Need.Gang
	if g.Ranks == 0 {
		return b
	}
	b = appendText(b, "ranks")
	for _, v := range [...]int32{g.Ranks, g.MinNodes, g.MaxNodes, g.PerNode} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	if b = appendText(b, g.MPI); t.AllNodes {
		b = append(b, 1)
	}
	return b
}
