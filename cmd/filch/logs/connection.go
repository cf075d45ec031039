package logs

import (
	"time"

	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/launcher/client"
)

// goOn goes on with another launcher after the loss of the connection. What was read stays read:
// the cursors of the parts say what comes next.
func (r *Reader) goOn() error {
	time.Sleep(cli.LossPause)
	deadline, err := r.losses.Next(r.Targets[0].Job)
	if err != nil {
		return err
	}
	c, err := r.Again(deadline)
	if err != nil {
		return err
	}
	r.queries.Close()
	r.queries = c.Queries()
	clear(r.open)
	r.later, r.busy = nil, 0
	for _, j := range r.jobs {
		j.waiting, j.again = false, time.Time{}
		for _, p := range j.parts {
			p.req, p.again = 0, time.Time{}
		}
	}
	return nil
}

// answer is a reply, or the end of the connection.
type answer struct {
	reply client.Reply
	err   error
}

// answers reads replies. A reader that writes to a slow terminal takes no reply, and so
// the launcher sends no more.
func (r *Reader) answers() (answers chan answer, stop func()) {
	answers = make(chan answer)
	over := make(chan struct{})
	go func() {
		for {
			reply, err := r.queries.Next()
			select {
			case answers <- answer{reply, err}:
			case <-over:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return answers, func() { close(over) }
}
