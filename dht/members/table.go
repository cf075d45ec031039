package members

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// entry is a member with this node's own knowledge of the member. Times of silence
// are by awake, the others by now.
type entry struct {
	m      Member
	key    uint64
	heard  time.Duration // last sign of life; 0 never
	vouch  time.Duration // when a witness last heard the member
	spared time.Duration // until then refusals do not count
	watch  *suspicion    // nil when not watched
	lease  time.Duration // until then the member gets beats
	differ int           // consecutive beats with a sum unlike ours
	fresh  bool          // among the news
	source filch.NodeName
	gone   time.Duration // when the member died or left
	revive time.Duration // when to probe a dead member again
	pause  time.Duration // between such probes
	told   time.Duration // when a notice of death, or of Gone, was last sent
}

// table is the entries of all nodes, with this node's own, and sums of the entries.
// Other parts of the list read the table; [List] alone changes entries.
type table struct {
	self  *entry
	index map[filch.NodeName]*entry
	all   []*entry // by key and name, this node included
	sums  [buckets]uint64
	live  int // alive and suspect, this node included
	gone  int // dead and departed
}

// reset makes a table with only this node in it.
func (t *table) reset(self Member) {
	t.self = &entry{m: self, key: self.Name.Hash()}
	t.index = map[filch.NodeName]*entry{self.Name: t.self}
	t.all = []*entry{t.self}
	t.live, t.gone = 1, 0
	t.sums = [buckets]uint64{}
	t.toggle(t.self)
}

// toggle adds an entry to the sums, or removes the entry.
func (t *table) toggle(e *entry) { t.sums[e.key%buckets] ^= e.m.digest(e.key) }

func (t *table) total() uint64 {
	var x uint64
	for _, s := range t.sums {
		x ^= s
	}
	return x
}

// place is the index of an entry in all.
func (t *table) place(e *entry) int {
	i, _ := slices.BinarySearchFunc(t.all, e, func(a, b *entry) int { return compareNodes(a.key, a.m.Name, b.key, b.m.Name) })
	return i
}

// insert adds an entry.
func (t *table) insert(e *entry, now time.Duration) {
	t.all = slices.Insert(t.all, t.place(e), e)
	t.index[e.m.Name] = e
	t.toggle(e)
	if e.m.State.Over() {
		t.gone++
		e.gone, e.pause, e.revive = now, reviveFirst, now+reviveFirst
	}
}

func (t *table) remove(e *entry) {
	i := t.place(e)
	t.all = slices.Delete(t.all, i, i+1)
	delete(t.index, e.m.Name)
	t.gone--
}

// walk returns the next n members in one direction; with sure, Alive members only.
func (t *table) walk(dir, n int, sure bool) []*entry {
	at := t.place(t.self)
	var out []*entry
	for i := 1; i < len(t.all) && len(out) < n; i++ {
		e := t.all[((at+dir*i)%len(t.all)+len(t.all))%len(t.all)]
		if e.m.State == Alive || !e.m.State.Over() && !sure {
			out = append(out, e)
		}
	}
	return out
}

// responsible reports whether this node must probe a dead member again: this node
// is one of the nodes due to send news to the dead member.
func (t *table) responsible(e *entry) bool {
	i := t.place(e)
	n := 0
	for j := 1; j < len(t.all) && n < watched; j++ {
		p := t.all[((i-j)%len(t.all)+len(t.all))%len(t.all)]
		if p == t.self {
			return true
		}
		if !p.m.State.Over() {
			n++
		}
	}
	return false
}

// side describes the part of the instance visible to this node: the number of live
// members, and the least of their names.
func (t *table) side() (n int, leader filch.NodeName) {
	leader = t.self.m.Name
	for _, e := range t.all {
		if !e.m.State.Over() && e.m.Name < leader {
			leader = e.m.Name
		}
	}
	return t.live, leader
}

// check panics when the table contradicts itself.
func (t *table) check() {
	live, gone := 0, 0
	var sums [buckets]uint64
	for i, e := range t.all {
		if i > 0 && compareNodes(t.all[i-1].key, t.all[i-1].m.Name, e.key, e.m.Name) >= 0 {
			panic(fmt.Sprintf("the list of %s is out of order at %d of %d", t.self.m.Name, i, len(t.all)))
		}
		if t.index[e.m.Name] != e {
			panic(fmt.Sprintf("the index of %s does not know %s", t.self.m.Name, e.m.Name))
		}
		if e.m.State.Over() {
			gone++
		} else {
			live++
		}
		sums[e.key%buckets] ^= e.m.digest(e.key)
	}
	if live != t.live || gone != t.gone || len(t.index) != len(t.all) {
		panic(fmt.Sprintf("%s counts %d live and %d gone of %d, has %d and %d of %d", t.self.m.Name, t.live, t.gone, len(t.index), live, gone, len(t.all)))
	}
	if sums != t.sums {
		panic(fmt.Sprintf("the sums of %s are not those of its list", t.self.m.Name))
	}
}
