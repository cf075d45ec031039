package slots

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// waitList is the claims that wait for slots, in the order of tickets.
type waitList struct{ claims []*claim }

// add puts a claim on the list, and reports whether the claim was not there.
func (w *waitList) add(now time.Duration, c *claim) bool {
	if c.queued {
		return false
	}
	c.queued, c.since, c.prompt = true, now, now+PromptMax
	i, _ := slices.BinarySearchFunc(w.claims, c, byTicket)
	w.claims = slices.Insert(w.claims, i, c)
	return true
}

// remove takes a claim off the list.
func (w *waitList) remove(c *claim) {
	if c.queued {
		c.queued = false
		i, _ := slices.BinarySearchFunc(w.claims, c, byTicket)
		w.claims = slices.Delete(w.claims, i, i+1)
	}
}

// first is the claim with the oldest ticket, or nil.
func (w *waitList) first() *claim {
	if len(w.claims) == 0 {
		return nil
	}
	return w.claims[0]
}

// hasOlder reports whether another request with an older ticket waits.
func (w *waitList) hasOlder(a Ask) bool {
	for _, c := range w.claims {
		if c.ask.Key != a.Key {
			return c.ask.Ticket.Older(a.Ticket)
		}
	}
	return false
}

// blocks is the first claim, if the claim holds nothing and so keeps all others off
// the free slots. The ledger asks the origin now and then whether the job still waits.
func (w *waitList) blocks(free filch.Room) *claim {
	if c := w.first(); c != nil && c.held == 0 && free.Slots > 0 {
		return c
	}
	return nil
}

// byTicket is total: two attempts of one job have the same ticket.
func byTicket(a, b *claim) int {
	switch {
	case a == b:
		return 0
	case a.ask.Ticket.Older(b.ask.Ticket):
		return -1
	case b.ask.Ticket.Older(a.ask.Ticket):
		return 1
	case a.ask.Key.Attempt != b.ask.Key.Attempt:
		return int(a.ask.Key.Attempt) - int(b.ask.Key.Attempt)
	}
	return int(a.ask.Key.Job) - int(b.ask.Key.Job)
}
