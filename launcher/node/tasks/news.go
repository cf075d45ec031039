package tasks

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/mtc/report"
)

// tellTasks reports the core's Tell about a job to the job's clients.
func (w *Tasks) tellTasks(t *local.Turn, told *report.Tell) {
	news := launcher.TaskNews{
		Job: told.Job, Total: told.Total, Tally: told.Tally, State: told.State,
		Token: told.Token, Base: told.Base, Err: told.Error,
	}
	if w.onResumed(t, told) {
		return
	}
	if told.Token != 0 {
		w.tellAdded(t, told, news)
		return
	}
	switch told.What {
	case report.TellAccepted:
		news.What = launcher.TasksAccepted
		w.setPending(told.Job, pendingReports{adding: w.pending[told.Job].adding})
		if w.partial[told.Job].gone {
			delete(w.partial, told.Job)
			w.cancelPartial(t, told.Job)
		}
	case report.TellRefused:
		news.What = launcher.TasksRefused
		delete(w.pending, told.Job)
	case report.TellProgress:
		news.What = launcher.TasksProgress
	case report.TellFinished:
		news.What = launcher.TasksFinished
		delete(w.pending, told.Job)
		delete(w.partial, told.Job)
	}
	for _, c := range w.follow[told.Job] {
		t.Reply(c, news)
	}
	if news.What == launcher.TasksFinished {
		t.Out.TaskForgets = append(t.Out.TaskForgets, told.Job)
		delete(w.follow, told.Job)
	}
}

// tellAdded reports the result of an addition to its client only: a refusal ends the
// client's work.
func (w *Tasks) tellAdded(t *local.Turn, told *report.Tell, news launcher.TaskNews) {
	if news.What = launcher.TasksAdded; told.What == report.TellRefused {
		news.What = launcher.TasksRefused
	}
	u := w.pending[told.Job]
	i := slices.IndexFunc(u.adding, func(a adding) bool { return a.token == told.Token })
	if i < 0 {
		return // the client is gone
	}
	t.Reply(u.adding[i].client, news)
	u.adding = slices.Delete(u.adding, i, i+1)
	w.setPending(told.Job, u)
}

// pendingReports holds the reports still owed to the clients of a job: its acceptance,
// and the results of additions.
type pendingReports struct {
	accept bool
	adding []adding
}

// adding is a client waiting for the result of an addition.
type adding struct {
	token  int32
	client launcher.ClientID
}

// addPending stores a client waiting for the result of an addition.
func (w *Tasks) addPending(id filch.JobID, a adding) {
	if u := w.pending[id]; !slices.Contains(u.adding, a) {
		u.adding = append(u.adding, a)
		w.pending[id] = u
	}
}

// setPending stores the reports owed to the clients of a job, if any.
func (w *Tasks) setPending(id filch.JobID, u pendingReports) {
	if w.pending[id] = u; !u.accept && len(u.adding) == 0 {
		delete(w.pending, id)
	}
}
