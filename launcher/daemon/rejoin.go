package daemon

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/node"
)

// onDeclaredDead handles the news that the other nodes continue without this node, since
// this node was silent for too long. All ranks and tasks here are ended; when none is
// left, the node comes back with a new incarnation.
func (d *Daemon) onDeclaredDead(t *inputs.Turn, e members.Event) {
	d.in.Watch.Log().Warn("declared dead: all ranks here are ended", "peer", string(e.By), "taken", e.Taken)
	if e.Taken {
		d.in.Watch.Log().Error("another node has this one's name: going down", "addrs", e.Member.Addrs)
		d.in.Stop()
		return
	}
	t.Node.Peer(t.Now, node.Peer{Name: d.in.Self, Incarnation: d.cfg.Node.Incarnation, Standing: filch.Dead}, t.Out)
	d.loop.dead = true
}

// rejoin brings the node back once no keeper and no task of the old incarnation is
// left; on the loop.
func (d *Daemon) rejoin() {
	if !d.loop.dead || d.keepers.Busy() || d.runners.Busy() {
		return
	}
	d.loop.dead = false
	d.net.Rejoin()
}

// onRejoined adopts the new incarnation.
func (d *Daemon) onRejoined(t *inputs.Turn, incarnation uint64) {
	if incarnation <= d.cfg.Node.Incarnation {
		return
	}
	d.cfg.Node.Incarnation = incarnation
	if err := keepIncarnation(d.cfg.Dir, incarnation); err != nil {
		d.in.Fault("cannot keep the incarnation", err)
	}
	t.Node.Reborn(t.Now, incarnation, t.Out)
	d.members.begin()
	if d.cfg.Node.Drain != nil { // the other nodes do not know the drain yet
		d.in.Go(d.resumeDrain)
	}
}
