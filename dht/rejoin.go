package dht

import (
	"fmt"
	"time"
)

// Rejoin begins a new life of this node, under a higher incarnation: the others
// declared the old one dead, and replaced it wherever it held something. The new
// life begins with what the log will say once all of it is on the disk, as if the
// process had been started again:
//
//   - Entries go on by their numbers. No message of the new life leaves before the
//     disk has all that the old one logged, as that may be what it speaks of.
//     Messages of the old life that wait for the disk are dropped.
//   - Each operation that is not answered is answered now: with Unknown, or if it is
//     a lookup with Unavailable. So is an AcceptLoss, with Unknown.
//   - Watches go on. What changed meanwhile is told when their homes are found.
//   - What the list of members said of the others stays known, and so do the state of
//     the disk and a wish to leave. No roster is known until somebody tells it.
func (s *Store) Rejoin(now time.Duration, incarnation uint64, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	if incarnation <= s.self.Incarnation {
		panic(fmt.Sprintf("%s cannot rejoin as incarnation %d after %d", s.self.Name, incarnation, s.self.Incarnation))
	}
	if !mutantRejoinSilent {
		s.answerAll(fmt.Sprintf("%s was declared dead before this was answered", s.self.Name))
	}
	for _, sh := range s.held() {
		if sh.home {
			s.out.Homes = append(s.out.Homes, HomeChange{sh.id, false})
		}
	}
	images := s.rejoinImages()
	old := *s
	old.cfg.Incarnation = incarnation
	*s = *NewStore(old.cfg)
	s.now, s.out, s.stew.began = old.now, out, max(old.now, 1)
	d := &s.disk
	d.logged, d.synced, d.reason, d.missed = old.disk.logged, old.disk.synced, old.disk.reason, old.disk.missed
	s.disk.gate.whole, s.disk.gate.founded = old.disk.gate.whole, old.disk.gate.founded
	if mutantRejoinUnsynced {
		d.synced = d.logged
	}
	s.Restore(images, false)
	if d.reason == "" && d.logged > d.synced {
		s.disk.gate.floor = d.logged
		s.hurry(s.disk.gate.floor)
	}
	s.peers.woke = old.peers.woke
	for _, p := range old.peers.order {
		q := s.peers.know(p.name)
		q.inc, q.listed, q.state = p.inc, p.listed, p.state
	}
	s.want(nil)
	if !mutantRejoinBlind {
		s.takeViews(&old.views)
	}
	switch s.course = old.course; {
	case s.course == goes:
		s.leaving()
	case s.course > backs:
		s.returning()
	}
}

// rejoinImages is what the disk will have once all that was logged is on it:
// also changes that are on their way to other replicas. They may have them.
func (s *Store) rejoinImages() []LogEntry {
	images := s.Images()
	for _, sh := range s.held() {
		for _, k := range sh.turning() {
			images = append(images, LogEntry{Key: recordKey + string(k), Value: sh.turns[k].next.image})
		}
	}
	return images
}

// answerAll ends whatever this node's users wait for: it may be done or not.
func (s *Store) answerAll(why string) {
	s.void(why)
	for _, o := range s.calls.open {
		if !o.done {
			s.out.Results = append(s.out.Results, unsure(StoreResult{Tag: o.call.tag, Index: o.index}, o.op.reads(), why))
		}
	}
	if l := s.disk.recover.losing; l != nil {
		l.answer(s, Result{Outcome: Unknown, Err: why})
	}
}

// takeViews goes on with the watches of another life, from what they showed last.
func (s *Store) takeViews(old *views) {
	for _, v := range old.byNumber() {
		s.views.next++
		w := &view{number: s.views.next, tag: v.tag, key: v.key, at: v.at, version: v.version, absent: v.absent}
		s.views.mine[w.tag], s.views.byNum[w.number] = w, w
		s.register(w)
	}
}
