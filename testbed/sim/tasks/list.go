package tasks

import (
	"time"

	"github.com/filch-hpc/filch"

	"github.com/filch-hpc/filch/mtc"
)

// word is what the member list says of a host. Words come in any order: of two
// the list keeps the later.
type word struct {
	filch.Member
	version int // only the host itself raises it
}

// word is what a host says of itself.
func (h *host) word() word {
	m := filch.Member{Name: h.Name, Incarnation: h.incarnation, Group: group(int(h.Index)), Labels: h.w.needs.labels(int(h.Index))}
	if h.drains {
		m.Standing = filch.Draining
	}
	return word{m, h.seen.version}
}

// supersedes is the rule of members.Member: a death ends an incarnation for good, and
// within a version that a host is gone overrides that it is there.
func (m *word) supersedes(old *word) bool {
	switch {
	case m.Incarnation != old.Incarnation:
		return m.Incarnation > old.Incarnation
	case m.Standing >= filch.Dead || old.Standing >= filch.Dead:
		return m.Standing >= filch.Dead && old.Standing < filch.Dead
	case m.version != old.version:
		return m.version > old.version
	}
	return m.Standing == filch.Gone && old.Standing != filch.Gone
}

// hear tells all hosts of a member, each at its own moment.
func (w *World) hear(m word) {
	for _, o := range w.hosts {
		if o.Name != m.Name {
			life := o.incarnation
			w.At(w.Now()+w.fault.Between(0, 300*time.Millisecond), func() { w.learn(o, life, m) })
		}
	}
}

// learn gives a host a word of a member; it takes in what is news.
func (w *World) learn(o *host, life uint64, m word) {
	o.input(life, "member", func(now time.Duration, out *mtc.Out) {
		if old := &w.lists[o.Index][w.byName(m.Name).Index]; m.supersedes(old) {
			*old = m
			o.core.SetMember(now, m.Member, out)
		}
	})
}
