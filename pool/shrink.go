package pool

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/filch-hpc/filch"
)

// shrink gives back allocations without work.
func (t *turn) shrink() {
	p := t.p
	left := t.left()
	_, coming := t.supply()
	for i := range p.Allocs {
		a := &p.Allocs[i]
		switch {
		case a.State == Ending:
			t.urge(a)
		case a.State == Ended:
		case p.Removed:
			t.giveBack(a, "the pool was removed")
		case a.State == Joined && t.idle(a, coming) && left > p.Min:
			left--
			if a.Worked == 0 && (t.v.Ready > 0 || len(t.v.Gangs) > 0) {
				t.blame(a, fmt.Sprintf("had no work for %s although %d tasks and %d gangs wait: they may not fit on its nodes",
					filch.ShortTime(p.Idle), t.v.Ready, len(t.v.Gangs)))
			}
			t.giveBack(a, "was given back")
		}
	}
}

// left counts the allocations that are not about to end.
func (t *turn) left() (n int) {
	for i := range t.p.Allocs {
		if s := t.p.Allocs[i].State; s != Ending && s != Ended {
			n++
		}
	}
	return n
}

// idle tells whether no node of an allocation has had work for the time of --idle. Nodes of
// a gang that waits for further allocations are not idle.
func (t *turn) idle(a *Alloc, coming int) bool {
	if _, busy := t.here(a); busy > 0 && !mutantEndsBusy || t.silent(a) || len(t.v.Gangs) > 0 && coming > 0 {
		delete(t.m.idle, a.N)
		return false
	}
	since, ok := t.m.idle[a.N]
	if !ok {
		since, ok = t.m.looked, !t.m.looked.IsZero() // had work in the look before, or had not come
		t.m.idle[a.N] = cmp.Or(since, t.now)
	}
	return ok && t.now.Sub(since) >= t.p.Idle && !mutantKeeps
}

// silent tells whether a node of an allocation did not answer: it may have work.
func (t *turn) silent(a *Alloc) bool {
	return slices.ContainsFunc(t.v.Nodes, func(n Node) bool { return n.Silent && t.p.has(a, &n) })
}

// urge repeats the orders that end an allocation, whose holder may have died.
func (t *turn) urge(a *Alloc) {
	fresh, busy := false, false
	for i := range t.v.Nodes {
		if n := &t.v.Nodes[i]; t.p.has(a, n) {
			fresh, busy = fresh || !n.Draining, busy || n.Busy > 0 || n.Silent
		}
	}
	switch {
	case fresh:
		t.order(Drain, a)
	case !busy && !mutantCancelOnce && t.v.Batch != nil && t.in(a) >= settle:
		t.order(Cancel, a) // the batch job should have ended by itself
	}
}

// giveBack ends an allocation that has no work.
func (t *turn) giveBack(a *Alloc, why string) {
	switch a.State {
	case Planned: // the submission may be under way: the batch system shows the job later
	case Queued, Started:
		a.State, a.Ending, a.Said = Ending, t.now.UnixNano(), why
		t.order(Cancel, a)
	case Joined:
		a.State, a.Ending, a.Said = Ending, t.now.UnixNano(), why
		if mutantEndsBusy {
			t.order(Cancel, a)
			return
		}
		t.order(Drain, a)
	}
}
