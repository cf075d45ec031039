package before

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// lookups are the records with the state of a job, the job's own first, and blocks last. After
// answers that tell of ends which no block has, lookups are the blocks alone: a block that is
// read now has each end that the job counted then.
func (d *dep) lookups() []record.Proposal {
	list := []record.Proposal{{Op: record.OpLookup, Key: record.KeyJob(d.job), Kind: record.RecordBefore}}
	zone := func(n int32) {
		list = append(list, record.Proposal{Op: record.OpLookup, Key: record.KeyZone(d.job, n), Kind: record.RecordZone})
	}
	block := func(n int32) {
		list = append(list, record.Proposal{Op: record.OpLookup, Key: record.KeyBlock(d.job, n), Kind: record.RecordBlock})
	}
	p := d.part.Tasks
	switch {
	case p.Count > 0:
		last := p.From + p.Count - 1
		for n := p.From / record.ZoneSize; n <= last/record.ZoneSize; n++ {
			zone(n)
		}
		for n := p.From / record.BlockSize; n <= last/record.BlockSize; n++ {
			block(n)
		}
	case d.when == record.WhenStarted: // the first tasks start first
		zone(0)
		block(0)
	}
	return list[len(d.told):]
}

// blocks is the number of blocks with the tasks.
func (d *dep) blocks() int {
	p := d.part.Tasks
	return int((p.From+p.Count-1)/record.BlockSize-p.From/record.BlockSize) + 1
}

// state reads the records of [dep.lookups]. Ended reports the end of the job, or of all of
// the tasks; end is this end, before then the first bad end of a task, or 0. Started reports
// the start, or any end, of the job or of all of the tasks. Bare: a bad end is in no block,
// and only the job or a zone tells of the end.
func (d *dep) state(j *record.Job, as []record.Answer) (end filch.State, ended, started, bare bool) {
	p := d.part.Tasks
	if p.Count == 0 {
		switch t := j.Tally(); {
		case !j.Finished():
		case j.Total == 1 && t.Killed == 1:
			return filch.Killed, true, true, false // as the only rank or task ended
		case j.Total == 1 && t.Lost == 1:
			return filch.Lost, true, true, false
		default:
			return j.State(), true, true, false
		}
		return 0, false, d.when == record.WhenStarted && (j.State() == filch.Running || begun(as)), false
	}
	zones, blocks := map[int32]*record.Zone{}, map[int32]*record.Block{}
	first, last := p.From, p.From+p.Count-1
	for n := first / record.ZoneSize; n <= last/record.ZoneSize; n++ {
		zones[n], as = readZone(&as[0]), as[1:]
	}
	for n := first / record.BlockSize; n <= last/record.BlockSize; n++ {
		blocks[n], as = readBlock(&as[0]), as[1:]
	}
	end, ended, started = filch.OK, true, true
	for i := first; i <= last; i++ {
		b := blocks[i/record.BlockSize]
		t := b.Find(uint8(i % record.BlockSize))
		s := taskEnd(j, zones[i/record.ZoneSize], b, i)
		bare = bare || s != 0 && s != filch.OK && (t == nil || !t.State.Final())
		switch {
		case s == 0:
			ended, started = false, started && tried(t)
		case s != filch.OK && end == filch.OK:
			end = s
		}
	}
	if end == filch.OK && !ended {
		end = 0
	}
	return end, ended, started, bare
}

// tried reports whether a start of a task was committed, now or in an earlier attempt.
func tried(t *record.Task) bool {
	return t != nil && (t.Started || t.Attempt > record.FirstAttempt)
}

// taskEnd is the end of a task by the records; 0 before the end.
func taskEnd(j *record.Job, z *record.Zone, b *record.Block, i int32) filch.State {
	if t := b.Find(uint8(i % record.BlockSize)); t != nil && t.State.Final() {
		return t.State
	}
	for _, s := range z.Spans {
		if s.Lo <= i && i < s.Hi && s.Void != 0 {
			return s.Void
		}
	}
	switch {
	case !j.Finished():
		return 0
	case j.State() == filch.OK:
		return filch.OK
	case j.Void != 0:
		return j.Void
	case i >= j.Total: // a job that ended without this task
		return filch.Skipped
	}
	return filch.Lost // the record of the end was dropped
}

// begun reports whether the first zone or block tells of a start: the front goes ahead of
// the first start only by the time of a commit.
func begun(as []record.Answer) bool {
	z, b := readZone(&as[0]), readBlock(&as[1])
	for _, s := range z.Spans {
		if s.Front > s.Lo {
			return true
		}
	}
	for i := range b.Tasks {
		if t := &b.Tasks[i]; t.Started || t.State.Final() {
			return true
		}
	}
	return len(z.Blocks) > 0
}

// readZone and readBlock read a record; a record that is absent is empty.
func readZone(a *record.Answer) *record.Zone {
	if z, err := record.DecodeZone(a.Value); err == nil && a.Status == record.AnswerDone {
		return z
	}
	return &record.Zone{}
}

func readBlock(a *record.Answer) *record.Block {
	if b, err := record.DecodeBlock(a.Value); err == nil && a.Status == record.AnswerDone {
		return b
	}
	return &record.Block{}
}
