package launcher

import (
	"encoding/json"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// A node's slots are a record too: a hint for whoever looks at the instance
// while the node does not answer. The ledger stays the authority.

// AdvertEvery is the shortest time between two writes of a node's advert.
const AdvertEvery = 3 * time.Second

// AdvertKey is the key of a node's advert, a SlotInfo as JSON.
func AdvertKey(node filch.NodeName) dht.Key { return dht.Key("slots/" + string(node)) }

// advert is what was last told of the node's slots.
type advert struct {
	at      time.Duration
	last    SlotInfo
	version dht.Version
	told    bool
	asking  bool
}

// notable reports whether s is worth a write after t: a quarter of the slots
// came or went, or the first, or the last.
func (s *SlotInfo) notable(t *SlotInfo) bool {
	d := s.Free - t.Free
	return s.Slots != t.Slots || s.Draining != t.Draining || s.Stuck != t.Stuck ||
		(s.Free == 0) != (t.Free == 0) || (s.Free == s.Slots) != (t.Free == t.Slots) || 4*max(d, -d) >= max(s.Slots, 1)
}

// advertise writes what changed notably, and looks again later.
func (n *Node) advertise(now time.Duration) {
	a := &n.meta.advert
	a.at = filch.Never
	s := n.Slots()
	if a.asking || a.told && !s.notable(&a.last) {
		return
	}
	v, err := json.Marshal(s)
	if err != nil {
		return
	}
	a.asking = true
	op := dht.Op{Code: dht.OpSwap, Key: AdvertKey(n.cfg.Name), Kind: dht.KindRegister, Value: v, Expect: a.version}
	n.ask(now, []dht.Op{op}, StoreWait, func(now time.Duration, rs []dht.Result, _ *Outbox) {
		a.asking, a.at = false, now+AdvertEvery
		switch rs[0].Outcome {
		case dht.Done:
			a.told, a.last, a.version = true, s, rs[0].Version
		case dht.Mismatch, dht.Exists:
			a.version = rs[0].Version // of an earlier launcher here
		case dht.Absent:
			a.version = dht.Version{}
		}
	})
}

// ledgerChanged has the advert looked at, when it is not to be soon anyway.
func (n *Node) ledgerChanged(now time.Duration) {
	a := &n.meta.advert
	if a.at != filch.Never || a.asking || !a.told {
		return
	}
	_, _, _, stuck, _ := n.ledger.Counts()
	s := SlotInfo{Slots: n.ledger.Total().Slots, Free: n.ledger.Free().Slots, Stuck: stuck, Draining: n.ledger.Draining()}
	if s.notable(&a.last) {
		a.at = now + AdvertEvery
	}
}
