package slots

import (
	"slices"
	"time"
)

// reports are the claims whose status the origins do not know yet, and the versions of
// all statuses.
type reports struct {
	serial  uint64   // of leases and versions
	changed []*claim // in the order of the first change
}

// next is a new version, or the serial of a new lease.
func (r *reports) next() uint64 {
	r.serial++
	return r.serial
}

// touch gives a claim a new version and adds the claim.
func (r *reports) touch(now time.Duration, c *claim) {
	c.version = r.next()
	c.prompt = now + promptMin
	if c.queued && c.held == 0 {
		c.prompt = now + PromptMax
	}
	r.add(c)
}

func (r *reports) add(c *claim) {
	if !c.told {
		c.told = true
		r.changed = append(r.changed, c)
	}
}

func (r *reports) remove(c *claim) {
	if c.told {
		c.told = false
		r.changed = slices.DeleteFunc(r.changed, func(x *claim) bool { return x == c })
	}
}
