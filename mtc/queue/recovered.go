package queue

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Recovered are the jobs of a mirror.
type Recovered struct {
	jobs map[filch.JobID]*RecoveredJob
	runs map[string][]RunTime
}

// RecoveredJob is the recovered state of a job. Job or Spec is nil if no line of the
// record could be read; then the job cannot be restored.
type RecoveredJob struct {
	ID     filch.JobID
	Job    *record.Job
	Spec   *record.Spec
	Lines  map[int32]*record.Payload
	Long   map[int32][]byte        // chunks of long texts
	zones  map[int32][]record.Span // parts that may have been started
	Blocks map[int32]*record.Block
}

// Tally counts the tasks of a job by state.
type Tally struct {
	Done int32 // ended
	Left int32 // not ended, to be run again
	Lost int32 // started, without an end, of a job with Once; also counted in Done
}

// NewRecovered makes an empty Recovered.
func NewRecovered() *Recovered {
	return &Recovered{jobs: make(map[filch.JobID]*RecoveredJob), runs: make(map[string][]RunTime)}
}

// Take reads a line; false for a malformed line.
func (m *Recovered) Take(line []byte) bool {
	key, value, ok := ReadLine(line)
	if !ok {
		return false
	}
	p, _ := record.ParseKey(key)
	if p.What == 't' {
		return m.takeRun(key[len(record.KeyRun):], value)
	}
	r := m.jobs[p.Job]
	if r == nil {
		r = &RecoveredJob{ID: p.Job, Lines: map[int32]*record.Payload{}, Long: map[int32][]byte{}, zones: map[int32][]record.Span{}, Blocks: map[int32]*record.Block{}}
	}
	if !r.take(p, value) {
		return false
	}
	m.jobs[p.Job] = r
	return true
}

func (r *RecoveredJob) take(p record.Key, value []byte) bool {
	switch p.What {
	case 0:
		j, err := record.DecodeJob(value)
		if err == nil && !j.Behind(r.Job) {
			r.Job = j
		}
		return err == nil
	case 's':
		s, err := record.DecodeSpec(value)
		if err == nil && r.Spec == nil {
			r.Spec = s
		}
		return err == nil
	case 'p':
		if p.Number > record.MaxTasks/record.PayloadSize {
			return false
		}
		return r.takeLines(p.Number, value)
	case 'l':
		if p.Number >= record.LongChunks || len(value) == 0 || len(value) > record.LongChunk {
			return false
		}
		r.Long[p.Number] = slices.Clone(value)
		return true
	case 'z':
		z, err := record.DecodeZone(value)
		if err == nil {
			r.zones[p.Number] = tried(r.zones[p.Number], z.Spans)
		}
		return err == nil
	case 'b':
		b, err := record.DecodeBlock(value)
		if err != nil || p.Number > record.MaxTasks/record.BlockSize {
			return false
		}
		have := r.block(p.Number)
		for i, off := range b.Offs {
			t, n := have.Find(off), b.Tasks[i]
			if t == nil {
				*have.At(off) = n
				continue
			}
			n.Maybe = n.Maybe || t.Maybe
			if newer(&n, t) {
				n.Crashes, n.Recalls = max(n.Crashes, t.Crashes), max(n.Recalls, t.Recalls)
				*t = n
			}
			t.Maybe = n.Maybe
		}
		return true
	}
	return false
}

func (r *RecoveredJob) takeLines(part int32, value []byte) bool {
	p, err := record.DecodePayload(value)
	if err != nil {
		return false
	}
	have := r.Lines[part]
	if have == nil {
		r.Lines[part] = p
		return true
	}
	for i, off := range p.Offs {
		if k, ok := slices.BinarySearch(have.Offs, off); !ok {
			have.Offs, have.Lines = slices.Insert(have.Offs, k, off), slices.Insert(have.Lines, k, p.Lines[i])
		}
	}
	return true
}

func (r *RecoveredJob) block(num int32) *record.Block {
	b := r.Blocks[num]
	if b == nil {
		b = &record.Block{}
		r.Blocks[num] = b
	}
	return b
}

// Jobs are all jobs, by id: no job waits for a later job.
func (m *Recovered) Jobs() []*RecoveredJob {
	var list []*RecoveredJob
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		list = append(list, m.jobs[id])
	}
	return list
}

// Whole reports whether enough of a job was read to restore the job.
func (r *RecoveredJob) Whole() bool { return r.Job != nil && (r.Spec != nil || r.Job.Finished()) }

