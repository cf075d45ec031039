package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/wire"
)

// View is the way to show output.
type View struct {
	Label bool
	Job   bool           // labels have the job too
	Times bool           // lines begin with a time
	Fold  bool           // equal lines show once
	Tail  int            // only the last lines of each stream; below 0 all
	Grep  *regexp.Regexp // only lines that match; nil all
	// Ordered shows what is there already in the order of tasks.
	Ordered bool
	// Turns shows the output of a task of one job once all tasks before have ended, and
	// needs [Reader.Passed].
	Turns  bool
	Before func() // called before output is written; nil none
}

// timeForm is the form of a time before a line, and noTime stands for an unknown time.
const (
	timeForm = "2006-01-02T15:04:05.000"
	noTime   = "-                      "
)

// Printer is the [Sink] that prints.
type Printer struct {
	view     View
	out, err io.Writer
	store    *store // nil once the output so far is printed
	buffer   []byte
	folds    map[*Target]*output.Fold
	order    []*Target
	turns    *turns              // nil: output is printed as it comes
	target   *Target             // of turns
	last     map[attemptOf]int32 // the attempt whose output was printed last, as of [attemptMark]; not for first attempts
	begun    begun
	open     [3]bool // the last line of a stream has no end
}

// attemptOf is a task whose attempts have output.
type attemptOf struct {
	target *Target
	index  int32
}

// NewPrinter makes the printer of standard output and standard error.
func NewPrinter(v View) *Printer {
	p := &Printer{view: v, out: ui.Sanitized(os.Stdout), err: ui.Sanitized(os.Stderr), folds: map[*Target]*output.Fold{}}
	if v.Ordered || v.Tail >= 0 {
		p.store = &store{}
	}
	if v.Turns {
		p.turns = newTurns()
	}
	return p
}

// ranks reports whether the target is a run.
func (t *Target) ranks() bool { return !cli.IsTasks(&t.Info) }

// Piece implements [Sink].
func (p *Printer) Piece(t *Target, o *wire.OutputPiece) error {
	if p.view.Grep != nil {
		o.Data = matching(o.Data, p.view.Grep)
	}
	switch {
	case p.turns != nil:
		p.keep(t, o)
		return nil
	case p.store != nil:
		p.store.add(t, o)
		return nil
	}
	return p.print(t, o)
}

// CaughtUp implements [Sink]: it prints the output so far.
func (p *Printer) CaughtUp() error {
	s := p.store
	p.store = nil
	if s == nil {
		return nil
	}
	defer s.close()
	if p.view.Ordered {
		s.sort()
	}
	drop := make([]int, len(s.pieces))
	if p.view.Tail >= 0 {
		drop = s.tail(p.view.Tail)
	}
	for i := range s.pieces {
		one := &s.pieces[i]
		data, err := s.data(one)
		if err != nil {
			return filch.Errorf(filch.Internal, "cannot read the output back from %s: %s", os.TempDir(), ui.Cause(err))
		}
		o := one.OutputPiece
		o.Data = dropLines(data, drop[i])
		if err := p.print(one.target, &o); err != nil {
			return err
		}
	}
	return nil
}

// Idle implements [Sink].
func (p *Printer) Idle(now time.Time) error {
	for _, t := range p.order {
		if err := p.folds[t].Expire(now); err != nil {
			return err
		}
	}
	return nil
}

// Close prints the lines that wait for other ranks or tasks.
func (p *Printer) Close() (err error) {
	if p.turns != nil {
		err = p.closeTurns()
	}
	for _, t := range p.order {
		err = errors.Join(err, p.folds[t].Flush())
	}
	return errors.Join(err, ui.Flush(p.out), ui.Flush(p.err))
}

func (p *Printer) print(t *Target, o *wire.OutputPiece) error {
	if o.Lost > 0 {
		ui.Warn(fmt.Sprintf("%d bytes in the middle of what task %d.%d printed were dropped", o.Lost, t.Job, o.Index))
	}
	if len(o.Data) == 0 || t.well[o.Index] {
		return nil
	}
	if p.view.Fold {
		return p.foldOf(t).Add(time.Now(), filch.Rank(o.Index), o.Stream, o.Data)
	}
	data := o.Data
	if p.view.Label || p.view.Times || p.view.Grep != nil {
		data = p.lines(t, o)
	}
	if !p.view.Label || t.ranks() {
		if err := p.sayAttempt(t, o); err != nil {
			return err
		}
	}
	return p.write(o.Stream, data)
}

// sayAttempt tells, where no label does, that output of a task comes now behind that of another
// attempt, on a new line; likewise of a start that another copy outdid.
func (p *Printer) sayAttempt(t *Target, o *wire.OutputPiece) (err error) {
	of := attemptOf{t, o.Index}
	if t.ranks() {
		of.index = 0 // all ranks start again together
	}
	now, was := attemptMark(o.Attempt, t.outdone(o)), max(p.last[of], attemptMark(1, false))
	before := p.begun.add(of)
	if now == was {
		return nil
	}
	if p.last == nil {
		p.last = map[attemptOf]int32{}
	}
	if p.last[of] = now; !before && !t.outdone(o) {
		return nil
	}
	for stream := range p.open {
		if p.open[stream] && err == nil {
			err = p.write(uint8(stream), []byte{'\n'})
		}
	}
	if err == nil {
		err = p.write(2, fmt.Appendf(nil, "%s: %s, %s:\n", ui.Self.Name, nameOf(t, o.Index), t.attemptHead(o, was)))
	}
	return err
}

