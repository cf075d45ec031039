package pool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

// batch follows the batch jobs.
func (t *turn) batch() {
	b := t.v.Batch
	if t.p.Silent = ""; b.Err != "" {
		t.p.Silent = "the batch system does not answer: " + clip(b.Err)
		t.p.Trouble = t.p.Silent
		return
	}
	for i := range t.p.Allocs {
		a := &t.p.Allocs[i]
		if a.State == Planned {
			t.find(a)
			continue
		}
		j, known := b.Jobs[a.Job]
		if known {
			delete(t.m.missing, a.N)
		}
		if j.Asked > 0 {
			a.Asked = j.Asked.Seconds()
		}
		switch {
		case a.State == Ended:
		case !known:
			t.missing(a)
		case j.State == JobOver:
			t.over(a, j)
		case j.State == JobRunning:
			if a.Began == 0 {
				a.Began = t.now.UnixNano()
			}
			if a.State == Queued {
				a.State, a.Said = Started, ""
			}
		case a.State == Ending && mutantCancelOnce:
		case a.State == Ending:
			t.order(Cancel, a) // the order before was lost, or the batch system is slow
		default:
			a.Said, a.Held = clip(j.Said), j.State == JobHeld
			if a.Held {
				a.Said = "held: " + a.Said
			}
		}
	}
	t.strays()
}

// strays cancels batch jobs of the pool that the record does not name: submissions that were
// given up and came late, and jobs that the batch system had lost and found again.
func (t *turn) strays() {
	if mutantStrays {
		return
	}
	prefix := JobName(t.m.instance, t.p.Name, 0)
	prefix = prefix[:len(prefix)-1]
	for _, name := range slices.Sorted(maps.Keys(t.v.Batch.Name)) {
		id := t.v.Batch.Name[name]
		text, ok := strings.CutPrefix(name, prefix)
		n, err := strconv.ParseInt(text, 10, 64)
		if j := t.v.Batch.Jobs[id]; !ok || err != nil || n < 1 || n >= t.p.Next || j.State == JobOver || t.p.Alloc(n) != nil || t.ended(n) {
			continue
		}
		t.orders = append(t.orders, Order{Kind: Cancel, N: n, Job: id})
	}
}

// ended tells whether an allocation ended a moment ago: its batch job may take as long to end.
func (t *turn) ended(n int64) bool {
	return slices.ContainsFunc(t.p.Ends, func(a Alloc) bool { return a.N == n && t.now.Sub(time.Unix(0, a.Over)) < soonWithin })
}

// find looks for the batch job of a submission whose answer did not come: the holder died
// or lost the pool before it wrote the answer.
func (t *turn) find(a *Alloc) {
	if id := t.v.Batch.Name[JobName(t.m.instance, t.p.Name, a.N)]; id != "" && !mutantBlindHeir {
		a.State, a.Job = Queued, id
		return
	}
	if mutantHasty || t.in(a) >= settle {
		t.failed(a, "was never submitted")
	}
}

// missing handles a batch job that the batch system does not know: it ended, and the batch
// system has forgotten it; or the job is lost.
func (t *turn) missing(a *Alloc) {
	if mutantForgets {
		return
	}
	since, ok := t.m.missing[a.N]
	if !ok {
		since = t.now
		t.m.missing[a.N] = since
	}
	if here, _ := t.here(a); here == 0 && t.now.Sub(since) >= lostAfter {
		t.over(a, Job{Said: "is not known to the batch system any more"})
	}
}

// over handles the end of a batch job.
func (t *turn) over(a *Alloc, j Job) {
	how := clip(j.Said)
	lived := time.Duration(0)
	if a.Began != 0 {
		lived = t.now.Sub(time.Unix(0, a.Began))
	}
	switch {
	case a.State == Ending:
		t.end(a, cmp.Or(a.Said, "was given back"))
	case a.useful() || a.Joined != 0 && lived >= diedWithin:
		t.p.Bad = 0
		t.end(a, said("ended", how))
	case j.Cancelled:
		// A person did this, for a reason that the pool does not know. The work may still
		// need nodes, but not at once.
		t.p.After = t.now.Add(afterCancel).UnixNano()
		t.end(a, said("was cancelled", how))
	case a.Began == 0:
		t.failed(a, said("ended before its start was seen", how))
	case a.Worked > 0:
		t.failed(a, said("ended after "+filch.ShortTime(lived.Round(time.Second))+", before a task had ended there", how))
	default:
		t.failed(a, said("ended after "+filch.ShortTime(lived.Round(time.Second))+" without work", how))
	}
}

// said adds what the batch system says, if it says a thing.
func said(text, how string) string {
	if how == "" {
		return text
	}
	return text + ": " + how
}

// nodes follows the nodes of the allocations.
func (t *turn) nodes() {
	for i := range t.p.Allocs {
		a := &t.p.Allocs[i]
		here, slots, done := 0, int32(0), int64(0)
		for j := range t.v.Nodes {
			if n := &t.v.Nodes[j]; t.p.has(a, n) {
				here, slots, done = here+1, slots+n.Slots, done+n.Ended
			}
		}
		a.Done = max(a.Done, done)
		switch {
		case here > 0 && (a.State == Queued || a.State == Started):
			a.State, a.Joined, a.Said = Joined, t.now.UnixNano(), ""
			if a.Began == 0 {
				a.Began = a.Joined
			}
			if first := t.m.first[a.N]; !first.IsZero() {
				t.p.Delay = t.now.Sub(first)
			}
		case a.State == Started && t.in(a) >= comeWithin:
			t.blame(a, fmt.Sprintf("started, and no node joined within %s", filch.ShortTime(comeWithin)))
			t.giveBack(a, "no node joined")
		}
		if here > 0 && a.State == Joined {
			a.Nodes, a.Slots = max(a.Nodes, here), max(a.Slots, slots)
			t.p.Each = a.Slots
		}
		if a.State == Joined && a.useful() {
			t.p.Bad = 0
		}
	}
}
