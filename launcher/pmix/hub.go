package pmix

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// hub connects the jobs of a family: the job that a client started, and the jobs that descend
// from it by spawns. The first engine of the job at the top has the hub. The hub keeps the
// published names, lets processes of several jobs join each other (connect, disconnect,
// fence), and passes questions for the data of a rank on to the job of the rank.
type hub struct {
	e      *Engine
	jobs   map[string]*relative // by namespace
	names  map[string]published
	bytes  int // of the published values
	waits  []lookup
	joins  map[string][]*join
	wants  map[uint32]asker // questions to jobs, by our id
	serial uint32
}

// relative is a job of the family. The line is nil for the hub's own job.
type relative struct {
	layout layout
	line   *strand
	told   map[string]bool // the namespaces that the job was told of
}

// strand is the connection to the first keeper of another job.
type strand struct {
	*pmi.Strand
	to   filch.Ident
	node filch.NodeName
	job  *relative // once the layout came
}

// asker is the engine of a node that waits for an answer.
type asker struct {
	line *strand // nil: of the hub's own job
	node int32
	id   uint32
}

type published struct {
	by    proc
	value []byte
	once  bool // the first lookup removes the name
}

// lookup waits for names.
type lookup struct {
	asker asker
	names []string
	until time.Duration
}

// join is a collective under way.
type join struct {
	kind  joinKind
	procs []proc
	parts map[seat]asker
	data  []byte
}

// seat is a node of a job.
type seat struct {
	space string
	node  int32
}

// lookupMost bounds the wait of a lookup that names no time.
const lookupMost = 24 * time.Hour

func newHub(e *Engine) *hub {
	h := &hub{
		e: e, jobs: map[string]*relative{}, names: map[string]published{}, joins: map[string][]*join{}, wants: map[uint32]asker{},
	}
	own, _ := readLayout(appendLayout(nil, &e.cfg))
	h.jobs[own.space] = &relative{layout: own, told: map[string]bool{}}
	return h
}

// word acts on a message to the hub; false means an invalid message.
func (h *hub) word(now time.Duration, line *strand, w word, out *pmi.Out) bool {
	a := asker{line: line, node: w.node, id: w.id}
	r := &reader{b: w.body, ok: true}
	switch w.kind {
	case wordLayout:
		return h.layout(line, w.body, out)
	case wordPublish:
		return h.publish(now, a, r, out)
	case wordLookup:
		return h.lookup(now, a, r, out)
	case wordUnpublish:
		names := r.names()
		for _, n := range names {
			h.drop(n)
		}
		h.done(a, statusOK, nil, out)
		return r.whole()
	case wordJoin:
		return h.join(a, r, out)
	case wordModex:
		return h.modex(a, r, out)
	case wordHave:
		to, ok := h.wants[w.id]
		delete(h.wants, w.id)
		status, blob := int32(r.u32()), r.blob()
		if ok && r.whole() {
			h.done(to, status, blob, out)
		}
		return r.whole()
	case wordOver:
		space := r.text()
		if r.whole() {
			h.over(space, out)
		}
		return r.whole()
	}
	return false
}

// space is the namespace of an asker; "" for a job without a layout.
func (h *hub) space(a asker) string {
	if a.line == nil {
		return h.e.cfg.Namespace
	}
	if a.line.job == nil {
		return ""
	}
	return a.line.job.layout.space
}

// send sends a message to the engine of a node of the family.
func (h *hub) send(line *strand, w word, out *pmi.Out) bool {
	if line == nil {
		return h.e.kin.down(w, out)
	}
	return line.Send(w.encode())
}

func (h *hub) done(a asker, status int32, blob []byte, out *pmi.Out) {
	b := builder(nil).u32(uint32(status)).blob(blob)
	h.send(a.line, word{kind: wordDone, node: a.node, id: a.id, body: b}, out)
}

// layout takes the description of a job.
func (h *hub) layout(line *strand, body []byte, out *pmi.Out) bool {
	l, ok := readLayout(body)
	if !ok || line == nil || line.job != nil || len(h.jobs) >= maxJobs || h.jobs[l.space] != nil {
		return false
	}
	line.job = &relative{layout: l, line: line, told: map[string]bool{}}
	h.jobs[l.space] = line.job
	for _, key := range slices.Sorted(maps.Keys(h.joins)) {
		h.settle(key, out)
	}
	return true
}

