package policy

import (
	"time"

	"github.com/filch-hpc/filch"
)

// newsAgain is the least time between two rounds of news.
const newsAgain = time.Millisecond

// Bulletin is a node's news of work for thieves: when the news go out, and to which nodes.
type Bulletin struct {
	Press
	Askers    Askers
	Comers    Comers
	Calls     Calls
	Announcer Announcer
	kept      filch.JobID
}

// Press is when a node's news go out.
type Press struct {
	Fresh  bool          // work came since thieves received news
	heard  bool          // thieves received news at least once
	spread bool          // other nodes have parts of the work
	until  time.Duration // thieves get no tasks of the work that other nodes have parts of until then
	again  time.Duration
}

// Keep is [Bulletin.Keep] of the only job.
func (p *Press) Keep(now time.Duration) { p.spread, p.until = true, now+spreadKeep }

// Keeps reports whether thieves get no tasks.
func (p *Press) Keeps(now time.Duration) bool { return p.until > now && !mutantUnkept }

// Kept is when thieves get tasks again that the node keeps; Never if the node keeps none.
func (p *Press) Kept(now time.Duration) time.Duration {
	if p.until > now {
		return p.until
	}
	return filch.Never
}

// Round begins a round of news, if one is due: first says that the node sends its first news, and spread
// that other nodes have parts of the work.
func (p *Press) Round(now time.Duration, urgent bool) (first, spread, due bool) {
	first = !p.heard
	if !p.Fresh && !urgent {
		return first, false, false
	}
	if p.Fresh = now < p.again; p.Fresh {
		return first, false, false
	}
	spread, p.spread = p.spread, false
	p.heard, p.again = true, now+newsAgain
	return first, spread, true
}

// Keep notes that other nodes have parts of a bag, or get them now: until they have them, no thief gets
// tasks of the bag, and of this work only thieves hear that found nothing here.
func (b *Bulletin) Keep(job filch.JobID, now time.Duration) {
	b.kept = job
	b.Press.Keep(now)
}

// Keeps reports whether thieves get no tasks of a job.
func (b *Bulletin) Keeps(job filch.JobID, now time.Duration) bool {
	return b.kept == job && b.Press.Keeps(now)
}

// Idle notes that the node has no tasks for others: the next tasks are news.
func (b *Bulletin) Idle() {
	b.Fresh = true
	b.Calls.Idle()
	b.Announcer.Idle()
}

// Came takes in a node that came. In a small instance that has had work, the node hears of work
// until it is heard, also if the work comes later; the first work is news for all. Of many nodes, a
// few with work send news, and once.
func (b *Bulletin) Came(name filch.NodeName, now time.Duration, m *Members, self filch.NodeName, works bool, r *filch.Rand) {
	n := m.Others(self)
	switch {
	case n <= tellAll && (works || b.heard):
		b.Comers.Came(name, now)
	case n > tellAll && works && r.IntN(n) < 4*filch.Root(n):
		b.Askers.Add(name)
		b.Fresh = true
	}
}

// Round names the nodes to tell now of tasks of which the first has a class.
func (b *Bulletin) Round(now time.Duration, class int32, m *Members, w News, r *filch.Rand) []filch.NodeName {
	for _, name := range b.Comers.Due(now) {
		b.Askers.Add(name)
		b.Fresh = true
	}
	w.Urgent = b.Calls.Due(now, class)
	if m.Others(w.Self) <= tellAll || w.Victims == Lifeline || w.Ready == 0 || mutantFewTold {
		b.Announcer.Idle()
	} else {
		w.many = b.Announcer.due(now, w.Ready)
	}
	due := false
	if w.First, w.Spread, due = b.Press.Round(now, w.Urgent || w.many); !due {
		return nil
	}
	if w.many {
		b.Announcer.told(now, w.Ready)
	}
	return b.Askers.Tell(m, w, r)
}

// Next is when a round is due in any case, after a look at now.
func (b *Bulletin) Next(now time.Duration) time.Duration {
	next := min(b.Comers.Next(), b.Kept(now), max(b.Announcer.Next(), b.again))
	if at := b.Calls.Next(); at > now {
		return min(at, next)
	}
	return next
}
