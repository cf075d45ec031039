package mtc

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/report"
)

// turn is an input of a Core: the time of the input, and the Out for the actions that
// follow from the input. Each exported method with both parameters begins a turn; the
// functions below the method read the two here.
type turn struct {
	now    time.Duration
	out    *Out
	number uint64
}

func (t *turn) enter(now time.Duration, out *Out) { t.now, t.out, t.number = now, out, t.number+1 }

func (t *turn) send(to filch.NodeName, m message.Message) {
	t.out.Sends = append(t.out.Sends, Send{To: to, Message: m})
}

func (t *turn) note(level int8, id filch.JobID, format string, args ...any) {
	t.out.Notes = append(t.out.Notes, report.Note{Level: level, Text: fmt.Sprintf(format, args...), Job: id})
}

func (t *turn) happened(e report.Event) { t.out.Events = append(t.out.Events, e) }

// The levels of notes, as slog has them.
const (
	noteInfo = 0
	noteWarn = 4
)
