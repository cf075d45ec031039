// Package search is a thief's search for work: which nodes the thief asks, when the thief asks
// again, and from which node the thief steals. The package knows no task: the core moves the
// tasks of an offer.
package search

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Node is the node of a [Thief].
type Node interface {
	Now() time.Duration
	Self() record.Owner
	Members() *policy.Members
	Dice() *filch.Rand
	Send(to filch.NodeName, m message.Message)
	Wake(at time.Duration)
	Hungry() bool // there is free room and no task for the room
	Works() bool  // there are tasks
	Means() message.Means
	Victims() policy.Victims
	Robber() filch.NodeName // the node that last stole here
	// Leader is the leader of the oldest job with tasks here, and whether the leader keeps the
	// tasks until they start soon, as of a workflow; "" without one.
	Leader() (name filch.NodeName, keeps bool)
	PollMax() time.Duration // bound of the doubling wait
	Quiet() time.Duration   // until then the node looks for no work
	Vain()                  // takes in that a try failed
}

// Thief is a node that looks for work. A Thief with its Node has not looked yet.
type Thief struct {
	Node    Node
	Poll    policy.Poll
	Urge    policy.Urge
	phase   phase
	survey  policy.Survey
	chosen  policy.Victims // of the survey
	gate    time.Duration  // until then tasks that stand back do not start
	at      time.Duration  // when the phase ends
	begun   bool           // the node has looked for work, or had work
	stopped bool
	from    filch.NodeName // the leader of the job of the last news
	teller  filch.NodeName // the node that sent news since the last try that failed
	spring  filch.NodeName // the leader of the last job here, if ready tasks wait there
}

type phase uint8

const (
	resting  phase = iota // until at
	asking                // for loads
	stealing              // from the most loaded
)

// At is when the search goes on. A resting thief that is not hungry has no such time: the
// input that makes the thief hungry wakes the thief.
func (s *Thief) At() time.Duration {
	if s.phase == resting && s.at == 0 {
		return filch.Never
	}
	return s.at
}

// Gate is until when tasks that stand back do not start.
func (s *Thief) Gate() time.Duration { return s.gate }

// Gated reports whether tasks of a class stand back now.
func (s *Thief) Gated(class int32) bool {
	return s.gate > s.Node.Now() && s.Urge.StandsBack(class)
}

// Rest ends a try: the thief looks again at a time, or at the next input for 0.
func (s *Thief) Rest(until time.Duration) { s.phase, s.at = resting, until }

// Resting reports whether no question of the thief is under way.
func (s *Thief) Resting() bool { return s.phase == resting }

// Awaits reports whether the thief waits for the offer with this number.
func (s *Thief) Awaits(ask uint64) bool {
	return ask != 0 && ask == s.Poll.Asks && s.phase == stealing
}

// StealsFrom reports whether the thief waits for an offer of a node.
func (s *Thief) StealsFrom(name filch.NodeName) bool {
	return s.phase == stealing && s.survey.Best == name
}

// Hurry makes the thief look at once: there may be tasks to steal.
func (s *Thief) Hurry() {
	if now := s.Node.Now(); s.phase == resting && s.at > now {
		s.at = now
		s.Poll.Hurry()
	}
}

// Seek looks for work if this node has none.
func (s *Thief) Seek() {
	now := s.Node.Now()
	if s.phase != resting || s.at > now || s.stopped {
		return
	}
	if quiet := s.Node.Quiet(); quiet > now {
		s.at = quiet
		return
	}
	if !s.Node.Hungry() {
		s.at, s.begun = 0, s.begun || s.Node.Works()
		s.works()
		return
	}
	n := s.Node.Members().Lenders(s.Node.Self().Node)
	if n <= 0 {
		s.at = 0
		return
	}
	if !s.begun {
		// A new node rests first: otherwise all nodes of a starting instance would ask, and
		// dial, each other.
		s.begun = true
		if !s.Poll.HasNews() && !mutantStorm {
			s.at = now + s.Node.Dice().UpTo(policy.PollRest)
			return
		}
	}
	s.ask(n)
}

// works takes in that this node has tasks.
func (s *Thief) works() {
	name, keeps := s.Node.Leader()
	switch {
	case keeps && name != s.Node.Self().Node && !mutantSpringless:
		s.spring = name
	case name != "":
		s.spring = ""
	}
}

