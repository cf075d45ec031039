package children

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/dataplane"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/staging"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// gangs holds the tasks of this node that are gangs. Keepers run their ranks, on this node
// or on others; their output comes here, and goes to the segments of the job when the gang
// has ended. The loop owns bySerial; byTask and segments have a mutex.
type gangs struct {
	in       *inputs.Queue
	state    string // the state directory of the node
	bySerial map[uint64]*runningGang

	mu     sync.Mutex // guards byTask
	byTask map[launcher.TaskID]*runningGang

	keeping  sync.Mutex // guards segments; held while writing
	segments map[filch.JobID]*output.Segments
}

// runningGang is a gang from the making of its request to its end.
type runningGang struct {
	start launcher.TaskStart
	keep  launcher.Keep
	spool *output.Spool
	sink  *staging.Sink // nil: no stream goes to a file of this node
	began time.Time     // the request was made
	// The files are to be closed at the end: no attempt of a workflow's task closes them.
	closes bool
	looks  *looks
}

// Take keeps a piece of output.
func (g *runningGang) Take(o wire.Output) {
	if !g.sink.Take(o.Stream, o.Data) {
		g.spool.Add(int32(o.Rank), o.Stream, o.Data)
		g.looks.onOutput(launcher.TaskID{Job: g.start.Job, Index: g.start.Index})
	}
}

func newGangs(in *inputs.Queue, state string) *gangs {
	return &gangs{
		in: in, state: state, bySerial: map[uint64]*runningGang{}, byTask: map[launcher.TaskID]*runningGang{},
		segments: map[filch.JobID]*output.Segments{},
	}
}

// TakerOf returns the taker of the output of a gang of this node.
func (rs *Runners) TakerOf(id launcher.TaskID) dataplane.Taker {
	rs.gangs.mu.Lock()
	defer rs.gangs.mu.Unlock()
	if g := rs.gangs.byTask[id]; g != nil {
		return g
	}
	return noTaker{}
}

// noTaker drops the output of a gang that has ended here.
type noTaker struct{}

func (noTaker) Take(wire.Output) {}

// openGang makes the files of the streams of a bag's gang on this node, and then starts the
// gang. Files of single ranks and nodes are made by the keepers.
func (rs *Runners) openGang(need record.Need, m made) {
	o := rs.orders[m.start.Job]
	stdout, stderr := rs.gangFiles(o, &m.start)
	if stdout == "" && stderr == "" {
		rs.startGang(need, m)
		return
	}
	o.tasks++ // the order stays
	rs.in.Go(func() {
		var err error
		m.sink, err = staging.NewSink(stdout, stderr, o.Append)
		var e launcher.TaskEnd
		if err != nil {
			e = rs.gangs.unopened(&m.start, o.Keep, err)
		}
		rs.in.Post(func(*inputs.Turn) {
			o.tasks--
			if err == nil {
				rs.startGang(need, m)
				return
			}
			o.leave(m.start.Serial)
			if e.Cut {
				rs.Cuts.note(m.start, e.Text, e.Full)
			}
			rs.QueueEnd(e)
		})
	})
}

// unopened is the end of a gang whose files cannot be made. The reason goes to the segments, as
// the last line of the task.
func (gs *gangs) unopened(s *launcher.TaskStart, keep launcher.Keep, err error) launcher.TaskEnd {
	name := "a file"
	if file, ok := errors.AsType[*os.PathError](err); ok {
		name = file.Path
	}
	e := launcher.TaskEnd{
		Serial: s.Serial, Kind: launcher.CauseOurs, Code: filch.ExitOurs, Ended: time.Now().UnixNano(),
		Text: fmt.Sprintf("cannot write %s, the output of task %d.%d, on %s: %s", name, s.Job, s.Index, gs.in.Self, proc.Reason(err)),
	}
	gs.keepOutput(&runningGang{start: *s, keep: keep, spool: output.NewSpool(gs.state)}, &e)
	return e
}

// gangFiles are the absolute names of the files that all ranks of a gang write, "" for none.
func (rs *Runners) gangFiles(o *order, s *launcher.TaskStart) (stdout, stderr string) {
	names := gangNames(o, s)
	file := func(pattern string) string {
		if pattern == "" || pattern == "-" || pattern == launcher.NoFile || output.SideOf(pattern) != output.SideClient {
			return ""
		}
		name := output.Expand(pattern, output.Place{Job: s.Job, Name: o.Name, Task: strconv.Itoa(int(s.Number)), Node: rs.in.Self, User: proc.UserName()})
		if !filepath.IsAbs(name) {
			name = filepath.Join(cmp.Or(s.Cwd, o.Cwd), name)
		}
		return name
	}
	if stdout, stderr = file(names.Stdout), file(names.Stderr); names.Stderr == "-" {
		stderr = stdout
	}
	return stdout, stderr
}

