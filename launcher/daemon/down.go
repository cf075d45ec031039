package daemon

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/stealer"
)

const (
	downGrace = 10 * time.Second // default time for jobs to end on TERM
	downSlack = 5 * time.Second  // beyond downGrace, until killed jobs have ended
	leaveWait = 5 * time.Second  // for other nodes to take over the records stored here
	wholeDown = "instance"       // all nodes go down: no node could take over the records
	sigInt    = 2
	sigTerm   = 15
	sigKill   = 9
)

// down ends launchers: this launcher, the launcher of a named node, or all launchers.
func (d *Daemon) down(which, grace, scope string, local bool) (any, error) {
	wait := downGrace
	if t, err := time.ParseDuration(grace); err == nil && t >= 0 && t <= longest {
		wait = t
	}
	switch {
	case which == "all" && local:
		args := []string{"", wait.String(), wholeDown}
		scope = wholeDown
		askAll(d.asks, wire.Query{Verb: wire.VerbDown, Args: args}, func(m member, _ struct{}, err error) {
			if err != nil {
				d.watch.Log().Warn("a node was not told to end", "peer", string(m.Name), "err", err.Error())
			}
		})
	case which != "" && which != "all" && which != string(d.self):
		return d.forward(filch.NodeName(which), local, wire.Query{Verb: wire.VerbDown, Args: []string{which, wait.String()}})
	}
	d.work.Go(func() { d.wind(wait, scope != wholeDown) })
	return struct{}{}, nil
}

// wind ends all work of this node. The node cancels its own jobs, except jobs that
// other nodes continue, then ends the parts of other nodes' jobs here, hands off the
// records stored here, leaves the overlay and stops the daemon. Every step has a
// deadline.
func (d *Daemon) wind(grace time.Duration, handOff bool) {
	d.watch.Log().Info("going down", "grace", grace.String())
	handOff = handOff && len(d.members.others()) > 0
	ends := func(j *launcher.JobInfo) bool { return j.Code == nil && !(handOff && d.goesOn(j)) }
	_ = d.ask(loopWait, func(t *turn) {
		d.loop.removal = true
		if handOff {
			t.node.Drain(t.now, &launcher.Drain{}, t.out)
		} else {
			t.node.Wind(t.now, t.out)
		}
		cancelAll(t, ends, sigTerm)
	})
	idle := func(t *turn) bool {
		return !slices.ContainsFunc(t.node.Jobs(t.now), func(j launcher.JobInfo) bool { return ends(&j) })
	}
	if !d.idle(grace, idle) {
		_ = d.ask(loopWait, func(t *turn) { cancelAll(t, ends, sigKill) })
		d.idle(downSlack, idle)
	}
	_ = d.ask(loopWait, func(t *turn) {
		t.node.Peer(t.now, node.Peer{Name: d.self, Incarnation: d.cfg.Node.Incarnation, Standing: stealer.Dead}, t.out)
	})
	d.idle(downSlack, func(*turn) bool { return !d.keepers.busy() })
	if handOff {
		d.handOff()
	}
	_ = d.net.Leave(d.ctx, nil)
	d.Stop()
}

// handOff makes other nodes take over the records stored here.
func (d *Daemon) handOff() {
	_ = d.ask(loopWait, func(t *turn) { t.node.StoreLeave(t.now, t.out) })
	if !d.idle(leaveWait, func(t *turn) bool { return t.node.StoreLeft() }) {
		d.watch.Log().Warn("the records kept here were not all handed off", "took", leaveWait.String())
	}
}

// goesOn reports whether another node takes a job over when this node is gone: the job
// is detached, and has no rank here.
func (d *Daemon) goesOn(j *launcher.JobInfo) bool {
	return j.Detached && !slices.Contains(j.Nodes, d.self)
}

func cancelAll(t *turn, ends func(*launcher.JobInfo) bool, sig int32) {
	for _, j := range t.node.Jobs(t.now) {
		if ends(&j) {
			_ = t.node.Cancel(t.now, j.ID, sig, "filch down", t.out) // may have ended by now
		}
	}
}

// idle polls ok on the loop, at most for wait, until ok holds.
func (d *Daemon) idle(wait time.Duration, ok func(*turn) bool) bool {
	poll := time.NewTicker(rejoinPause)
	defer poll.Stop()
	for end := time.Now().Add(wait); ; {
		is := false
		if d.ask(loopWait, func(t *turn) { is = ok(t) }) != nil || is {
			return is
		}
		if time.Now().After(end) {
			return false
		}
		select {
		case <-poll.C:
		case <-d.ctx.Done():
			return false
		}
	}
}

// WentDown reports whether the daemon was ordered to go down for good, so that the
// state of the node is of no more use.
func (d *Daemon) WentDown() bool { return d.loop.removal }
