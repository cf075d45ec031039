package flat

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
)

// thief is a node's search for work, as in mtc/search.
type thief struct {
	at      time.Duration // when the phase ends; resting and 0: at the next input
	since   time.Duration // when the thief began to look for work; 0: the thief does not look
	spell   policy.Spell
	teller  uint32 // the node that sent news, or tasks
	best    uint32 // the most loaded of the answering nodes
	load    uint32 // of best
	round   uint16
	asked   uint16
	answers uint16
	moving  uint8 // offers whose moves are being committed
	phase   phase
}

type phase uint8

const (
	resting phase = iota
	asking
	stealing
)

func (t *thief) rest(until time.Duration) { t.phase, t.at = resting, until }

// wait sets the end of the phase of a thief.
func (s *Sim) wait(i uint32, until time.Duration) {
	s.thieves[i].at = until
	s.events.Push(event{at: until, node: i, kind: ticked})
}

// hungry reports whether a node has free slots and no tasks. A node that has tasks, and does not know
// their job yet, is hungry.
func (s *Sim) hungry(i uint32) bool {
	return s.free[i] > 0 && s.thieves[i].moving == 0 && (s.queue[i] == 0 || s.flags[i]&knows == 0)
}

// seek looks for work if a node has none.
func (s *Sim) seek(i uint32, now time.Duration) {
	t := &s.thieves[i]
	if t.phase != resting || t.at > now {
		return
	}
	if !s.hungry(i) {
		t.at = 0
		s.flags[i] |= begun
		return
	}
	n := s.opt.Nodes - 1
	if n == 0 {
		return
	}
	if s.flags[i]&begun == 0 {
		s.flags[i] |= begun
		if !t.spell.HasNews() {
			s.wait(i, now+s.rng.UpTo(policy.PollRest))
			return
		}
	}
	s.choose(i, n)
	if len(s.picked) == 0 {
		s.failed(i)
		return
	}
	t.round++
	t.phase, t.best, t.load, t.asked, t.answers = asking, nobody, 0, uint16(len(s.picked)), 0
	s.wait(i, now+policy.AskWait)
	t.spell.Asked(len(s.picked))
	if t.since == 0 {
		t.since = max(now, 1)
	}
	for _, to := range s.picked {
		s.send(i, uint32(to), LoadAsk, 0, t.round)
	}
}

// choose names the nodes to ask, as [policy.Members.Choose].
func (s *Sim) choose(i uint32, n int) {
	t, k := &s.thieves[i], 0
	switch s.opt.Victims {
	case policy.Lifeline:
		if t.spell.Failures() > 0 {
			s.picked = s.picked[:0]
			for to := range policy.Lifelines(int(i), s.opt.Nodes, false, lends) {
				s.picked = append(s.picked, int32(to))
			}
			return
		}
		k = policy.LifelineDraws
	default:
		k = t.spell.Width(n)
	}
	if t.teller == nobody {
		s.picked = policy.Draw(s.picked, s.opt.Nodes, k, &s.rng, func(p int32) bool { return uint32(p) != i })
		return
	}
	s.picked = policy.Draw(s.picked, s.opt.Nodes, k-1, &s.rng, func(p int32) bool { return uint32(p) != i && uint32(p) != t.teller })
	s.picked = append(s.picked, int32(t.teller))
}

// lends holds for all nodes.
func lends(int) bool { return true }

func (s *Sim) onSay(i uint32, e *event) {
	t := &s.thieves[i]
	if t.phase != asking || t.round != e.round {
		return
	}
	if e.what > t.load {
		t.best, t.load = e.peer, e.what
	}
	if t.answers++; t.answers == t.asked {
		s.rob(i)
	}
}

// rob steals from the most loaded of the answering nodes.
func (s *Sim) rob(i uint32) {
	t := &s.thieves[i]
	if t.load == 0 || !s.hungry(i) {
		s.failed(i)
		return
	}
	t.phase = stealing
	s.wait(i, s.now+policy.StealWait)
	s.send(i, t.best, Steal, 0, t.round)
}

