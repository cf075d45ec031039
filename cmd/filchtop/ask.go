package main

import (
	"encoding/json"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// askWait bounds the wait for the local launcher, which waits for other nodes less long.
const askWait = 2 * time.Second

// asker asks a launcher of the instance on this machine. After a question without an answer,
// the next question goes to the next launcher. One goroutine at a time uses an asker.
type asker struct {
	plan client.Screen
	conn *client.Client
	next int // of the launchers on this machine, after the first was lost
	lost bool
}

// ask looks at all nodes, and at the running tasks of a job; 0: of no job.
func (a *asker) ask(job filch.JobID) (*wire.Overview, error) {
	if err := a.dial(); err != nil {
		return nil, err
	}
	var args []string
	if job != 0 {
		args = []string{job.String()}
	}
	b, err := a.conn.Query(askWait, wire.VerbGlance, args...)
	view := &wire.Overview{}
	if err == nil {
		err = json.Unmarshal(b, view)
	}
	if err != nil {
		a.close() // a late answer would come before the next
		a.lost = true
		return nil, err
	}
	return view, nil
}

// dial connects to the launcher of the plan, and after a loss to each launcher of the
// instance in turn.
func (a *asker) dial() (err error) {
	if a.conn != nil {
		return nil
	}
	if !a.lost {
		a.conn, err = client.DialDir(a.plan.Dir, a.plan.Build)
		a.lost = err != nil
		return err
	}
	dirs := place.Nodes(a.plan.Dir.Base, a.plan.Dir.Instance)
	err = filch.Errorf(filch.Unavailable, "no launcher of %s answers on this machine", a.plan.Dir.Instance).
		WithHint("`filch up --instance %s` starts the launchers again", a.plan.Dir.Instance)
	for range dirs {
		a.next++
		if c, e := client.DialDir(dirs[a.next%len(dirs)], a.plan.Build); e == nil {
			a.conn = c
			return nil
		}
	}
	return err
}

func (a *asker) close() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}
