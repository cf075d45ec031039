package records

import (
	"encoding/json"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// The slots of a node are a record too: a hint for readers of the instance's state while
// the node does not answer. The ledger stays the authority.

// loadEvery is the shortest time between two writes of the load of a node.
const loadEvery = 3 * time.Second

// loadKey is the key of the load of a node, a SlotInfo as JSON.
func loadKey(node filch.NodeName) dht.Key { return dht.Key("slots/" + string(node)) }

// load writes the slots of this node to the store: a hint, at most every loadEvery.
type load struct {
	*local.Self
	store asker

	at      time.Duration // of the next look
	last    launcher.SlotInfo
	version dht.Version
	told    bool
	asking  bool
}

// notable reports whether the difference from t to s is worth a write: a quarter of the
// slots came or went, or the first, or the last.
func notable(s, t *launcher.SlotInfo) bool {
	d := s.Free - t.Free
	return s.Slots != t.Slots || s.Draining != t.Draining || s.Stuck != t.Stuck ||
		(s.Free == 0) != (t.Free == 0) || (s.Free == s.Slots) != (t.Free == t.Slots) || 4*max(d, -d) >= max(s.Slots, 1)
}

// LoadDue reports whether the node has to look for a notable change.
func (a *load) LoadDue(now time.Duration) bool { return a.at <= now }

// Advertise writes a notable change to the store, and schedules the next look.
func (a *load) Advertise(t *local.Turn, s launcher.SlotInfo) {
	a.at = filch.Never
	if a.asking || a.told && !notable(&s, &a.last) {
		return
	}
	v, err := json.Marshal(s)
	if err != nil {
		return
	}
	a.asking = true
	op := dht.Op{Code: dht.OpSwap, Key: loadKey(a.Cfg.Name), Kind: dht.KindRegister, Value: v, Expect: a.version}
	a.store.Ask(t, []dht.Op{op}, StoreWait, func(t *local.Turn, rs []dht.Result) {
		a.asking, a.at = false, t.Now+loadEvery
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

// OnLedgerChanged schedules a look at the load after a notable change, unless a look is
// scheduled already.
func (a *load) OnLedgerChanged(t *local.Turn) {
	if a.at != filch.Never || a.asking || !a.told {
		return
	}
	stuck := a.Ledger.Counts().Stuck
	s := launcher.SlotInfo{Slots: a.Ledger.Total().Slots, Free: a.Ledger.Free().Slots, Stuck: stuck, Draining: a.Ledger.Draining()}
	if notable(&s, &a.last) {
		a.at = t.Now + loadEvery
	}
}