// gangNames are the patterns of the files of a task's streams.
func gangNames(o *order, s *launcher.TaskStart) launcher.Streams {
	names := launcher.Streams{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr}
	if own := s.Streams; own != nil {
		names = launcher.Streams{Stdin: cmp.Or(own.Stdin, names.Stdin), Stdout: cmp.Or(own.Stdout, names.Stdout), Stderr: cmp.Or(own.Stderr, names.Stderr)}
	}
	return names
}

// startGang makes the request of a gang, and hands it to the Node.
func (rs *Runners) startGang(need record.Need, m made) {
	s, o := m.start, rs.orders[m.start.Job]
	r, err := gangRequest(o, need, &m)
	if err != nil {
		e := launcher.TaskEnd{Serial: s.Serial, Kind: launcher.CauseOurs, Code: filch.ExitOurs, Ended: time.Now().UnixNano(), Text: err.Error()}
		if !rs.files.OnEnd(e) {
			rs.QueueEnd(e)
		}
		return
	}
	g := &runningGang{start: s, keep: o.Keep, spool: output.NewSpool(rs.gangs.state), began: time.Now(), looks: rs.looks}
	if g.sink = m.sink; m.files != nil {
		g.sink = m.files.Sink()
	}
	g.closes = m.sink != nil
	rs.gangs.bySerial[s.Serial] = g
	rs.gangs.mu.Lock()
	rs.gangs.byTask[launcher.TaskID{Job: s.Job, Index: s.Index}] = g
	rs.gangs.mu.Unlock()
	o.tasks++
	rs.ready = append(rs.ready, readyGang{s.Serial, *r})
}

// readyGang is a gang for the next turn of the loop.
type readyGang struct {
	serial  uint64
	request launcher.Request
}

// DeliverGangs hands the Node the gangs whose requests were made while the loop acted on
// the Node's Outbox.
func (rs *Runners) DeliverGangs(t *inputs.Turn) {
	ready := rs.ready
	rs.ready = nil
	for _, g := range ready {
		t.Node.Tasks.Gangs.Start(t.Now, g.serial, g.request, t.Out)
	}
}

// gangRequest makes the request of a gang from the order of its job and its own start.
func gangRequest(o *order, need record.Need, m *made) (*launcher.Request, error) {
	s, g := &m.start, m.gang
	if g == nil || g.Shape.Ranks != need.Gang.Ranks {
		return nil, filch.Errorf(filch.Invalid, "task %d.%d is a gang of %d ranks, and the job does not say of which shape", s.Job, s.Index, need.Gang.Ranks)
	}
	argv := s.Argv
	if len(argv) == 0 {
		argv = o.Argv
	}
	what := launcher.Order{
		Programs: []launcher.Program{{Argv: argv, Ranks: []launcher.Span{{Count: g.Shape.Ranks}}}}, Cwd: cmp.Or(s.Cwd, o.Cwd), Env: append(slices.Clone(o.Env), s.Env...),
		Umask: o.Umask, Rlimits: o.Rlimits, IO: gangStreams(o, s), MPI: g.MPI, Bind: g.Bind, Hooks: o.extra.Hooks,
		Task: &launcher.GangTask{TaskID: launcher.TaskID{Job: s.Job, Index: s.Index}, Number: s.Number, Attempt: s.Attempt, Limit: s.Limit},
	}
	if o.extra.Slurm != nil {
		what.Slurm = &launcher.Slurm{}
	}
	if m.files != nil {
		what.Cwd, what.Files = m.files.Start().Cwd, m.files.GangFiles()
	}
	body, err := wire.Marshal(&what)
	if err == nil && len(body) > launcher.MaxOrderBytes {
		err = filch.Errorf(filch.Invalid, "the command, the environment and the names of the files of task %d.%d have %d bytes, at most %d", s.Job, s.Index, len(body), launcher.MaxOrderBytes)
	}
	if err != nil {
		return nil, err
	}
	r := &launcher.Request{Name: o.Name, Shape: g.Shape, Policy: g.Policy, Order: body, Staged: what.Files != nil, Copy: o.extra.Copy}
	r.Shape.PerRank = need.Each
	if n := need.Nodes; n != nil {
		r.Shape.Only, r.Shape.Exclude, r.Shape.Labels = n.Only, n.Exclude, n.Labels
	}
	r.Policy.TimeLimit, r.Policy.KillWait = s.Limit, cmp.Or(o.KillWait, launcher.TaskGrace)
	r.Policy.WarnSig, r.Policy.WarnTime = s.Warn.Signal, s.Warn.Before
	r.Policy.KillOnBad = true
	return r, nil
}

