package trace

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/mtc/record"
)

// maxTransfers bounds the tasks of a workflow whose transfers are drawn: about 40 MB of memory.
// A larger workflow has no arrows of files.
const maxTransfers = 200_000

// moveEnd is an end of a transfer.
type moveEnd struct {
	at   int64 // Unix nanoseconds
	task int32
	node int32
}

// moved is what transfers need of an ended task.
type moved struct {
	begin, end, bytes int64
	task, node        int32
	known, fetched    bool // the task ran; it fetched files
}

// transfers are the tasks of a workflow, by index; nil: no transfer is drawn.
type transfers struct{ tasks []moved }

func newTransfers(job *taskrecords.Job) *transfers {
	if !job.Rec.Graph || job.Rec.Total > maxTransfers {
		return nil
	}
	return &transfers{make([]moved, job.Rec.Total)}
}

// add takes in an ended task.
func (f *transfers) add(index int32, s *span, bytes int64) {
	if f != nil {
		f.tasks[index] = moved{s.Begin, s.End, bytes, s.Task, s.Node, true, s.In > 0}
	}
}

// draw draws an arrow from each task to each task behind it that fetched files on another
// node. The records do not name the files of a transfer: all files of the first task count.
func (f *transfers) draw(job *taskrecords.Job, p *painter) (n int64, err error) {
	if f == nil {
		return 0, nil
	}
	lines := job.Payloads([]taskrecords.Indices{{Lo: 0, Hi: job.Rec.Total}})
	for i := range f.tasks {
		line, err := lines()
		if ui.KindOf(err) == filch.NotFound { // the lines of an old job are dropped
			return n, nil
		}
		if err != nil {
			return n, err
		}
		node, err := record.DecodeGraphNode(line)
		if err != nil {
			return n, filch.Errorf(filch.Internal, "a record of job %d is damaged: %s", job.ID, err.Error())
		}
		n += f.into(i, node.Parents, p)
	}
	return n, nil
}

// into draws the transfers to a task.
func (f *transfers) into(i int, parents []int32, p *painter) (n int64) {
	to := &f.tasks[i]
	if !to.known || !to.fetched {
		return 0
	}
	for _, k := range parents {
		if int(k) >= len(f.tasks) {
			continue
		}
		if from := &f.tasks[k]; from.known && from.node != to.node && from.bytes > 0 {
			p.transfer(&moveEnd{from.end, from.task, from.node}, &moveEnd{to.begin, to.task, to.node}, from.bytes)
			n++
		}
	}
	return n
}
