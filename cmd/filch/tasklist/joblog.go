package tasklist

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/mtc/record"
)

// joblogHead is the first line of GNU parallel's job log.
const joblogHead = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

// joblogLine is the line of an ended task in GNU parallel's job log; "" of a task that has
// not ended, or never began. Control characters of the command are escaped, so that a
// line stays a line.
func joblogLine(t *Row) string {
	if t.Code == nil || t.Began == 0 && t.State != filch.Lost.String() && t.State != filch.Failed.String() {
		return ""
	}
	code := *t.Code
	if t.Signal != 0 {
		code = 0 // as parallel: the code or the signal
	}
	host := string(t.Node)
	if host == "" {
		host = "-"
	}
	return fmt.Sprintf("%d\t%s\t%.3f\t%10.3f\t0\t%d\t%d\t%d\t%s\n", int64(t.Index)+1, host, float64(t.Began)/1e6, t.Took, t.Bytes, code, t.Signal, oneLine(t.Command))
}

// oneLine writes a cell of a file of lines and tabs.
func oneLine(s string) string { return strings.TrimSpace(ui.Clean(s)) }

// joblogEvery is how often the ended tasks are read for a job log.
const joblogEvery = time.Second

// Joblog appends the lines of tasks to a file, as the tasks end.
type Joblog struct {
	path  string
	file  *os.File
	size  int64 // of the whole lines; -1: the file cannot be cut
	add   bool  // to the lines that the file has
	v     *view
	zones map[int32]int32        // ends seen, by zone
	parts map[int32]*joblogBlock // blocks that have tasks without a line
	whole map[int32]uint64       // blocks of which all tasks have lines: bits, by 64 blocks
	fault error                  // of a write: nothing is written after it
}

// joblogBlock says which tasks of a block have their lines.
type joblogBlock struct {
	bits [record.BlockSize / 64]uint64
	n    int32
}

// OpenJoblog opens the file; as with parallel, a + in front of the name keeps the lines
// that the file has.
func OpenJoblog(name string) (*Joblog, error) {
	l := &Joblog{zones: map[int32]int32{}, parts: map[int32]*joblogBlock{}, whole: map[int32]uint64{}}
	l.path, l.add = strings.CutPrefix(name, "+")
	var err error
	if l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666); err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot write the job log %s: %s", ui.Clean(l.path), ui.Cause(err))
	}
	return l, nil
}

// follow writes the log of a job that was submitted. The caller calls the result when the
// job has ended, or the waiting has.
func (l *Joblog) follow(t *client.Tasks) (stop func(waited error) error) {
	l.begin()
	over, ended := make(chan error), make(chan error, 1)
	go func() {
		for {
			select {
			case waited := <-over:
				ended <- l.finish(t, waited)
				return
			case <-time.After(joblogEvery):
			}
			if l.fault == nil {
				_ = l.pass(t.Job, t.Another) // the last pass reads what this one could not
			}
		}
	}()
	return func(waited error) error {
		over <- waited
		return <-ended
	}
}

// Around follows a job while wait waits; without a log, Around only waits.
func (l *Joblog) Around(t *client.Tasks, wait func() error) error {
	if l == nil {
		return wait()
	}
	stop := l.follow(t)
	err := wait()
	if bad := stop(err); bad != nil && err != nil {
		ui.Complain(bad) // the code is that of the tasks
	} else if bad != nil {
		return bad
	}
	return err
}

// begin writes the head.
func (l *Joblog) begin() {
	st, err := l.file.Stat()
	regular := err == nil && st.Mode().IsRegular()
	if regular && !l.add {
		l.fault = l.file.Truncate(0)
	}
	switch {
	case !regular:
		l.size = -1
	case l.add:
		l.size = st.Size()
	}
	if l.size <= 0 {
		l.write(joblogHead)
	}
}

// write appends whole lines: if the disk has no space for all of them, none.
func (l *Joblog) write(lines string) {
	if l.fault != nil || lines == "" {
		return
	}
	if _, l.fault = l.file.WriteString(lines); l.fault == nil {
		if l.size >= 0 {
			l.size += int64(len(lines))
		}
		return
	}
	if l.size >= 0 {
		_ = l.file.Truncate(l.size)
	}
	ui.Warn("cannot write the job log " + l.path + " any more: " + ui.Cause(l.fault))
}

