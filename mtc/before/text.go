package before

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// maxNamed bounds the conditions in a text.
const maxNamed = 8

// Text names the conditions open at the last verdict: "waits for job 12 to end well".
func (w *Wait) Text() string {
	var parts []string
	more := 0
	for i := range w.deps {
		switch d := &w.deps[i]; {
		case d.met || d.never != "":
		case len(parts) == maxNamed:
			more++
		default:
			parts = append(parts, d.what()+" "+d.toDo())
		}
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("%d conditions more", more))
	}
	if w.chain && len(parts) == 0 {
		parts = append(parts, "the job before it of the same name")
	}
	join := " and for "
	if w.any {
		join = " or for "
	}
	text := strings.Join(parts, join)
	switch {
	case w.late:
		return "waits for " + cmp.Or(text, "its turn")
	case text == "":
		return "waits until " + timeText(w.begin)
	}
	return "waits until " + timeText(w.begin) + ", and for " + text
}

// timeText is a time to begin, as --begin reads it, by the clock of this node.
func timeText(unixNS int64) string { return time.Unix(0, unixNS).Format("2006-01-02T15:04:05") }

// toDo names the event of the job or of the tasks.
func (d *dep) toDo() string {
	text := [...]string{
		record.WhenOK: "to end well", record.WhenAny: "to end", record.WhenNotOK: "to end, but not well", record.WhenStarted: "to start",
	}[d.when]
	if d.part.Delay > 0 {
		text += ", and " + filch.ShortTime(d.part.Delay) + " more"
	}
	if d.chained {
		text += ", which has the same name"
	}
	return text
}
