package tasklist

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/mtc/record"
)

// cutMost bounds the tasks of a job that [CountCut] looks at: a submission that waits for
// its end is not to read thousands of records then.
const cutMost = 64 << 10

// Cut counts tasks of a job whose output was cut.
type Cut struct {
	Long int  // a stream was longer than a node keeps
	Full int  // a disk had no room, or the output of ranks was lost with their node
	More bool // the job has more than cutMost tasks: the others are not counted
}

// CountCut counts the tasks of an ended job whose output was cut, by their records.
func CountCut(c *client.Client, id filch.JobID) (cut Cut, err error) {
	p, err := taskrecords.Open(c, id)
	if err != nil {
		return cut, err
	}
	cut.More = p.Rec.Total > cutMost
	for first := int32(0); first < min(p.Rec.Blocks(), cutMost/record.BlockSize); first += taskrecords.AtOnce {
		var numbers []int32
		for n := first; n < min(first+taskrecords.AtOnce, p.Rec.Blocks()); n++ {
			numbers = append(numbers, n)
		}
		clear(p.Blocks)
		if err := p.Load(numbers); err != nil {
			return cut, err
		}
		for _, b := range p.Blocks {
			cut.add(b)
		}
	}
	return cut, nil
}

func (c *Cut) add(b *record.Block) {
	for i := range b.Tasks {
		switch t := &b.Tasks[i]; {
		case t.Cut && output.Overlong(t.Bytes):
			c.Long++
		case t.Cut:
			c.Full++
		}
	}
}

// CutWhy tells why the output of a task was cut.
func CutWhy(t *launcher.Task) string {
	if output.Overlong(t.Bytes) {
		return keptText()
	}
	return fmt.Sprintf("the disk of %s was full, or a node was lost with the last output of ranks", t.Node)
}

// keptText is the limit of a stream.
func keptText() string {
	return fmt.Sprintf("a node keeps the first and the last %d MiB of a stream", output.KeptMax>>21)
}

// Texts are a warning about tasks whose output was cut, and a hint; "" if there are none.
func (c *Cut) Texts(id filch.JobID) (warning, hint string) {
	count := func(n int) string {
		if n == 1 {
			return "1 task"
		}
		return fmt.Sprintf("%d tasks", n)
	}
	switch {
	case c.Long == 0 && c.Full == 0:
		return "", ""
	case c.Full == 0:
		warning = fmt.Sprintf("the output of %s of job %d was cut: %s", count(c.Long), id, keptText())
	case c.Long == 0:
		warning = fmt.Sprintf("the output of %s of job %d was cut: a disk was full, or a node was lost with the last output of ranks", count(c.Full), id)
	default:
		warning = fmt.Sprintf("the output of %s of job %d was cut: of %d a disk was full or a node was lost with the last output of ranks, and %s", count(c.Long+c.Full), id, c.Full, keptText())
	}
	if c.More {
		warning += fmt.Sprintf("; only the first %d tasks are counted", cutMost)
	}
	return warning, fmt.Sprintf("-o FILE keeps all output, on a disk with room; filch tasks %d -o task,node,output,cut lists the tasks", id)
}