// finish writes the lines that are missing after the wait for the job: over any launcher, unless
// the instance went down.
func (l *Joblog) finish(t *client.Tasks, waited error) error {
	err := l.fault
	if err == nil {
		err = l.pass(t.Job, t.Another)
	}
	if err != nil && l.fault == nil && waited != ui.Exit(filch.ExitDown) {
		err = cli.Over(t.Dir(), t.Job, "the job log "+l.path+" is incomplete", func(c *client.Client) error { return l.pass(t.Job, c.Another) })
	}
	err = cmp.Or(err, l.fault)
	if bad := l.file.Close(); err == nil {
		err = bad
	}
	if l.v != nil {
		l.v.Conn.Close()
	}
	if _, said := err.(ui.ExitStatus); err != nil && !said {
		err = filch.Errorf(filch.Unavailable, "the job log %s is incomplete: %s", l.path, ui.Cause(err)).
			WithHint("filch tasks %d --joblog prints all of it", t.Job)
	}
	return err
}

// pass writes the lines of the tasks that ended since the pass before.
// After an error, the next pass uses a new connection.
func (l *Joblog) pass(job filch.JobID, dial func() (*client.Client, error)) (err error) {
	if l.v == nil {
		c, err := dial()
		if err != nil {
			return err
		}
		if l.v, _, err = openView(c, job); err != nil {
			l.v = nil
			c.Close()
			return err
		}
	}
	defer func() {
		if err != nil {
			l.v.Conn.Close()
			l.v = nil
		}
	}()
	v := l.v
	values, err := v.Read([]string{record.KeyJob(v.ID)})
	if err != nil {
		return err
	}
	rec, err := record.DecodeJob(values[0])
	if err != nil {
		return err
	}
	v.Rec = rec
	for _, z := range rec.Zones {
		if z.Sum() <= l.zones[z.Zone] {
			continue
		}
		if err := l.zone(z.Zone); err != nil {
			return err
		}
		l.zones[z.Zone] = z.Sum()
	}
	return nil
}

// zone writes the lines of a zone.
func (l *Joblog) zone(num int32) error {
	v := l.v
	v.num = -1 // the zone has changed
	if err := v.enter(num); err != nil {
		return err
	}
	var numbers []int32
	for _, b := range v.zone.Blocks {
		known := int32(0)
		if p := l.parts[b.Block]; p != nil {
			known = p.n
		}
		if l.whole[b.Block/64]&(1<<(b.Block%64)) == 0 && b.Sum() > known {
			numbers = append(numbers, b.Block)
		}
	}
	for part := range slices.Chunk(numbers, taskrecords.AtOnce) {
		list, err := v.rows(part, nil)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(t Row) bool {
			state, _ := stateNamed(t.State)
			// The tally of the block counts the tasks that have an entry there.
			return !state.Final() || t.Attempts == 0 || l.hasLine(t.Index)
		})
		if err := v.describe(list); err != nil {
			return err
		}
		slices.SortFunc(list, func(a, b Row) int {
			return cmp.Or(cmp.Compare(a.ended(), b.ended()), cmp.Compare(a.Index, b.Index))
		})
		var lines strings.Builder
		for i := range list {
			lines.WriteString(joblogLine(&list[i]))
			l.wrote(list[i].Index)
		}
		if l.write(lines.String()); l.fault != nil {
			return l.fault
		}
	}
	return nil
}

// ended is the time of the end, in seconds by the clock of the task's node.
func (t *Row) ended() float64 { return float64(t.Began)/1e6 + t.Took }

func (l *Joblog) hasLine(i int32) bool {
	n, off := i/record.BlockSize, i%record.BlockSize
	p := l.parts[n]
	return l.whole[n/64]&(1<<(n%64)) != 0 || p != nil && p.bits[off/64]&(1<<(off%64)) != 0
}

// wrote notes that a task has its line.
func (l *Joblog) wrote(i int32) {
	n, off := i/record.BlockSize, i%record.BlockSize
	if l.parts[n] == nil {
		l.parts[n] = &joblogBlock{}
	}
	p := l.parts[n]
	p.bits[off/64] |= 1 << (off % 64)
	if p.n++; p.n == record.BlockSize {
		delete(l.parts, n)
		l.whole[n/64] |= 1 << (n % 64)
	}
}
