package daemon

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/daemon/query"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/wire"
)

const (
	downGrace = 10 * time.Second // default time for jobs to end on TERM
	downSlack = 5 * time.Second  // beyond downGrace, until killed jobs have ended
	leaveWait = 5 * time.Second  // for other nodes to take over the records stored here
	wholeDown = wire.DownAll     // all nodes go down: no node could take over the records
	sigInt    = 2
	sigTerm   = 15
	sigKill   = 9
)

// down ends launchers: this launcher, the launcher of a named node, or all launchers.
func (d *Daemon) down(which, grace, scope string, local bool) (any, error) {
	wait := downGrace
	if t, err := time.ParseDuration(grace); err == nil && t >= 0 && t <= query.Longest {
		wait = t
	}
	switch {
	case which == "all" && local:
		args := []string{"", wait.String(), wholeDown}
		scope = wholeDown
		peers.AskAll(d.questions, wire.Query{Verb: wire.VerbDown, Args: args}, func(m peers.Member, _ struct{}, err error) {
			if err != nil {
				d.in.Watch.Log().Warn("a node was not told to end", "peer", string(m.Name), "err", err.Error())
			}
		})
	case which != "" && which != "all" && which != string(d.in.Self):
		return d.queries.Forward(filch.NodeName(which), local, wire.Query{Verb: wire.VerbDown, Args: []string{which, wait.String()}})
	}
	d.in.Go(func() { d.shutDown(wait, cmp.Or(scope, wire.DownNode)) })
	return struct{}{}, nil
}

// shutDown ends all work of this node. The node cancels its own jobs, except jobs that
// other nodes continue, then ends the parts of other nodes' jobs here, hands off the
// records stored here, leaves the overlay and stops the daemon. Every step has a
// deadline.
func (d *Daemon) shutDown(grace time.Duration, scope string) {
	d.in.Watch.Log().Info("going down", "grace", grace.String())
	d.in.Watch.Event(events.Event{Kind: events.LauncherDown})
	handOff := scope != wholeDown && len(d.nodes.Others()) > 0
	ends := func(j *launcher.JobInfo) bool { return j.Code == nil && !(handOff && d.continuesElsewhere(j)) }
	_ = d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		d.loop.down = scope
		if handOff {
			t.Node.Drain(t.Now, &launcher.Drain{}, t.Out)
		} else {
			t.Node.Wind(t.Now, t.Out)
		}
		cancelAll(t, ends, sigTerm)
	})
	idle := func(t *inputs.Turn) bool {
		if scope == wholeDown && d.keepers.Busy() {
			return false // the origins of the other nodes' jobs go down too, and say so
		}
		return !slices.ContainsFunc(t.Node.Jobs(t.Now), func(j launcher.JobInfo) bool { return ends(&j) })
	}
	if !d.in.Idle(grace, idle) {
		_ = d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { cancelAll(t, ends, sigKill) })
		d.in.Idle(downSlack, idle)
	}
	_ = d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		if !handOff && !d.mirror.on() { // else another node, or another instance, continues the tasks
			d.past.cancelled(t)
		}
		t.Node.Peer(t.Now, node.Peer{Name: d.in.Self, Incarnation: d.cfg.Node.Incarnation, Standing: filch.Dead}, t.Out)
	})
	d.in.Idle(downSlack, func(*inputs.Turn) bool { return !d.keepers.Busy() })
	if handOff {
		d.handOff()
	}
	_ = d.net.Leave(d.in.Context(), nil)
	d.Stop()
}

// handOff makes other nodes take over the records stored here.
func (d *Daemon) handOff() {
	_ = d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { t.Node.StoreLeave(t.Now, t.Out) })
	if !d.in.Idle(leaveWait, func(t *inputs.Turn) bool { return t.Node.StoreLeft() }) {
		d.in.Watch.Log().Warn("the records kept here were not all handed off", "took", leaveWait.String())
	}
}

// continuesElsewhere reports whether another node takes a job over when this node is gone: the job
// is detached, and has no rank here.
func (d *Daemon) continuesElsewhere(j *launcher.JobInfo) bool {
	return j.Detached && !slices.Contains(j.Nodes, d.in.Self)
}

func cancelAll(t *inputs.Turn, ends func(*launcher.JobInfo) bool, sig int32) {
	for _, j := range t.Node.Jobs(t.Now) {
		if ends(&j) {
			_ = t.Node.Cancel(t.Now, j.ID, sig, launcher.DownCause, t.Out) // may have ended by now
		}
	}
}

// WentDown returns the scope of the order to go down for good, so that the state of the node
// is of no more use; "" without an order. A folder under the name of a removed folder belongs
// to another launcher.
func (d *Daemon) WentDown() (scope string) {
	if d.folderGone.Load() {
		return ""
	}
	return d.loop.down
}
