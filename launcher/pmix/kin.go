package pmix

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// Family is the place of a job among the jobs that descend, by spawns, from one job.
type Family struct {
	Self filch.Ident    // the job
	Top  filch.Ident    // the job at the top; Self, or the job that spawned Self, and so on
	Hub  filch.NodeName // of Top's first node
	// Of a spawned job: the namespace and the rank of the process that called.
	Parent string
	Rank   filch.Rank
}

// kin is an engine's connection to the hub of its family. Messages of the engines of a job go
// through the job's first engine, which has a line to the hub.
type kin struct {
	e     *Engine
	hub   *hub                    // at the hub
	up    *strand                 // at the first engine of any other job
	lines map[filch.Ident]*strand // at the hub
	open  map[uint32]openKind     // questions of our helper, by its id
}

// openKind is what a question of the helper is answered with.
type openKind uint8

const (
	openDone  openKind = iota // a status, and for a lookup the names
	openModex                 // data: of a rank, or of a fence
)

func newKin(e *Engine) *kin {
	k := &kin{e: e, lines: map[filch.Ident]*strand{}, open: map[uint32]openKind{}}
	f := &e.cfg.Family
	switch {
	case e.cfg.Node != 0:
	case f.Self == f.Top:
		k.hub = newHub(e)
	default:
		k.up = &strand{Strand: pmi.NewStrand(), to: f.Top, node: f.Hub}
	}
	return k
}

// begin describes the job to the hub.
func (k *kin) begin(now time.Duration, out *pmi.Out) {
	if k.up != nil {
		k.up.Send(word{kind: wordLayout, body: appendLayout(nil, &k.e.cfg)}.encode())
		k.flush(now, out)
	}
}

// ask sends a question of our helper to the hub.
func (k *kin) ask(now time.Duration, kind wordKind, id uint32, answer openKind, body []byte, out *pmi.Out) bool {
	if len(k.open) >= maxOpen {
		return false
	}
	k.open[id] = answer
	if !k.raise(now, word{kind: kind, node: k.e.cfg.Node, id: id, body: body}, out) {
		k.answered(id, statusUnreachable, nil, out)
	}
	return true
}

// raise sends a message toward the hub.
func (k *kin) raise(now time.Duration, w word, out *pmi.Out) bool {
	switch {
	case k.hub != nil:
		if !k.hub.word(now, nil, w, out) {
			out.Notes = append(out.Notes, "dropped a message to the hub of the spawned jobs that makes no sense")
		}
		return true
	case k.up != nil:
		return k.up.Send(w.encode())
	}
	return k.e.send(0, parcel{kind: parcelWord, data: w.encode()}, out)
}

// down passes a message of the hub to an engine of this job.
func (k *kin) down(w word, out *pmi.Out) bool {
	if w.node != k.e.cfg.Node {
		return k.e.send(w.node, parcel{kind: parcelWord, data: w.encode()}, out)
	}
	return k.take(w, out)
}

// take acts on a message of the hub; false means an invalid message.
func (k *kin) take(w word, out *pmi.Out) bool {
	r := &reader{b: w.body, ok: true}
	switch w.kind {
	case wordLayout:
		if _, ok := readLayout(w.body); !ok {
			return false
		}
		k.e.tell(out, append(newFrame(kindKnow), w.body...))
		return true
	case wordDone:
		status, blob := int32(r.u32()), r.blob()
		if r.whole() {
			k.answered(w.id, status, blob, out)
		}
		return r.whole()
	case wordAsk:
		rank := r.rank()
		if r.whole() {
			k.e.askedFar(w.id, rank, out)
		}
		return r.whole()
	case wordGone:
		k.unreachable(out)
		return true
	}
	return false
}

// unreachable answers all open questions: the hub is gone.
func (k *kin) unreachable(out *pmi.Out) {
	for _, id := range slices.Sorted(maps.Keys(k.open)) {
		k.answered(id, statusUnreachable, nil, out)
	}
}

// answered gives our helper an answer.
func (k *kin) answered(id uint32, status int32, blob []byte, out *pmi.Out) {
	answer, ok := k.open[id]
	if !ok {
		return
	}
	delete(k.open, id)
	to := kindDone
	if answer == openModex {
		to = kindModexDone
	}
	k.e.tell(out, newFrame(to).u32(id).u32(uint32(status)).blob(blob))
}

// word takes a message of another engine of this job.
func (k *kin) word(now time.Duration, from int32, body []byte, out *pmi.Out) bool {
	w, ok := decodeWord(body)
	if !ok {
		return false
	}
	if k.e.cfg.Node != 0 {
		return from == 0 && w.node == k.e.cfg.Node && k.take(w, out)
	}
	if w.node != from {
		return false
	}
	if !k.raise(now, w, out) {
		k.down(word{kind: wordGone, node: from}, out)
	}
	return true
}

