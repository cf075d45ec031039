package report

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/events"
)

// gang is a run, or a task of several ranks.
type gang struct {
	job  filch.JobID
	task int32 // -1: a run
}

func gangOf(e *events.Event) gang {
	if e.Tasks == 0 {
		return gang{e.Job, -1}
	}
	return gang{e.Job, e.Task}
}

// gathers takes in a gang that begins to collect slots. The event has the ranks: a rank of
// another job, or of a run, counts as one slot.
func (k *collector) gathers(at int64, e *events.Event) {
	slots := int32(min(e.Count, 1<<30))
	if e.Job == k.page.Job.ID && e.Tasks > 0 {
		slots = k.work.Each
	}
	k.gathered(at, e)
	if k.open == nil {
		k.open = map[gang]gathering{}
	}
	k.open[gangOf(e)] = gathering{span{Begin: at}, slots}
}

// gathered takes in the end of a gather: the launch, or the end of the job or the gang.
func (k *collector) gathered(at int64, e *events.Event) {
	for of, g := range k.open { // in any order: each is a change of its own
		if of == gangOf(e) || of.job == e.Job && e.Kind != events.JobLaunched && e.Tasks == 0 {
			delete(k.open, of)
			k.gathering(g, at)
		}
	}
}

// gathering keeps the part of a gather that is in the time of the job.
func (k *collector) gathering(g gathering, end int64) {
	g.Time.End = end
	if in := k.work.within([]span{g.Time}); len(in) > 0 {
		g.Time = in[0]
		k.work.Gathers = append(k.work.Gathers, g)
	}
}
