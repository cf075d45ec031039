package before

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Window is the greatest number of tasks that an [Each] decides about in a step. The caller
// keeps about as many decided tasks at most: a waiting task costs bits, a ready task more.
const Window = eachBlocks * record.BlockSize

const (
	// eachBlocks bounds the blocks of a look.
	eachBlocks = 32
	// eachCrowded is the pause while the caller has no space for more decided tasks.
	eachCrowded = 50 * time.Millisecond
	// dropPause is the pause between two parts of the waiting tasks that a person cancelled. A store
	// on this node answers at once, and each answer leads to the next step: without a pause, a large
	// bag would end in one turn.
	dropPause = 10 * time.Millisecond
)

// Each lets the tasks of a bag begin one by one: task i waits for the good end of task i in
// each of some other bags. The leader of the bag calls [Each.Step] when [Each.Next] is due,
// and after each answer. An Each reads only the blocks with new ends, and costs three bits a
// task and other bag, and a bit a task.
//
// The tasks of a bag with stated lengths begin one by one, too, the longest first. Without other
// bags that costs four bytes a task, and two for the length.
type Each struct {
	bags    []*other
	total   int32
	taken   set // the caller has these tasks
	left    int32
	news    []Due // parts to decide about again
	lengths record.Lengths
	order   []int32 // of a bag with lengths that waits for no other: the rest, longest first
	dropped []record.Pick
	drops   time.Duration
}

// Due is a part of the bag, from Lo up to and without Hi, that the leader no longer waits
// for: the tasks are ready, or never will be.
type Due struct {
	Lo, Hi int32
	Never  string // the reason for the first; "": ready
}

// other is a bag that is waited for.
type other struct {
	job    filch.JobID
	rec    *record.Job // as last read; nil not yet
	never  string      // the bag is gone
	good   set
	bad    set
	sums   []int32       // of each zone: ends by the record last read
	seen   []uint16      // of each block: ends by the record last read
	zones  []int32       // to read
	blocks []int32       // to read, of zone
	zone   *record.Zone  // around blocks
	absent time.Duration // since when the job's record is missing; 0: not missing
	since  time.Duration // the last news
	at     time.Duration // the next look
	flying bool          // a look has no answer yet
	known  bool          // every end is known
}

// set is a set of tasks.
type set []uint64

func (s set) has(i int32) bool { return s[i/64]>>(i%64)&1 > 0 }
func (s set) add(i int32)      { s[i/64] |= 1 << (i % 64) }

// NewEach makes the Each of a job with a record; nil for a job whose tasks do not begin one by
// one. The lengths may come later: see [Each.Order].
func NewEach(j *record.Job, lengths record.Lengths) *Each {
	if !j.OneByOne() || j.Singly() && mutantIgnored {
		return nil
	}
	e := &Each{}
	for i := range j.After {
		if id, when, _ := j.At(i); when == record.WhenEach {
			e.bags = append(e.bags, &other{job: id})
		}
	}
	if e.Grow(j.Total); j.Ordered() {
		e.Order(lengths)
	}
	return e
}

// Order takes in the lengths of the tasks.
func (e *Each) Order(lengths record.Lengths) {
	if mutantUnordered {
		return
	}
	if e.lengths = lengths; len(e.bags) == 0 && lengths != nil {
		e.order, e.news = lengths.LongestFirst(e.total), nil
	}
}

// LengthsOf is the look for the lengths of a bag, for [Each.Loaded].
func LengthsOf(id filch.JobID, j *record.Job) []Look {
	list := make([]record.Proposal, j.Long)
	for n := range list {
		list[n] = record.Proposal{Op: record.OpLookup, Key: record.KeyLong(id, int32(n)), Kind: record.RecordFact}
	}
	return []Look{{Proposals: list}}
}

// Loaded takes in the answers to [LengthsOf], and returns how many records are gone.
func (e *Each) Loaded(as []record.Answer) (gone int) {
	lengths := make(record.Lengths, len(as))
	for n := range as {
		if as[n].Status == record.AnswerDone {
			lengths[n] = slices.Clone(as[n].Value)
		} else {
			gone++
		}
	}
	e.Order(lengths)
	return gone
}

