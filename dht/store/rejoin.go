package store

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch/dht"
)

// Rejoin begins a new life of this node, under a higher incarnation: the other nodes
// declared the old incarnation dead and replaced this node everywhere. The new life
// begins with the state that the disk will have once the log is synced, as if the process
// had restarted:
//
//   - Entry numbers continue. No message of the new life leaves before the disk has
//     all entries of the old life, as the message may depend on these entries.
//     Messages of the old life that wait for the disk are dropped.
//   - Each unanswered operation is answered now: a lookup with Unavailable, others
//     with Unknown. An AcceptLoss is answered with Unknown too.
//   - Watches continue. Changes made meanwhile are reported when the homes of the
//     watches are found.
//   - The member list's state of other nodes stays known, and so do the state of
//     the disk and a wish to leave. No roster is known until a peer sends a roster.
func (s *Store) Rejoin(now time.Duration, incarnation uint64, out *Out) {
	s.begin(now, out)
	defer s.end()
	if incarnation <= s.self.Incarnation {
		panic(fmt.Sprintf("%s cannot rejoin as incarnation %d after %d", s.self.Name, incarnation, s.self.Incarnation))
	}
	if !mutantRejoinSilent {
		s.answerAll(fmt.Sprintf("%s was declared dead before this was answered", s.self.Name))
	}
	for _, sh := range s.replica.held() {
		if sh.home {
			s.out.Homes = append(s.out.Homes, HomeChange{sh.id, false})
		}
	}
	images := s.rejoinImages()
	old := *s
	cfg := old.cfg
	cfg.Incarnation = incarnation
	s.start(newInput(cfg))
	s.now, s.out, s.began = old.now, out, max(old.now, 1)
	s.disk.logged, s.disk.synced, s.disk.reason, s.disk.missed = old.disk.logged, old.disk.synced, old.disk.reason, old.disk.missed
	s.disk.gate.whole, s.disk.gate.founded = old.disk.gate.whole, old.disk.gate.founded
	if mutantRejoinUnsynced {
		s.disk.synced = s.disk.logged
	}
	s.Restore(images, false)
	if s.disk.reason == "" && s.disk.logged > s.disk.synced {
		s.disk.gate.floor = s.disk.logged
		s.disk.hurry(s.disk.gate.floor)
	}
	s.peers.woke = old.peers.woke
	for _, p := range old.peers.order {
		q := s.peers.know(p.name)
		q.inc, q.listed, q.state = p.inc, p.listed, p.state
	}
	s.sync.want(nil)
	if !mutantRejoinBlind {
		s.watches.takeOver(old.watches)
	}
	switch s.membership.course = old.membership.course; {
	case s.membership.course == goes:
		s.membership.leaving()
	case s.membership.course > backs:
		s.membership.returning()
	}
}

// rejoinImages returns the entries that the disk will have once the log is synced. These
// include changes under way to other replicas, as these replicas may already have the
// changes.
func (s *Store) rejoinImages() []LogEntry {
	images := s.Images()
	for _, sh := range s.replica.held() {
		for _, k := range sh.turning() {
			images = append(images, LogEntry{Key: recordKey + string(k), Value: sh.turns[k].next.Image})
		}
	}
	return images
}

// answerAll answers all pending operations of this node's users: each may be done or not.
func (s *Store) answerAll(why string) {
	s.disk.void(why)
	for _, o := range s.requests.open {
		if !o.done {
			s.out.Results = append(s.out.Results, unsure(Answer{Tag: o.call.tag, Index: o.index}, o.op.Reads(), why))
		}
	}
	if l := s.loss.request; l != nil {
		s.loss.answer(l, dht.Result{Outcome: dht.Unknown, Err: why})
	}
}
