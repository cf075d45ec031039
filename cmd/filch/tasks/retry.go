package tasks

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
)

// Limits of reading a job's records.
const (
	recordsAtOnce = 24 // each has 256 KiB at most
	recordsWait   = 10 * time.Second
)

func RetryCommand(g *cli.Global) *cobra.Command {
	var show showFlags
	c := &cobra.Command{
		Use:     "retry JOB",
		GroupID: "run",
		Short:   "run again the tasks that did not end well",
		Long: `Submits the tasks of a job that did not end well as a new job with the same options,
and prints the number of the new job. The tasks keep their numbers: task 7.5 runs again as
task 12.5 in filch info, logs, export and cancel, with the same FILCH_TASK.

For a workflow, the new tasks read the files of the tasks that ended well. filch retry
waits for the end and brings the results, as filch workflow run does. A task that
ended well runs again only when its files are lost with its node.`,
		Example: "  filch retry last\n  filch retry 7 --wait --progress",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			p, err := readPast(c, args[0])
			if err != nil {
				return err
			}
			if p.rec.Graph {
				return p.rerunWorkflow(g, show)
			}
			return p.rerunBag(g, show)
		},
	}
	c.Flags().BoolVar(&show.wait, "wait", false, "wait for the end; exit with 1 when a task did not end well")
	c.Flags().BoolVar(&show.progress, "progress", false, "show the progress")
	show.declareOutput(c.Flags())
	c.Flags().BoolVar(&show.asJSON, "json", false, "print the job as JSON")
	return c
}

// past is an ended job of tasks, read from its records.
type past struct {
	c      *client.Client
	id     filch.JobID
	rec    *record.Job
	spec   *record.Spec
	blocks map[int32]*record.Block
}

// indices are the indices from lo up to hi, without hi.
type indices struct{ lo, hi int32 }

func readPast(c *client.Client, name string) (*past, error) {
	id, err := cli.OneID(name, cli.LastJob(c))
	if err != nil {
		return nil, err
	}
	var j launcher.JobInfo
	if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.Job.String()); err != nil {
		return nil, err
	}
	switch {
	case !cli.IsTasks(&j):
		return nil, filch.Errorf(filch.Invalid, "job %d is a run: it has no tasks", j.ID).WithHint("start the program again with filch run")
	case j.Code == nil:
		return nil, filch.Errorf(filch.Busy, "job %d has not ended", j.ID).WithHint("filch wait %d", j.ID)
	}
	return readRecords(c, j.ID)
}

// readRecords reads the records of a job and of the common part of its tasks.
func readRecords(c *client.Client, id filch.JobID) (*past, error) {
	p := &past{c: c, id: id, blocks: map[int32]*record.Block{}}
	values, err := p.read([]string{record.KeyJob(p.id), record.KeySpec(p.id)})
	if err == nil {
		p.rec, err = record.DecodeJob(values[0])
	}
	if err == nil {
		p.spec, err = record.DecodeSpec(values[1])
	}
	if err != nil {
		return nil, filch.Errorf(filch.Unavailable, "cannot read the records of job %d: %s", id, err.Error())
	}
	return p, nil
}

// read reads records; a missing record is nil.
func (p *past) read(keys []string) ([][]byte, error) {
	var values [][]byte
	for len(keys) > 0 {
		n := min(len(keys), recordsAtOnce)
		ops := make([]dht.Op, n)
		for i := range ops {
			ops[i] = dht.Op{Code: dht.OpLookup, Key: dht.Key(keys[i]), Consistent: true}
		}
		rs, err := p.c.Store(recordsWait, ops...)
		if err != nil {
			return nil, err
		}
		for i := range rs {
			if rs[i].Outcome != dht.Done && rs[i].Outcome != dht.Absent {
				return nil, filch.Errorf(filch.Unavailable, "cannot read a record of job %d: %s", p.id, rs[i].Outcome).WithHint("filch doctor says more")
			}
			values = append(values, rs[i].Value)
		}
		keys = keys[n:]
	}
	return values, nil
}