// Level is the bottom level of a task, which has nothing behind: its length; 0: no length of the
// bag is known.
func (e *Each) Level(i int32) time.Duration {
	if e.lengths == nil {
		return 0
	}
	return max(e.lengths.At(i), 1)
}

// Space is how many more tasks may be decided about, beside so many that wait for a start and so
// many parts that the caller takes over from a dead leader.
func (e *Each) Space(waiting, parts int) int {
	if e.order == nil {
		parts *= record.BlockSize
	}
	return max(Window-waiting-parts, 0)
}

// Read takes in a block that the leader before may have left: tasks that have ended, or that a
// node other than this leader has, wait no longer.
func (e *Each) Read(num int32, b *record.Block, leader record.Owner) {
	for k, off := range b.Offs {
		t, i := &b.Tasks[k], num*record.BlockSize+int32(off)
		if i < e.total && (t.State != 0 || t.Owner != (record.Owner{}) && t.Owner != leader) {
			e.Took(i)
		}
	}
}

// Waiting is the number of tasks that wait.
func (e *Each) Waiting() int32 { return e.left }

// Waits reports whether a task waits.
func (e *Each) Waits(i int32) bool { return i >= 0 && i < e.total && !e.taken.has(i) }

// Step returns the lookups that are due, and the decisions about some of the waiting tasks, most
// at most.
func (e *Each) Step(now time.Duration, most int) (looks []Look, due []Due) {
	due = e.decide(&most)
	for k, b := range e.bags {
		if b.flying {
			continue
		}
		if list := b.next(now, e, most); len(list) > 0 {
			b.flying, looks = true, append(looks, Look{Proposals: list, dep: k})
		}
	}
	return looks, due
}

// Next is when the next step is due.
func (e *Each) Next(now time.Duration) time.Duration {
	next := filch.Never
	if len(e.news) > 0 || len(e.order) > 0 && e.left > 0 {
		next = now + eachCrowded
	}
	if e.left > 0 && e.drops > now {
		next = min(next, e.drops)
	}
	for _, b := range e.bags {
		switch {
		case e.left == 0 || b.flying || b.known || b.never != "":
		case len(b.blocks) > 0:
			next = min(next, now+eachCrowded)
		default:
			next = min(next, b.at)
		}
	}
	return next
}

// Take returns the waiting tasks from lo up to and without hi, most at most: the caller ends
// their wait.
func (e *Each) Take(lo, hi int32, most int) (list []Due) {
	for i := lo; i < min(hi, e.total) && most > 0; i++ {
		if i = e.skip(i); i < min(hi, e.total) {
			list = e.take(list, i, "")
			most--
		}
	}
	return list
}

// Drop is [Each.Take] of cancelled parts, ascending; a [Each.Step] decides about none of their
// tasks. Between two lists, Drop returns nothing until [Each.Drops].
func (e *Each) Drop(now time.Duration, parts []record.Pick, most int) (list []Due) {
	if e.dropped = parts; now < e.drops {
		return nil
	}
	for _, p := range parts {
		for _, d := range e.Take(p.From, p.From+p.Count, most) {
			list = append(list, d)
			most -= int(d.Hi - d.Lo)
		}
	}
	if len(list) > 0 || most <= 0 {
		e.drops = now + dropPause
	}
	return list
}

// Drops is when the next [Each.Drop] is due, if tasks of its parts wait.
func (e *Each) Drops() time.Duration { return e.drops }

// cancelled reports whether [Each.Drop] ends the wait of a task.
func (e *Each) cancelled(i int32) bool {
	k, _ := slices.BinarySearchFunc(e.dropped, i, func(p record.Pick, i int32) int { return int(p.From) + int(p.Count) - 1 - int(i) })
	return k < len(e.dropped) && e.dropped[k].From <= i
}

// Took takes in that a task waits no longer.
func (e *Each) Took(i int32) {
	if !e.taken.has(i) {
		e.taken.add(i)
		e.left--
	}
}

