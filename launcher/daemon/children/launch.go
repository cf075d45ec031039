package children

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/staging"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Launch makes starts from the Node's launches, and hands the starts to the runners.
func (rs *Runners) Launch(l *launcher.TaskLaunch) {
	s, b, err := rs.startOf(l)
	if err != nil {
		rs.unsent = append(rs.unsent, launcher.TaskEnd{
			Serial: l.Serial, Kind: launcher.CauseOurs, Code: filch.ExitOurs, Ended: time.Now().UnixNano(), Text: err.Error(),
		})
		return
	}
	if b != nil {
		rs.files.Begin(b)
		return
	}
	rs.Start(s)
}

// startOf decodes the job's body, once, and the task's payload. A workflow's task
// is an attempt with files.
func (rs *Runners) startOf(l *launcher.TaskLaunch) (launcher.TaskStart, *staging.Attempt, error) {
	s := launcher.TaskStart{
		Serial: l.Serial, Job: l.Start.Job, Index: launcher.TaskIndex(l.Start.Name), Number: l.Start.Number, Attempt: l.Start.Attempt, Nth: l.Start.Nth,
		Cores: l.Cores, GPUs: l.GPUs, Memory: l.Start.Spec.Each.MemBytes, Limit: l.Start.Spec.Limit,
	}
	if rs.orders[s.Job] == nil {
		o, extra, err := wire.DecodeOrder(l.Start.Spec.Body)
		if err != nil {
			return s, nil, filch.Errorf(filch.Invalid, "job %d has a body of %d bytes that %s cannot read: %s", s.Job, len(l.Start.Spec.Body), rs.in.Self, err.Error())
		}
		o.Ident = filch.Ident{Instance: rs.keepers.cfg.Instance, Job: s.Job, Attempt: 1}
		rs.order(o, extra)
	}
	o, extra := rs.orders[s.Job].TaskOrder, rs.orders[s.Job].extra
	if extra.PrivateTmp {
		var err error
		if s.Tmp, err = rs.temps.name(s.Job, int32(s.Index), s.Serial); err != nil {
			return s, nil, err
		}
	}
	p := l.Start.Payload
	if o.Graph != nil {
		node, err := record.DecodeGraphNode(p)
		if err != nil {
			return s, nil, filch.Errorf(filch.Invalid, "the record of task %d.%d makes no sense: %s", s.Job, s.Index, err.Error())
		}
		p = node.Body
	}
	_, p = launcher.TaskMark(launcher.Untimed(p))
	indexed := len(p) == 0 // the task has an index of an array
	if len(p) > 4 && p[0] == launcher.PayloadNumber {
		indexed, s.Number, p = true, int32(binary.BigEndian.Uint32(p[1:])), p[5:]
	}
	line := ""
	switch {
	case len(p) == 0:
	case p[0] == launcher.PayloadLine:
		line = string(p[1:])
		rs.lineTask(o, &s, line)
	case p[0] == launcher.PayloadItem, p[0] == launcher.PayloadSlot:
		var item launcher.TaskItem
		if err := wire.Unmarshal(p[1:], &item); err != nil {
			return s, nil, err
		}
		if p[0] == launcher.PayloadSlot {
			place := strconv.Itoa(rs.orders[s.Job].place(s.Serial))
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
			hook(o, extra, &s)
			b, err := rs.files.NewAttempt(o, s, item, l)
			return s, b, err
		}
	default:
		return s, nil, filch.Errorf(filch.Invalid, "task %d.%d has a payload of a kind that %s does not know", s.Job, s.Index, rs.in.Self)
	}
	hook(o, extra, &s)
	if o.Fill {
		return s, nil, rs.orders[s.Job].fill(&s, line, indexed)
	}
	return s, nil, nil
}

// hookScript runs a prolog, a task and an epilog: $1, $3... and $2. A prolog that fails is
// the end of the task. Of the prolog's output, lines `export NAME=VALUE` and `unset NAME`
// change the environment of the task, and lines `print TEXT` are output of the task. The
// trap keeps the shell alive until the task has ended; a trapped signal is not ignored in
// the task. A task that a signal ended looks so from outside, too.
const hookScript = `p=$1 e=$2
shift 2
trap : TERM INT HUP
if [ -n "$p" ]; then
	o=$(/bin/sh -c "$p") || { c=$?; echo "filch: the prolog failed with $c: the task was not started" >&2; exit $c; }
	while IFS= read -r l; do
		case $l in
		"export "*=*) export "${l#export }" ;;
		"unset "*) unset "${l#unset }" ;;
		"print "*) printf '%s\n' "${l#print }" ;;
		esac
	done <<END_OF_PROLOG
$o
END_OF_PROLOG
fi
"$@"
c=$?
if [ -n "$e" ]; then
	FILCH_EXIT_CODE=$c /bin/sh -c "$e" || echo "filch: the epilog failed with $?" >&2
fi
if [ $c -gt 128 ] && [ $c -lt 193 ]; then
	trap - TERM INT HUP
	kill -$((c - 128)) $$
fi
exit $c`

// hook puts the prolog and the epilog of a job around the command of a task.
func hook(o *launcher.TaskOrder, extra *launcher.OrderExtra, s *launcher.TaskStart) {
	if extra.Prolog == "" && extra.Epilog == "" {
		return
	}
	argv := s.Argv
	if len(argv) == 0 {
		argv = o.Argv
	}
	s.Argv = append([]string{"/bin/sh", "-c", hookScript, "filch", extra.Prolog, extra.Epilog}, argv...)
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