// load reads the blocks that were not read yet.
func (p *past) load(numbers []int32) error {
	var keys []string
	for _, n := range numbers {
		keys = append(keys, record.KeyBlock(p.id, n))
	}
	values, err := p.read(keys)
	for i := range values {
		b := &record.Block{}
		if len(values[i]) > 0 && err == nil {
			b, err = record.DecodeBlock(values[i])
		}
		p.blocks[numbers[i]] = b
	}
	return err
}

// failures are the tasks that did not end well, in order.
func (p *past) failures() ([]indices, error) {
	var zones []string
	for _, z := range p.rec.Zones {
		if z.Bad() > 0 {
			zones = append(zones, record.KeyZone(p.id, z.Zone))
		}
	}
	values, err := p.read(zones)
	if err != nil {
		return nil, err
	}
	var bad []indices
	for _, v := range values {
		z, err := record.DecodeZone(v)
		if err != nil {
			return nil, filch.Errorf(filch.Internal, "a record of job %d is damaged: %s", p.id, err.Error())
		}
		for _, s := range z.Spans {
			if s.Void != 0 {
				bad = append(bad, indices{s.Lo, min(s.Hi, p.rec.Total)})
			}
		}
		var numbers []int32
		for _, b := range z.Blocks {
			if b.Bad() > 0 {
				numbers = append(numbers, b.Block)
			}
		}
		if err := p.load(numbers); err != nil {
			return nil, err
		}
		for _, n := range numbers {
			b := p.blocks[n]
			for k, off := range b.Offs {
				if s := b.Tasks[k].State; s.Final() && s != filch.OK {
					i := n*record.BlockSize + int32(off)
					bad = append(bad, indices{i, i + 1})
				}
			}
		}
	}
	return joinRuns(bad), nil
}

// nothing prints that no task is left to retry.
func (p *past) nothing() {
	ui.Say(fmt.Sprintf("all tasks of job %d ended well: nothing to run again", p.id))
}

// rerunBag submits the failures of a bag.
func (p *past) rerunBag(g *cli.Global, show showFlags) error {
	bad, err := p.failures()
	if err != nil {
		return err
	}
	if len(bad) == 0 {
		p.nothing()
		return nil
	}
	if p.spec.Payloads && p.rec.Tally().Lost > 0 {
		if bad, err = p.withLines(bad); err != nil {
			return err
		}
	}
	s := &mtc.Submission{Name: p.rec.Name, Ticket: filch.Ticket{Class: p.rec.Ticket.Class}, Spec: *p.spec, Follow: show.follows()}
	for _, r := range bad {
		s.Total += r.hi - r.lo
	}
	s.Spec.Again = p.names(bad)
	if len(s.Spec.Again) > record.MaxPicks {
		if !p.spec.Payloads {
			return filch.Errorf(filch.Invalid, "cannot retry job %d: its failed tasks form %d separate ranges, and at most %d can be submitted", p.id, len(s.Spec.Again), record.MaxPicks)
		}
		// Each task has its line; FILCH_TASK counts from 0.
		s.Spec.Again, s.Spec.Picks, s.Spec.First, s.Spec.Step = nil, nil, 0, 0
	}
	var lines source
	if p.spec.Payloads {
		lines = p.payloads(bad)
	}
	return p.submit(g, s, lines, show, nil)
}

// names are the names of tasks, in the order of the tasks: runs of names that follow each
// other are one.
func (p *past) names(tasks []indices) (list []record.Pick) {
	for _, r := range tasks {
		for i := r.lo; i < r.hi; i++ {
			n := p.spec.Name(i)
			if last := len(list) - 1; last >= 0 && list[last].From+list[last].Count == n {
				list[last].Count++
				continue
			}
			list = append(list, record.Pick{From: n, Count: 1})
		}
	}
	return list
}