// publish keeps names with their values: all of the message, or none.
func (h *hub) publish(now time.Duration, a asker, r *reader, out *pmi.Out) bool {
	once, rank := r.u32() == persistFirstRead, r.u32()
	n := r.u32()
	if !r.ok || uint64(n) > uint64(len(r.b))/8 {
		return false
	}
	names, values, sum := make([]string, n), make([][]byte, n), 0
	status := int32(statusOK)
	for i := range names {
		names[i], values[i] = r.text(), slices.Clone(r.blob())
		_, known := h.names[names[i]]
		sum += len(values[i])
		switch {
		case known || slices.Contains(names[:i], names[i]):
			status = statusDuplicate
		case names[i] == "" || len(names[i]) > maxNameLen || len(h.names)+i >= maxNames || h.bytes+sum > maxNameSum:
			status = statusFull
		}
	}
	if !r.whole() {
		return false
	}
	if status == statusOK {
		for i, name := range names {
			h.names[name] = published{by: proc{h.space(a), rank}, value: values[i], once: once}
		}
		h.bytes += sum
	}
	h.done(a, status, nil, out)
	h.waits = slices.DeleteFunc(h.waits, func(l lookup) bool { return h.find(l, out) })
	return true
}

func (h *hub) drop(name string) {
	h.bytes -= len(h.names[name].value)
	delete(h.names, name)
}

// lookup answers with the names that are known, or waits until all are.
func (h *hub) lookup(now time.Duration, a asker, r *reader, out *pmi.Out) bool {
	wait, limit := r.u32() != 0, time.Duration(r.u32())*time.Second
	l := lookup{asker: a, names: r.names(), until: now}
	if !r.whole() || len(l.names) == 0 || len(h.waits) >= maxOpen {
		return false
	}
	if wait {
		if l.until += lookupMost; limit > 0 {
			l.until = now + min(limit, lookupMost)
		}
	}
	if !h.find(l, out) {
		h.waits = append(h.waits, l)
		h.tick(now, out)
	}
	return true
}

// find answers a lookup once all of its names are known.
func (h *hub) find(l lookup, out *pmi.Out) bool {
	for _, name := range l.names {
		if _, ok := h.names[name]; !ok {
			return false
		}
	}
	h.answer(l, out)
	return true
}

// answer answers a lookup with the names that are known.
func (h *hub) answer(l lookup, out *pmi.Out) {
	var b builder
	for _, name := range l.names {
		if p, ok := h.names[name]; ok {
			b = b.text(p.by.space).u32(p.by.rank).text(name).blob(p.value)
			if p.once {
				h.drop(name)
			}
		}
	}
	status := int32(statusOK)
	if len(b) == 0 {
		status = statusNotFound
	}
	h.done(l.asker, status, b, out)
}

// tick answers the lookups whose time is over.
func (h *hub) tick(now time.Duration, out *pmi.Out) {
	h.waits = slices.DeleteFunc(h.waits, func(l lookup) bool {
		if l.until > now {
			return false
		}
		h.answer(l, out)
		return true
	})
}

func (h *hub) deadline() time.Duration {
	d := filch.Never
	for _, l := range h.waits {
		d = min(d, l.until)
	}
	return d
}

// join takes a node's part of a collective. The n-th collective of a set of processes is the
// n-th on every node, as all processes of the set enter each before the next.
func (h *hub) join(a asker, r *reader, out *pmi.Out) bool {
	kind, procs, data := joinKind(r.u32()), r.procs(), r.blob()
	if !r.whole() || len(procs) == 0 || kind < joinConnect || kind > joinFence {
		return false
	}
	slices.SortFunc(procs, func(a, b proc) int { return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.rank, b.rank)) })
	procs = slices.Compact(procs)
	var b strings.Builder
	fmt.Fprint(&b, kind)
	for _, p := range procs {
		fmt.Fprint(&b, " ", p.space, " ", p.rank)
	}
	key, at := b.String(), seat{h.space(a), a.node}
	var j *join
	for _, open := range h.joins[key] {
		if _, in := open.parts[at]; !in {
			j = open
			break
		}
	}
	if j == nil {
		if len(h.joins) >= maxFences || len(h.joins[key]) >= maxFences {
			return false
		}
		j = &join{kind: kind, procs: procs, parts: map[seat]asker{}}
		h.joins[key] = append(h.joins[key], j)
	}
	j.parts[at] = a
	if j.data = append(j.data, data...); len(j.data) > maxPut {
		return false
	}
	h.settle(key, out)
	return true
}

