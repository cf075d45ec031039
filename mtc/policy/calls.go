package policy

import (
	"time"
)

// The first wait between two rounds of news of tasks of a better class, doubled up to
// PollRest: news may be lost, and the nodes that received news may be busy for long.
const callAgain = 100 * time.Millisecond

// Calls are a node's news of tasks that are of a better class than tasks elsewhere. With
// one class, there are none.
type Calls struct {
	worst  int32 // the worst class that the node knows of
	some   bool
	last   int32 // class of the first task at the last look
	looked bool
	tries  int
	next   time.Duration // 0: no further news
}

// Heard takes in the class of tasks here or elsewhere.
func (k *Calls) Heard(class int32) {
	if !k.some || class > k.worst {
		k.some, k.worst = true, class
	}
}

// Next is the time of the next round; 0 if none is planned.
func (k *Calls) Next() time.Duration { return k.next }

// Idle notes that the node has no tasks for others.
func (k *Calls) Idle() { k.looked, k.tries, k.next = false, 0, 0 }

// Due reports whether a round of news is due now, where the first task is of this class.
func (k *Calls) Due(now time.Duration, class int32) bool {
	better := k.looked && class < k.last
	if k.last, k.looked = class, true; better {
		k.tries = 0
	}
	if !k.some || class >= k.worst {
		k.next = 0
		return false
	}
	if !better && (k.next == 0 || k.next > now) {
		if k.next == 0 {
			k.next = now + callAgain
		}
		return false
	}
	k.next = now + min(callAgain<<min(k.tries, 10), PollRest)
	k.tries++
	return true
}
