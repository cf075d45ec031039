// Package request checks the requests of runs, and derives what a run needs of the nodes.
package request

import (
	"math"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/stealer"
)

// NeedOf fills in the open fields of a request, or returns an error in the request.
func NeedOf(r launcher.Request) (stealer.Need, *filch.Error) {
	s := r.Shape
	if err := checkShape(r); err != nil {
		return stealer.Need{}, err
	}
	if n := s.Size(); n > launcher.MaxRanks {
		return stealer.Need{}, filch.Errorf(filch.Invalid, "cannot run %d ranks: the most is %d", n, launcher.MaxRanks)
	}
	d := s.Need()
	if all := int64(r.License.Each) * int64(d.Ranks); all > math.MaxInt32 {
		return d, filch.Errorf(filch.Invalid, "cannot take %d of %s for %s: the most is %d", all, r.License.Name, filch.Plural(d.Ranks, "rank"), math.MaxInt32).
			WithHint("a resource that all nodes share is counted for the whole job")
	}
	if d.MinNodes > d.Ranks {
		return d, filch.Errorf(filch.Invalid, "cannot use each of %s for %s", filch.Plural(d.MinNodes, "node"), filch.Plural(d.Ranks, "rank"))
	}
	return d, nil
}

// Even sets the most ranks per node for a job with an even layout.
func Even(s *launcher.Shape, d *stealer.Need, fits func() bool) {
	if s.Even && s.PerNode == 0 {
		d.Even(fits)
		s.PerNode = d.PerNode
	}
}

func checkShape(r launcher.Request) *filch.Error {
	s := r.Shape
	neg := func(what string, v int64) *filch.Error {
		return filch.Errorf(filch.Invalid, "%s is %d, and must not be negative", what, v)
	}
	switch {
	case s.Ranks < 0:
		return neg("the number of ranks", int64(s.Ranks))
	case s.MinNodes < 0 || s.MaxNodes < 0:
		return neg("the number of nodes", int64(min(s.MinNodes, s.MaxNodes)))
	case s.Spare < 0:
		return neg("the number of spare nodes", int64(s.Spare))
	case s.Spare > launcher.MaxRanks:
		return filch.Errorf(filch.Invalid, "cannot hold %d spare nodes: the most is %d", s.Spare, launcher.MaxRanks)
	case s.Spare > 0 && r.Parent != 0:
		return filch.Errorf(filch.Invalid, "a step starts on the slots of its job, and has no spare nodes").WithHint("with --new-job the run is a job of its own")
	case s.PerNode < 0:
		return neg("the number of ranks per node", int64(s.PerNode))
	case s.PerRank.Slots < 0 || s.PerRank.MemBytes < 0 || s.PerRank.GPUs < 0:
		return neg("the slots, memory or GPUs of a rank", min(int64(s.PerRank.Slots), s.PerRank.MemBytes, int64(s.PerRank.GPUs)))
	case r.License.Each < 0:
		return neg("what a rank takes of "+r.License.Name, int64(r.License.Each))
	case s.NodeGPUs < 0 || s.NodeGPUs%filch.GPU != 0 || s.PerRank.GPUs > filch.GPU && s.PerRank.GPUs%filch.GPU != 0 || s.NodeGPUs > 0 && s.PerRank.GPUs > 0:
		return filch.Errorf(filch.Invalid, "%s for each node and %s for each rank: GPUs go whole to a node, or whole or in shares to a rank", local.GPUText(s.NodeGPUs), local.GPUText(s.PerRank.GPUs))
	case s.MaxNodes > 0 && s.MinNodes > s.MaxNodes:
		return filch.Errorf(filch.Invalid, "cannot use at least %d and at most %d nodes", s.MinNodes, s.MaxNodes)
	case s.MaxNodes > 0 && int(s.MaxNodes) < len(s.Only):
		return filch.Errorf(filch.Invalid, "cannot use each of %d nodes and at most %d", len(s.Only), s.MaxNodes)
	case r.Array.Most < 0 || len(r.Array.Key) > launcher.MaxArrayKey:
		return filch.Errorf(filch.Invalid, "at most %d jobs of an array %q at a time make no sense", r.Array.Most, r.Array.Key)
	case r.HeldBy != "" && r.Parent != 0:
		return filch.Errorf(filch.Invalid, "a step starts on the slots of its job, and cannot be held").WithHint("with --new-job the run is a job of its own")
	case !r.Before.None() && r.Parent != 0:
		return filch.Errorf(filch.Invalid, "a step starts on the slots of its job, and cannot wait for other jobs or for a time").WithHint("with --new-job the run is a job of its own")
	case r.Before.Singly():
		return filch.Errorf(filch.Invalid, "a run has no tasks, and cannot wait for a task with the same index")
	case len(r.Order) > launcher.MaxOrderBytes:
		return filch.Errorf(filch.Invalid, "arguments and environment take %d bytes, the most is %d", len(r.Order), launcher.MaxOrderBytes)
	}
	if err := r.Before.Check(); err != nil {
		return err
	}
	if err := s.PerRank.Named.Check(); err != nil {
		return err
	}
	if _, err := filch.ReadConstraint(string(s.Labels)); s.Labels != "" && err != nil {
		return err
	}
	for _, name := range s.Only {
		if slices.Contains(s.Exclude, name) {
			return filch.Errorf(filch.Invalid, "node %s is both required and excluded", name)
		}
	}
	return nil
}
