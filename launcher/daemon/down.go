package daemon

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/wire"
)

const (
	downGrace = 10 * time.Second // that jobs get by default to end on TERM
	downSlack = 5 * time.Second  // beyond it, to kill and to hear of it
	sigInt    = 2
	sigTerm   = 15
	sigKill   = 9
)

// down ends launchers: this one, one by name, or all.
func (d *Daemon) down(which, grace string, local bool) (any, error) {
	wait := downGrace
	if t, err := time.ParseDuration(grace); err == nil && t >= 0 && t <= longest {
		wait = t
	}
	switch {
	case which == "all" && local:
		args := []string{"", wait.String()}
		askAll(d.asks, wire.Query{Verb: wire.VerbDown, Args: args}, func(m Member, _ struct{}, err error) {
			if err != nil {
				d.watch.Log().Warn("a node was not told to end", "peer", string(m.Name), "err", err.Error())
			}
		})
	case which != "" && which != "all" && which != string(d.self):
		return d.forward(filch.NodeName(which), local, wire.Query{Verb: wire.VerbDown, Args: []string{which, wait.String()}})
	}
	d.work.Go(func() { d.wind(wait) })
	return struct{}{}, nil
}

// wind cancels the jobs of this origin, waits until no keeper is left, and
// stops the daemon.
func (d *Daemon) wind(grace time.Duration) {
	d.watch.Log().Info("going down", "grace", grace.String())
	_ = d.ask(loopWait, func(t *turn) {
		d.loop.removal = true
		t.node.Drain(t.now, true, t.out)
		for _, j := range t.node.Jobs(t.now) {
			if j.Code == nil {
				t.node.Cancel(t.now, j.ID, sigTerm, "filch down", t.out)
			}
		}
	})
	kill := time.Now().Add(grace)
	killed := false
	for end := kill.Add(downSlack); time.Now().Before(end); {
		busy := false
		if d.ask(loopWait, func(t *turn) {
			busy = d.keepers.busy()
			for _, j := range t.node.Jobs(t.now) {
				busy = busy || j.Code == nil
			}
			if busy && !killed && time.Now().After(kill) {
				killed = true
				for _, j := range t.node.Jobs(t.now) {
					if j.Code == nil {
						t.node.Cancel(t.now, j.ID, sigKill, "filch down", t.out)
					}
				}
			}
		}) != nil || !busy {
			break
		}
		if !d.await(nil, 20*time.Millisecond) && d.ctx.Err() != nil {
			break
		}
	}
	d.Stop()
}

// WentDown reports whether the daemon was told to go for good, so that its
// state is of no more use.
func (d *Daemon) WentDown() bool { return d.loop.removal }
