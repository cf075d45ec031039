package policy

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Unseen are the nodes of owners that a node never saw, each with the end of the wait for the
// node, which may yet come, in another incarnation.
type Unseen struct {
	until map[filch.NodeName]time.Duration
}

// unseenGrace is as long as jobs of ranks wait for their owner.
const unseenGrace = 15 * time.Second

// Until is the end of the wait for a node.
func (u *Unseen) Until(n filch.NodeName, now time.Duration) time.Duration {
	if _, known := u.until[n]; !known {
		if u.until == nil {
			u.until = make(map[filch.NodeName]time.Duration)
		}
		u.until[n] = now + unseenGrace
	}
	return u.until[n]
}

// Seen ends the wait for a node, and reports whether there was a wait.
func (u *Unseen) Seen(n filch.NodeName) bool {
	_, missed := u.until[n]
	delete(u.until, n)
	return missed
}
