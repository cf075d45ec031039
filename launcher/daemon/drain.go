package daemon

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/wire"
)

// A drain lasts until it is undone or the node goes down: a launcher restarted after a
// crash continues the drain.

// drain stops the node from taking new work, or lets the node take work again.
func (d *Daemon) drain(q wire.Query, arg func(int) string, local bool) (any, error) {
	if node := filch.NodeName(arg(0)); node != "" && node != d.in.Self {
		return d.queries.Forward(node, local, q)
	}
	why := &launcher.Drain{Reason: arg(2), By: arg(3), Since: time.Now().UnixNano()}
	if err := why.Check(); err != nil {
		return nil, err
	}
	if arg(1) == wire.DrainUndo {
		why = nil
	}
	var info wire.DrainInfo
	err := d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		old := d.cfg.Node.Drain
		if old != nil && why != nil {
			why.Since = old.Since
			if why.Reason == "" {
				why.Reason, why.By = old.Reason, old.By
			}
		}
		info.Was = old != nil
		if err := saveDrain(d.cfg.Dir, why); err != nil {
			info.Trouble = err.Error()
			d.in.Fault("cannot remember the drain", err)
		}
		if info.Was != (why != nil) || info.Was && old.Reason != why.Reason {
			d.tellDrain(why)
		}
		d.setDrain(t, why)
		info.SlotInfo = t.Node.Slots()
	})
	return info, err
}

// drainSelf drains the node because the node is bad, or ends that drain, if no person
// ordered otherwise meanwhile; on the loop.
func (d *Daemon) drainSelf(t *inputs.Turn, why *launcher.Drain) {
	now := d.cfg.Node.Drain
	switch {
	case why.Reason != "" && now != nil, why.Reason == "" && (now == nil || !launcher.IsBad(now.Reason)):
		return
	case why.Reason == "":
		why = nil
	default:
		why.Since = time.Now().UnixNano()
	}
	if err := saveDrain(d.cfg.Dir, why); err != nil {
		d.in.Fault("cannot remember the drain", err)
	}
	d.tellDrain(why)
	d.setDrain(t, why)
}

// tellDrain logs the begin of a drain, or its end.
func (d *Daemon) tellDrain(why *launcher.Drain) {
	if why != nil {
		d.in.Watch.Log().Info("drains: " + why.Reason)
		d.in.Watch.Event(events.Event{Kind: events.NodeDrains, Reason: why.Reason})
	} else {
		d.in.Watch.Event(events.Event{Kind: events.NodeBack})
		d.in.Watch.Log().Info("takes work again")
	}
}

// setDrain puts a drain into effect, or ends the drain; on the loop.
func (d *Daemon) setDrain(t *inputs.Turn, why *launcher.Drain) {
	d.cfg.Node.Drain = why
	t.Node.Drain(t.Now, why, t.Out)
	d.members.begin()
	if card, err := peers.EncodeCard(d.Card()); err != nil {
		d.in.Fault("cannot tell why this node drains", err)
	} else {
		d.net.SetCapacity(card) // before Drain: nodes learn the reason first
	}
	d.net.Drain(why != nil)
}

// resumeDrain continues the drain of the launcher before this one, when the other nodes
// are known, or the drain of this node's life before other nodes declared the node
// dead.
func (d *Daemon) resumeDrain() {
	others := d.in.Idle(joinedWait, func(*inputs.Turn) bool { return len(d.nodes.Others()) > 0 })
	if !others {
		return
	}
	d.in.Post(func(t *inputs.Turn) {
		if why := d.cfg.Node.Drain; why != nil {
			d.tellDrain(why)
			d.setDrain(t, why)
		}
	})
}

// joinedWait limits how long a draining launcher waits until other nodes are known.
const joinedWait = 10 * time.Second

// saveDrain saves a drain for the next launcher of the node.
func saveDrain(dir place.Dir, why *launcher.Drain) error {
	if why == nil {
		if err := os.Remove(dir.DrainFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := json.Marshal(why)
	if err != nil {
		return err
	}
	return place.WritePrivate(dir.DrainFile(), append(b, '\n'))
}

// loadDrain returns the drain that a launcher before this one saved; nil: the node took
// work. An unreadable file was still written by a launcher of this node: the node
// drains.
func loadDrain(dir place.Dir) *launcher.Drain {
	b, err := place.ReadPrivate(dir.DrainFile())
	if e, ok := errors.AsType[*filch.Error](err); ok && e.Kind == filch.NotFound {
		return nil
	}
	why := &launcher.Drain{}
	if err != nil || json.Unmarshal(b, why) != nil || why.Check() != nil {
		return &launcher.Drain{Since: time.Now().UnixNano()}
	}
	return why
}