// skip is the first waiting task from i on.
func (e *Each) skip(i int32) int32 {
	for i < e.total {
		if word := ^e.taken[i/64] >> (i % 64); word != 0 {
			return min(i+int32(bits.TrailingZeros64(word)), e.total)
		}
		i = (i/64 + 1) * 64
	}
	return e.total
}

func (e *Each) take(list []Due, i int32, never string) []Due {
	e.Took(i)
	if n := len(list); n > 0 && list[n-1].Hi == i && (list[n-1].Never == "") == (never == "") {
		list[n-1].Hi++
		return list
	}
	return append(list, Due{i, i + 1, never})
}

// Grow takes in the number of tasks.
func (e *Each) Grow(total int32) {
	if total <= e.total {
		return
	}
	words, blocks := int(total+63)/64, int(total-1)/record.BlockSize+1
	longer := func(s set) set { return append(s, make(set, words-len(s))...) }
	e.taken = longer(e.taken)
	for _, b := range e.bags {
		b.good, b.bad = longer(b.good), longer(b.bad)
		b.seen = append(b.seen, make([]uint16, blocks-len(b.seen))...)
		b.sums = make([]int32, (total-1)/record.ZoneSize+1) // read the zones again
		clear(b.seen[e.total/record.BlockSize:])
		b.known = false
	}
	e.news = append(e.news, Due{Lo: e.total, Hi: total})
	e.left += total - e.total
	if e.total = total; e.order != nil {
		e.Order(e.lengths)
	}
}

// decide decides about tasks with news, or about the longest. The longest come singly, so that the
// parts of [Each.Space] are tasks.
func (e *Each) decide(most *int) (due []Due) {
	for ; len(e.order) > 0 && *most > 0; e.order = e.order[1:] {
		if i := e.order[0]; !e.taken.has(i) && !e.cancelled(i) {
			e.Took(i)
			due = append(due, Due{Lo: i, Hi: i + 1})
			*most--
		}
	}
	for len(e.news) > 0 && *most > 0 {
		n := &e.news[0]
		if n.Lo = e.skip(n.Lo); n.Lo >= n.Hi {
			e.news = e.news[1:]
			continue
		}
		if ready, never := e.is(n.Lo); (ready || never != "") && !e.cancelled(n.Lo) {
			due = e.take(due, n.Lo, never)
			*most--
		}
		n.Lo++
	}
	return due
}

// is reports whether a task may begin, or why the task never may.
func (e *Each) is(i int32) (ready bool, never string) {
	ready = true
	for _, b := range e.bags {
		ok, never := b.is(i)
		if never != "" {
			return false, never
		}
		ready = ready && ok
	}
	return ready, ""
}

func (b *other) is(i int32) (ok bool, never string) {
	switch {
	case b.good.has(i):
		return true, ""
	case b.bad.has(i):
		return false, fmt.Sprintf("task %d.%d did not end well", b.job, i)
	case b.never != "":
		return false, b.never
	case b.rec == nil:
		return false, ""
	case b.rec.Closed && i >= b.rec.Total:
		return false, fmt.Sprintf("job %d has no task %d", b.job, i)
	}
	return b.rec.Finished() && b.rec.State() == filch.OK, ""
}

// next returns the lookups that are due: of the job, then of a zone with news, then of the
// blocks with news in the zone. So a block is never older than the job that has ended.
func (b *other) next(now time.Duration, e *Each, most int) (list []record.Proposal) {
	look := func(key string, kind record.RecordKind) {
		list = append(list, record.Proposal{Op: record.OpLookup, Key: key, Kind: kind})
	}
	switch {
	case e.left == 0 || b.known || b.never != "":
	case len(b.blocks) > 0:
		for _, n := range b.blocks[:min(len(b.blocks), most/record.BlockSize, eachBlocks)] {
			look(record.KeyBlock(b.job, n), record.RecordBlock)
		}
	case len(b.zones) > 0:
		look(record.KeyZone(b.job, b.zones[0]), record.RecordZone)
	case now >= b.at:
		look(record.KeyJob(b.job), record.RecordBefore)
	}
	return list
}