// first is the node that the thief asks in any case: the last that had tasks, else the leader
// of the last job whose leader keeps the tasks. Other nodes have such tasks only for a short time.
func (s *Thief) first() filch.NodeName { return cmp.Or(s.teller, s.spring) }

// ask asks some of n other nodes for their loads.
func (s *Thief) ask(n int) {
	now, self := s.Node.Now(), s.Node.Self().Node
	means, victims := s.Node.Means(), s.Node.Victims()
	if means.Better {
		victims = policy.Random // the news may come from any node
	}
	asked := s.Node.Members().Choose(victims, policy.Search{
		Self: self, Source: s.Source(), Thief: s.Node.Robber(), Teller: s.first(), Width: s.Poll.Width(n), Failures: s.Poll.Failures(),
	}, s.Node.Dice())
	if len(asked) == 0 {
		s.Failed()
		return
	}
	if means.Better {
		if from := s.Urge.From(); !slices.Contains(asked, from) && s.Node.Members().Get(from) != nil {
			asked[0] = from
		}
		s.gate = now + policy.UrgeWait
		s.Node.Wake(s.gate)
	}
	s.chosen = victims
	s.survey.Begin(asked, victims.Ordered())
	s.phase = asking
	s.at = now + policy.AskWait
	s.Poll.Asked(now, len(asked))
	for _, name := range asked {
		s.Node.Send(name, &message.LoadAsk{Round: s.survey.Round, Means: means})
	}
}

// Source is the node where the work began: the leader of the oldest job here, else of the
// job of the last news.
func (s *Thief) Source() filch.NodeName {
	if name, _ := s.Node.Leader(); name != "" {
		return name
	}
	return s.from
}

// Said takes in the load of a node that was asked.
func (s *Thief) Said(from filch.NodeName, m *message.LoadSay) {
	if s.phase != asking || !s.survey.Answer(from, m.Round, m.Load, m.Class) {
		return
	}
	if _, all := s.survey.Answered(); all {
		s.choose()
	}
}

// choose steals from the most loaded of the answering nodes.
func (s *Thief) choose() {
	if s.survey.Load == 0 || !s.Node.Hungry() {
		s.Failed()
		return
	}
	s.phase = stealing
	s.Poll.Asks++
	s.at = s.Node.Now() + policy.StealWait
	s.Node.Send(s.survey.Best, &message.Steal{Ask: s.Poll.Asks, Means: s.Node.Means()})
}

// Failed ends a try without work: the next try comes after twice the wait.
func (s *Thief) Failed() {
	n := s.Node.Members().Lenders(s.Node.Self().Node)
	s.phase = resting
	s.teller = ""
	wait, last := s.Poll.Failed(s.chosen, n, s.Node.PollMax())
	s.at = s.Node.Now() + s.Node.Dice().UpTo(wait)
	s.Urge.Failed(s.survey.Asked(), n)
	s.gate = 0
	s.stopped = s.stopped || mutantStealStops && last
	s.Node.Vain()
}

// Took ends a try with tasks of a node.
func (s *Thief) Took(from filch.NodeName) {
	s.teller = from
	s.Rest(0)
}

// Succeeded ends a try with work.
func (s *Thief) Succeeded() {
	s.Poll.Succeeded()
	s.Urge.Succeeded()
	s.Rest(0)
}

// Tick ends a phase whose time is over.
func (s *Thief) Tick() {
	if s.at > s.Node.Now() {
		return
	}
	switch s.phase {
	case asking:
		if some, _ := s.survey.Answered(); some {
			s.choose()
		} else {
			s.Failed()
		}
	case stealing:
		s.Failed()
	}
}

// News wakes a thief that rests. The news comes from a node with work of a job that the
// source leads; both may be unknown.
func (s *Thief) News(from, source filch.NodeName) {
	if source != "" {
		s.from = source
	}
	s.teller = from
	if !mutantDeaf {
		s.Poll.Told(s.Node.Now())
		s.Hurry()
	}
}

// Arrived takes in a new node. The new node has no tasks yet and is no reason to look for
// work.
func (s *Thief) Arrived() {
	if mutantStorm {
		s.Hurry()
	}
}
