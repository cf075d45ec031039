package members

import (
	"time"

	"github.com/filch-hpc/filch"
)

// news are the entries not yet sent on.
type news struct {
	list []*entry
	last time.Duration // when news were last sent
	dead bool          // the news include a death or a gone process
	any  bool          // last has been set
}

// at is when the news are due.
func (n *news) at() time.Duration {
	if len(n.list) == 0 {
		return filch.Never
	}
	if !n.any {
		return 0
	}
	if n.dead {
		return n.last + deathGap
	}
	return n.last + newsGap
}

// publish adds an entry to the news. The news are not sent back to from.
func (n *news) publish(e *entry, from filch.NodeName) {
	if e.m.State == Dead || e.m.State == Gone {
		n.dead = true
	}
	e.source = from
	if !e.fresh {
		e.fresh = true
		n.list = append(n.list, e)
	}
}

// send sends the news along the links.
func (n *news) send(now time.Duration, links []*entry, out *Out) {
	for _, l := range links {
		var ms []Member
		for _, e := range n.list {
			if e.source != l.m.Name && e != l {
				ms = append(ms, e.m)
			}
		}
		out.sendNews(l.m.Name, ms)
	}
	n.drop()
	n.last, n.dead, n.any = now, false, true
}

// drop empties the news.
func (n *news) drop() {
	for _, e := range n.list {
		e.fresh = false
	}
	n.list = n.list[:0]
}
