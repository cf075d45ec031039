package api

import (
	"context"
	"fmt"
	"math/bits"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/mtc/record"
)

// Limits of results.
const (
	tailUsual   = 4 << 10 // bytes of the end of each stream that a result has
	tailMax     = 2 << 20 // the most that a client may ask for
	watchedMax  = 64      // records that are watched for a change
	blocksMax   = 24      // records that are read at a time; each has 256 KiB at most
	resultsMax  = 1 << 20 // tasks of a job
	lookAgain   = time.Second
	recordsWait = 10 * time.Second
)

type resultsArgs struct {
	envelope
	Job    filch.JobID `json:"job" doc:"the job"`
	First  int32       `json:"first" doc:"leave out the tasks before this number"`
	Follow bool        `json:"follow" doc:"go on until the job has ended; else tell the ends so far"`
	Output *int32      `json:"output" doc:"bytes of the end of each stream, at most 2097152; none: 4096"`
}

// taskResult is the news of a task.
type taskResult struct {
	launcher.Task
	Signal int32 `json:"signal,omitempty"`
	tails
}

// tails are the ends of the streams of a task or rank.
type tails struct {
	Stdout tail `json:"stdout,omitzero"`
	Stderr tail `json:"stderr,omitzero"`
	// Some output is missing: the node did not answer, or has dropped the output.
	Missing bool `json:"output_missing,omitempty"`
}

// tail is the end of a stream.
type tail struct {
	Text  string `json:"text,omitempty"`
	Bytes []byte `json:"base64,omitempty"` // in place of Text, where the output is no UTF-8
	Lost  int64  `json:"lost,omitempty"`   // bytes before
	data  []byte
}

// add takes a piece, of which at most the last bytes stay.
func (t *tail) add(data []byte, lost int64, most int) {
	t.Lost += lost
	t.data = append(t.data, data...)
	if extra := len(t.data) - most; extra > 0 {
		t.Lost += int64(extra)
		t.data = t.data[extra:]
	}
}

// finish chooses the form of the output.
func (t *tail) finish() {
	if utf8.Valid(t.data) {
		t.Text = string(t.data)
	} else {
		t.Bytes = t.data
	}
	t.data = nil
}

func results(ctx context.Context, c *call, a *resultsArgs) (any, error) {
	most := tailUsual
	if a.Output != nil {
		if *a.Output < 0 || *a.Output > tailMax {
			return nil, filch.Errorf(filch.Invalid, "output is %d bytes, at most %d", *a.Output, tailMax)
		}
		most = int(*a.Output)
	}
	raw, j, err := c.job(ctx, a.Job)
	if err != nil {
		return nil, err
	}
	if j.Kind != "bag" && j.Kind != "workflow" {
		return rankResults(ctx, c, a, most, j)
	}
	f := &follower{call: c, job: a.Job, from: a.First, follow: a.Follow, outputs: newOutputs(c, a.Job, most), told: map[int32]*block{}}
	if err := f.run(ctx); err != nil || !a.Follow {
		return raw, err
	}
	raw, _, err = c.job(ctx, a.Job)
	return raw, err
}

// follower tells the ends of the tasks of a job, as the records of the job have them.
type follower struct {
	*call
	job     filch.JobID
	from    int32
	follow  bool
	outputs *outputs

	spec *record.Spec
	rec  *record.Job
	seen map[dht.Key]dht.Version // of the records of the last look
	told map[int32]*block        // by number; blocks below least are complete
	// Blocks below least have no task that is not told.
	least int32
	voids []void
	ended []taskResult
}

// void is a range of tasks that never start; those with an end in their block had started before.
type void struct {
	lo, hi int32
	state  filch.State
}

// block has the tasks of a block that were told.
type block struct{ told [record.BlockSize / 64]uint64 }

func (b *block) has(off uint8) bool { return b.told[off/64]>>(off%64)&1 == 1 }

func (b *block) set(off uint8) { b.told[off/64] |= 1 << (off % 64) }

func (b *block) count() (n int32) {
	for _, w := range b.told {
		n += int32(bits.OnesCount64(w))
	}
	return n
}

func (f *follower) run(ctx context.Context) error {
	f.least = max(f.from, 0) / record.BlockSize
	for {
		if err := f.look(ctx); err != nil {
			return err
		}
		if f.over() || !f.follow {
			return nil
		}
		wait, stop := context.WithTimeout(ctx, lookAgain)
		f.launcher.AwaitChange(wait, f.seen)
		stop()
		if ctx.Err() != nil {
			return filch.Errorf(filch.Canceled, "the request was stopped")
		}
	}
}

