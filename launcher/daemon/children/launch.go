package children

import (
	"cmp"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/staging"
	"github.com/filch-hpc/filch/launcher/slurmenv"
	"github.com/filch-hpc/filch/launcher/topology"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Launch makes starts from the Node's launches, and hands the starts to the runners.
func (rs *Runners) Launch(l *launcher.TaskLaunch) { rs.launch(l, nil) }

// launch is [Runners.Launch]; item is the item of a task with a long text, nil if the text
// is not here yet.
func (rs *Runners) launch(l *launcher.TaskLaunch, item []byte) {
	m, err := rs.startOf(l, item)
	if away, is := errors.AsType[*awayError](err); is {
		rs.awaitLong(*l, away.Long)
		return
	}
	if err != nil {
		rs.unsent = append(rs.unsent, launcher.TaskEnd{
			Serial: l.Serial, Kind: launcher.CauseOurs, Code: filch.ExitOurs, Ended: time.Now().UnixNano(), Text: err.Error(),
		})
		return
	}
	need := l.Start.Spec.Need(int(l.Start.Need))
	switch gang := need.Gang.Ranks > 0; {
	case gang && m.files != nil:
		rs.files.BeginGang(m.files, func() { rs.startGang(need, m) })
	case m.files != nil:
		rs.files.Begin(m.files)
	case gang:
		rs.openGang(need, m)
	default:
		rs.Start(m.start)
	}
}

// made is what was made from a launch.
type made struct {
	start launcher.TaskStart
	files *staging.Attempt    // of a task with files; nil of others
	gang  *launcher.GangOrder // of a task that is a gang
	sink  *staging.Sink       // of a bag's gang with streams to files; nil of others
}

// startOf decodes the job's body, once, and the task's payload. A workflow's task
// is an attempt with files.
func (rs *Runners) startOf(l *launcher.TaskLaunch, long []byte) (made, error) {
	s := launcher.TaskStart{
		Serial: l.Serial, Job: l.Start.Job, Index: launcher.TaskIndex(l.Start.Name), Number: l.Start.Number, Attempt: l.Try(), Nth: l.Start.Nth,
		After: l.After, CPUs: topology.CPUs(l.Processors), GPUs: l.GPUs, Memory: l.Start.Room().MemBytes, Limit: l.Start.Spec.Limit,
	}
	if err := rs.decode(l); err != nil {
		return made{}, err
	}
	o, extra := rs.orders[s.Job].TaskOrder, rs.orders[s.Job].extra
	if extra.PrivateTmp && l.Start.Gang().Ranks == 0 { // the keepers make the folders of gangs
		var err error
		if s.Tmp, err = rs.temps.name(launcher.TaskID{Job: s.Job, Index: s.Index}, s.Attempt); err != nil {
			return made{}, err
		}
	}
	p := l.Start.Payload
	if o.Graph != nil {
		node, err := record.DecodeGraphNode(p)
		if err != nil {
			return made{}, filch.Errorf(filch.Invalid, "the record of task %d.%d makes no sense: %s", s.Job, s.Index, err.Error())
		}
		p = node.Body
	}
	_, p = launcher.TaskMark(launcher.Untimed(p))
	if len(p) > 0 && p[0] == launcher.PayloadLong {
		if p = long; p == nil {
			return made{}, awayFrom(l)
		}
	}
	if extra.Warn != nil {
		s.Warn = *extra.Warn
	}
	indexed := len(p) == 0 // the task has an index of an array
	if len(p) > 4 && p[0] == launcher.PayloadNumber {
		indexed, s.Number, p = true, int32(binary.BigEndian.Uint32(p[1:])), p[5:]
	}
	return rs.startPayload(l, s, p, indexed)
}

// startPayload completes a start by the payload of its task.
func (rs *Runners) startPayload(l *launcher.TaskLaunch, s launcher.TaskStart, p []byte, indexed bool) (made, error) {
	o, extra := rs.orders[s.Job].TaskOrder, rs.orders[s.Job].extra
	line, item := "", launcher.TaskItem{}
	switch {
	case len(p) == 0:
	case p[0] == launcher.PayloadLine:
		line = string(p[1:])
		rs.lineTask(o, &s, line)
	case p[0] == launcher.PayloadItem, p[0] == launcher.PayloadSlot:
		if err := wire.Unmarshal(p[1:], &item); err != nil {
			return made{}, err
		}
		if p[0] == launcher.PayloadSlot {
			place := strconv.Itoa(rs.orders[s.Job].place(&s))
			for i, w := range item.Argv {
				item.Argv[i] = strings.ReplaceAll(w, "{%}", place)
			}
		}
		s.Argv, s.Cwd, s.Line, s.Streams = item.Argv, item.Cwd, item.Line, item.Streams
		s.Env = append(s.Env, item.Env...)
		if item.Limit > 0 {
			s.Limit = item.Limit
		}
		if o.Graph != nil {
			rs.slurm(o, extra, &s, l.Start.Room().Slots)
			hook(o, extra, l, &s)
			b, err := rs.files.NewAttempt(o, s, item, l)
			return made{start: s, files: b, gang: item.Gang}, err
		}
	default:
		return made{}, filch.Errorf(filch.Invalid, "task %d.%d has a payload of a kind that %s does not know", s.Job, s.Index, rs.in.Self)
	}
	rs.slurm(o, extra, &s, l.Start.Room().Slots)
	if o.Fill {
		if err := rs.orders[s.Job].fill(&s, line, indexed); err != nil {
			return made{}, err
		}
	}
	hook(o, extra, l, &s) // around the command with its values
	s, b, err := rs.staged(o, extra.Stage, s, item, line, indexed)
	return made{start: s, files: b, gang: cmp.Or(item.Gang, extra.Gang)}, err
}

// decode decodes the job's body, unless this was done before.
func (rs *Runners) decode(l *launcher.TaskLaunch) error {
	job := l.Start.Job
	if rs.orders[job] != nil {
		return nil
	}
	o, extra, err := wire.DecodeOrder(l.Start.Spec.Body)
	if err != nil {
		return filch.Errorf(filch.Invalid, "job %d has a body of %d bytes that %s cannot read: %s", job, len(l.Start.Spec.Body), rs.in.Self, err.Error())
	}
	o.Ident = filch.Ident{Instance: rs.keepers.cfg.Instance, Job: job, Attempt: 1}
	rs.order(o, extra)
	return nil
}

// staged makes the attempt of a bag's task with files; st is nil for a task without.
func (rs *Runners) staged(o *launcher.TaskOrder, st *launcher.Stage, s launcher.TaskStart, item launcher.TaskItem, line string, indexed bool) (launcher.TaskStart, *staging.Attempt, error) {
	if st == nil {
		return s, nil, nil
	}
	if len(item.Inputs)+len(item.Outputs) == 0 {
		var err error
		if item.Inputs, item.Outputs, err = stageFor(st, &s, line, indexed); err != nil {
			return s, nil, err
		}
	}
	b, err := rs.files.NewBagAttempt(o, st, s, item)
	return s, b, err
}

// slurm gives a task its part of SLURM_*; the order has the submitter's part. Of a gang, the
// keepers know the ranks and the time of the start, and set these variables anew.
func (rs *Runners) slurm(o *launcher.TaskOrder, extra *launcher.OrderExtra, s *launcher.TaskStart, slots int32) {
	if extra.Slurm == nil || o.Worker && len(s.Argv) == 0 {
		return
	}
	now := time.Now()
	f := slurmenv.Facts{
		Job: s.Job, Name: o.Name, Restarts: int32(s.Attempt) - 1, Begun: now.Unix(),
		Nodes: []filch.NodeName{rs.in.Self}, Node: rs.in.Self, Tasks: []int32{1}, CPUs: []int32{max(slots, 1)},
		Proc: &slurmenv.Proc{Ranks: []int32{0}},
	}
	if s.Limit > 0 {
		f.Ends = now.Add(s.Limit).Unix()
	}
	if a := extra.Slurm; a.Count > 0 {
		f.Array = slurmenv.Array{Job: s.Job, Index: int64(s.Number), Count: a.Count, Min: a.Min, Max: a.Max, By: a.Step}
	}
	s.Env = append(s.Env, slurmenv.Environ(&f, slurmenv.Task)...)
}

// hook puts the prolog and the epilog of a job around the command of a task.
func hook(o *launcher.TaskOrder, extra *launcher.OrderExtra, l *launcher.TaskLaunch, s *launcher.TaskStart) {
	argv := s.Argv
	if len(argv) == 0 {
		argv = o.Argv
	}
	if around, are := extra.Around(argv); are && l.Start.Gang().Ranks == 0 { // keepers run the hooks of ranks
		s.Argv = around
	}
}

// lineTask gives a line to a worker, to the command as a variable, or to a shell if the
// job has no command.
func (rs *Runners) lineTask(o *launcher.TaskOrder, s *launcher.TaskStart, line string) {
	switch {
	case o.Worker:
		s.Line = line
	case len(o.Argv) == 0:
		s.Argv = workflow.ShellArgv(line)
	default:
		s.Env = append(s.Env, "FILCH_LINE="+line)
	}
}
