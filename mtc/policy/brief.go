package policy

import "time"

// Limits of tasks that are started ahead of their slots.
const (
	// BriefMax bounds how long such tasks take, on average. Thieves cannot take a task that was
	// started ahead, so the task must not wait long.
	BriefMax = 5 * time.Millisecond
	// BriefKnown is how many ended tasks tell that the tasks of a job are brief.
	BriefKnown = 16
)

// Brief reports whether the tasks of a job are so short that the way between two starts costs
// more than the tasks.
func Brief(d *Durations) bool { return d.Count() >= BriefKnown && d.Mean() <= BriefMax }
