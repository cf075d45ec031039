package taskrecords

import (
	"io"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/mtc/record"
)

const (
	// AtOnce is how many records are read at a time; each has 256 KiB at most.
	AtOnce      = 24
	recordsWait = 10 * time.Second
)

// Job is a job of tasks, read from its records.
type Job struct {
	Conn   *client.Client
	ID     filch.JobID
	Rec    *record.Job
	Spec   *record.Spec
	Blocks map[int32]*record.Block // the blocks that [Job.Load] has read
}

// Indices are the indices from Lo up to Hi, without Hi.
type Indices struct{ Lo, Hi int32 }

// Open reads the records of a job and of the common part of its tasks.
func Open(c *client.Client, id filch.JobID) (*Job, error) {
	p := &Job{Conn: c, ID: id, Blocks: map[int32]*record.Block{}}
	values, err := p.Read([]string{record.KeyJob(p.ID), record.KeySpec(p.ID)})
	if err == nil {
		p.Rec, err = record.DecodeJob(values[0])
	}
	if err == nil {
		p.Spec, err = record.DecodeSpec(values[1])
	}
	if err != nil {
		return nil, filch.Errorf(filch.Unavailable, "cannot read the records of job %d: %s", id, err.Error())
	}
	return p, nil
}

// Read reads records; a missing record is nil.
func (p *Job) Read(keys []string) ([][]byte, error) {
	var values [][]byte
	for len(keys) > 0 {
		n := min(len(keys), AtOnce)
		ops := make([]dht.Op, n)
		for i := range ops {
			ops[i] = dht.Op{Code: dht.OpLookup, Key: dht.Key(keys[i]), Consistent: true}
		}
		rs, err := p.Conn.Store(recordsWait, ops...)
		if err != nil {
			return nil, err
		}
		for i := range rs {
			if rs[i].Outcome != dht.Done && rs[i].Outcome != dht.Absent {
				return nil, filch.Errorf(filch.Unavailable, "cannot read a record of job %d: %s", p.ID, rs[i].Outcome).WithHint("filch doctor says more")
			}
			values = append(values, rs[i].Value)
		}
		keys = keys[n:]
	}
	return values, nil
}

// Load reads the blocks that were not read yet.
func (p *Job) Load(numbers []int32) error {
	var keys []string
	for _, n := range numbers {
		keys = append(keys, record.KeyBlock(p.ID, n))
	}
	values, err := p.Read(keys)
	for i := range values {
		b := &record.Block{}
		if len(values[i]) > 0 && err == nil {
			b, err = record.DecodeBlock(values[i])
		}
		p.Blocks[numbers[i]] = b
	}
	return err
}

// Payloads yields the payloads of the tasks in bad; io.EOF ends the sequence.
func (p *Job) Payloads(bad []Indices) func() ([]byte, error) {
	parts := map[int32]*record.Payload{}
	run, at := 0, int32(-1)
	return func() ([]byte, error) {
		if run < len(bad) && at < 0 {
			at = bad[run].Lo
		}
		if run == len(bad) {
			return nil, io.EOF
		}
		line, err := p.Line(parts, at, bad[run:])
		if err == nil && len(line) == 0 {
			err = filch.Errorf(filch.NotFound, "the record of task %d.%d has been dropped", p.ID, at)
		}
		if err != nil {
			return nil, err
		}
		if at++; at == bad[run].Hi {
			run, at = run+1, -1
		}
		return line, nil
	}
}

// Line is the payload of a task, nil when the task has none; the payloads of bad
// are needed next.
func (p *Job) Line(parts map[int32]*record.Payload, at int32, bad []Indices) ([]byte, error) {
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
func (p *Job) loadPayloads(parts map[int32]*record.Payload, first int32, bad []Indices) error {
	numbers := []int32{first}
	for _, r := range bad {
		for part := max(r.Lo/record.PayloadSize, first); part <= (r.Hi-1)/record.PayloadSize && len(numbers) < AtOnce; part++ {
			if part > numbers[len(numbers)-1] {
				numbers = append(numbers, part)
			}
		}
		if len(numbers) == AtOnce {
			break
		}
	}
	var keys []string
	for _, n := range numbers {
		keys = append(keys, record.KeyPayload(p.ID, n))
	}
	values, err := p.Read(keys)
	for i := range values {
		if parts[numbers[i]], err = record.DecodePayload(values[i]); err != nil {
			return filch.Errorf(filch.Internal, "a record of job %d is damaged: %s", p.ID, err.Error())
		}
	}
	return err
}
