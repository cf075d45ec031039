package tasks

import (
	"time"

	"github.com/filch-hpc/filch/mtc/message"
)

// bundle is how a host would send ends to a response queue (CloudKon, III): at most bundleMax
// results in a message, of the time in which a host of filch collects ends for their records.
// Nothing is sent: the bundles are counted, for comparison.
type bundle struct {
	since time.Duration
	n     int
}

const (
	bundleMax  = 10
	bundleTime = 10 * time.Millisecond
)

// add adds a result, and reports whether the result begins a bundle.
func (b *bundle) add(now time.Duration) (begins bool) {
	if b.n == 0 || b.n == bundleMax || now-b.since > bundleTime {
		b.since, b.n = now, 0
	}
	b.n++
	return b.n == 1
}

// gifts is the number of tasks that a message offers to a host that did not ask.
func gifts(m message.Message) (n int) {
	o, is := m.(*message.Offer)
	if !is || o.Ask != 0 {
		return 0
	}
	for _, r := range o.Ranges {
		n += int(r.Hi - r.Lo)
	}
	return n + len(o.Tasks)
}

// late counts the tasks that an offer to a thief takes from the queue of tasks bound to a node.
func late(m message.Message) (n int) {
	if o, is := m.(*message.Offer); is && o.Ask != 0 {
		for i := range o.Tasks {
			if o.Tasks[i].Dedicated {
				n++
			}
		}
	}
	return n
}