// over reports whether the end of each task was told.
func (f *follower) over() bool { return f.rec.Finished() && f.least >= f.rec.Blocks() }

// look reads the job and the blocks with tasks that were not told, and tells their ends.
func (f *follower) look(ctx context.Context) error {
	f.seen = map[dht.Key]dht.Version{}
	values, err := f.read(ctx, []string{record.KeyJob(f.job), record.KeySpec(f.job)})
	if err != nil {
		return err
	}
	if f.rec, err = record.DecodeJob(values[0]); err != nil {
		return f.damaged(err)
	}
	if f.spec == nil {
		if f.spec, err = record.DecodeSpec(values[1]); err != nil {
			return f.damaged(err)
		}
	}
	delete(f.seen, dht.Key(record.KeySpec(f.job)))
	if f.rec.Total > resultsMax {
		return filch.Errorf(filch.Invalid, "job %d has %d tasks: results are for jobs of at most %d", f.job, f.rec.Total, resultsMax).WithHint("filch tasks %d lists the tasks", f.job)
	}
	if err := f.readVoids(ctx); err != nil {
		return err
	}
	for n := f.least; n < f.rec.Blocks(); {
		var numbers []int32
		for ; n < f.rec.Blocks() && len(numbers) < blocksMax; n++ {
			if f.told[n] == nil || f.told[n].count() < f.tasksOf(n) {
				numbers = append(numbers, n)
			}
		}
		if err := f.readBlocks(ctx, numbers); err != nil {
			return err
		}
		if err := f.tell(ctx); err != nil {
			return err
		}
	}
	for f.least < f.rec.Blocks() && f.told[f.least] != nil && f.told[f.least].count() == record.BlockSize {
		delete(f.told, f.least)
		f.least++
	}
	if last := f.rec.Blocks() - 1; f.rec.Finished() && f.least == last && f.told[last] != nil && f.told[last].count() >= f.tasksOf(last) {
		f.least++
	}
	return nil
}

// tasksOf is the number of tasks of a block.
func (f *follower) tasksOf(n int32) int32 {
	return min(f.rec.Total-n*record.BlockSize, record.BlockSize)
}

func (f *follower) damaged(err error) error {
	return filch.Errorf(filch.Unavailable, "cannot read the records of job %d: %s", f.job, err.Error())
}

// readBlocks takes the ends that were not told.
func (f *follower) readBlocks(ctx context.Context, numbers []int32) error {
	if len(numbers) == 0 {
		return nil
	}
	var keys []string
	for _, n := range numbers {
		keys = append(keys, record.KeyBlock(f.job, n))
	}
	values, err := f.read(ctx, keys)
	if err != nil {
		return err
	}
	for i, n := range numbers {
		b := &record.Block{}
		if len(values[i]) > 0 {
			if b, err = record.DecodeBlock(values[i]); err != nil {
				return f.damaged(err)
			}
		}
		f.take(n, b)
	}
	return nil
}

// take finds the ends of a block. In an ended job, a task without an end of its own ended as the
// job says.
func (f *follower) take(n int32, b *record.Block) {
	t := f.told[n]
	if t == nil {
		t = &block{}
		f.told[n] = t
	}
	end := func(off uint8, e *record.Task) {
		i := n*record.BlockSize + int32(off)
		t.set(off)
		if i < f.from {
			return
		}
		r := taskResult{Task: launcher.Task{Job: f.job, Index: f.spec.Name(i)}}
		r.Fill(e)
		if e.State == filch.Cancelled {
			r.Reason = f.rec.Why(i)
		}
		if code := r.Code; code != nil && (e.State == filch.Killed || e.State == filch.Cancelled) && e.Began > 0 && *code > filch.ExitSignalBase {
			r.Signal = *code - filch.ExitSignalBase
		}
		f.ended = append(f.ended, r)
	}
	for i := range b.Tasks {
		if off := b.Offs[i]; b.Tasks[i].State.Final() && !t.has(off) {
			end(off, &b.Tasks[i])
		}
	}
	for off := range f.tasksOf(n) {
		switch i := n*record.BlockSize + off; {
		case t.has(uint8(off)):
		case i < f.from:
			t.set(uint8(off))
		case f.void(i) != 0:
			end(uint8(off), &record.Task{State: f.void(i), Attempt: 1})
		}
	}
}

