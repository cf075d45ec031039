package client

import (
	"os"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/submit"
)

// Tasks is a job of tasks as a client sees the job. The job continues without the
// client.
type Tasks struct {
	Job filch.JobID // 0 until the launcher accepts the job

	mu     sync.Mutex // guards client
	client *Client
}

// SubmitTasks submits a job of tasks. From here on the client belongs to the Tasks.
func (c *Client) SubmitTasks(s *submit.Job) (*Tasks, error) {
	if err := c.conn.Send(wire.KindTaskSubmit, 0, s); err != nil {
		return nil, filch.Errorf(filch.Unavailable, "cannot submit: %s", err.Error())
	}
	c.submitted, c.name = time.Now(), s.Name
	return &Tasks{client: c}, nil
}

// FollowTasks subscribes to the news of an existing job of tasks.
func (c *Client) FollowTasks(job filch.JobID) (*Tasks, error) {
	if err := c.conn.Send(wire.KindTaskFollow, 0, wire.TaskFollow{Job: job}); err != nil {
		return nil, filch.Errorf(filch.Unavailable, "cannot follow job %d: %s", job, err.Error())
	}
	return &Tasks{Job: job, client: c}, nil
}

// TasksOf returns a handle of an existing job of tasks, without a subscription to its
// news.
func (c *Client) TasksOf(job filch.JobID) *Tasks { return &Tasks{Job: job, client: c} }

// Move goes on with another launcher, after the loss of the first: the news of the job come
// over c, which belongs to t from here on.
func (t *Tasks) Move(c *Client) error {
	t.mu.Lock()
	old := t.client
	t.client = c
	t.mu.Unlock()
	old.Close()
	if err := c.conn.Send(wire.KindTaskFollow, 0, wire.TaskFollow{Job: t.Job}); err != nil {
		return filch.Errorf(filch.Unavailable, "cannot follow job %d: %s", t.Job, err.Error())
	}
	return nil
}

func (t *Tasks) now() *Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.client
}

// Grow adds tasks; [Tasks.Next] reports the result with the token.
func (t *Tasks) Grow(g wire.TaskGrow) error {
	g.Job = t.Job
	if err := t.now().conn.Send(wire.KindTaskGrow, 0, g); err != nil {
		return filch.Errorf(filch.Unavailable, "cannot add to job %d: %s", t.Job, err.Error())
	}
	return nil
}

// Next waits for news. An error says that the launcher is gone; the job continues
// without the launcher.
func (t *Tasks) Next() (launcher.TaskNews, error) {
	for {
		c := t.now()
		f, err := c.read(c.patience.wait)
		if err != nil && os.IsTimeout(err) {
			c.Close()
			return launcher.TaskNews{}, c.unanswered()
		}
		if err != nil {
			return launcher.TaskNews{}, filch.Errorf(filch.Unavailable, "the launcher closed the connection").
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

// Await waits for a kind of news with a token, or for the refusal: the error, beside the news.
func (t *Tasks) Await(what launcher.TaskNewsKind, token int32) (launcher.TaskNews, error) {
	for {
		news, err := t.Next()
		switch {
		case err != nil:
			return news, err
		case news.What == launcher.TasksRefused:
			return news, news.Err
		case news.What == what && news.Token == token:
			return news, nil
		case news.What == launcher.TasksFinished:
			return news, filch.Errorf(filch.Busy, "job %d has ended: nothing can be added to it", t.Job)
		}
	}
}

// Dir is the folder of the launcher.
func (t *Tasks) Dir() place.Dir { return t.now().Dir }

// Another opens another connection to the same launcher, for queries.
func (t *Tasks) Another() (*Client, error) { return t.now().Another() }

// Close ends the connection; the job continues.
func (t *Tasks) Close() { t.now().Close() }
