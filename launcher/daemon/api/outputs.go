package api

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of reading output.
const (
	chunkBytes = 1 << 20          // of the output of a node at a time
	outputWait = 10 * time.Second // for the answer of a node
	earlyMax   = 64 << 20         // bytes of the output of tasks whose end is not in the records yet
)

// Streams of a piece of output.
const (
	streamOut = 1
	streamErr = 2
)

// outputs reads the output of a job off its nodes, each node from the place where the last read
// ended.
type outputs struct {
	*call
	job     filch.JobID
	most    int // bytes of a stream that stay
	cursors map[filch.NodeName]string
	kept    map[int32]*printed // by task or rank, not taken yet
	bytes   int                // of kept
	short   bool               // the output of a node could not be read
}

// printed is the output of the last attempt.
type printed struct {
	attempt int32
	tails
}

func newOutputs(c *call, job filch.JobID, most int) *outputs {
	return &outputs{call: c, job: job, most: most, cursors: map[filch.NodeName]string{}, kept: map[int32]*printed{}}
}

// fetch reads the output of the nodes that ended the tasks.
func (o *outputs) fetch(ctx context.Context, ended []taskResult) error {
	if o.most == 0 {
		return nil
	}
	nodes := map[filch.NodeName]bool{}
	for i := range ended {
		if t := &ended[i].Task; t.Bytes > 0 && t.Node != "" {
			nodes[t.Node] = true
		}
	}
	for node := range nodes {
		if err := o.read(ctx, node, wire.OutputTasks); err != nil && ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// fetchRanks reads the output of an ended run. A node that does not answer leaves the output
// short.
func (o *outputs) fetchRanks(ctx context.Context, nodes []filch.NodeName) {
	for _, node := range nodes {
		if o.most > 0 && o.read(ctx, node, wire.OutputRanks) != nil {
			o.short = true
		}
	}
}

// read reads what a node has behind the place of the last read.
func (o *outputs) read(ctx context.Context, node filch.NodeName, kind string) error {
	return o.with(ctx, func(c *client.Client) error {
		for {
			body, err := c.Query(outputWait, wire.VerbOutput, string(node), o.job.String(), kind, "0-"+strconv.Itoa(math.MaxInt32), o.cursors[node],
				strconv.Itoa(chunkBytes), "", wire.OutputEnded)
			var chunk wire.OutputChunk
			if err == nil {
				r := client.Reply{Body: body}
				err = r.Decode(&chunk)
			}
			if err != nil {
				return err
			}
			for i := range chunk.Pieces {
				o.keep(&chunk.Pieces[i])
			}
			o.cursors[node] = chunk.Next
			if chunk.End {
				return nil
			}
		}
	})
}

// keep takes a piece of the last attempt of a task.
func (o *outputs) keep(p *wire.OutputPiece) {
	k := o.kept[p.Index]
	if k == nil || p.Attempt > k.attempt {
		if k != nil {
			o.bytes -= k.size()
		} else if o.bytes > earlyMax {
			o.forget()
		}
		k = &printed{attempt: p.Attempt}
		o.kept[p.Index] = k
	}
	if p.Attempt < k.attempt {
		return
	}
	before := k.size()
	switch p.Stream {
	case streamOut:
		k.Stdout.add(p.Data, p.Lost, o.most)
	case streamErr:
		k.Stderr.add(p.Data, p.Lost, o.most)
	}
	o.bytes += k.size() - before
}

func (p *printed) size() int { return len(p.Stdout.data) + len(p.Stderr.data) }

// forget drops the output that is furthest from its turn: of the last tasks.
func (o *outputs) forget() {
	numbers := make([]int32, 0, len(o.kept))
	for n := range o.kept {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers[len(numbers)/2:] {
		o.bytes -= o.kept[n].size()
		delete(o.kept, n)
	}
}

// take hands out the output of a task or rank, which had some if printed is set.
func (o *outputs) take(n int32, printed bool) (t tails) {
	if k := o.kept[n]; k != nil {
		o.bytes -= k.size()
		t = k.tails
		delete(o.kept, n)
	} else {
		t.Missing = printed && o.most > 0
	}
	t.Stdout.finish()
	t.Stderr.finish()
	return t
}