// failed ends a try without work.
func (s *Sim) failed(i uint32) {
	t := &s.thieves[i]
	t.phase, t.teller = resting, nobody
	wait, _, rests := t.spell.Failed(s.opt.Victims, s.opt.Nodes-1, policy.PollMax)
	if rests {
		t.since = 0
	}
	s.wait(i, s.now+s.rng.UpTo(wait))
}

func (s *Sim) onTick(i uint32) {
	switch t := &s.thieves[i]; {
	case t.at > s.now: // the tick waited for the processor, and the thief went on meanwhile
	case t.phase == asking && t.answers > 0:
		s.rob(i)
	case t.phase == asking || t.phase == stealing:
		s.failed(i)
	}
}

// news wakes a thief that rests.
func (t *thief) news(from uint32, now time.Duration) {
	t.teller = from
	if !t.spell.HasNews() && t.since != 0 {
		t.since = now
	}
	t.spell.Told()
	if t.phase == resting && t.at > now {
		t.at = now
		t.spell.Hurry()
	}
}

// tell sends news of work.
func (s *Sim) tell(i uint32) {
	p := &s.presses[i]
	load := s.load(i)
	if load == 0 {
		p.Fresh = true
		return
	}
	first, spread, due := p.Round(s.now, false)
	if !due {
		return
	}
	n := s.opt.Nodes - 1
	news := policy.News{First: first, Spread: spread, Victims: s.opt.Victims}
	told := s.askers.take(s.picked[:0], i)
	if news.Feeds() {
		for to := range policy.Lifelines(int(i), s.opt.Nodes, true, lends) {
			if !slices.Contains(told, int32(to)) {
				told = append(told, int32(to))
			}
		}
	}
	if least := news.Least(n); len(told) < least && n > 0 {
		told = append(told, policy.Draw(nil, s.opt.Nodes, min(least, n), &s.rng, func(p int32) bool { return uint32(p) != i && !slices.Contains(told, p) })...)
	}
	for _, to := range told {
		s.send(i, uint32(to), News, load, 0)
	}
	s.picked = told
}

// askers are the thieves that found nothing at each node, the oldest first, as [policy.Askers].
type askers struct {
	first, last []uint32 // by node: links; nobody: none
	count       []uint8
	links       []link
	spare       uint32
}

type link struct{ who, next uint32 }

func (a *askers) init(n int) {
	a.first, a.last, a.count, a.spare = make([]uint32, n), make([]uint32, n), make([]uint8, n), nobody
	for i := range n {
		a.first[i] = nobody
	}
}

func (a *askers) bytes() int64 {
	return bytesOf(a.first) + bytesOf(a.last) + bytesOf(a.count) + bytesOf(a.links)
}

// remember keeps a thief for later news. There is no later news once all tasks have started.
func (s *Sim) remember(i, thief uint32) {
	a := &s.askers
	if s.unstarted == 0 {
		return
	}
	for at := a.first[i]; at != nobody; at = a.links[at].next {
		if a.links[at].who == thief {
			return
		}
	}
	at := a.spare
	if at == nobody {
		at = uint32(len(a.links))
		a.links = append(a.links, link{})
	} else {
		a.spare = a.links[at].next
	}
	a.links[at] = link{thief, nobody}
	if a.first[i] == nobody {
		a.first[i] = at
	} else {
		a.links[a.last[i]].next = at
	}
	a.last[i] = at
	if a.count[i]++; a.count[i] > policy.AskersMax {
		a.drop(i)
	}
}

// drop forgets the oldest thief.
func (a *askers) drop(i uint32) (who uint32) {
	at := a.first[i]
	who = a.links[at].who
	a.first[i] = a.links[at].next
	a.links[at].next, a.spare = a.spare, at
	a.count[i]--
	return who
}

// take forgets all thieves, and lists them.
func (a *askers) take(list []int32, i uint32) []int32 {
	for a.first[i] != nobody {
		list = append(list, int32(a.drop(i)))
	}
	return list
}
