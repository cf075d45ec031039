package taskrecords

import (
	"io"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
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

// Each hands out the entries of the tasks that have one, with the index of the task, in the
// order of the records. Each keeps [AtOnce] blocks in memory.
func (p *Job) Each(take func(index int32, t *record.Task) error) error {
	blocks := (p.Rec.Total + record.BlockSize - 1) / record.BlockSize
	for first := int32(0); first < blocks; first += AtOnce {
		var numbers []int32
		for n := first; n < min(first+AtOnce, blocks); n++ {
			numbers = append(numbers, n)
		}
		if err := p.Load(numbers); err != nil {
			return err
		}
		for _, n := range numbers {
			b := p.Blocks[n]
			for i := range b.Tasks {
				if err := take(n*record.BlockSize+int32(b.Offs[i]), &b.Tasks[i]); err != nil {
					return err
				}
			}
			delete(p.Blocks, n)
		}
	}
	return nil
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

// Unmarked returns a task's payload without limit, rule and mark, and the mark. A long
// text is read from its chunks.
func (p *Job) Unmarked(payload []byte) (mark [launcher.MarkBytes]byte, rest []byte, err error) {
	mark, rest = launcher.TaskMark(launcher.Untimed(payload))
	if len(rest) == 0 || rest[0] != launcher.PayloadLong {
		return mark, rest, nil
	}
	l, err := record.DecodeLong(rest[1:])
	if err != nil {
		return mark, nil, filch.Errorf(filch.Internal, "a record of job %d is damaged: %s", p.ID, err.Error())
	}
	var keys []string
	for i := range l.Count() {
		keys = append(keys, record.KeyLong(p.ID, l.First+i))
	}
	chunks, err := p.Read(keys)
	if err == nil {
		rest, err = record.JoinLong(l, chunks)
	}
	return mark, rest, err
}

// Lengths are the stated lengths of tasks of a bag; nil if none are stated.
func (p *Job) Lengths(list []Indices) (record.Lengths, error) {
	if !p.Rec.Ordered() {
		return nil, nil
	}
	var keys []string
	for n := range p.Rec.Long {
		keys = append(keys, record.KeyLong(p.ID, n))
	}
	all, err := p.Read(keys)
	if err != nil {
		return nil, err
	}
	var some []time.Duration
	for _, r := range list {
		for i := r.Lo; i < r.Hi; i++ {
			some = append(some, record.Lengths(all).At(i))
		}
	}
	return record.NewLengths(some), nil
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

// Picks are the tasks with these names, in the order of the records: runs with gaps between.
func (p *Job) Picks(names [][2]int32) (list []Indices, err error) {
	for _, r := range names {
		found, lacks := p.Spec.Indices(r[0], r[1])
		if len(p.Spec.Again) == 0 && r[1] >= p.Rec.Total {
			lacks = max(p.Rec.Total, r[0])
		}
		if lacks >= 0 {
			tasks := "tasks"
			if p.Rec.Total == 1 {
				tasks = "task"
			}
			return nil, filch.Errorf(filch.NotFound, "there is no task %d.%d: the job has %d %s", p.ID, lacks, p.Rec.Total, tasks)
		}
		for _, f := range found {
			list = append(list, Indices{Lo: f.From, Hi: f.From + f.Count})
		}
	}
	return JoinRuns(list), nil
}

// JoinRuns sorts runs and joins adjacent runs.
func JoinRuns(runs []Indices) (joined []Indices) {
	slices.SortFunc(runs, func(a, b Indices) int { return int(a.Lo - b.Lo) })
	for _, r := range runs {
		if last := len(joined) - 1; last >= 0 && joined[last].Hi >= r.Lo {
			joined[last].Hi = max(joined[last].Hi, r.Hi)
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// Common are the tasks in both lists of runs, which are sorted and apart.
func Common(a, b []Indices) (both []Indices) {
	for len(a) > 0 && len(b) > 0 {
		if lo, hi := max(a[0].Lo, b[0].Lo), min(a[0].Hi, b[0].Hi); lo < hi {
			both = append(both, Indices{lo, hi})
		}
		if a[0].Hi < b[0].Hi {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return both
}
