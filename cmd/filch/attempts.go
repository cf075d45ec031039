package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/eventlog"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/events"
)

// findEnds reads the ends of the attempts of a task from the events of the nodes: the record of
// the task has the last end only. Without an answer no end is known.
func findEnds(c *client.Client, t *tasklist.Row) {
	if t.Attempts < 2 {
		return
	}
	another, err := c.Another()
	if err != nil {
		return
	}
	r := &eventlog.Reader{Job: t.Job.String()}
	r.Event = func(node filch.NodeName, e *events.Event) error {
		if e.Kind == events.TaskEnded && e.Task <= t.Index && t.Index < e.Task+e.Tasks {
			t.Ends = append(t.Ends, tasklist.AttemptEnd{Attempt: max(e.Try, 1), Node: node, State: e.State.String(), Code: e.Code, UnixNS: e.UnixNS})
		}
		return nil
	}
	r.Idle, r.Lost = func() error { return nil }, func(filch.NodeName, uint64) {}
	_ = r.Run(another)
	slices.SortStableFunc(t.Ends, func(a, b tasklist.AttemptEnd) int { return int(a.Attempt) - int(b.Attempt) })
}

// printEnds shows how the attempts of a task ended, a line each.
func printEnds(t *tasklist.Row) {
	if t.Attempts < 2 {
		return
	}
	last := t.Attempts
	if t.Code == nil { // the last attempt goes on
		last--
	}
	head, at := "ends", 0
	line := func(text string) {
		ui.Printf("%-10s %s\n", head, text)
		head = ""
	}
	for try := filch.Attempt(1); try <= last; try++ {
		begin := at
		for ; at < len(t.Ends) && t.Ends[at].Attempt <= try; at++ {
			e := &t.Ends[at]
			line(fmt.Sprintf("attempt %d on %s: %s, code %d, %s", e.Attempt, ui.Clean(string(e.Node)), e.State, e.Code, ui.Clock(time.Unix(0, e.UnixNS))))
		}
		if at == begin {
			line(fmt.Sprintf("attempt %d: not known any more, as nodes keep their last events only", try))
		}
	}
}
