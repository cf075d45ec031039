package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

// When is the event of a job for which another job waits.
type When uint8

// The events.
const (
	WhenOK      When = iota // a good end
	WhenAny                 // any end
	WhenNotOK               // an end that is not good
	WhenStarted             // the start, or any end
	WhenEach                // for each task of a bag: the good end of the task with its index
	whens
)

// String is the word of --dep.
func (w When) String() string {
	return [...]string{"afterok", "afterany", "afternotok", "after", "aftercorr"}[w]
}

// Met reports whether such an end is the end waited for.
func (w When) Met(end filch.State) bool {
	return w == WhenStarted || w == WhenAny || (w == WhenOK || w == WhenEach) == (end == filch.OK)
}

// Conditions are what a job waits for before it begins.
type Conditions struct {
	After []filch.JobID `json:"after,omitempty"`
	When  []When        `json:"when,omitempty"`  // of each job in After; none: all WhenOK
	Parts []Part        `json:"parts,omitempty"` // of each job in After; none: whole jobs
	Any   bool          `json:"any,omitempty"`   // one job of After suffices
	// Alone is set if jobs of this name begin one after the other.
	Alone bool `json:"alone,omitempty"`
	// Begin is the earliest begin, unix time in ns by the clock of the node that decides;
	// 0: at once.
	Begin int64 `json:"begin,omitempty"`
}

// Part is what a job waits for of another job.
type Part struct {
	Tasks Pick          `json:"tasks"`           // by index; none: the whole job
	Name  string        `json:"name,omitempty"`  // of Tasks, for people: 12.5
	Delay time.Duration `json:"delay,omitempty"` // from the event to the begin
}

// MaxPartTasks bounds the tasks of a job for which another job waits, and MaxPartName the
// bytes of their name.
const (
	MaxPartTasks = 4 * BlockSize
	MaxPartName  = 128
)

// None reports whether the job begins at once.
func (c *Conditions) None() bool { return len(c.After) == 0 && !c.Alone && c.Begin == 0 }

// Singly reports whether the tasks of the job begin one by one. Then each task that may begin
// has, or gets, an entry in its block, and no span of a zone has an owner.
func (c *Conditions) Singly() bool { return slices.Contains(c.When, WhenEach) }

// Check refuses conditions that make no sense.
func (c *Conditions) Check() *filch.Error {
	switch {
	case len(c.After) > maxAfter:
		return filch.Errorf(filch.Invalid, "a job waits for at most %d others, not %d", maxAfter, len(c.After))
	case len(c.When) > 0 && len(c.When) != len(c.After):
		return filch.Errorf(filch.Invalid, "%d ends of %d jobs before this one", len(c.When), len(c.After))
	case len(c.Parts) > 0 && len(c.Parts) != len(c.After):
		return filch.Errorf(filch.Invalid, "parts of %d of %d jobs before this one", len(c.Parts), len(c.After))
	case c.Any && c.Singly():
		return filch.Errorf(filch.Invalid, "%s makes no sense where one of several conditions suffices", WhenEach)
	case c.Any && c.Alone || c.Any && len(c.After) == 0 || c.Begin < 0:
		return filch.Errorf(filch.Invalid, "a job that waits for any of %d jobs, alone %t, until %d makes no sense", len(c.After), c.Alone, c.Begin)
	}
	for i, id := range c.After {
		p := c.part(i)
		if c.when(i) == WhenEach && p != (Part{}) {
			return filch.Errorf(filch.Invalid, "%s is for all tasks of job %d", WhenEach, id)
		}
		if id <= 0 || c.when(i) >= whens || p.Tasks.From < 0 || p.Tasks.Count < 0 || p.Tasks.Count > MaxPartTasks || p.Tasks.From > MaxTasks-p.Tasks.Count || len(p.Name) > MaxPartName || p.Delay < 0 {
			return filch.Errorf(filch.Invalid, "a job cannot wait for %s of %d tasks from %d of job %d with the delay %s", c.when(i), p.Tasks.Count, p.Tasks.From, id, p.Delay)
		}
	}
	return nil
}

// At returns the job in After at i, with its event and part.
func (c *Conditions) At(i int) (id filch.JobID, w When, p Part) {
	return c.After[i], c.when(i), c.part(i)
}

// String is the text for --dep: "afterok:7:8,afterany:9.5"; "" without other jobs.
func (c *Conditions) String() string {
	var b strings.Builder
	join, last := ",", whens
	if c.Any {
		join = "?"
	}
	for i := range c.After {
		id, when, part := c.At(i)
		switch {
		case i == 0:
			b.WriteString(when.String())
		case when != last:
			b.WriteString(join + when.String())
		}
		last = when
		b.WriteString(":" + cmp.Or(part.Name, id.String()))
		if part.Delay > 0 {
			fmt.Fprintf(&b, "+%d", int64(part.Delay/time.Minute))
		}
	}
	if c.Alone && b.Len() > 0 {
		b.WriteString(join)
	}
	if c.Alone {
		b.WriteString("singleton")
	}
	return b.String()
}

// WhenOf is the event of job id that is waited for. Of a job in After twice, WhenOf returns
// the first event.
func (c *Conditions) WhenOf(id filch.JobID) When {
	if i := slices.Index(c.After, id); i >= 0 {
		return c.when(i)
	}
	return WhenOK
}

func (c *Conditions) when(i int) When {
	if i < len(c.When) {
		return c.When[i]
	}
	return WhenOK
}

func (c *Conditions) part(i int) (p Part) {
	if i < len(c.Parts) {
		p = c.Parts[i]
	}
	return p
}

// plain reports whether After and When say all.
func (c *Conditions) plain() bool {
	return len(c.Parts) == 0 && !c.Any && !c.Alone && c.Begin == 0
}

// Before describes a run as a bag, for jobs that wait for the run: waiting, running or
// ended. See [RecordBefore].
func Before(s filch.State) *Job {
	j := &Job{Total: 1, Closed: true}
	switch {
	case s.Final():
		z := ZoneTally{}
		z.Tally.add(s, 1)
		j.Zones = []ZoneTally{z}
		if s == filch.Skipped || s == filch.Cancelled {
			j.Void = s
		}
	case s == filch.Running: // as a bag of two with one end
		j.Total, j.Zones = 2, []ZoneTally{{Tally: Tally{OK: 1}}}
	}
	return j
}

func (j *Conditions) whens(c *Codec) {
	c.Require(len(j.After) > 0)
	if !c.Encodes {
		j.When = make([]When, len(j.After))
	}
	for i := range j.When {
		U8(c, &j.When[i])
		c.Require(j.When[i] < whens)
	}
}

// more are the conditions besides After and When.
func (j *Conditions) more(c *Codec) {
	c.Flag(&j.Any)
	c.Flag(&j.Alone)
	Amount(c, &j.Begin)
	List(c, &j.Parts, maxAfter, 4, (*Part).fields)
	if len(j.Parts) == 0 {
		j.Parts = nil
	}
	c.Require(!j.plain() && (len(j.Parts) == 0 || len(j.Parts) == len(j.After)))
}

func (p *Part) fields(c *Codec) {
	Index(c, &p.Tasks.From)
	Index(c, &p.Tasks.Count)
	c.Require(p.Tasks.Count <= MaxPartTasks && p.Tasks.From <= MaxTasks-p.Tasks.Count)
	Text(c, &p.Name, MaxPartName)
	Amount(c, &p.Delay)
}
