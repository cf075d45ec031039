package lines

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// kept bounds the payload records that a node keeps of a job.
const kept = 256

// How often a node looks up a line that the store does not have yet, and the job
// meanwhile, to learn the last adder. The first wait, which doubles, is about the time between the
// commit of an addition and the write of its lines: whoever adds single tasks, each after the end
// of the one before, waits for it with each task.
const (
	lineAgain    = time.Millisecond
	lineAgainMax = 500 * time.Millisecond
	lineJobAgain = time.Second
)

// Lines are the payload records of a job that a node has read, and the records that still
// lack the line of a task here.
type Lines struct {
	parts  map[int32]*record.Payload // nil: not received yet
	order  []int32                   // of arrival
	absent []Absence                 // to be looked up again
}

// Absence is a payload record without the line of a task here.
type Absence struct {
	Part   int32
	Since  time.Duration
	next   time.Duration // time of the next lookup
	wait   time.Duration
	looked time.Duration // at the job
	asking bool          // lookup under way, or no task needs the line now
}

// Wait bounds the wait for a line while no death of the adder is known: an adder has
// at most a frame of lines under way.
const Wait = time.Minute

// Lost are the tasks of the payload record whose line no node will write, as far as the
// caller knows: an adder is dead, or the wait was too long.
func (a *Absence) Lost(now time.Duration, rec *record.Job, dead func(record.Owner) bool) (offs []uint8) {
	for off := range int32(record.PayloadSize) {
		i := a.Part*record.PayloadSize + off
		if i >= rec.Total {
			break
		}
		lost := now-a.Since >= Wait
		for _, b := range rec.Added {
			lost = lost || i >= b.Base && i < b.Base+b.Count && dead(b.By)
		}
		if lost {
			offs = append(offs, uint8(off))
		}
	}
	return offs
}

// Of is the line of a task, nil if the task has none here.
func (l *Lines) Of(index int32) []byte {
	part := l.parts[index/record.PayloadSize]
	if part == nil {
		return nil
	}
	line, _ := part.Line(uint8(index % record.PayloadSize))
	return line
}

// Is is the state of a task's line.
type Is uint8

// The states.
const (
	Away Is = iota // not here yet
	Here           // or the task has none
	Gone           // the line will never come
)

// State is the state of a task's line. Lacks reports that the record of the line was read
// before the line was added: Lines forgets the record.
func (l *Lines) State(index int32) (is Is, lacks bool) {
	part := index / record.PayloadSize
	p := l.parts[part]
	if p == nil {
		return Away, false
	}
	line, ok := p.Line(uint8(index % record.PayloadSize))
	switch {
	case !ok:
		l.parts[part] = nil
		l.order = slices.DeleteFunc(l.order, func(n int32) bool { return n == part })
		return Away, true
	case len(line) == 0:
		return Gone, false
	}
	l.Found(part)
	return Here, false
}

// Ask reports whether the caller should look up a payload record: the record is neither
// here nor under way.
func (l *Lines) Ask(part int32) bool {
	if _, ok := l.parts[part]; ok {
		return false
	}
	if l.parts == nil {
		l.parts = make(map[int32]*record.Payload)
	}
	l.parts[part] = nil
	return true
}

// Keep keeps a payload record that was read.
func (l *Lines) Keep(part int32, p *record.Payload) {
	l.parts[part] = p
	l.order = append(l.order, part)
	for len(l.order) > kept {
		l.Found(l.order[0])
		delete(l.parts, l.order[0])
		l.order = slices.Delete(l.order, 0, 1)
	}
}

// Found ends the search for a missing line in a payload record.
func (l *Lines) Found(part int32) {
	if len(l.absent) > 0 {
		l.absent = slices.DeleteFunc(l.absent, func(a Absence) bool { return a.Part == part })
	}
}

// Missing notes that a payload record lacks the line of a waiting task, and returns the
// time of the next lookup.
func (l *Lines) Missing(now time.Duration, part int32) time.Duration {
	if i := slices.IndexFunc(l.absent, func(a Absence) bool { return a.Part == part }); i >= 0 {
		a := &l.absent[i]
		a.wait = min(2*a.wait, lineAgainMax)
		a.next, a.asking = now+a.wait, false
		return a.next
	}
	l.absent = append(l.absent, Absence{Part: part, Since: now, next: now + lineAgain, wait: lineAgain, looked: now})
	return now + lineAgain
}

// Due returns the missing records that are to be looked up now, whether to look up the
// job too, and the time of the next look.
func (l *Lines) Due(now time.Duration) (due []Absence, job bool, next time.Duration) {
	next = filch.Never
	for i := range l.absent {
		a := &l.absent[i]
		switch {
		case a.asking:
			continue
		case a.next > now:
			next = min(next, a.next)
			continue
		}
		a.asking = true
		if a.looked+lineJobAgain <= now {
			a.looked, job = now, true
		}
		due = append(due, *a)
	}
	return due, job, next
}

// Again makes the next [Lines.Ask] for a record look up the record again.
func (l *Lines) Again(part int32) { delete(l.parts, part) }
