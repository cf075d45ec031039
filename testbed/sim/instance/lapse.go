package instance

import (
	"slices"
	"strings"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
)

// A shard of which all replicas died comes back from disks, without what was answered
// and not yet synced on any disk that is there in time. The store promises no more
// (testbed/sim/store holds it to that), so a bag whose records went back is done again
// from there: its tasks may begin twice under one number.

// lapses is how far the records of tasks were when their homes died.
type lapses map[dht.Key]dht.Version

// noteHomed keeps, as a launcher ends, the versions of the records that it is home to.
func (w *World) noteHomed(h *host) {
	if len(w.bags) == 0 || h.store == nil {
		return
	}
	for r := range h.store.Homed(record.Prefix) {
		if w.lapses == nil {
			w.lapses = make(lapses)
		}
		if w.lapses[r.Key].Less(r.Version) {
			w.lapses[r.Key] = r.Version
		}
	}
}

// checkLapse finds the bags of which a record is older on the disks that brought its
// shard back than it was before.
func (w *World) checkLapse(h *host, notes []launcher.Note) {
	recovered := func(n launcher.Note) bool { return strings.HasPrefix(n.Text, "store: "+store.NoteRecovered.String()) }
	if len(w.lapses) == 0 || !slices.ContainsFunc(notes, recovered) {
		return
	}
	now := make(lapses)
	for r := range h.store.Homed(record.Prefix) {
		now[r.Key] = r.Version
	}
	self := dht.Replica{Name: h.Name, Incarnation: h.incarnation}
	for k, was := range w.lapses { // any order: a set
		if _, _, replicas := h.store.View(k); len(replicas) == 0 || replicas[0] != self || !now[k].Less(was) {
			continue
		}
		if id, _, ok := record.PartOf(string(k)); ok && w.byBag[id] != nil {
			w.byBag[id].lapsed = true
		}
	}
}