// Settle ends a job's run in the earlier instance, as if all nodes of that instance had
// died. A started task without an end is tried again, under the next attempt if the start
// was committed, or is lost if the job has Once. Settle raises the limit of crashes
// accordingly: the end of an allocation is no crash of a task. A second Settle changes
// nothing.
func (r *RecoveredJob) Settle() (t Tally) {
	r.learnt()
	if r.Job.Finished() {
		t.Done = r.Job.Total
		return t
	}
	if r.Job.Partial && !r.Job.Closed { // no node has the rest of the submission
		r.Job.Closed, r.Job.Void = true, filch.Cancelled
	}
	r.unskip()
	r.maybeTried()
	restarted := false
	for _, num := range slices.Sorted(maps.Keys(r.Blocks)) {
		b := r.Blocks[num]
		for i := 0; i < len(b.Offs); {
			index := num*record.BlockSize + int32(b.Offs[i])
			if index >= r.Job.Total {
				b.Offs, b.Tasks = slices.Delete(b.Offs, i, i+1), slices.Delete(b.Tasks, i, i+1)
				continue
			}
			restarted = settleTask(&b.Tasks[i], r.Spec.Once, &t) || restarted
			i++
		}
		if len(b.Offs) == 0 {
			delete(r.Blocks, num)
		}
	}
	r.loseUnreadable(&t)
	if restarted && r.Spec.Crashes() < 255 {
		r.Spec.CrashLimit = r.Spec.Crashes() + 1
	}
	t.Left = r.Job.Total - t.Done
	return t
}

// unskip drops the skipped state of a job and of tasks: the end that caused the skip may
// be in no mirror. Restore looks again at the ends in the mirror, and at the jobs that
// this job waits for.
func (r *RecoveredJob) unskip() {
	if r.Job.Void == filch.Skipped {
		r.Job.Void = 0
	}
	if !r.Job.Graph && !r.Job.OneByOne() {
		return
	}
	for _, b := range r.Blocks { // any order: each block by itself
		for i := range b.Tasks {
			if t := &b.Tasks[i]; t.State == filch.Skipped {
				t.State, t.By = 0, record.Owner{}
			}
		}
	}
}

// maybeTried notes the tasks that may have been started without a commit.
func (r *RecoveredJob) maybeTried() {
	if !r.Spec.CommitsStarts() && !r.Job.Graph && !r.Job.OneByOne() {
		for _, num := range slices.Sorted(maps.Keys(r.zones)) {
			for _, s := range r.zones[num] {
				for i := s.Lo; i < min(s.Hi, r.Job.Total); i++ {
					if t := r.block(i / record.BlockSize).At(uint8(i % record.BlockSize)); t.State == 0 && t.Attempt == record.FirstAttempt && !t.Started {
						t.Maybe = true
					}
				}
			}
		}
	}
	clear(r.zones)
}

// settleTask ends a task's start and reports whether the task is tried again.
func settleTask(t *record.Task, once bool, tally *Tally) bool {
	again := false
	switch {
	case t.State != 0:
	case t.Started && once:
		t.State, t.Code, t.By = filch.Lost, filch.ExitNodeLost, t.Owner
		tally.Lost++
	case t.Started:
		t.Attempt++
		t.Crashes += min(1, 255-t.Crashes)
		again = true
	}
	if t.State != 0 {
		tally.Done++
	}
	t.Owner, t.Hop, t.Started = record.Owner{}, 0, false
	return again
}

// loseUnreadable gives up the tasks whose line or node no mirror has.
func (r *RecoveredJob) loseUnreadable(tally *Tally) {
	if !r.Spec.Payloads && !r.Job.Graph {
		return
	}
	for i := range r.Job.Total {
		if p := r.Lines[i/record.PayloadSize]; p != nil {
			if _, ok := p.Line(uint8(i % record.PayloadSize)); ok {
				continue
			}
		}
		if t := r.block(i / record.BlockSize).At(uint8(i % record.BlockSize)); t.State == 0 {
			t.State, t.Code = filch.Lost, filch.ExitNodeLost
			tally.Done++
			tally.Lost++
		}
	}
}

// Forget drops the ends of successful tasks, so that the tasks run again: their output is
// gone with their nodes. Forget returns the number of these tasks. Forget also drops the
// ends of tasks that filch could not start, as the inputs were on those nodes. Tasks of a
// job with Once stay ended.
func (r *RecoveredJob) Forget() (tasks int32) {
	if r.Spec.Once {
		return 0
	}
	for _, b := range r.Blocks { // any order: each block by itself
		for i := range b.Tasks {
			t := &b.Tasks[i]
			switch {
			case t.State == filch.OK:
				tasks++
				t.State, t.Started = 0, true
			case t.State == filch.Failed && t.Code == filch.ExitOurs:
				t.State, t.Code, t.Started = 0, 0, false
			}
		}
	}
	return tasks
}

