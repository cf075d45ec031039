package daemon

import (
	"time"

	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/stealer"
)

// declaredDead handles the news that the other nodes continue without this node, since
// this node was silent for too long. All ranks and tasks here are ended; when none is
// left, the node comes back with a new incarnation.
func (d *Daemon) declaredDead(t *turn, e members.Event) {
	d.watch.Log().Warn("declared dead: all ranks here are ended", "peer", string(e.By), "taken", e.Taken)
	if e.Taken {
		d.watch.Log().Error("another node has this one's name: going down", "addrs", e.Member.Addrs)
		d.stop()
		return
	}
	t.node.Peer(t.now, node.Peer{Name: d.self, Incarnation: d.cfg.Node.Incarnation, Standing: stealer.Dead}, t.out)
	d.loop.dead = true
}

// rejoinPause is how often a node declared dead checks whether all of its keepers and
// tasks are gone.
const rejoinPause = 20 * time.Millisecond

// rejoin brings the node back once no keeper and no task of the old incarnation is
// left; on the loop.
func (d *Daemon) rejoin() {
	if !d.loop.dead || d.keepers.busy() || d.runners.busy() {
		return
	}
	d.loop.dead = false
	d.net.Rejoin()
}

// back adopts the new incarnation.
func (d *Daemon) back(t *turn, incarnation uint64) {
	if incarnation <= d.cfg.Node.Incarnation {
		return
	}
	d.cfg.Node.Incarnation = incarnation
	if err := keepIncarnation(d.cfg.Dir, incarnation); err != nil {
		d.fault("cannot keep the incarnation", err)
	}
	t.node.Reborn(t.now, incarnation, t.out)
	d.members.begin()
	if d.cfg.Node.Drain != nil { // the other nodes do not know the drain yet
		d.work.Go(d.drainsOn)
	}
}
