package pmix

import (
	"github.com/filch-hpc/filch"
)

// wordKind is a kind of message in a family of jobs. Kinds cross the wire between nodes of an
// instance: append only.
type wordKind uint8

const (
	// To the hub.
	wordLayout    wordKind = iota + 1 // a job: its namespace, nodes and ranks; also from the hub
	wordPublish                       // persistence, rank, names with values
	wordLookup                        // whether to wait, seconds, names
	wordUnpublish                     // names
	wordJoin                          // kind, processes, this node's blob
	wordModex                         // namespace, rank: asks for the rank's data
	wordHave                          // answers wordAsk: status, data
	wordOver                          // a namespace: its ranks have ended

	// From the hub.
	wordDone // status, blob: answers everything with an id
	wordAsk  // rank: asks for the data of a rank of the receiving node
	wordGone // from the first engine of a job: the hub is gone
)

// word is a message between the hub and the engine of a node of the family. Node is the node
// of the engine in its job.
type word struct {
	kind wordKind
	node int32
	id   uint32
	body []byte
}

const wordHeader = 1 + 4 + 4

func (w word) encode() []byte {
	b := make(builder, 0, wordHeader+len(w.body))
	b = append(b, byte(w.kind))
	return append(b.u32(uint32(w.node)).u32(w.id), w.body...)
}

func decodeWord(b []byte) (w word, ok bool) {
	if len(b) < wordHeader {
		return w, false
	}
	r := reader{b: b[1:], ok: true}
	w.kind = wordKind(b[0])
	w.node, w.id = int32(r.u32()), r.u32()
	w.body = r.b
	return w, w.kind >= wordLayout && w.kind <= wordGone && w.node >= 0
}

// proc is a process of a family.
type proc struct {
	space string
	rank  uint32
}

// wildcard stands for all ranks of a namespace (PMIX_RANK_WILDCARD).
const wildcard = 4294967294

// joinKind is a collective of processes of several jobs.
type joinKind uint32

const (
	joinConnect joinKind = iota + 1
	joinDisconnect
	joinFence
)

// Limits of a family.
const (
	maxNames   = 4096     // published names
	maxNameSum = 64 << 20 // bytes of their values
	maxNameLen = 512
	maxJobs    = 4096 // jobs of a family
	maxProcs   = 1 << 20
)

// appendLayout describes the job of c; readLayout is the inverse.
func appendLayout(b builder, c *Config) builder {
	b = b.text(c.Namespace).u32(uint32(c.Size)).u32(uint32(max(c.Universe, c.Size))).u32(uint32(max(c.Apps, 1))).u32(uint32(len(c.Nodes)))
	for _, n := range c.Nodes {
		b = b.text(n.Name).u32(uint32(len(n.Ranks)))
		for i, r := range n.Ranks {
			app := int32(0)
			if i < len(n.Apps) {
				app = n.Apps[i]
			}
			b = b.u32(uint32(r)).u32(uint32(app))
		}
	}
	return b
}

// layout is a job of the family as the hub knows it.
type layout struct {
	space string
	nodes int32
	home  []int32 // of every rank: its node, -1 none
	body  []byte
}

func readLayout(body []byte) (l layout, ok bool) {
	r := &reader{b: body, ok: true}
	l.space, l.body = r.text(), body
	size, _, _, nodes := r.u32(), r.u32(), r.u32(), r.u32()
	if !r.ok || l.space == "" || size > maxProcs || uint64(nodes) > uint64(len(r.b)) {
		return l, false
	}
	l.nodes, l.home = int32(nodes), make([]int32, size)
	for i := range l.home {
		l.home[i] = -1
	}
	for n := range l.nodes {
		r.text()
		count := r.u32()
		if !r.ok || uint64(count) > uint64(len(r.b))/8 {
			return l, false
		}
		for range count {
			rank, _ := r.u32(), r.u32()
			if rank >= size {
				return l, false
			}
			l.home[rank] = n
		}
	}
	return l, r.whole()
}

// procs reads a list of processes.
func (r *reader) procs() []proc {
	n := r.u32()
	if !r.ok || n > maxProcs || uint64(n) > uint64(len(r.b))/8 {
		r.ok = false
		return nil
	}
	list := make([]proc, n)
	for i := range list {
		list[i] = proc{r.text(), r.u32()}
	}
	return list
}

// names reads a list of names.
func (r *reader) names() []string {
	n := r.u32()
	if !r.ok || uint64(n) > uint64(len(r.b))/4 {
		r.ok = false
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.text()
	}
	return list
}

// rankOf is the rank of a process; a wildcard is no rank.
func (p proc) rankOf() (filch.Rank, bool) { return filch.Rank(p.rank), p.rank < maxProcs }