// void is the state of a task that never starts; 0: the task may start, or has started.
func (f *follower) void(i int32) filch.State {
	k := sort.Search(len(f.voids), func(k int) bool { return i < f.voids[k].hi })
	if k < len(f.voids) && f.voids[k].lo <= i {
		return f.voids[k].state
	}
	if f.rec.Finished() {
		return max(f.rec.Void, filch.Skipped)
	}
	return 0
}

// readVoids reads which tasks never start, where an order may have ended some.
func (f *follower) readVoids(ctx context.Context) error {
	f.voids = f.voids[:0]
	if len(f.rec.Cancels) == 0 && f.rec.Void == 0 {
		return nil
	}
	var keys []string
	for z := range (f.rec.Total + record.ZoneSize - 1) / record.ZoneSize {
		keys = append(keys, record.KeyZone(f.job, z))
	}
	values, err := f.read(ctx, keys)
	for i := range values {
		z, err := record.DecodeZone(values[i])
		if err != nil {
			return f.damaged(err)
		}
		for _, s := range z.Spans {
			if s.Void != 0 {
				f.voids = append(f.voids, void{s.Lo, s.Hi, s.Void})
			}
		}
	}
	return err
}

// tell sends the ends that were found.
func (f *follower) tell(ctx context.Context) error {
	if len(f.ended) == 0 {
		return nil
	}
	if err := f.outputs.fetch(ctx, f.ended); err != nil {
		return err
	}
	for i := range f.ended {
		r := &f.ended[i]
		r.tails = f.outputs.take(r.Index, r.Task.Bytes > 0)
		if !f.news(&f.ended[i]) {
			return errUnread
		}
	}
	f.ended = f.ended[:0]
	return nil
}

// read reads records; a missing record is nil.
func (f *follower) read(ctx context.Context, keys []string) (values [][]byte, err error) {
	err = f.with(ctx, func(c *client.Client) error {
		ops := make([]dht.Op, len(keys))
		for i := range ops {
			ops[i] = dht.Op{Code: dht.OpLookup, Key: dht.Key(keys[i]), Consistent: true}
		}
		rs, err := c.Store(recordsWait, ops...)
		if err != nil {
			return err
		}
		for i := range rs {
			if rs[i].Outcome != dht.Done && rs[i].Outcome != dht.Absent {
				return f.damaged(fmt.Errorf("%s", rs[i].Outcome))
			}
			if len(f.seen) < watchedMax {
				f.seen[dht.Key(keys[i])] = rs[i].Version
			}
			values = append(values, rs[i].Value)
		}
		return nil
	})
	return values, err
}

// rankResult is the news of a rank.
type rankResult struct {
	Job    filch.JobID    `json:"job"`
	Rank   int32          `json:"rank"`
	State  string         `json:"state,omitempty"` // none: not known
	Node   filch.NodeName `json:"node,omitempty"`
	Code   *int32         `json:"exit_code"`
	Signal int32          `json:"signal,omitempty"`
	tails
}

// rankResults tells the ranks of a run once the run has ended.
func rankResults(ctx context.Context, c *call, a *resultsArgs, most int, j *launcher.JobInfo) (any, error) {
	if a.Follow && j.Code == nil {
		if _, err := wait(ctx, c, &waitArgs{Job: a.Job}); err != nil {
			return nil, err
		}
	}
	raw, j, err := c.job(ctx, a.Job)
	if err != nil || j.Code == nil {
		return raw, err
	}
	o := newOutputs(c, a.Job, most)
	o.fetchRanks(ctx, j.Nodes)
	rows := launcher.ReadRankRows(j.Rows)
	for rank := max(a.First, 0); rank < j.Ranks; rank++ {
		r := rankResult{Job: a.Job, Rank: rank, tails: o.take(rank, false)}
		r.Missing = r.Missing || o.short
		if int(rank) < len(rows) && rows[rank].Ended {
			w := &rows[rank]
			r.State, r.Code = w.State.String(), &w.Code
			if w.Code > filch.ExitSignalBase && w.State != filch.OK {
				r.Signal = w.Code - filch.ExitSignalBase
			}
			if int(w.Node) < len(j.Nodes) {
				r.Node = j.Nodes[w.Node]
			}
		}
		if !c.news(&r) {
			return nil, errUnread
		}
	}
	return raw, nil
}
