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
	"github.com/filch-hpc/filch/launcher/wire"
)

// A drain lasts until it is undone or the node goes down: a launcher that is
// started again after a crash drains on.

// drain has a node take no new work, or take it again.
func (d *Daemon) drain(q wire.Query, arg func(int) string, local bool) (any, error) {
	if node := filch.NodeName(arg(0)); node != "" && node != d.self {
		return d.forward(node, local, q)
	}
	why := &launcher.Drain{Reason: arg(2), By: arg(3), Since: time.Now().UnixNano()}
	if err := why.Check(); err != nil {
		return nil, err
	}
	if arg(1) == wire.DrainUndo {
		why = nil
	}
	var info wire.DrainInfo
	err := d.ask(loopWait, func(t *turn) {
		if old := d.cfg.Node.Drain; old != nil && why != nil {
			why.Since = old.Since
			if why.Reason == "" {
				why.Reason, why.By = old.Reason, old.By
			}
		}
		info.Was = d.cfg.Node.Drain != nil
		if err := keepDrain(d.cfg.Dir, why); err != nil {
			info.Trouble = err.Error()
			d.fault("cannot remember the drain", err)
		}
		d.drained(t, why)
		info.SlotInfo = t.node.Slots()
	})
	return info, err
}

// drained puts a drain into effect, or ends it; on the loop.
func (d *Daemon) drained(t *turn, why *launcher.Drain) {
	d.cfg.Node.Drain = why
	if why != nil {
		d.watch.Log().Info("drains: " + why.Reason)
	} else {
		d.watch.Log().Info("takes work again")
	}
	t.node.Drain(t.now, why, t.out)
	d.members.begin()
	if card, err := EncodeCard(d.Card()); err != nil {
		d.fault("cannot tell why this node drains", err)
	} else {
		d.net.SetCapacity(card) // first: who hears of the drain knows why
	}
	d.net.Drain(why != nil)
}

// drainsOn goes on with the drain of the launcher before this one, when the
// others are known, or of this one's life before it was declared dead.
func (d *Daemon) drainsOn() {
	others := d.idle(joinedWait, func(*turn) bool { return len(d.members.others()) > 0 })
	if !others {
		return
	}
	d.post(func(t *turn) {
		if why := d.cfg.Node.Drain; why != nil {
			d.drained(t, why)
		}
	})
}

// joinedWait is how long a launcher that drains waits for the others to be known.
const joinedWait = 10 * time.Second

// keepDrain remembers a drain for the next launcher of the node.
func keepDrain(dir place.Dir, why *launcher.Drain) error {
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

// keptDrain is what a launcher before this one remembered; nil: it took work. A
// file that cannot be read was written by nobody else: the node drains.
func keptDrain(dir place.Dir) *launcher.Drain {
	b, err := place.ReadPrivate(dir.DrainFile())
	if err != nil && kindOf(err) == filch.NotFound {
		return nil
	}
	why := &launcher.Drain{}
	if err != nil || json.Unmarshal(b, why) != nil || why.Check() != nil {
		return &launcher.Drain{Since: time.Now().UnixNano()}
	}
	return why
}