// Answered takes in the answers to the proposals of a look, in their order.
func (e *Each) Answered(now time.Duration, l *Look, as []record.Answer) {
	b := e.bags[l.dep]
	b.flying = false
	for i := range as {
		if s := as[i].Status; s != record.AnswerDone && s != record.AnswerAbsent {
			b.zones, b.blocks, b.at = nil, nil, now+againMax
			b.sums = make([]int32, len(b.sums))
			return // the store is away: look again
		}
	}
	switch l.Proposals[0].Kind {
	case record.RecordBlock:
		for i := range as {
			e.readBlock(b, b.blocks[0], readBlock(&as[i]))
			b.blocks = b.blocks[1:]
		}
	case record.RecordZone:
		e.readZone(b, b.zones[0], readZone(&as[0]))
		b.zones = b.zones[1:]
	default:
		e.readJob(b, now, &as[0])
	}
	if len(b.blocks)+len(b.zones) == 0 {
		b.known = b.rec != nil && b.rec.Finished()
	}
}

func (e *Each) readJob(b *other, now time.Duration, a *record.Answer) {
	j, err := record.DecodeJob(a.Value)
	b.at = now + min(max((now-b.since)/againShare, againMin), againMax)
	switch {
	case a.Status == record.AnswerAbsent || err != nil:
		if b.absent == 0 {
			b.absent = max(now, 1)
		}
		if now-b.absent >= absentWait {
			b.never = fmt.Sprintf("there is no job %d to wait for", b.job)
			e.news = append(e.news, Due{Lo: 0, Hi: e.total})
		}
		return
	case j.Closed && (b.rec == nil || !b.rec.Closed) && j.Total < e.total:
		e.news = append(e.news, Due{Lo: j.Total, Hi: e.total})
	}
	ended := j.Finished()
	b.rec, b.absent = j, 0
	if ended && j.State() == filch.OK {
		e.news = append(e.news, Due{Lo: 0, Hi: e.total})
		return
	}
	for n := range int32(len(b.sums)) {
		sum := int32(0)
		for i := range j.Zones {
			if j.Zones[i].Zone == n {
				sum = j.Zones[i].Sum()
			}
		}
		if sum > b.sums[n] || ended {
			b.zones = append(b.zones, n)
		}
	}
	if len(b.zones) > 0 {
		b.since, b.at = now, now+againMin
	}
}

// readZone finds the blocks with news.
func (e *Each) readZone(b *other, num int32, z *record.Zone) {
	b.zone, b.sums[num] = z, z.Tally().Sum()
	sums := make(map[int32]int32, len(z.Blocks))
	for i := range z.Blocks {
		sums[z.Blocks[i].Block] = z.Blocks[i].Sum()
	}
	for n, part := range record.BlocksOf(num*record.ZoneSize, min((num+1)*record.ZoneSize, e.total)) {
		fresh := b.rec.Finished() || sums[n] > int32(b.seen[n])
		for i := range z.Spans {
			s := &z.Spans[i]
			fresh = fresh || s.Void != 0 && s.Lo < part[1] && part[0] < s.Hi
		}
		if fresh && b.lacks(part[0], part[1]) {
			b.blocks = append(b.blocks, n)
		}
	}
}

// lacks reports whether the end of some task in a part is not known.
func (b *other) lacks(lo, hi int32) bool {
	for i := lo; i < hi; i++ {
		if !b.good.has(i) && !b.bad.has(i) {
			return true
		}
	}
	return false
}

func (e *Each) readBlock(b *other, num int32, r *record.Block) {
	lo, hi := num*record.BlockSize, min((num+1)*record.BlockSize, e.total)
	b.seen[num] = uint16(r.Tally().Sum())
	for i := lo; i < hi; i++ {
		switch s := taskEnd(b.rec, b.zone, r, i); {
		case s == filch.OK || s == 0 && mutantEarly:
			b.good.add(i)
		case s != 0:
			b.bad.add(i)
		}
	}
	e.news = append(e.news, Due{Lo: lo, Hi: hi})
}
