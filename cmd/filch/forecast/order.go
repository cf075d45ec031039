package forecast

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/launcher"
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
	j.graph, j.kinds, j.limits = make([][]int32, n), make([]*length, n), make([]float64, n)
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
			j.kinds[at], j.limits[at] = l, j.length.limit
			if own := launcher.TaskLimit(node.Body); own > 0 {
				j.limits[at] = own.Seconds()
			}
			for _, p := range node.Parents {
				if int(p) < len(place) && place[p] >= 0 && !ended[p] {
					j.graph[at] = append(j.graph[at], place[p])
				}
			}
		}
	}
	j.left = int(n) - len(j.running)
	j.longest(j.limits)
	return nil
}

// longest sets the limit of a job to the longest limit of tasks, 0 if a task has none.
func (j *job) longest(limits []float64) {
	if len(limits) > 0 {
		j.length.limit = slices.Max(limits)
		if j.some = j.length.limit > 0 && slices.Min(limits) == 0; j.some {
			j.length.limit = 0
		}
	}
}

// ownLimits takes in the limits that entries of a bag have in place of the limit of the bag. Of
// many entries the limits are not read, and count as none.
func (k *collector) ownLimits(j *job, r *taskrecords.Job) error {
	if r.Rec.Total > maxGraph {
		j.length.limit, j.some = 0, true
		return nil
	}
	limits := make([]float64, r.Rec.Total)
	lines := r.Payloads([]taskrecords.Indices{{Lo: 0, Hi: r.Rec.Total}})
	for t := range limits {
		line, err := lines()
		if err != nil {
			return err
		}
		limits[t] = j.length.limit
		if own := launcher.TaskLimit(line); own > 0 {
			limits[t] = own.Seconds()
		}
	}
	j.longest(limits)
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
