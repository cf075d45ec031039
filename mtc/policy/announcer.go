package policy

import (
	"time"

	"github.com/filch-hpc/filch"
)

// heardMax bounds the nodes that a leader tells at once of ready tasks.
const heardMax = 256

// Announcer says when the leader of a workflow tells many nodes of ready tasks. Thieves pass no
// ready task of a workflow on, as they pass on the tasks of a bag, so that no other node has news:
// of more nodes than [tellAll], the others would find the leader by chance only.
type Announcer struct {
	load  int64 // ready tasks at the last round
	tries int
	next  time.Duration
}

// Idle notes that the node has no tasks for others.
func (a *Announcer) Idle() { *a = Announcer{} }

// due reports whether so many ready tasks are news for many nodes: twice as many as at the last
// round, or still some after a wait, since news may be lost, and nodes that received news were busy.
func (a *Announcer) due(now time.Duration, load int64) bool {
	return load > 2*a.load || load > 0 && a.next <= now
}

// told takes in a round now.
func (a *Announcer) told(now time.Duration, load int64) {
	if load > 2*a.load {
		a.tries = 0
	}
	a.load, a.next = load, now+min(callAgain<<min(a.tries, 10), PollRest)
	a.tries++
}

// Next is the time of the next round; Never if none is planned.
func (a *Announcer) Next() time.Duration {
	if a.load == 0 {
		return filch.Never
	}
	return a.next
}
