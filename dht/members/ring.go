package members

import (
	"math/bits"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// ring holds the nodes watched by this node, the receivers of its beats and the
// receivers of its news. The list alone determines the watchers of each node, so
// nodes with the same list agree without a message.
type ring struct {
	table    *table
	stale    bool
	version  uint64 // grows with every change
	watching []*entry
	tellers  []*entry // predecessors: they watch this node, which sends beats to them
	links    []*entry // news are sent to these members
}

// update recomputes the ring after a change in the table and returns the members not
// watched before.
func (r *ring) update(awake time.Duration) (added []*entry) {
	r.tellers = r.table.walk(-1, watched, false)
	added = r.rewatch(awake)
	r.links = r.fingers(r.table.walk(1, watched, true), r.links)
	return added
}

// rewatch chooses the watched members: the next successors, and one more for each
// suspect, so the failure of a whole rack is found in a few rounds. rewatch returns
// the members not watched before.
func (r *ring) rewatch(awake time.Duration) (added []*entry) {
	at := r.table.place(r.table.self)
	old := r.watching
	r.watching = nil
	want := watched
	for i := 1; i < len(r.table.all) && want > 0 && len(r.watching) < maxWatch; i++ {
		e := r.table.all[(at+i)%len(r.table.all)]
		switch e.m.State {
		case Alive:
			want--
		case Suspect, Gone:
			want++
		default:
			continue
		}
		r.watching = append(r.watching, e)
		if e.watch == nil {
			e.watch = &suspicion{since: awake}
			added = append(added, e)
		}
	}
	for _, e := range old {
		if !slices.Contains(r.watching, e) {
			e.watch = nil
		}
	}
	return added
}

// fingers adds to the successors a member at each distance of a half to all of the
// ring, of a quarter to a half, an eighth to a quarter and so on. News sent to all
// links reach every node in about log2(n) steps. Any member at the distance serves,
// so the previous finger stays: otherwise each new node would displace some
// fingers, at the cost of as many new connections.
func (r *ring) fingers(links, before []*entry) []*entry {
	for k := range bits.Len(uint(r.table.live)) + 1 {
		if e := r.finger(k, links, before); e != nil && !slices.Contains(links, e) {
			links = append(links, e)
		}
	}
	return links
}

// finger is the link at the k-th distance, or nil if there is no live member.
func (r *ring) finger(k int, links, before []*entry) *entry {
	near := uint64(1) << (63 - k)
	at := func(e *entry) bool {
		d := e.key - r.table.self.key
		return d >= near && (d-near) < near && e != r.table.self
	}
	for _, l := range [][]*entry{links, before} {
		for _, e := range l {
			if e.m.State == Alive && r.table.index[e.m.Name] == e && at(e) {
				return e
			}
		}
	}
	target := r.table.self.key + near
	i, _ := slices.BinarySearchFunc(r.table.all, target, func(e *entry, k uint64) int { return compareNodes(e.key, e.m.Name, k, "") })
	for j := range r.table.all {
		e := r.table.all[(i+j)%len(r.table.all)]
		if !at(e) {
			break
		}
		if e.m.State == Alive {
			return e
		}
	}
	return nil
}

// neighbors are the members in constant contact with this node: their connections
// should stay open.
func (r *ring) neighbors() []filch.NodeName {
	var out []filch.NodeName
	for _, l := range [][]*entry{r.watching, r.tellers, r.links} {
		for _, e := range l {
			if !slices.Contains(out, e.m.Name) {
				out = append(out, e.m.Name)
			}
		}
	}
	return out
}
