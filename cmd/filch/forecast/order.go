package forecast

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/mtc/record"
)

// order takes in the dependencies between the tasks of a workflow, and the lengths of their
// kinds: a task runs as long as ended tasks of its kind, or as long as the file states.
func (k *collector) order(j *job, r *taskrecords.Job, ended []bool, took []float64, running []int32) error {
	place := make([]int32, len(ended))
	for t := range place {
		place[t] = -1
	}
	n := int32(0)
	for _, t := range running {
		if int(t) < len(place) {
			place[t], n = n, n+1
		}
	}
	for t := range ended {
		if !ended[t] && place[t] < 0 {
			place[t], n = n, n+1
		}
	}
	j.graph, j.kinds = make([][]int32, n), make([]*length, n)
	kinds := map[string]*length{}
	lines := r.Payloads([]taskrecords.Indices{{Lo: 0, Hi: r.Rec.Total}})
	for t := range r.Rec.Total {
		line, err := lines()
		if err != nil {
			return err
		}
		node, err := record.DecodeGraphNode(line)
		if err != nil {
			return filch.Errorf(filch.Internal, "a record of job %d is damaged: %s", r.ID, err.Error())
		}
		l := lengthOf(kinds, &node, j.length.limit)
		if l != nil && took[t] > 0 && len(l.sample) < maxSample {
			l.sample = append(l.sample, took[t])
		}
		if at := place[t]; at >= 0 {
			j.kinds[at] = l
			for _, p := range node.Parents {
				if int(p) < len(place) && place[p] >= 0 && !ended[p] {
					j.graph[at] = append(j.graph[at], place[p])
				}
			}
		}
	}
	j.left = int(n) - len(j.running)
	return nil
}

// lengthOf is the length of the kind of a task; nil: the kind is not known.
func lengthOf(kinds map[string]*length, node *record.GraphNode, limit float64) *length {
	if node.Length > 0 {
		return &length{mean: node.Length.Seconds(), ends: 1, limit: limit}
	}
	if node.Kind == "" {
		return nil
	}
	if kinds[node.Kind] == nil {
		kinds[node.Kind] = &length{limit: limit}
	}
	return kinds[node.Kind]
}
