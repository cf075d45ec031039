package instance

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
)

// most is how often a task of a bag may be started: once and after each end that
// is not ok, after each death of its node up to the limit, and once more where
// not every start is committed first.
func (b *bag) most() int {
	s := &b.request.Spec
	most := 1 + int(s.CrashLimit) + int(s.Retries)
	switch {
	case s.Once:
		return 1
	case s.Sure || len(b.request.Nodes) > 0:
		return most
	}
	return most + 1
}

// began checks the start of a task against all others of it.
func (w *World) began(b *bag, l *launcher.TaskLaunch, h *host) {
	s := &l.Start
	w.checkRole(h, b.gangs(), s)
	if len(b.request.Nodes) > 0 {
		w.act("started by " + h.lawOf().Kind.String())
	}
	b.grow(s.Index + 1)
	b.running++
	if s.Copy {
		w.beganCopy(b, s, h)
		return
	}
	b.starts[s.Index]++
	w.checkRivals(b, s.Index)
	w.checkCap(b)
	w.checkStepsOver(b, s.Index, fmt.Sprintf("task %d.%d begins again", s.Job, s.Index))
	lapsed := b.lapsed && !b.request.Spec.Once // the starts of those are on disks
	if n, most := int(b.starts[s.Index]), b.most()+int(b.recalls[s.Index]); n > most && !lapsed {
		w.Fail("too-many-starts", "task %d.%d was started %d times, at most %d are allowed", s.Job, s.Index, n, most)
	}
	nth := s.Nth
	if b.gangs() {
		nth = int32(l.Try())
	}
	if bit := uint64(1) << min(nth, 63); nth < 63 {
		if b.nths[s.Index]&bit != 0 && !lapsed {
			w.Fail("start-twice", "start %d of task %d.%d happened twice", nth, s.Job, s.Index)
		}
		b.nths[s.Index] |= bit
	}
	for _, parent := range b.parents(s.Index) {
		if b.oks[parent] == 0 && b.request.Spec.OnFail == record.FailSkip {
			w.Fail("too-early", "task %d.%d began although task %d did not end well", s.Job, s.Index, parent)
		}
	}
	if a := b.each; a != nil && (s.Index >= int32(len(a.oks)) || a.oks[s.Index] == 0) {
		w.Fail("too-early", "task %d.%d began although task %d.%[2]d, for which it waits, did not end well", s.Job, s.Index, a.id)
	}
	for _, a := range b.after {
		if a.running > 0 && w.allWell(w.Now()-staleSpan) {
			w.Fail("too-early", "task %d.%d began while %d tasks of job %d run, for whose end it waits", s.Job, s.Index, a.running, a.id)
		}
	}
	if b.finished && !b.lapsed && h.trouble+leaseBound < w.Now() {
		w.Fail("after-end", "task %d.%d began after its client was told that all is over", s.Job, s.Index)
	}
}

func (b *bag) parents(i int32) []int32 {
	if len(b.request.Nodes) == 0 {
		return nil
	}
	return b.request.Nodes[i].Parents
}

// ended notes how a process ended.
func (w *World) ended(p *process, e *launcher.TaskEnd) {
	if e.Kind == launcher.CauseNone {
		p.bag.oks[p.launch.Start.Index]++
	}
	if el := w.elastic; el != nil {
		el.ended(p)
	}
}

// checkBagRefused: a bag or an addition is refused for a reason only.
func (w *World) checkBagRefused(b *bag, e *launcher.TaskNews) {
	if e.Token != 0 || b.id != 0 {
		b.gone = b.gone || e.Token == 0 // it is told no more
		return                          // an addition: its client adds it again or gives up
	}
	if b.gangs() && w.opt.Roles != nil && !w.couldFitGang(b) {
		b.refused = true
		return
	}
	if h := w.hosts[b.host]; !b.cancelled && !h.noRoom && h.trouble < b.submit-leaseBound && w.allWell(b.submit) {
		w.Fail("wrong-refusal", "bag %d refused: %s", b.index, e.Err.Text)
	}
	b.refused = true
}

// allWell reports whether no fault has touched any host since a moment, nor shortly
// before.
func (w *World) allWell(since time.Duration) bool {
	for _, h := range w.hosts {
		if h.trouble >= since-leaseBound {
			return false
		}
	}
	return true
}

// checkBagTold: the tally that a client hears is of all tasks.
func (w *World) checkBagTold(b *bag, e *launcher.TaskNews) {
	w.checkGangsOver(b)
	w.awaitLosers(b)
	w.checkStepsOver(b, -1, fmt.Sprintf("the client of job %d hears that it is over", b.id))
	if e.Tally.Sum() != e.Total {
		w.Fail("wrong-tally", "bag %d ended with %+v of %d tasks", b.index, e.Tally, e.Total)
	}
}

// checkBags holds the records of all bags against what their processes did, once
// all is over.
func (w *World) checkBags() {
	for _, b := range w.bags {
		switch {
		case b.lapsed: // its records tell of a part of what was done
		case b.id != 0:
			w.checkBag(b)
		case b.asked && !b.gone && !b.refused:
			w.Fail("no-answer", "bag %d, asked of %s, was neither accepted nor refused", b.index, w.hosts[b.host].Name)
		}
		if len(w.Broken()) > 0 {
			return
		}
	}
}

