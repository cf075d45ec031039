package replica

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/record"
)

// sureWait is how long an offered copy counts without a word of the thief: the offer may be lost.
const sureWait = 5 * time.Second

// Copy is a copy of a task of this node on another node.
type Copy struct {
	Number uint64
	Run    uint64 // of the task here
	Job    filch.JobID
	Index  int32
	Holder record.Owner
	Since  time.Duration // of the offer, and then of its start
	Sure   bool          // the holder has leave to begin
	Runs   bool
}

// Given is the copies of the tasks of this node on other nodes.
type Given struct {
	list []Copy
	ever map[uint64][]record.Rival // by run: copies with leave to begin, also the ended ones
}

// may reports whether a run may have another copy: most is how many in all, from first to last.
func (g *Given) may(run uint64, most uint8) bool {
	n := len(g.ever[run])
	for i := range g.list {
		if c := &g.list[i]; c.Run == run && !c.Sure {
			n++
		}
	}
	return n < int(most)
}

// On reports whether a node has the offer of a copy of a run, or the copy.
func (g *Given) On(run uint64, holder filch.NodeName) bool {
	return slices.ContainsFunc(g.list, func(c Copy) bool { return c.Run == run && c.Holder.Node == holder })
}

// Add adds an offered copy.
func (g *Given) Add(c Copy) { g.list = append(g.list, c) }

// Said takes in a word of the holder of a copy; known is false for a copy outside the list. run
// is the task here.
func (g *Given) Said(now time.Duration, from filch.NodeName, m *message.CopySay) (run uint64, known bool) {
	i := slices.IndexFunc(g.list, func(c Copy) bool {
		return c.Number == m.Number && c.Holder.Node == from && c.Job == m.Job && c.Index == m.Index
	})
	if i < 0 {
		return 0, false
	}
	c := &g.list[i]
	run = c.Run
	switch {
	case m.State == message.CopyOver:
		if k := slices.IndexFunc(g.ever[run], func(r record.Rival) bool { return r.Owner == c.Holder && !r.Over }); k >= 0 {
			g.ever[run][k].Over = !m.Ended
		}
		g.list = slices.Delete(g.list, i, i+1)
	case m.State == message.CopyOffered && !c.Sure:
		if g.ever == nil {
			g.ever = make(map[uint64][]record.Rival)
		}
		c.Sure = true
		g.ever[run] = append(g.ever[run], record.Rival{Owner: c.Holder})
	case m.State >= message.CopyRuns:
		c.Runs, c.Since = true, now-m.Took
	}
	return run, true
}

// Lives reports whether a copy of a run may run, or may begin.
func (g *Given) Lives(run uint64) bool {
	return slices.ContainsFunc(g.list, func(c Copy) bool { return c.Run == run && c.Sure })
}

// End takes the copies of a run off the list, at the end of the run.
func (g *Given) End(run uint64) (list []Copy) {
	g.list = slices.DeleteFunc(g.list, func(c Copy) bool {
		if c.Run == run {
			list = append(list, c)
		}
		return c.Run == run
	})
	delete(g.ever, run)
	return list
}

// Lost takes the copies at a dead node off the list, and returns the runs.
func (g *Given) Lost(o record.Owner) (runs []uint64) {
	g.list = slices.DeleteFunc(g.list, func(c Copy) bool {
		if c.Holder == o {
			runs = append(runs, c.Run)
		}
		return c.Holder == o
	})
	return runs
}

// Expire takes old offers without an answer off the list. next is when the next offer is old.
func (g *Given) Expire(now time.Duration) (some bool, next time.Duration) {
	next = filch.Never
	g.list = slices.DeleteFunc(g.list, func(c Copy) bool {
		switch {
		case c.Sure:
		case c.Since+sureWait <= now:
			some = true
			return true
		default:
			next = min(next, c.Since+sureWait)
		}
		return false
	})
	return some, next
}

// Running is the first running copy of a task; false without one.
func (g *Given) Running(job filch.JobID, index int32) (c Copy, ok bool) {
	i := slices.IndexFunc(g.list, func(c Copy) bool { return c.Job == job && c.Index == index && c.Runs })
	if i < 0 {
		return c, false
	}
	return g.list[i], true
}