// withLines leaves out tasks that were lost for want of their line: the client
// died after adding the tasks and before the line was written.
func (p *past) withLines(bad []indices) (have []indices, err error) {
	parts := map[int32]*record.Payload{}
	gone := 0
	for k, r := range bad {
		for i := r.lo; i < r.hi; i++ {
			line, err := p.line(parts, i, bad[k:])
			if err != nil {
				return nil, err
			}
			if len(line) == 0 {
				gone++
				continue
			}
			have = append(have, indices{i, i + 1})
		}
	}
	if gone > 0 {
		ui.Say(fmt.Sprintf("cannot run %s of job %d again: the client that added the tasks died before their lines were stored", ui.Plural(gone, "task"), p.id))
	}
	if len(have) == 0 {
		return nil, filch.Errorf(filch.NotFound, "no task of job %d can run again", p.id).WithHint("submit the tasks again with filch submit")
	}
	return joinRuns(have), nil
}

// payloads yields the payloads of the tasks in bad.
func (p *past) payloads(bad []indices) source {
	parts := map[int32]*record.Payload{}
	run, at := 0, int32(-1)
	return func() ([]byte, error) {
		if run < len(bad) && at < 0 {
			at = bad[run].lo
		}
		if run == len(bad) {
			return nil, io.EOF
		}
		line, err := p.line(parts, at, bad[run:])
		if err == nil && len(line) == 0 {
			err = filch.Errorf(filch.NotFound, "the record of task %d.%d has been dropped", p.id, at)
		}
		if err != nil {
			return nil, err
		}
		if at++; at == bad[run].hi {
			run, at = run+1, -1
		}
		return line, nil
	}
}

// line is the payload of a task, nil when the task has none; the payloads of bad
// are needed next.
func (p *past) line(parts map[int32]*record.Payload, at int32, bad []indices) ([]byte, error) {
	part := at / record.PayloadSize
	if parts[part] == nil {
		clear(parts)
		if err := p.loadPayloads(parts, part, bad); err != nil {
			return nil, err
		}
	}
	line, _ := parts[part].Line(uint8(at % record.PayloadSize))
	return line, nil
}

// loadPayloads reads the record of a part, and the records needed next.
func (p *past) loadPayloads(parts map[int32]*record.Payload, first int32, bad []indices) error {
	numbers := []int32{first}
	for _, r := range bad {
		for part := max(r.lo/record.PayloadSize, first); part <= (r.hi-1)/record.PayloadSize && len(numbers) < recordsAtOnce; part++ {
			if part > numbers[len(numbers)-1] {
				numbers = append(numbers, part)
			}
		}
		if len(numbers) == recordsAtOnce {
			break
		}
	}
	var keys []string
	for _, n := range numbers {
		keys = append(keys, record.KeyPayload(p.id, n))
	}
	values, err := p.read(keys)
	for i := range values {
		if parts[numbers[i]], err = record.DecodePayload(values[i]); err != nil {
			return filch.Errorf(filch.Internal, "a record of job %d is damaged: %s", p.id, err.Error())
		}
	}
	return err
}

// submit submits the new job over its own connection, and follows the job if show
// asks for the wait; ended is called at the end, if there is something left to
// do.
func (p *past) submit(g *cli.Global, s *mtc.Submission, lines source, show showFlags, ended func(filch.JobID, error) error) error {
	c, err := g.Dial()
	if err != nil {
		return err
	}
	t, err := send(c, s, lines)
	if err != nil {
		return err
	}
	defer t.Close()
	err = show.submitted(t.Job, struct {
		ID    filch.JobID `json:"id"`
		Name  string      `json:"name"`
		Again filch.JobID `json:"retry_of"`
	}{t.Job, s.Name, p.id})
	if err != nil || !s.Follow {
		return err
	}
	if err = followTasks(t, &show); ended != nil {
		return ended(t.Job, err)
	}
	return err
}
