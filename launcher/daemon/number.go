package daemon

import (
	"math/rand/v2"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/stealer"
)

// A member's index decides which job ids are its own to give out. Launchers
// that come up together are numbered by who starts them; one that joins takes
// an index that nobody it knows of has or had, at random, so that of a few that
// join at the same moment most take different ones. When they did, the one that came
// later takes another as soon as it hears of the first.

// Number finds an index for a node that joined, and writes it down for the
// launcher that is started after this one; after Connect and before Run.
func (d *Daemon) Number(n place.Node) error {
	taken := map[int32]bool{}
	for _, m := range d.net.Members() {
		var c Card
		if string(m.Name) != n.Dir.Node && wire.Unmarshal(m.Capacity, &c) == nil {
			taken[c.Index] = true
		}
	}
	index, err := freeIndex(taken)
	if err != nil {
		return err
	}
	n.Member = index
	if err := place.WriteNode(n); err != nil {
		return err
	}
	d.cfg.Node.IDs.Index = index
	return d.showCard()
}

// showCard tells the others what changed.
func (d *Daemon) showCard() error {
	card, err := EncodeCard(d.Card())
	if err == nil {
		d.net.SetCapacity(card)
	}
	return err
}

// indexSpread is among how many indices a node chooses at least.
const indexSpread = 16

// freeIndex picks one that is not taken.
func freeIndex(taken map[int32]bool) (int32, error) {
	if len(taken) >= launcher.IDStride {
		return 0, filch.Errorf(filch.Busy, "cannot join: the instance has had %d members, the most is %d", len(taken), launcher.IDStride)
	}
	// Among the lowest, so that ids stay short to type, but not the lowest.
	skip := rand.IntN(indexSpread + 2*len(taken))
	for last, index := int32(-1), int32(0); ; index++ {
		switch {
		case index == launcher.IDStride:
			return last, nil
		case taken[index]:
			continue
		case skip == 0:
			return index, nil
		}
		last = index
		skip--
	}
}

// contest gives up this node's index when m has it too and came first; on the
// loop.
func (d *Daemon) contest(t *turn, m member) {
	own := &d.cfg.Node
	if m.card.Index != own.IDs.Index || m.Standing >= stealer.Dead {
		return
	}
	if m.Incarnation > own.Incarnation || m.Incarnation == own.Incarnation && m.Name > own.Name {
		return // it will give up its own
	}
	taken := map[int32]bool{own.IDs.Index: true}
	for _, o := range d.members.list() {
		taken[o.card.Index] = true
	}
	index, err := freeIndex(taken)
	if err == nil {
		own.IDs.Index = index
		t.node.Renumber(index)
		d.members.begin()
		err = d.showCard()
	}
	if err == nil {
		err = d.keepIndex(index)
	}
	if err != nil {
		d.fault("cannot take another index", err, "peer", string(m.Name))
		return
	}
	d.watch.Log().Info("took another index, another node has the old one", "peer", string(m.Name), "index", index)
}

// keepIndex writes the index down.
func (d *Daemon) keepIndex(index int32) error {
	n, err := place.ReadNode(d.cfg.Dir.NodeFile())
	if err != nil {
		return err
	}
	n.Member = index
	return place.WriteNode(n)
}
