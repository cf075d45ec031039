// Package submit has the job that a client submits, and the limits of such a job.
package submit

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/graph"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Job is a new job, as submitted by a client, in the client's message too. The
// client leaves Job zero, and of the Ticket all but the class: the node of the client
// fills these in.
type Job struct {
	Job    filch.JobID
	Name   string
	Ticket filch.Ticket
	Spec   record.Spec
	Total  int32 // tasks of a bag
	Spread policy.Spreading
	Open   bool // more tasks are added later
	record.Conditions

	// Partial is set if the client adds the rest of the submission and then closes the job:
	// if the client or this node goes before, the job is cancelled, incomplete. Only
	// for an Open job.
	Partial bool
	// HeldBy holds the job from the start, in the name of a person; "": the job is not
	// held.
	HeldBy string
	// Follow calls [github.com/filch-hpc/filch/mtc.Core.Follow] for the clients at this node.
	Follow bool

	Lines [][]byte           // of a bag with payloads, Total of them, none empty
	Nodes []record.GraphNode // of a workflow
	Long  [][]byte           // chunks of long texts of the nodes: see [record.Long]; of a bag, its [record.Lengths]
}

// Check returns an error for a job that no node may take.
func (s *Job) Check() error {
	switch {
	case s.Job <= 0:
		return filch.Errorf(filch.Invalid, "a job has a positive number, not %d", s.Job)
	case s.Total < 0 || s.Total > record.MaxTasks || len(s.Nodes) > record.MaxTasks:
		return filch.Errorf(filch.Invalid, "a job has at most %d tasks", record.MaxTasks)
	case s.Total == 0 && len(s.Nodes) == 0 && !s.Open:
		return filch.Errorf(filch.Invalid, "a job without tasks")
	case len(s.Nodes) > 0 && s.Open:
		return filch.Errorf(filch.Invalid, "a workflow cannot grow")
	case len(s.Nodes) > 0 && s.Singly():
		return filch.Errorf(filch.Invalid, "%s is for bags: the tasks of a workflow wait for each other", record.WhenEach)
	case len(s.Nodes) == 0 && s.Spec.Payloads && len(s.Lines) != int(s.Total):
		return filch.Errorf(filch.Invalid, "%d lines for %d tasks", len(s.Lines), s.Total)
	case len(s.Name) > record.MaxName:
		return filch.Errorf(filch.Invalid, "the name of a job has at most %d bytes, not %d", record.MaxName, len(s.Name))
	case len(s.HeldBy) > record.MaxBy:
		return filch.Errorf(filch.Invalid, "the name of the holder of a job has at most %d bytes, not %d", record.MaxBy, len(s.HeldBy))
	case len(s.Spec.Like) > record.MaxLike:
		return filch.Errorf(filch.Invalid, "the kind of a job has at most %d bytes, not %d", record.MaxLike, len(s.Spec.Like))
	case max(len(s.Spec.Picks), len(s.Spec.Again)) > record.MaxPicks:
		return filch.Errorf(filch.Invalid, "a job has at most %d runs of numbers, not %d", record.MaxPicks, max(len(s.Spec.Picks), len(s.Spec.Again)))
	}
	if err := s.Conditions.Check(); err != nil {
		return err
	}
	spec := s.Spec.Encode()
	if n := len(spec); n > maxSpec {
		return filch.Errorf(filch.Invalid, "the specification of a job has %d bytes, at most %d", n, maxSpec)
	}
	if _, err := record.DecodeSpec(spec); err != nil {
		return filch.Errorf(filch.Invalid, "the nodes or resources of the tasks cannot be recorded: %s", err.Error())
	}
	if err := record.CheckLong(s.Long); err != nil {
		return err
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch {
		case len(n.Parents) > record.MaxInputs || len(n.Name) > record.MaxGraphName:
			return filch.Errorf(filch.Invalid, "task %q waits for %d tasks; at most %d, with a name of %d bytes",
				n.Name, len(n.Parents), record.MaxInputs, record.MaxGraphName)
		case len(n.Kind) > record.MaxKind:
			return filch.Errorf(filch.Invalid, "the kind of task %q has %d bytes, at most %d", n.Name, len(n.Kind), record.MaxKind)
		}
	}
	return record.CheckLines(s.Lines)
}

// maxSpec bounds a spec in bytes: the store takes little more.
const maxSpec = 200 << 10

// Graph is the graph of a workflow's tasks; nil for a bag. Graph makes the lines of the
// tasks, and returns an error for tasks that wait for each other.
func (s *Job) Graph() (*graph.Graph, error) {
	if len(s.Nodes) == 0 {
		return nil, nil
	}
	g, err := graph.Of(s.Nodes)
	if err != nil {
		return nil, err
	}
	if _, cycle := g.Order(); cycle != nil {
		return nil, graph.CycleError(cycle, func(i int32) string { return s.Nodes[i].Name })
	}
	s.Total = int32(len(s.Nodes))
	s.Spec.Payloads = true
	for i := range s.Nodes {
		s.Lines = append(s.Lines, s.Nodes[i].Encode())
	}
	return g, record.CheckLines(s.Lines)
}
