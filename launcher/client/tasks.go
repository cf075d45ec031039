package client

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Tasks is a job of tasks as a client sees it. It goes on without the client.
type Tasks struct {
	Job    filch.JobID // 0 before it was accepted
	client *Client
}

// SubmitTasks asks for a job of tasks. The client belongs to it from here on.
func (c *Client) SubmitTasks(s *launcher.TaskSubmission) (*Tasks, error) {
	if err := c.conn.Send(wire.KindTaskSubmit, 0, s); err != nil {
		return nil, filch.Errorf(filch.Unavailable, "cannot submit: %s", err.Error())
	}
	return &Tasks{client: c}, nil
}

// FollowTasks hears of a job of tasks that there is already.
func (c *Client) FollowTasks(job filch.JobID) (*Tasks, error) {
	if err := c.conn.Send(wire.KindTaskFollow, 0, wire.TaskFollow{Job: job}); err != nil {
		return nil, filch.Errorf(filch.Unavailable, "cannot follow job %d: %s", job, err.Error())
	}
	return &Tasks{Job: job, client: c}, nil
}

// TasksOf stands for a job of tasks that there is already; of what becomes of it
// nothing is heard.
func (c *Client) TasksOf(job filch.JobID) *Tasks { return &Tasks{Job: job, client: c} }

// Grow adds tasks; [Tasks.Next] tells of it by the token.
func (t *Tasks) Grow(g wire.TaskGrow) error {
	g.Job = t.Job
	if err := t.client.conn.Send(wire.KindTaskGrow, 0, g); err != nil {
		return filch.Errorf(filch.Unavailable, "cannot add to job %d: %s", t.Job, err.Error())
	}
	return nil
}

// Next waits for news. An error says that the launcher is gone; the job goes
// on without it.
func (t *Tasks) Next() (launcher.TaskNews, error) {
	for {
		f, err := t.client.conn.Read()
		if err != nil {
			return launcher.TaskNews{}, filch.Errorf(filch.Unavailable, "the launcher went away").
				WithHint("job %d goes on: filch wait %d asks another launcher", t.Job, t.Job)
		}
		switch f.Kind {
		case wire.KindRefusal:
			return launcher.TaskNews{}, wire.DecodeRefusal(f.Body)
		case wire.KindTaskNews:
			e, err := wire.DecodeEvent(f.Kind, f.Body)
			if err != nil {
				return launcher.TaskNews{}, filch.Errorf(filch.Internal, "%s", err.Error())
			}
			news := e.(launcher.TaskNews)
			if t.Job == 0 {
				t.Job = news.Job
			}
			return news, nil
		}
	}
}

// Another is one more connection to the same launcher, for questions.
func (t *Tasks) Another() (*Client, error) { return DialDir(t.client.Dir, t.client.build) }

// Close ends the connection; the job goes on.
func (t *Tasks) Close() { t.client.Close() }