// Append appends the lines of all of the job's records.
func (r *RecoveredJob) Append(b []byte) []byte {
	id := r.ID
	for range 2 {
		b = AppendLine(b, record.KeyJob(id), r.Job.Encode())
		if r.Spec != nil {
			b = AppendLine(b, record.KeySpec(id), r.Spec.Encode())
		}
	}
	if r.Job.Finished() {
		return b
	}
	for _, part := range slices.Sorted(maps.Keys(r.Lines)) {
		b = AppendLine(b, record.KeyPayload(id, part), r.Lines[part].Encode())
	}
	for _, n := range slices.Sorted(maps.Keys(r.Long)) {
		b = AppendLine(b, record.KeyLong(id, n), r.Long[n])
	}
	for _, num := range slices.Sorted(maps.Keys(r.Blocks)) {
		b = AppendLine(b, record.KeyBlock(id, num), r.Blocks[num].Encode())
	}
	return b
}

// Plus is the sum of both tallies.
func (t Tally) Plus(u Tally) Tally {
	return Tally{t.Done + u.Done, t.Left + u.Left, t.Lost + u.Lost}
}

// learnt sets the expected duration in the spec of a recovered job from its ended tasks.
func (r *RecoveredJob) learnt() {
	if r.Spec == nil || r.Job.Graph {
		return
	}
	var t policy.Durations
	for _, num := range slices.Sorted(maps.Keys(r.Blocks)) {
		b := r.Blocks[num]
		for i := range b.Tasks {
			if k := &b.Tasks[i]; k.State == filch.OK {
				t.Add(time.Duration(k.TookUS) * time.Microsecond)
			}
		}
	}
	if t.Count() > 0 {
		r.Spec.Expect = t.Limit()
	}
}

// Tallies are the tallies of the zones.
func (r *RecoveredJob) Tallies() (list []record.ZoneTally) {
	for _, num := range slices.Sorted(maps.Keys(r.Blocks)) {
		t := r.Blocks[num].Tally()
		if t.Sum() == 0 {
			continue
		}
		zone := num / record.ZoneBlocks
		if n := len(list); n == 0 || list[n-1].Zone != zone {
			list = append(list, record.ZoneTally{Zone: zone})
		}
		z := &list[len(list)-1]
		z.Tally = z.Plus(t)
	}
	return list
}

// Nodes are the tasks of a workflow, from the payloads, without their bodies.
func (r *RecoveredJob) Nodes() ([]record.GraphNode, error) {
	nodes := make([]record.GraphNode, r.Job.Total)
	for part, p := range r.Lines { // any order: each part by itself
		for k, off := range p.Offs {
			if i := part*record.PayloadSize + int32(off); i < r.Job.Total {
				node, err := record.DecodeGraphNode(p.Lines[k])
				if err != nil {
					return nil, filch.Errorf(filch.Invalid, "task %d.%d makes no sense: %s", r.ID, i, err.Error())
				}
				node.Body = nil
				nodes[i] = node
			}
		}
	}
	return nodes, nil
}

// Lengths are the lengths of the tasks of a bag; a chunk that is in no line is nil.
func (r *RecoveredJob) Lengths() record.Lengths {
	if !r.Job.Ordered() {
		return nil
	}
	l := make(record.Lengths, r.Job.Long)
	for n := range l {
		l[n] = r.Long[int32(n)]
	}
	return l
}

// zoneOps adds the operations of a block's zone: the number of ended tasks, and for a
// bag a front: the leader owns the block, and all of its tasks may have been started.
func zoneOps(ops []record.ZoneOp, self record.Owner, rec *record.Job, num int32, b *record.Block) []record.ZoneOp {
	if t := b.Tally(); t.Sum() > 0 {
		ops = append(ops, record.ZoneOp{Kind: record.ZoneBlockTally, Tally: record.BlockTally{Block: num, Tally: t}})
	}
	if rec.Graph || rec.OneByOne() {
		return ops
	}
	lo, hi := num*record.BlockSize, min((num+1)*record.BlockSize, rec.Total)
	if n := len(ops); n > 0 {
		for k := n - 1; k >= max(n-2, 0); k-- {
			if ops[k].Kind == record.ZoneFront && ops[k].Hi == lo {
				ops[k].Hi, ops[k].Front = hi, hi
				return ops
			}
		}
	}
	return append(ops, record.ZoneOp{Kind: record.ZoneFront, Lo: lo, Hi: hi, Front: hi, Owner: self})
}
