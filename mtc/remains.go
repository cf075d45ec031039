package mtc

import (
	"maps"
	"slices"

	"github.com/filch-hpc/filch"
)

// Remains are the jobs that a mirror tells of.
type Remains struct {
	jobs map[filch.JobID]*Remnant
	runs map[string][]RunTook
}

// Remnant is what is left of one job. Job and Spec are nil where no line of
// them could be read; then nothing can be done about it.
type Remnant struct {
	ID    filch.JobID
	Job   *Job
	Spec  *Spec
	lines map[int32]*Payload
	zones map[int32][]Span // what may have been started
	tasks map[int32]*Block
}

// RemnantTally says how the tasks of a job stand.
type RemnantTally struct {
	Done int32 // have their end
	Left int32 // go on
	Lost int32 // were started, may run only once, and have no end; Done has them too
}

// NewRemains makes Remains of no line.
func NewRemains() *Remains {
	return &Remains{jobs: make(map[filch.JobID]*Remnant), runs: make(map[string][]RunTook)}
}

// Take takes a line in; false for one that makes no sense.
func (m *Remains) Take(line []byte) bool {
	key, value, ok := MirrorLine(line)
	if !ok {
		return false
	}
	p, _ := parseKey(key)
	if p.what == 't' {
		return m.takeRun(key[len(keyRun):], value)
	}
	r := m.jobs[p.job]
	if r == nil {
		r = &Remnant{ID: p.job, lines: map[int32]*Payload{}, zones: map[int32][]Span{}, tasks: map[int32]*Block{}}
	}
	if !r.take(p, value) {
		return false
	}
	m.jobs[p.job] = r
	return true
}

func (r *Remnant) take(p place, value []byte) bool {
	switch p.what {
	case 0:
		j, err := DecodeJob(value)
		if err == nil && !j.behind(r.Job) {
			r.Job = j
		}
		return err == nil
	case 's':
		s, err := DecodeSpec(value)
		if err == nil && r.Spec == nil {
			r.Spec = s
		}
		return err == nil
	case 'p':
		if p.number > MaxTasks/PayloadSize {
			return false
		}
		return r.takeLines(p.number, value)
	case 'z':
		z, err := DecodeZone(value)
		if err == nil {
			r.zones[p.number] = tried(r.zones[p.number], z.Spans)
		}
		return err == nil
	case 'b':
		b, err := DecodeBlock(value)
		if err != nil || p.number > MaxTasks/BlockSize {
			return false
		}
		have := r.block(p.number)
		for i, off := range b.Offs {
			t, n := have.Find(off), b.Tasks[i]
			if t == nil {
				*have.at(off) = n
				continue
			}
			n.Maybe = n.Maybe || t.Maybe
			if n.newer(t) {
				n.Crashes = max(n.Crashes, t.Crashes)
				*t = n
			}
			t.Maybe = n.Maybe
		}
		return true
	}
	return false
}

func (r *Remnant) takeLines(part int32, value []byte) bool {
	p, err := DecodePayload(value)
	if err != nil {
		return false
	}
	have := r.lines[part]
	if have == nil {
		r.lines[part] = p
		return true
	}
	for i, off := range p.Offs {
		if k, ok := slices.BinarySearch(have.Offs, off); !ok {
			have.Offs, have.Lines = slices.Insert(have.Offs, k, off), slices.Insert(have.Lines, k, p.Lines[i])
		}
	}
	return true
}

func (r *Remnant) block(num int32) *Block {
	b := r.tasks[num]
	if b == nil {
		b = &Block{}
		r.tasks[num] = b
	}
	return b
}

// Jobs are all of them, by id: none waits for one that comes later.
func (m *Remains) Jobs() []*Remnant {
	var list []*Remnant
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		list = append(list, m.jobs[id])
	}
	return list
}

// Whole reports whether enough is known of a job to do something about it.
func (r *Remnant) Whole() bool { return r.Job != nil && (r.Spec != nil || r.Job.Finished()) }

