package query

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
)

// waiters holds the queries waiting for the end of a job; the loop's.
type waiters struct {
	byJob map[filch.JobID][]chan struct{}
}

// add returns a channel that closes when the job has ended.
func (w *waiters) add(j filch.JobID) chan struct{} {
	ch := make(chan struct{})
	w.byJob[j] = append(w.byJob[j], ch)
	return ch
}

// drop removes a channel.
func (w *waiters) drop(j filch.JobID, ch chan struct{}) {
	left := w.byJob[j][:0]
	for _, have := range w.byJob[j] {
		if have != ch {
			left = append(left, have)
		}
	}
	if w.byJob[j] = left; len(left) == 0 {
		delete(w.byJob, j)
	}
}

func (w *waiters) wake(jobs []filch.JobID) {
	for _, j := range jobs {
		for _, ch := range w.byJob[j] {
			close(ch)
		}
		delete(w.byJob, j)
	}
}

// waitFor returns a job when the job has ended or the time is up.
func (sv *Server) waitFor(job filch.JobID, limit string) (any, error) {
	deadline := time.Now().Add(parseWait(limit))
	for {
		var info launcher.JobInfo
		var known bool
		var ch chan struct{}
		err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
			info, known = t.Node.Job(t.Now, job)
			info.Rows = nil
			if known && info.Code == nil {
				ch = sv.waits.add(job)
			}
		})
		if err != nil {
			return nil, err
		}
		if !known {
			return nil, noJob(job)
		}
		if info.Code != nil || !sv.in.Await(ch, time.Until(deadline)) {
			if ch != nil {
				sv.in.Post(func(*inputs.Turn) { sv.waits.drop(job, ch) })
			}
			if info.Code == nil && sv.in.Context().Err() != nil {
				return nil, sv.in.GoingDown() // else the client reports a timeout
			}
			return info, nil
		}
	}
}
