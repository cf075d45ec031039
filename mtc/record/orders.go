package record

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// Orders are what people ordered about a job while the job lives: single tasks are
// cancelled, the job is held. Each owner of tasks follows the orders in the job's record,
// so a cancelled task ends at its owner, wherever the task is at the time.
type Orders struct {
	// Serial counts the changes of the orders; 0: none was ever given. A node with the
	// orders of a serial needs no news of that serial.
	Serial uint32
	Held   bool   // no task starts
	By     string // who holds the job
	Reason string // of the cancel of the job; "" none was given
	// Reasons are of the last cancels of single tasks, where reasons were given.
	Reasons []TaskReason
	// Cancels are the indices of the cancelled tasks: ascending, no two runs touch.
	Cancels []Pick
}

// TaskReason is the reason of a cancel, and the tasks that the cancel was the first to
// name.
type TaskReason struct {
	Text  string
	Tasks []Pick
}

// Bounds of a job's orders. The record of a job goes with each tally: MaxCancels runs of
// indices add at most 20 KiB with their reasons, and at most two spans each to the zones.
const (
	MaxCancels = 1024
	MaxBy      = 128
	MaxReason  = 256
	maxReasons = 16
)

// Cancelled reports whether the orders cancel the task at that index.
func (o *Orders) Cancelled(i int32) bool {
	if len(o.Cancels) == 0 {
		return false
	}
	k, ok := slices.BinarySearchFunc(o.Cancels, i, func(p Pick, i int32) int { return int(p.From - i) })
	return ok || k > 0 && i < o.Cancels[k-1].end()
}

// Within are the parts of lo..hi that the orders cancel, ascending.
func (o *Orders) Within(lo, hi int32) (list []Pick) {
	for _, p := range o.Cancels {
		if from, to := max(p.From, lo), min(p.end(), hi); from < to {
			list = append(list, Pick{from, to - from})
		}
	}
	return list
}

// Why is the reason for the cancel of the task at that index; "" if no reason is kept.
func (o *Orders) Why(i int32) string {
	for _, r := range o.Reasons {
		for _, p := range r.Tasks {
			if p.From <= i && i < p.end() {
				return r.Text
			}
		}
	}
	return o.Reason
}

// LastReason is the reason that was given last; "" if none was.
func (o *Orders) LastReason() string {
	if n := len(o.Reasons); o.Reason == "" && n > 0 {
		return o.Reasons[n-1].Text
	}
	return o.Reason
}

// fresh are the parts of list that the orders do not cancel yet.
func (o *Orders) fresh(list []Pick) (parts []Pick) {
	for _, p := range list {
		at := p.From
		for _, had := range o.Within(p.From, p.end()) {
			if at < had.From {
				parts = append(parts, Pick{at, had.From - at})
			}
			at = had.end()
		}
		if at < p.end() {
			parts = append(parts, Pick{at, p.end() - at})
		}
	}
	return parts
}

func (p Pick) end() int32 { return p.From + p.Count }

// JoinPicks sorts runs, and joins runs that overlap or touch.
func JoinPicks(list []Pick) (joined []Pick) {
	slices.SortFunc(list, func(a, b Pick) int { return int(a.From - b.From) })
	for _, p := range list {
		if n := len(joined) - 1; n >= 0 && p.From <= joined[n].end() {
			joined[n].Count = max(joined[n].Count, p.end()-joined[n].From)
			continue
		}
		joined = append(joined, p)
	}
	return joined
}

func (o *Orders) fields(c *Codec) {
	U32(c, &o.Serial)
	c.Flag(&o.Held)
	Text(c, &o.By, MaxBy)
	Text(c, &o.Reason, MaxReason)
	if n := c.Count(len(o.Reasons), maxReasons, 2); !c.Encodes && n > 0 {
		o.Reasons = make([]TaskReason, n)
	}
	for i := range o.Reasons {
		Text(c, &o.Reasons[i].Text, MaxReason)
		c.picks(&o.Reasons[i].Tasks)
	}
	c.picks(&o.Cancels)
}

// picks are runs of indices that do not touch.
func (c *Codec) picks(list *[]Pick) {
	if n := c.Count(len(*list), 2*MaxCancels, 2); !c.Encodes && n > 0 {
		*list = make([]Pick, n)
	}
	last := int32(-1)
	for i := range *list {
		p := &(*list)[i]
		Index(c, &p.From)
		Index(c, &p.Count)
		c.Require(p.From > last && p.Count > 0 && p.From <= MaxTasks-p.Count)
		last = p.end()
	}
}

// order applies a JobOrder. An order that was given already changes nothing.
func (j *Job) order(p *JobOp) Verdict {
	o := &j.Orders
	switch {
	case j.Finished() || j.Void == filch.Cancelled:
		return VerdictEnded
	case len(p.Cancels) > 0: // also while the rest of the job is skipped: some tasks run
		return j.cancel(p)
	case j.Void != 0:
		return VerdictEnded
	case o.Held == p.Held:
		return VerdictDone
	case o.Serial != p.Serial:
		return VerdictOther // an order came in between, or this order was done before
	}
	if o.Held, o.By = p.Held, p.By; !p.Held {
		o.By = ""
	}
	o.Serial++
	return VerdictDone
}

func (j *Job) cancel(p *JobOp) Verdict {
	o := &j.Orders
	all := JoinPicks(append(slices.Clone(o.Cancels), p.Cancels...))
	switch {
	case all[len(all)-1].end() > j.Total:
		return VerdictInvalid
	case len(all) > MaxCancels:
		return VerdictOther
	case slices.Equal(all, o.Cancels):
		return VerdictDone
	}
	if p.Reason != "" {
		if len(o.Reasons) == maxReasons {
			o.Reasons = slices.Delete(o.Reasons, 0, 1)
		}
		o.Reasons = append(o.Reasons, TaskReason{p.Reason, o.fresh(p.Cancels)})
	}
	o.Cancels = all
	o.Serial++
	return VerdictDone
}