// Settle ends a job's life on the nodes of before, all of which are gone, as if
// they had died: what was started without an end is tried once more, under the
// next attempt if that start was committed, or lost if it may be started only
// once. The limit of such deaths is raised with it: the end of an allocation is
// nobody's crash. Settled once, it changes no more.
func (r *Remnant) Settle() (t RemnantTally) {
	r.learnt()
	if r.Job.Finished() {
		t.Done = r.Job.Total
		return t
	}
	if r.Job.Partial && !r.Job.Closed { // nobody has the rest of it
		r.Job.Closed, r.Job.Void = true, filch.Cancelled
	}
	r.unskip()
	r.maybeTried()
	restarted := false
	for _, num := range slices.Sorted(maps.Keys(r.tasks)) {
		b := r.tasks[num]
		for i := 0; i < len(b.Offs); {
			index := num*BlockSize + int32(b.Offs[i])
			if index >= r.Job.Total {
				b.Offs, b.Tasks = slices.Delete(b.Offs, i, i+1), slices.Delete(b.Tasks, i, i+1)
				continue
			}
			restarted = b.Tasks[i].settle(r.Spec.Once, &t) || restarted
			i++
		}
		if len(b.Offs) == 0 {
			delete(r.tasks, num)
		}
	}
	r.loseUnreadable(&t)
	if restarted && r.Spec.crashes() < 255 {
		r.Spec.CrashLimit = r.Spec.crashes() + 1
	}
	t.Left = r.Job.Total - t.Done
	return t
}

// unskip drops what says that tasks are skipped: the end for which they are may be
// in no mirror. Restore looks again at the ends that are, and at the jobs that this
// one waits for.
func (r *Remnant) unskip() {
	if r.Job.Void == filch.Skipped {
		r.Job.Void = 0
	}
	if !r.Job.Graph {
		return
	}
	for _, b := range r.tasks { // any order: each by itself
		for i := range b.Tasks {
			if t := &b.Tasks[i]; t.State == filch.Skipped {
				t.State, t.By = 0, Owner{}
			}
		}
	}
}

// maybeTried notes which tasks may have been started without a word.
func (r *Remnant) maybeTried() {
	if !r.Spec.sure() && !r.Job.Graph {
		for _, num := range slices.Sorted(maps.Keys(r.zones)) {
			for _, s := range r.zones[num] {
				for i := s.Lo; i < min(s.Hi, r.Job.Total); i++ {
					if t := r.block(i / BlockSize).at(uint8(i % BlockSize)); t.State == 0 && t.Attempt == firstAttempt && !t.Started {
						t.Maybe = true
					}
				}
			}
		}
	}
	clear(r.zones)
}

// settle ends a task's start; it reports whether it is tried again for that.
func (t *Task) settle(once bool, tally *RemnantTally) bool {
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
	t.Owner, t.Hop, t.Started = Owner{}, 0, false
	return again
}

// loseUnreadable gives up the tasks whose line or node no mirror has.
func (r *Remnant) loseUnreadable(tally *RemnantTally) {
	if !r.Spec.Payloads && !r.Job.Graph {
		return
	}
	for i := range r.Job.Total {
		if p := r.lines[i/PayloadSize]; p != nil {
			if _, ok := p.Line(uint8(i % PayloadSize)); ok {
				continue
			}
		}
		if t := r.block(i / BlockSize).at(uint8(i % BlockSize)); t.State == 0 {
			t.State, t.Code = filch.Lost, filch.ExitNodeLost
			tally.Done++
			tally.Lost++
		}
	}
}

// Forget drops the ends of tasks that went well, so that they are done again: what
// they wrote is gone with their nodes. It counts those. The ends of tasks that filch
// could not start go with them, as their inputs were on those nodes. Tasks that run
// once stay ended.
func (r *Remnant) Forget() (tasks int32) {
	if r.Spec.Once {
		return 0
	}
	for _, b := range r.tasks { // any order: each by itself
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

// Append appends the lines that say all of it.
func (r *Remnant) Append(b []byte) []byte {
	id := r.ID
	for range 2 {
		b = AppendMirrorLine(b, KeyJob(id), r.Job.Encode())
		if r.Spec != nil {
			b = AppendMirrorLine(b, KeySpec(id), r.Spec.Encode())
		}
	}
	if r.Job.Finished() {
		return b
	}
	for _, part := range slices.Sorted(maps.Keys(r.lines)) {
		b = AppendMirrorLine(b, KeyPayload(id, part), r.lines[part].Encode())
	}
	for _, num := range slices.Sorted(maps.Keys(r.tasks)) {
		b = AppendMirrorLine(b, KeyBlock(id, num), r.tasks[num].Encode())
	}
	return b
}

// Plus is both together.
func (t RemnantTally) Plus(u RemnantTally) RemnantTally {
	return RemnantTally{t.Done + u.Done, t.Left + u.Left, t.Lost + u.Lost}
}
