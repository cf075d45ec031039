package tasks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// How long the work of a dead node may have no other owner, and a task that
// runs once and was started there no end: both since the death was declared,
// while all other nodes are well.
const (
	goesOnWithin = 5 * time.Second
	lostWithin   = 20 * time.Second
)

// lookEvery is how often that is looked at, and lookFor how long.
const (
	lookEvery = 100 * time.Millisecond
	lookFor   = 2 * time.Minute
)

// Bounds are the longest times seen.
type Bounds struct {
	GoesOn, Lost   time.Duration // all other nodes were well
	Shaken         time.Duration // until all of it had an owner or its end, although one was not
	Deaths, Trials int           // and those in which all others were well
}

// Join keeps the longer times of both.
func (b *Bounds) Join(o Bounds) {
	b.GoesOn, b.Lost, b.Shaken = max(b.GoesOn, o.GoesOn), max(b.Lost, o.Lost), max(b.Shaken, o.Shaken)
	b.Deaths, b.Trials = b.Deaths+o.Deaths, b.Trials+o.Trials
}

// shake notes that something happens to a host.
func (w *World) shake() { w.shaken, w.shakenAt = w.shaken+1, w.Now() }

// mourn looks from the declaration of a death on until nothing belongs to the
// dead any more.
func (w *World) mourn(name filch.NodeName, life uint64) {
	o := record.Owner{Node: name, Incarnation: life}
	began, shaken := w.Now(), w.shaken
	for _, h := range w.hosts {
		if h.Name != name && (!h.Up() || h.cut || h.Paused()) {
			shaken = -1 // something is the matter with another one already
		}
	}
	owned, once := w.owned(o)
	if !owned {
		return
	}
	w.Stats.Bounds.Deaths++
	var look func()
	look = func() {
		b, took, calm := &w.Stats.Bounds, w.Now()-began, w.shaken == shaken
		was := once
		owned, once = w.owned(o)
		if was && !once && calm {
			b.Lost = max(b.Lost, took)
		}
		switch {
		case !owned && calm:
			b.Trials++
			b.GoesOn = max(b.GoesOn, took)
		case !owned:
			b.Shaken = max(b.Shaken, took)
		case calm && took > goesOnWithin && took <= goesOnWithin+lookEvery:
			w.truth.breach("work of %v has no other owner %v after its death was declared", o, took)
		case calm && once && took > lostWithin && took <= lostWithin+lookEvery:
			w.truth.breach("a task that runs once was started by %v, and has no end %v after its death was declared", o, took)
		}
		if owned && took < lookFor {
			w.At(w.Now()+lookEvery, look)
		}
	}
	w.At(w.Now()+lookEvery, look)
}

// owned reports whether the records give a node tasks without an end, or a job
// to keep going, and whether a task of these runs once and was started.
func (w *World) owned(o record.Owner) (owned, once bool) {
	task := func(j *job, i int32) {
		if i < j.total && j.ended[i] == 0 {
			owned = true
			once = once || j.Spec.Once && j.starts[i] > 0
		}
	}
	for _, k := range w.records.Keys() {
		key := string(k)
		id, number := parse(key)
		j, v := w.truth.jobs[id], w.record(key)
		switch {
		case j == nil: // the record of the resource that all hosts share
		case j.rec != nil && j.rec.Finished():
		case key == record.KeyJob(id):
			owned = owned || j.rec.Leader == o
		case key == record.KeyZone(id, number):
			z, _ := record.DecodeZone(v)
			for _, s := range z.Spans {
				for i := s.Lo; i < s.Hi && s.Owner == o && s.Void == 0; i++ {
					task(j, i)
				}
			}
		case key == record.KeyBlock(id, number):
			b, _ := record.DecodeBlock(v)
			for k := range b.Tasks {
				if b.Tasks[k].State == 0 && b.Tasks[k].Owner == o {
					task(j, number*record.BlockSize+int32(b.Offs[k]))
				}
			}
		}
	}
	return owned, once
}
