package events

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// Line is an event as JSON. A key that the kind does not have is absent.
type Line struct {
	Version int            `json:"v"`
	UnixNS  int64          `json:"unix_ns"`
	Node    filch.NodeName `json:"node"`
	Seq     uint64         `json:"seq"`
	Event   string         `json:"event"`
	Job     filch.JobID    `json:"job,omitempty"`
	Task    *int32         `json:"task,omitempty"`
	Tasks   int32          `json:"tasks,omitempty"`
	Try     filch.Attempt  `json:"try,omitempty"`
	State   string         `json:"state,omitempty"`
	Code    *int32         `json:"exit_code,omitempty"`
	Peer    filch.NodeName `json:"peer,omitempty"`
	Count   int64          `json:"count,omitempty"`
	Rank    *int64         `json:"rank,omitempty"`
	Slots   string         `json:"slots,omitempty"`
	Reason  string         `json:"reason,omitempty"`
}

// LineOf returns an event of a node as JSON.
func LineOf(node filch.NodeName, e *Event) Line {
	l := Line{
		Version: Version, UnixNS: e.UnixNS, Node: node, Seq: e.Seq, Event: e.Kind.String(),
		Job: e.Job, Tasks: e.Tasks, Try: e.Try, Peer: e.Peer, Count: e.Count, Reason: e.Reason,
	}
	if e.Tasks > 0 {
		l.Task = &e.Task
	}
	if has := e.Kind.has(); has&fieldCode != 0 {
		l.State, l.Code = e.State.String(), &e.Code
	}
	if e.Kind == RankEnded {
		l.Rank, l.Slots, l.Count, l.Reason = &e.Count, e.Reason, 0, ""
	}
	return l
}

// Of returns what the event is about, for people: a job, "7", or tasks, "7.3" and "7.3-9";
// "-" for the others.
func (e *Event) Of() string {
	switch {
	case e.Job == 0:
		return "-"
	case e.Tasks == 0:
		return e.Job.String()
	case e.Tasks == 1:
		return e.Job.String() + "." + strconv.Itoa(int(e.Task))
	}
	return e.Job.String() + "." + strconv.Itoa(int(e.Task)) + "-" + strconv.Itoa(int(e.Task+e.Tasks-1))
}

// Details returns the other fields in words, "" without any.
func (e *Event) Details() string {
	var parts []string
	has := e.Kind.has()
	if has&fieldState != 0 {
		parts = append(parts, e.State.String())
	}
	if has&fieldCode != 0 && e.Code != 0 {
		parts = append(parts, "code "+strconv.Itoa(int(e.Code)))
	}
	if e.Try > 1 {
		parts = append(parts, "try "+strconv.Itoa(int(e.Try)))
	}
	if e.Peer != "" {
		parts = append(parts, string(e.Peer))
	}
	if e.Kind == RankEnded {
		parts = append(parts, "rank "+strconv.FormatInt(e.Count, 10))
		if e.Reason != "" {
			parts = append(parts, "slots "+e.Reason)
		}
		return strings.Join(parts, ", ")
	}
	if e.Count != 0 && e.Kind < numKinds {
		unit := specs[e.Kind].count
		if e.Kind == JobSubmitted {
			unit = "tasks"
			if e.Reason == "run" || e.Reason == "step" {
				unit = "ranks"
			}
		}
		if e.Count == 1 {
			unit = strings.TrimSuffix(unit, "s")
		}
		parts = append(parts, strings.TrimSpace(strconv.FormatInt(e.Count, 10)+" "+unit))
	}
	if e.Reason != "" {
		parts = append(parts, e.Reason)
	}
	return strings.Join(parts, ", ")
}

// keys are the keys of the fields, with their meanings.
var keys = []struct {
	of   field
	key  string
	text string
}{
	{0, "v", "version of this schema"},
	{0, "unix_ns", "time by the clock of the node, in nanoseconds since 1970"},
	{0, "node", "the node that reports the event"},
	{0, "seq", "number of the event: counts the events of a launcher from 1"},
	{0, "event", "the kind, as in the table below"},
	{fieldJob, "job", "id of a job"},
	{fieldTask, "task", "number of the first task"},
	{fieldTask, "tasks", "how many tasks with consecutive numbers the event is about"},
	{fieldTry, "try", "attempt, counted from 1"},
	{fieldState, "state", "state of the job, task or rank after the event"},
	{fieldCode, "exit_code", "exit code of the job, task or rank"},
	{fieldPeer, "peer", "another node"},
	{fieldCount, "count", "a number; the table below has its unit"},
	{fieldRank, "rank", "number of a rank"},
	{fieldSlots, "slots", "slots of the node that the rank had, as in 0-3,8"},
	{fieldReason, "reason", "a text for people, of at most 256 bytes"},
}

// table returns the tables of docs/events.md in Markdown: the keys, and the kinds with the
// keys that each may have.
func table() string {
	var b strings.Builder
	b.WriteString("| key | meaning |\n|---|---|\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "| `%s` | %s |\n", k.key, k.text)
	}
	b.WriteString("\n| event | meaning | keys |\n|---|---|---|\n")
	for k := None + 1; k < numKinds; k++ {
		s := &specs[k]
		var have []string
		for _, key := range keys {
			if key.of == 0 || key.of&s.fields == 0 {
				continue
			}
			word := "`" + key.key + "`"
			if key.of == fieldCount {
				word += " (" + s.count + ")"
			}
			have = append(have, word)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.name, s.text, cmp.Or(strings.Join(have, ", "), "none"))
	}
	return b.String()
}
