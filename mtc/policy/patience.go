package policy

import "time"

// How long a victim waits for the thief's answer to an offer before the victim asks the
// homes, by taking back the tasks that are still its own: twice as long as the last
// transfer took, within the bounds. If the homes are slow, asking about each transfer
// after the least wait would make the homes slower: the take-back refuses moves that are
// on the way, and the thieves propose the moves again.
const (
	takenWait    = 2 * time.Second
	takenWaitMax = 30 * time.Second
)

// Patience is a victim's wait for the end of a transfer, by the duration of the last.
type Patience struct{ last time.Duration }

// Took takes in the duration of the last transfer, or a lower bound.
func (p *Patience) Took(d time.Duration) { p.last = d }

// Wait is the wait for the end of a transfer.
func (p *Patience) Wait() time.Duration { return min(max(takenWait, 2*p.last), takenWaitMax) }