// gangStreams says where the streams of the ranks go. The streams that the node keeps go
// to the taker, as the streams of a run go to its client.
func gangStreams(o *order, s *launcher.TaskStart) launcher.IO {
	names := gangNames(o, s)
	io := launcher.IO{StdinMode: launcher.StdinNone, OutRank: -1, ErrRank: -1, Append: o.Append}
	if names.Stdin != "" && names.Stdin != launcher.NoFile {
		io.StdinMode, io.Stdin = launcher.StdinFile, names.Stdin
	}
	if o.Keep == launcher.KeepNone {
		names.Stdout, names.Stderr = cmp.Or(names.Stdout, launcher.NoFile), cmp.Or(names.Stderr, launcher.NoFile)
	}
	if o.Graph != nil { // names of files, which this node writes
		io.Stdin = strings.ReplaceAll(io.Stdin, "%", "%%")
		return io
	}
	io.Stdout, io.Stderr = names.Stdout, names.Stderr
	switch {
	case names.Stderr == "-":
		io.Stderr = "" // follows standard output
	case names.Stderr == "" && names.Stdout != "":
		io.Stderr = "all" // the taker's
	}
	return io
}

// EndGang takes in the end of a gang, moves its output to the segments, and hands the end
// on to the Node.
func (rs *Runners) EndGang(e launcher.TaskEnd) {
	e.Ended = time.Now().UnixNano()
	g := rs.gangs.bySerial[e.Serial]
	if g == nil { // never began here
		rs.QueueEnd(e)
		return
	}
	if delete(rs.gangs.bySerial, e.Serial); e.Kind != launcher.CauseOurs {
		e.Began = g.began.UnixNano()
	}
	if o := rs.orders[g.start.Job]; o != nil {
		o.tasks--
		o.since = time.Now()
		o.leave(e.Serial)
	}
	rs.in.Go(func() {
		rs.gangs.keepOutput(g, &e)
		rs.gangs.drop(g)
		rs.in.Post(func(t *inputs.Turn) {
			if e.Cut {
				rs.Cuts.note(g.start, e.Text, e.Full)
			}
			if !rs.holdBack(e) {
				rs.Report(t, []launcher.TaskEnd{e})
			}
		})
	})
}

// drop forgets a gang whose output is in the segments.
func (gs *gangs) drop(g *runningGang) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if id := (launcher.TaskID{Job: g.start.Job, Index: g.start.Index}); gs.byTask[id] == g {
		delete(gs.byTask, id)
	}
}

// keepOutput moves the output of a gang to the segments of its job, with the reason of a
// bad end as the last line.
func (gs *gangs) keepOutput(g *runningGang, e *launcher.TaskEnd) {
	defer g.spool.Close()
	if g.closes {
		if err := g.sink.Close(); err != nil {
			gs.cut(e, "cannot write all output of a gang", err, int(g.start.Job))
		}
	}
	if len(e.Silent) > 0 && (g.keep == launcher.KeepAll || g.closes) {
		gs.silent(g, e)
	}
	failed := e.Kind != launcher.CauseNone
	if g.keep == launcher.KeepNone || g.keep == launcher.KeepFailed && !failed {
		return
	}
	gs.keeping.Lock()
	defer gs.keeping.Unlock()
	s := gs.segments[g.start.Job]
	if s == nil {
		s = output.NewSegments(proc.Place{Dir: gs.state}.OutputDir(g.start.Job), os.Getpid())
	}
	add := func(p output.Printed) error {
		p.Index, p.Attempt, p.Failed = int32(g.start.Index), g.start.Nth, failed
		e.Bytes += int64(len(p.Data))
		e.Cut = e.Cut || p.Lost > 0
		return s.Add(p)
	}
	err := g.spool.Drain(add)
	if e.Cut && e.Text == "" {
		e.Text = fmt.Sprintf("%s keeps the first and at least the last %d MiB of what a gang prints; submit with -o FILE to keep all", gs.in.Self, output.KeptMax>>21)
	}
	if err == nil && failed && e.Text != "" && !e.Told {
		err = add(output.Printed{Stream: 2, Data: []byte("filch: " + e.Text + "\n")})
	}
	if err = errors.Join(err, s.Flush()); err != nil {
		gs.cut(e, "cannot keep all output of a gang", err, int(g.start.Job))
	}
	gs.segments[g.start.Job] = s
}

