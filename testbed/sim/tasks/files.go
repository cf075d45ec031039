package tasks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/policy"
)

// file is the output of a task.
type file struct {
	job  filch.JobID
	task int32
}

// fetch is a transfer of input from other hosts, before a task runs and in the slot of the
// task.
type fetch struct {
	bytes int64
	takes time.Duration
}

// output is the bytes that a task writes: as [World.Writes] says, else some.
func (j *job) output(i int32) int64 {
	if j.writes != nil {
		return j.writes(i)
	}
	return int64(i%7) << 20
}

// Writes sets the bytes that each task of a submitted job writes.
func (w *World) Writes(id filch.JobID, bytes func(i int32) int64) { w.truth.jobs[id].writes = bytes }

// fetch brings the input of a task to the host, from the hosts where the parents of the task
// ran and from the host of the submission. A copy stays.
func (h *host) fetch(j *job, s *mtc.Start) (f fetch) {
	if h.w.opt.Rate == 0 || len(j.Nodes) == 0 {
		return f
	}
	for _, in := range s.Inputs {
		k := file{s.Job, in.Parent}
		if in.Node != h.Name && !h.copies[k] {
			f.bytes += in.Bytes
			h.copies[k] = true
		}
		h.w.Stats.Input += in.Bytes
	}
	if j.from != h.Name {
		f.bytes += j.Nodes[s.Index].Bytes
	}
	h.w.Stats.Moved += f.bytes
	f.takes = policy.TransferTime(f.bytes, float64(h.w.opt.Rate))
	return f
}

// Began is when the tasks of a job started last.
func (w *World) Began(id filch.JobID) []time.Duration { return w.truth.jobs[id].began }

// Order is the tasks of a job in the order of their starts.
func (w *World) Order(id filch.JobID) []int32 { return w.truth.jobs[id].order }
