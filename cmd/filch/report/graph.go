package report

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
)

// differ takes in the slots of tasks that differ, and which tasks of a workflow wait for which.
func (k *collector) differ(job *taskrecords.Job) error {
	spec, total := job.Spec, job.Rec.Total
	k.work.Graph, k.work.Spread, k.page.Gangs = job.Rec.Graph, spec.Gangs(), spec.Gangs()
	k.work.Each = max(spec.Room(0).Slots, 1)
	if !job.Rec.Graph && len(spec.Needs) == 0 || total > maxDiffer {
		return nil
	}
	k.slots = make([]int32, total)
	lines := job.Payloads([]taskrecords.Indices{{Lo: 0, Hi: total}})
	for i := range total {
		line, err := lines()
		if ui.KindOf(err) == filch.NotFound { // the lines of an old job are dropped
			k.slots, k.parents = nil, nil
			return nil
		}
		if err != nil {
			return err
		}
		if job.Rec.Graph {
			n, err := record.DecodeGraphNode(line)
			if err != nil {
				return filch.Errorf(filch.Internal, "a record of job %d is damaged: %s", job.ID, err.Error())
			}
			k.parents, line = append(k.parents, n.Parents), n.Body
			k.flow.named(i, n.Name)
		}
		k.slots[i] = max(spec.Room(launcher.TaskNeed(line)).Slots, 1)
	}
	return nil
}

// maxDiffer bounds the tasks whose lines are read.
const maxDiffer = 200_000

// width is the number of slots of a task.
func (k *collector) width(index int32) int32 {
	if int(index) < len(k.slots) {
		return k.slots[index]
	}
	return k.work.Each
}

// known is a node of the page, or nil.
func (k *collector) known(name filch.NodeName) *nodeTime {
	if i, ok := k.at[name]; ok {
		return &k.work.Nodes[i]
	}
	return nil
}

// longest is the time of the longest chain of tasks, each of which waits for the one before, and
// the tasks of the chain in their order. Parents may come in any order; a cycle ends a chain.
func longest(parents [][]int32, took []int64) (most int64, path []int32) {
	const open, done = 1, 2
	state, ends, from := make([]uint8, len(parents)), make([]int64, len(parents)), make([]int32, len(parents))
	last := int32(-1)
	for root := range parents {
		for stack := []int32{int32(root)}; len(stack) > 0; {
			i := stack[len(stack)-1]
			if state[i] == 0 {
				state[i] = open
				for _, p := range parents[i] {
					if int(p) < len(parents) && state[p] == 0 {
						stack = append(stack, p)
					}
				}
				continue
			}
			stack = stack[:len(stack)-1]
			if state[i] == done {
				continue
			}
			state[i], from[i] = done, -1
			for _, p := range parents[i] {
				if int(p) < len(parents) && state[p] == done && ends[p] > ends[i] {
					ends[i], from[i] = ends[p], p
				}
			}
			ends[i] += took[i]
			if ends[i] > most {
				most, last = ends[i], i
			}
		}
	}
	for ; last >= 0; last = from[last] {
		path = append(path, last)
	}
	slices.Reverse(path)
	return most, path
}

// moved is how many bytes of the tasks' files went to tasks on other nodes, if each task took
// all files of the tasks before, and each node fetched them once. A task without a node is -1.
func moved(parents [][]int32, node []int32, bytes []int64) (sum int64) {
	type move struct{ task, node int32 }
	seen := map[move]bool{}
	for i, list := range parents {
		for _, p := range list {
			if int(p) >= len(node) || node[i] < 0 || node[p] < 0 || node[p] == node[i] || seen[move{p, node[i]}] {
				continue
			}
			seen[move{p, node[i]}] = true
			sum += bytes[p]
		}
	}
	return sum
}