// silent notes in the end of a gang that the last output of nodes may be missing.
func (gs *gangs) silent(g *runningGang, e *launcher.TaskEnd) {
	e.Cut = true
	e.Text = fmt.Sprintf("%s did not get the last output of task %d.%d from %s: lost after the ranks there had ended well, or out of reach for long; run the task again if the output matters",
		gs.in.Self, g.start.Job, g.start.Index, launcher.ListNames(e.Silent))
	gs.in.Watch.Log().Warn("output may be missing: a node was lost after its ranks had ended, or could not send output", "job", int(g.start.Job), "peer", launcher.ListNames(e.Silent))
}

// cut notes in the end of a gang that output is missing, with the reason: a full disk, as a
// runner says, or the error.
func (gs *gangs) cut(e *launcher.TaskEnd, what string, err error, job int) {
	gs.in.Fault(what, err, "job", job)
	e.Cut = true
	text := fmt.Sprintf("%s on %s: %s", what, gs.in.Self, err.Error())
	at, ofFile := errors.AsType[*os.PathError](err)
	switch full := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT); {
	case full && ofFile && !strings.HasPrefix(at.Path, gs.state):
		e.Full = true
		text = fmt.Sprintf("the disk of %s on %s is full: not all output of the ranks is there; make room, and run the task again", filepath.Dir(at.Path), gs.in.Self)
	case full, errors.Is(err, output.ErrFull):
		e.Full = true
		free, _, _ := output.Disk(gs.state)
		text = fmt.Sprintf("no space for all output of tasks on %s: %d bytes are free on the disk of %s, and filch leaves some for its records; make room there, or submit with -o FILE on another disk", gs.in.Self, free, gs.state)
	}
	if e.Text != "" {
		text = e.Text + "; " + text
	}
	e.Text = text
}

// look answers a question about the output of running tasks for the gangs of this node.
func (gs *gangs) look(q *launcher.TaskLook) (seen []launcher.TaskSeen) {
	gs.mu.Lock()
	var found []*runningGang
	for id, g := range gs.byTask { // in any order: sorted below
		if q.Span.Has(id.Job, id.Index) {
			found = append(found, g)
		}
	}
	gs.mu.Unlock()
	if q.Ended || len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(a, b *runningGang) int { return cmp.Compare(a.start.Index, b.start.Index) })
	limit := int(q.Limit) / len(found)
	for _, g := range found {
		seen = append(seen, g.since(q.Marks, limit))
	}
	return seen
}

// since is the output of a gang beyond the marks.
func (g *runningGang) since(marks []launcher.StreamMark, limit int) (seen launcher.TaskSeen) {
	mark := launcher.StreamMark{Index: g.start.Index, Nth: g.start.Nth}
	var at [2]int64
	for _, m := range marks {
		if m.Index == mark.Index && m.Nth == mark.Nth && (m.Stream == 1 || m.Stream == 2) {
			at[m.Stream-1] = m.At
		}
	}
	pieces, next, more := g.spool.Since(at, limit)
	seen.More = more
	for _, p := range pieces {
		m := mark
		m.Stream = p.Stream
		seen.Pieces = append(seen.Pieces, launcher.TaskPiece{Mark: m, Lost: p.Lost, Rank: p.Rank, Data: p.Data})
	}
	for i := range next {
		m := mark
		m.Stream, m.At = uint8(i+1), next[i]
		seen.Running = append(seen.Running, m)
	}
	return seen
}

// forget closes the segments of a job.
func (gs *gangs) forget(job filch.JobID) {
	gs.keeping.Lock()
	defer gs.keeping.Unlock()
	if s := gs.segments[job]; s != nil {
		if err := s.Close(); err != nil {
			gs.in.Fault("cannot keep all output of a gang", err, "job", int(job))
		}
		delete(gs.segments, job)
	}
}