// seats are the nodes with processes of a collective; false while a job is not known yet.
func (h *hub) seats(j *join) (map[seat]bool, bool) {
	all := map[seat]bool{}
	for _, p := range j.procs {
		job := h.jobs[p.space]
		if job == nil {
			return nil, false
		}
		if p.rank == wildcard {
			for _, n := range job.layout.home {
				if n >= 0 {
					all[seat{p.space, n}] = true
				}
			}
		} else if int64(p.rank) < int64(len(job.layout.home)) && job.layout.home[p.rank] >= 0 {
			all[seat{p.space, job.layout.home[p.rank]}] = true
		}
	}
	return all, true
}

// settle ends the collectives of a key that are complete.
func (h *hub) settle(key string, out *pmi.Out) {
	for len(h.joins[key]) > 0 {
		j := h.joins[key][0]
		all, known := h.seats(j)
		if !known {
			return
		}
		for s := range all {
			if _, in := j.parts[s]; !in {
				return
			}
		}
		h.joined(key, j, statusOK, out)
	}
}

// joined answers all parts of the first collective of a key.
func (h *hub) joined(key string, j *join, status int32, out *pmi.Out) {
	if h.joins[key] = h.joins[key][1:]; len(h.joins[key]) == 0 {
		delete(h.joins, key)
	}
	for _, s := range slices.SortedFunc(maps.Keys(j.parts), func(a, b seat) int {
		return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.node, b.node))
	}) {
		a := j.parts[s]
		if j.kind == joinConnect && status == statusOK {
			h.introduce(a, j, out)
		}
		h.done(a, status, j.data, out)
	}
}

// introduce tells the engine of a node of the other jobs of a collective.
func (h *hub) introduce(a asker, j *join, out *pmi.Out) {
	own := h.space(a)
	last := own
	for _, p := range j.procs { // in the order of the namespaces
		if p.space == own || p.space == last {
			continue
		}
		last = p.space
		h.send(a.line, word{kind: wordLayout, node: a.node, body: h.jobs[p.space].layout.body}, out)
	}
}

// modex asks the job of a rank for the data of the rank.
func (h *hub) modex(a asker, r *reader, out *pmi.Out) bool {
	p := proc{r.text(), r.u32()}
	if !r.whole() {
		return false
	}
	job := h.jobs[p.space]
	rank, ok := p.rankOf()
	if job == nil || !ok || int(rank) >= len(job.layout.home) || job.layout.home[rank] < 0 || len(h.wants) >= maxOpen {
		h.done(a, statusNotFound, nil, out)
		return true
	}
	h.serial++
	h.wants[h.serial] = a
	w := word{kind: wordAsk, node: job.layout.home[rank], id: h.serial, body: builder(nil).u32(p.rank)}
	if !h.send(job.line, w, out) {
		delete(h.wants, h.serial)
		h.done(a, statusUnreachable, nil, out)
	}
	return true
}

// over ends the collectives that wait for ranks that have ended.
func (h *hub) over(space string, out *pmi.Out) {
	for _, key := range slices.Sorted(maps.Keys(h.joins)) {
		for _, j := range slices.Clone(h.joins[key]) {
			if slices.ContainsFunc(j.procs, func(p proc) bool { return p.space == space }) {
				h.joined(key, j, statusUnreachable, out)
			}
		}
	}
	if job := h.jobs[space]; job != nil && job.line != nil {
		delete(h.jobs, space)
		if h.e.kin.lines[job.line.to] == job.line {
			delete(h.e.kin.lines, job.line.to)
		}
	}
}