// frame takes a frame of the first keeper of another job.
func (k *kin) frame(now time.Duration, from filch.Ident, node filch.NodeName, body []byte, out *pmi.Out) {
	line := k.up
	if k.hub != nil {
		if line = k.lines[from]; line == nil {
			if len(body) == 0 || len(k.lines) >= maxJobs {
				return
			}
			line = &strand{Strand: pmi.NewStrand(), to: from, node: node}
			k.lines[from] = line
		}
	}
	if line == nil || line.to != from {
		out.Notes = append(out.Notes, "dropped a frame of a job of another family")
		return
	}
	text, whole, ok := line.Receive(now, body)
	switch {
	case !ok:
		out.Notes = append(out.Notes, "dropped a malformed frame of another job")
	case line.Gone():
		k.lost(line, out)
	case whole:
		w, ok := decodeWord(text)
		if ok && k.hub != nil {
			ok = k.hub.word(now, line, w, out)
		} else if ok {
			ok = k.down(w, out)
		}
		if !ok {
			out.Notes = append(out.Notes, "dropped a message of another job that makes no sense")
		}
	}
	k.flush(now, out)
}

// lost handles the end of the other keeper.
func (k *kin) lost(line *strand, out *pmi.Out) {
	if k.hub != nil {
		if delete(k.lines, line.to); line.job != nil {
			k.hub.over(line.job.layout.space, out)
		}
		return
	}
	for n := range k.e.cfg.Nodes {
		k.down(word{kind: wordGone, node: int32(n)}, out)
	}
}

func (k *kin) deadline() time.Duration {
	d := filch.Never
	if k.hub != nil {
		d = k.hub.deadline()
	}
	if k.up != nil {
		d = min(d, k.up.Deadline())
	}
	for _, l := range k.lines {
		d = min(d, l.Deadline())
	}
	return d
}

func (k *kin) tick(now time.Duration, out *pmi.Out) {
	if k.hub != nil {
		k.hub.tick(now, out)
	}
	k.flush(now, out)
}

// flush sends the frames that may go now.
func (k *kin) flush(now time.Duration, out *pmi.Out) {
	if k.up != nil {
		k.up.flush(now, out)
	}
	for _, id := range slices.SortedFunc(maps.Keys(k.lines), compareIdents) {
		k.lines[id].flush(now, out)
	}
}

func (s *strand) flush(now time.Duration, out *pmi.Out) {
	for _, f := range s.Flush(now) {
		out.Kin = append(out.Kin, pmi.KinFrame{To: s.to, Node: s.node, Body: f})
	}
}

func compareIdents(a, b filch.Ident) int {
	if a.Job != b.Job {
		return int(a.Job - b.Job)
	}
	return int(a.Attempt - b.Attempt)
}

// helper acts on a frame of our helper; false means an invalid frame.
func (k *kin) helper(now time.Duration, kind kind, r *reader, out *pmi.Out) bool {
	id := r.u32()
	body := r.b
	if !r.ok {
		return false
	}
	switch kind {
	case kindPublish:
		return k.ask(now, wordPublish, id, openDone, body, out)
	case kindLookup:
		return k.ask(now, wordLookup, id, openDone, body, out)
	case kindUnpublish:
		return k.ask(now, wordUnpublish, id, openDone, body, out)
	case kindModexFar:
		return k.ask(now, wordModex, id, openModex, body, out)
	case kindJoin:
		answer := openDone
		if joinKind(r.u32()) == joinFence {
			answer = openModex
		}
		return r.ok && k.ask(now, wordJoin, id, answer, body, out)
	case kindSpawn:
		s, ok := readSpawn(id, r)
		if ok {
			out.Spawns = append(out.Spawns, s)
		}
		return ok
	}
	return false
}

// Limits of a spawn.
const (
	maxSpawnApps  = 256
	maxSpawnWords = 1 << 16 // arguments, variables or infos of a program
)

// readSpawn reads the helper's frame about a spawn.
func readSpawn(id uint32, r *reader) (pmi.Spawn, bool) {
	s := pmi.Spawn{ID: id, Rank: r.rank()}
	common := r.pairs()
	n := r.u32()
	if !r.ok || n == 0 || n > maxSpawnApps {
		return s, false
	}
	total := int64(0)
	for range n {
		a := pmi.SpawnApp{Argv: r.words(), Env: r.words()}
		a.Ranks = int32(r.u32())
		a.Info = append(slices.Clone(common), r.pairs()...)
		total += int64(a.Ranks)
		if !r.ok || len(a.Argv) == 0 || a.Argv[0] == "" || a.Ranks < 1 || total > pmi.MaxSpawnRanks {
			return s, false
		}
		s.Apps = append(s.Apps, a)
	}
	return s, r.whole()
}

func (r *reader) words() []string {
	list := r.names()
	r.ok = r.ok && len(list) <= maxSpawnWords
	return list
}

func (r *reader) pairs() []pmi.Pair {
	list := r.words()
	if !r.ok || len(list)%2 != 0 {
		r.ok = false
		return nil
	}
	all := make([]pmi.Pair, 0, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		all = append(all, pmi.Pair{Key: list[i], Value: list[i+1]})
	}
	return all
}
