package local

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
)

// Turn is an input of a Node during its handling: the time of the input, and the Outbox
// for all resulting actions. Parts of the node pass the Turn to each other, and no part
// keeps it beyond the input.
type Turn struct {
	Now  time.Duration
	Out  *launcher.Outbox
	self *mailbox
}

// mailbox holds the messages of a node to itself until the end of their input.
type mailbox struct {
	name   filch.NodeName
	loop   []launcher.Message
	settle func(*Turn)
}

// Settle sets the function that ends an input: the function handles the messages of the
// node to itself and all other results of the input, until nothing is left.
func (s *Self) Settle(settle func(*Turn)) { s.mailbox.settle = settle }

// HasMail reports whether messages of the node to itself are not handled yet.
func (s *Self) HasMail() bool { return len(s.mailbox.loop) > 0 }

// TakeMail returns the messages sent by the node to itself so far.
func (s *Self) TakeMail() []launcher.Message {
	loop := s.mailbox.loop
	s.mailbox.loop = nil
	return loop
}

// Turn begins an input; the end of the [Turn] ends the input.
func (s *Self) Turn(now time.Duration, out *launcher.Outbox) *Turn {
	return &Turn{Now: now, Out: out, self: &s.mailbox}
}

// End ends an input: the node handles the messages to itself, and reports all changes.
func (t *Turn) End() { t.self.settle(t) }

// Send queues a message. The node handles a message to itself before the current input
// ends.
func (t *Turn) Send(to filch.NodeName, m launcher.Message) {
	if to == t.self.name {
		t.self.loop = append(t.self.loop, m)
		return
	}
	t.Out.Sends = append(t.Out.Sends, launcher.Send{To: to, Message: m})
}

// Reply sends an event to a local client.
func (t *Turn) Reply(c launcher.ClientID, e launcher.Event) {
	t.Out.Replies = append(t.Out.Replies, launcher.Reply{Client: c, Event: e})
}

// Record adds records of this node to be written to its disk, or removed.
func (t *Turn) Record(r ...launcher.Record) { t.Out.Records = append(t.Out.Records, r...) }

// Deed adds an action of the daemon on a keeper of this node.
func (t *Turn) Deed(d launcher.Deed) { t.Out.Deeds = append(t.Out.Deeds, d) }

// Note adds a line to the log, with the level, the job and the node concerned.
func (t *Turn) Note(level int8, job filch.JobID, node filch.NodeName, format string, args ...any) {
	t.Out.Notes = append(t.Out.Notes, launcher.Note{Level: level, Text: fmt.Sprintf(format, args...), Job: job, Node: node})
}

// Event reports an event; see package events. An event costs no more than its fields, so a
// node may report each task.
func (t *Turn) Event(e events.Event) { t.Out.Events = events.Append(t.Out.Events, e) }

// Past reports the end of a job of this node; with again, the end of an attempt of a job
// that starts again.
func (t *Turn) Past(j launcher.JobInfo, again bool) {
	e := events.Event{Kind: events.JobEnded, Job: j.ID, Try: j.Attempt, Reason: j.Cause}
	if again {
		e.Kind = events.JobAgain
	} else {
		e.State, _ = filch.StateOf(j.State)
		e.Code = *j.Code
	}
	t.Event(e)
	t.Out.Past = append(t.Out.Past, launcher.PastJob{Info: j, Again: again})
}

// The levels of notes, as in slog.
const (
	NoteDebug = -4
	NoteInfo  = 0
	NoteWarn  = 4
	NoteError = 8
)
