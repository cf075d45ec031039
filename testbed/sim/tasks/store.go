package tasks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	noderecords "github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/records"
)

// ground is the world as the records see it.
type ground struct{ w *World }

func (g ground) Now() time.Duration            { return g.w.Now() }
func (g ground) At(t time.Duration, f func())  { g.w.At(t, f) }
func (g ground) Reaches(n filch.NodeName) bool { return !g.w.byName(n).cut }

// Up reports whether the others take a host for one that lives.
func (g ground) Up(n filch.NodeName) bool {
	h := g.w.byName(n)
	return h.Up() && !h.seen.dead && !h.cut && !h.seen.gone
}

// Delay is one way to a record's home: nothing at home, else over the network.
func (g ground) Delay(n, home filch.NodeName) time.Duration {
	w := g.w
	if !w.opt.Shared && n == home {
		return 0
	}
	d := w.rng.Between(w.opt.Links.LatencyMin, w.opt.Links.LatencyMax)
	if w.opt.Store.SlowTail > 0 && w.rng.Chance(0.01) {
		d += w.rng.Between(0, w.opt.Store.SlowTail)
	}
	return d
}

func (g ground) Try(filch.NodeName) records.Fate {
	t := g.w.opt.Store
	switch {
	case g.w.rng.Chance(t.Lost):
		return records.Lost
	case g.w.rng.Chance(t.Silent):
		return records.Silent
	}
	return records.Heard
}

func (g ground) Stored(op *dht.Op, old, value []byte) {
	kind, _ := noderecords.TaskKind(op.Kind)
	g.w.truth.stored(string(op.Key), kind, old, value)
}

// record is what a record of tasks holds; nil if there is none.
func (w *World) record(key string) []byte { return w.records.Value(dht.Key(key)) }

// homed lists the records whose home is h.
func (h *host) homed() (list []record.Stored) {
	for r := range h.port.Homed(record.Prefix) {
		list = append(list, record.Stored{Key: string(r.Key), Value: r.Value})
	}
	return list
}

// port is how a host reaches the records.
type port struct {
	*records.Port
	said store.Out
}

// propose hands a proposal of the Core to the records, as a launcher does. Said
// again by the Core it is the same operation.
func (h *host) propose(p *record.Proposal) {
	w, out := h.w, &h.port.said
	switch p.Op {
	case record.OpWatch:
		h.port.Watch(w.Now(), p.Tag, dht.Key(p.Key), dht.Version{}, out)
		return
	case record.OpUnwatch:
		h.port.Unwatch(w.Now(), p.Tag, out)
		return
	case record.OpMerge:
		w.Stats.Merges++
	}
	op := noderecords.TaskOps(p)[0] // there are no runs here
	op.ID = dht.OpID{Node: h.Name, Incarnation: h.incarnation, Seq: p.Tag}
	h.port.Do(w.Now(), p.Tag, []dht.Op{op}, w.Now()+w.opt.Store.Timeout, out)
}

// hear has the launcher take in what the records say, soon.
func (h *host) hear() {
	w, life := h.w, h.incarnation
	w.At(w.Now(), func() {
		if h.port.Deadline() > w.Now() {
			return // all of it was heard with what came before
		}
		h.input(life, "answer", func(now time.Duration, out *mtc.Out) {
			h.port.said.Reset()
			h.port.Tick(now, &h.port.said)
			for i := range h.port.said.Results {
				r := &h.port.said.Results[i]
				h.core.Answered(now, r.Tag, noderecords.TaskAnswer(&r.Result), out)
			}
		})
	})
}
