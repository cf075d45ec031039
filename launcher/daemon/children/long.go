package children

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/mtc/record"
)

// Limits of reading long texts of tasks.
const (
	longTries = 3
	longWait  = 20 * time.Second // of a try
)

// awayError is the error of a task whose long text is in the store.
type awayError struct{ record.Long }

func (e *awayError) Error() string { return "the text of the task is not here yet" }

// awayFrom is the error of a launch whose payload has a [record.Long].
func awayFrom(l *launcher.TaskLaunch) error {
	n, err := record.DecodeGraphNode(l.Start.Payload)
	if err != nil {
		return err
	}
	_, p := launcher.TaskMark(launcher.Untimed(n.Body))
	long, err := record.DecodeLong(p[1:])
	if err != nil {
		return filch.Errorf(filch.Invalid, "the record of task %d.%d makes no sense: %s", l.Start.Job, l.Start.Name, err.Error())
	}
	return &awayError{long}
}

// awaited is a launch whose text is being read.
type awaited struct{ stopped bool }

// awaitLong reads the long text of a task, and then launches the task.
func (rs *Runners) awaitLong(l launcher.TaskLaunch, long record.Long) {
	if rs.longs == nil {
		rs.longs = map[uint64]*awaited{}
	}
	a := &awaited{}
	rs.longs[l.Serial] = a
	rs.in.Go(func() {
		var text []byte
		var err error
		for range longTries {
			if text, err = rs.readLong(l.Start.Job, long); err == nil || rs.in.Context().Err() != nil {
				break
			}
		}
		rs.in.Post(func(t *inputs.Turn) {
			delete(rs.longs, l.Serial)
			e := launcher.TaskEnd{Serial: l.Serial, Kind: launcher.CauseOurs, Code: filch.ExitOurs, Ended: time.Now().UnixNano()}
			switch {
			case a.stopped:
				e.Kind, e.Code, e.Told, e.Text = launcher.CauseCancel, filch.ExitCancelled, true, "not started: the task was stopped"
			case err != nil:
				e.Text = err.Error()
			default:
				rs.launch(&l, text)
				return
			}
			t.Node.TaskEnds(t.Now, []launcher.TaskEnd{e}, t.Out)
		})
	})
}

// readLong reads a long text from the store; not on the loop.
func (rs *Runners) readLong(job filch.JobID, long record.Long) (text []byte, err error) {
	var why *filch.Error
	done := make(chan struct{})
	if err := rs.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		t.Node.FindLong(t.Now, job, long, longWait, func(got []byte, e *filch.Error) {
			text, why = got, e
			close(done)
		}, t.Out)
	}); err != nil {
		return nil, err
	}
	if !rs.in.Await(done, longWait+inputs.LoopWait) {
		return nil, filch.Errorf(filch.Unavailable, "cannot read the record of a task of job %d: the store does not answer", job)
	}
	if why != nil {
		return nil, why
	}
	return text, nil
}
