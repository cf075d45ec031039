package ranks

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// event is an event of the ranks of p: of the run, or of the task that is a gang.
func (p *participant) event(k events.Kind, count int64) events.Event {
	e := events.Event{Kind: k, Job: p.key.Job, Try: p.launch.Try(), Count: count}
	if of := p.launch.Of; of.Job != 0 {
		e.Job, e.Task, e.Tasks = of.Job, int32(of.Index), 1
	}
	return e
}

// tellStart tells the begin of the ranks of p on this node, once. Of ranks that run since before
// a restart of the launcher, the begin is not known.
func tellStart(t *local.Turn, p *participant) {
	if p.phase >= launcher.PhaseStarted || p.flags.adopted && p.phase < launcher.PhasePrepared {
		return
	}
	t.Event(p.event(events.RanksStarted, int64(launcher.CountRanks(p.launch.Nodes[p.index].Ranks))))
}

// tellEnds tells the ends of ranks of p, with the slots that each rank had. Only this node knows
// the slots: no message to the origin has them.
func tellEnds(t *local.Turn, p *participant, ends []launcher.RankEnd) {
	for i := range ends {
		e := p.event(events.RankEnded, int64(ends[i].Rank))
		e.State, e.Code = ends[i].Kind.State(), ends[i].Kind.Code(ends[i].Code)
		e.Reason = p.slotsOf(ends[i].Rank).String()
		t.Event(e)
	}
}

// slotsOf are the slots of a rank; none where the ranks of a node share slots.
func (p *participant) slotsOf(rank filch.Rank) filch.Slots {
	nth := int32(0) // of the rank, on this node
	for _, s := range p.launch.Nodes[p.index].Ranks {
		if at := int32(rank - s.First); at >= 0 && at < s.Count {
			each := p.launch.Each.Slots
			from := min((nth+at)*each, int32(len(p.slots)))
			return filch.SlotsOf(p.slots[from:min(from+each, int32(len(p.slots)))])
		}
		nth += s.Count
	}
	return filch.Slots{}
}