func (w *World) checkBag(b *bag) {
	job := w.read(record.KeyJob(b.id))
	if job == nil && len(w.Broken()) == 0 {
		w.checkDroppedBag(b)
		return
	}
	rec, err := record.DecodeJob(job)
	if err != nil {
		w.Fail("record", "the record of job %d cannot be read: %v", b.id, err)
		return
	}
	if !rec.Finished() {
		w.Fail("no-end", "job %d (bag %d) of tasks never ended: %+v", b.id, b.index, rec)
		return
	}
	if !b.gone && !b.finished {
		w.Fail("not-told", "the client of job %d (bag %d) on %s never heard that it ended", b.id, b.index, w.hosts[b.host].Name)
	}
	if b.finished && b.tally != rec.Tally() {
		w.Fail("wrong-tally", "the client of job %d heard %+v, the record says %+v", b.id, b.tally, rec.Tally())
	}
	b.grow(rec.Total)
	if w.isHalfDropped(b, rec.Total) {
		return
	}
	void := w.voids(b, rec.Total)
	var count record.Tally
	var block, each *record.Block
	for i := range rec.Total {
		if i%record.BlockSize == 0 {
			block = w.block(b, i/record.BlockSize)
			each = w.eachBlock(b, i/record.BlockSize)
		}
		if a := each.Find(uint8(i % record.BlockSize)); a != nil && a.State == filch.OK {
			w.checkSkip(b, block, i)
		}
		k := record.Task{}
		if t := block.Find(uint8(i % record.BlockSize)); t != nil {
			k = *t
		}
		w.checkTask(b, i, &k, void[i])
		count = count.Plus(tallyOf(max(k.State, void[i])))
	}
	if got := rec.Tally(); got != count {
		w.Fail("wrong-tally", "job %d: the tally is %+v, the ends are %+v", b.id, got, count)
	}
}

// eachBlock is the block of the bag for whose tasks the tasks of b wait one by one.
func (w *World) eachBlock(b *bag, n int32) *record.Block {
	if b.each == nil || b.each.id == 0 || b.each.lapsed || w.mayBeDropped(b.each.lastAt) {
		return &record.Block{}
	}
	return w.block(b.each, n)
}

// checkSkip: no task is skipped whose counterpart ended well.
func (w *World) checkSkip(b *bag, block *record.Block, i int32) {
	if t := block.Find(uint8(i % record.BlockSize)); t != nil && t.State == filch.Skipped {
		w.Fail("wrong-end", "task %d.%d is skipped, and task %d.%[2]d, for which it waits, ended well", b.id, i, b.each.id)
	}
}

// checkTask: one end each, no more starts than recorded, and an end that happened.
func (w *World) checkTask(b *bag, i int32, k *record.Task, void filch.State) {
	starts := int32(b.starts[i])
	switch {
	case (k.State == 0) == (void == 0):
		w.Fail("ends", "task %d.%d has the ends %v and %v", b.id, i, k.State, void)
	case k.Code == copyCode:
		w.Fail("wrong-end", "task %d.%d is recorded with the bad end of a copy", b.id, i)
	case starts > k.Starts():
		w.Fail("starts", "task %d.%d was started %d times, its record says %d at most (%+v)", b.id, i, starts, k.Starts(), *k)
	case k.State == filch.OK && b.oks[i] == 0:
		w.Fail("wrong-end", "task %d.%d is recorded as ok, and never ended well", b.id, i)
	case k.State == filch.Lost && k.Crashes == 0 && len(b.adds) == 0 && !(w.slanted && w.mayForget(b.submit)): // nor is its line left
		w.Fail("wrong-end", "task %d.%d is lost without a committed start", b.id, i)
	}
}

func tallyOf(s filch.State) (t record.Tally) {
	for k, n := range map[filch.State]*int32{ // any order: one is set
		filch.OK: &t.OK, filch.Failed: &t.Failed, filch.Killed: &t.Killed, filch.Lost: &t.Lost,
		filch.Skipped: &t.Skipped, filch.Cancelled: &t.Cancelled,
	} {
		if k == s {
			*n = 1
		}
	}
	return t
}

// voids are the ends of tasks that a zone's record has, all at once.
func (w *World) voids(b *bag, total int32) []filch.State {
	v := make([]filch.State, total)
	for z := int32(0); z*record.ZoneSize < total; z++ {
		rec, err := record.DecodeZone(w.read(record.KeyZone(b.id, z)))
		if err != nil {
			w.Fail("record", "zone %d of job %d: %v", z, b.id, err)
			continue
		}
		for _, s := range rec.Spans {
			for i := s.Lo; i < s.Hi && s.Void != 0; i++ {
				v[i] = s.Void
			}
		}
	}
	return v
}

func (w *World) block(b *bag, n int32) *record.Block {
	rec, err := record.DecodeBlock(w.read(record.KeyBlock(b.id, n)))
	if err != nil {
		w.Fail("record", "block %d of job %d: %v", n, b.id, err)
		return &record.Block{}
	}
	return rec
}

// readWait is how long the checkers wait for a record.
const readWait = 10 * time.Second

// read looks a record up through a launcher that runs; nil if there is none.
func (w *World) read(key string) (value []byte) {
	answered := false
	w.onSomeHost(func(h *host, now time.Duration, out *launcher.Outbox) {
		op := dht.Op{Code: dht.OpLookup, Key: dht.Key(key), Consistent: true}
		h.node.StoreDo(now, []dht.Op{op}, readWait, func(rs []dht.Result) {
			answered = true
			switch rs[0].Outcome {
			case dht.Done:
				value = rs[0].Value
			case dht.Absent:
			default:
				w.Fail("record", "%s cannot be read through %s: %s %s", key, h.Name, rs[0].Outcome, rs[0].Err)
			}
		}, out)
	})
	w.RunUntil(w.Now()+2*readWait, func() bool { return answered })
	if !answered && len(w.Broken()) == 0 {
		w.Fail("record", "nobody answers what %s is", key)
	}
	return value
}