// attemptMark numbers attempts, and the starts of an attempt that were outdone apart.
func attemptMark(attempt int32, outdone bool) int32 {
	if outdone {
		return 2*max(attempt, 1) + 1
	}
	return 2 * max(attempt, 1)
}

// lostBetween names the node with which a run lost the attempt was, or a later one before now;
// "" without one.
func (t *Target) lostBetween(was, now int32) string {
	for i := len(t.Info.Lost) - 1; i >= 0; i-- {
		if l := &t.Info.Lost[i]; was <= int32(l.Attempt) && int32(l.Attempt) < now {
			return fmt.Sprintf(" after node %s was lost", ui.Clean(string(l.Node)))
		}
	}
	return ""
}

// begun is the tasks of which output was printed, 64 in a word: there may be millions.
type begun map[attemptOf]uint64

// add adds a task, and reports whether the task was there.
func (b *begun) add(of attemptOf) bool {
	if *b == nil {
		*b = begun{}
	}
	word, bit := attemptOf{of.target, of.index / 64}, uint64(1)<<(of.index%64)
	was := (*b)[word]
	(*b)[word] = was | bit
	return was&bit > 0
}

// nameOf is the name of a task, or of a run, for people.
func nameOf(t *Target, index int32) string {
	switch {
	case t.ranks():
		return "job " + t.Job.String()
	case int(index) < len(t.Names):
		return fmt.Sprintf("task %d.%s", t.Job, ui.Clean(t.Names[index]))
	}
	return fmt.Sprintf("task %d.%d", t.Job, index)
}

// write writes to standard output, or the bytes of stream 2 to standard error.
func (p *Printer) write(stream uint8, data []byte) error {
	if p.view.Before != nil {
		p.view.Before()
	}
	w := p.out
	if stream == 2 {
		w = p.err
	}
	if n := len(data); n > 0 && int(stream) < len(p.open) {
		p.open[stream] = data[n-1] != '\n'
	}
	_, err := w.Write(data)
	if err != nil && ui.IsBrokenPipe(err) {
		return ui.Exit(filch.ExitSignalBase + int(ui.SIGPIPE))
	}
	return err
}

// foldOf is the fold of a job. A run that is followed has a known number of ranks, so a
// line of all ranks waits no longer.
func (p *Printer) foldOf(t *Target) *output.Fold {
	f := p.folds[t]
	if f == nil {
		size := int32(0)
		if t.Info.Code == nil {
			size = All
			if t.ranks() && t.First == 0 && t.Last == All && t.Info.Ranks > 0 {
				size = t.Info.Ranks
			}
		}
		f = output.NewFold(size, func(stream uint8, line []byte) error {
			if p.view.Job {
				line = append([]byte(t.Job.String()+"."), line...)
			}
			return p.write(stream, line)
		})
		p.folds[t] = f
		p.order = append(p.order, t)
	}
	return f
}

// lines puts the time and the label before each line.
func (p *Printer) lines(t *Target, o *wire.OutputPiece) []byte {
	b := p.buffer[:0]
	for line := range bytes.Lines(o.Data) {
		if p.view.Times {
			if o.Time > 0 {
				b = time.UnixMilli(o.Time).AppendFormat(b, timeForm)
			} else {
				b = append(b, noTime...)
			}
			b = append(b, ' ')
		}
		if p.view.Label {
			b = p.label(b, t, o)
		}
		b = append(b, line...)
		if line[len(line)-1] != '\n' {
			b = append(b, '\n')
		}
	}
	p.buffer = b
	return b
}

// label appends the label of a rank or a task: a workflow's tasks have names.
func (p *Printer) label(b []byte, t *Target, o *wire.OutputPiece) []byte {
	i := o.Index
	if t.ranks() && !p.view.Job {
		return output.AppendLabel(b, filch.Rank(i), output.Width(t.Info.Ranks))
	}
	if int(i) < len(t.Names) {
		if p.view.Job {
			b = append(b, t.Job.String()+"."...)
		}
		b = append(b, ui.Clean(t.Names[i])...)
	} else {
		b = fmt.Appendf(b, "%d.%d", t.Job, i)
	}
	if o.Rank > 0 {
		b = fmt.Appendf(b, ".%d", o.Rank-1)
	}
	if text := t.attemptText(o); text != "" {
		b = fmt.Appendf(b, " (%s)", text)
	}
	if t.outdone(o) {
		b = fmt.Appendf(b, " (%s)", launcher.Outdone)
	}
	return append(b, ": "...)
}

// matching returns the lines that match.
func matching(data []byte, re *regexp.Regexp) []byte {
	var out []byte
	for line := range bytes.Lines(data) {
		if re.Match(bytes.TrimSuffix(line, []byte{'\n'})) {
			out = append(out, line...)
		}
	}
	return out
}

// countLines counts lines; a line without an end counts.
func countLines(b []byte) int {
	n := bytes.Count(b, []byte{'\n'})
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n++
	}
	return n
}

// dropLines drops the first n lines.
func dropLines(b []byte, n int) []byte {
	for range n {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return nil
		}
		b = b[i+1:]
	}
	return b
}
