package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
)

// inheritJob makes this node the steward of a job whose steward is gone.
func (c *Core) inheritJob(now time.Duration, id filch.JobID, rec *Job, from Owner, out *Out) {
	j := c.job(id)
	if j.lead != nil {
		return
	}
	note(out, noteInfo, id, "job %d is kept going here: %s is gone", id, from.Node)
	j.lead = &lead{after: append([]filch.JobID(nil), rec.After...), orphan: true, loading: rec.Graph, from: from, voidAt: filch.Never, away: make(map[int32]filch.NodeName)}
	c.watchJob(j, out)
	c.sawRecord(now, j, rec, out)
	if rec.Partial && !rec.Closed {
		note(out, noteWarn, id, "job %d is cancelled: %s died before all of it was submitted", id, from.Node)
		c.voidJob(now, j, filch.Cancelled, out)
	}
	c.whenKnown(now, j, out, func(now time.Duration, out *Out) {
		if j.lead == nil {
			return
		}
		if j.rec.Graph {
			c.loadGraph(now, j, out)
			return
		}
		c.openJob(now, j, out)
		if j.void != 0 {
			c.inherit(j, out)
		}
	})
}

// stewardHops is how far the hops of what no record mentions go on with each
// steward: beyond all moves of what the one before had. That one may live, and offer
// to a node what it has of the new steward; at the same hop, that would be taken for
// a move that happened, and be run again.
const stewardHops = 1 << 20

// firstHop is the hop of what no record mentions.
func (j *job) firstHop() uint32 { return stewardHops * j.rec.Hop }

// inherit takes over a bag: zones that nobody touched belonged to the steward.
func (c *Core) inherit(j *job, out *Out) {
	l := j.lead
	lo := l.total
	l.total, l.orphan = j.rec.Total, false
	for lo < j.rec.Total {
		num := lo / ZoneSize
		hi := min(j.rec.Total, (num+1)*ZoneSize)
		c.inheritZone(j, num, lo, hi, out)
		lo = hi
	}
}

func (c *Core) inheritZone(j *job, num, lo, hi int32, out *Out) {
	j.queue.pending++
	c.lookup(KeyZone(j.id, num), RecordZone, out, func(_ time.Duration, a Answer, out *Out) {
		j.queue.pending--
		z := &Zone{}
		if a.Status == AnswerDone {
			if d, err := DecodeZone(a.Value); err == nil {
				z = d
			}
		}
		for _, gap := range z.gaps(lo, hi) {
			c.claim(j, num, gap, out)
		}
	})
}

// gaps are the parts of lo..hi in no span.
func (z *Zone) gaps(lo, hi int32) (gaps []Span) {
	for _, s := range z.Spans {
		if s.Lo > lo && lo < hi {
			gaps = append(gaps, Span{Lo: lo, Hi: min(s.Lo, hi)})
		}
		lo = max(lo, s.Hi)
	}
	if lo < hi {
		gaps = append(gaps, Span{Lo: lo, Hi: hi})
	}
	return gaps
}

// claim makes a part that nobody touched this node's.
func (c *Core) claim(j *job, num int32, gap Span, out *Out) {
	j.queue.pending++
	first := j.firstHop()
	op := zoneOp{kind: zFront, lo: gap.Lo, hi: gap.Hi, front: gap.Lo, hop: first, who: c.self}
	c.merge(KeyZone(j.id, num), RecordZone, encodeZoneOps([]zoneOp{op}, true), out, func(now time.Duration, a Answer, out *Out) {
		j.queue.pending--
		r, err := decodeZoneReply(a.Value)
		if a.Status != AnswerDone || err != nil || r.zone == nil {
			return
		}
		if i := r.zone.cover(gap.Lo, gap.Lo+1); i >= 0 && r.zone.Spans[i].Owner == c.self {
			s := r.zone.Spans[i]
			if s.Hop == first { // else it was taken from a dead owner, and queued then
				j.queue.addRange(span{next: s.Lo, hi: s.Hi, front: s.Lo, hop: s.Hop})
				c.active(j)
			}
			if s.Hi < gap.Hi {
				c.inheritZone(j, num, s.Hi, gap.Hi, out)
			}
		} else {
			// The old steward began it in the last moment: the zone's home gives
			// it to somebody as a dead node's.
			out.Sweep = true
			c.inheritZone(j, num, gap.Lo, gap.Hi, out)
		}
		if j.void != 0 {
			c.void(now, j, j.void, out)
		}
		c.forget(j, out)
	})
}

// loadGraph reads a graph back from its payloads, and then what ended.
func (c *Core) loadGraph(_ time.Duration, j *job, out *Out) {
	n := j.rec.Total
	parents := make([][]int32, n)
	parts := ceil(n, PayloadSize)
	left := parts
	for part := range parts {
		c.lookup(KeyPayload(j.id, part), RecordPayload, out, func(_ time.Duration, a Answer, out *Out) {
			p, err := DecodePayload(a.Value)
			if a.Status != AnswerDone || err != nil {
				note(out, noteWarn, j.id, "payloads %d of workflow %d are gone: %v", part, j.id, err)
			} else {
				for k, off := range p.Offs {
					if i := part*PayloadSize + int32(off); i < n {
						node, _ := DecodeGraphNode(p.Lines[k])
						parents[i] = node.Parents
					}
				}
			}
			if left--; left > 0 || j.lead == nil || j.lead.graph != nil {
				return
			}
			g, err := NewGraph(int(n), func(i int) []int32 { return parents[i] })
			if err != nil {
				note(out, noteWarn, j.id, "workflow %d cannot be read back: %v", j.id, err)
				return
			}
			j.lead.graph, j.lead.tracker = g, NewTracker(g, j.spec.OnFail)
			c.readBlocks(j, out)
		})
	}
}

// readBlocks takes in the ends of a graph that its steward was not told, since
// it is new or who would have told it died.
func (c *Core) readBlocks(j *job, out *Out) {
	l, left := j.lead, j.rec.Blocks()
	for num := range j.rec.Blocks() {
		l.reading++
		c.lookup(KeyBlock(j.id, num), RecordBlock, out, func(now time.Duration, a Answer, out *Out) {
			l.reading--
			if j.lead == nil || j.lead.tracker == nil {
				return
			}
			if b, err := DecodeBlock(a.Value); a.Status == AnswerDone && err == nil {
				c.readBlock(now, j, num, b, out)
			}
			if left--; left == 0 && j.lead != nil && !j.lead.open {
				j.lead.loading = false
				c.openJob(now, j, out)
			}
		})
	}
}

func (c *Core) readBlock(now time.Duration, j *job, num int32, b *Block, out *Out) {
	var ends []ToldEnd
	for k, off := range b.Offs {
		t := &b.Tasks[k]
		i := num*BlockSize + int32(off)
		switch {
		case t.State != 0 && mutantHeirEnds:
		case t.State != 0:
			ends = append(ends, ToldEnd{Index: i, State: t.State, Bytes: t.Bytes, By: t.By.Node})
		case t.Owner != (Owner{}) && t.Owner != c.self && t.Owner != j.lead.from:
			j.lead.away[i] = t.Owner.Node // its home sees to it if that one is dead too
		}
	}
	c.ledEnds(now, j, ends, out)
}

// mindEnds reads the ends of a graph again where its job has counted more of them
// than its steward heard of for [leadAgain]. The store may take in an end after the
// node that recorded it died, and after the steward read the records for that death:
// nobody tells the steward of that end.
func (c *Core) mindEnds(now time.Duration, j *job, out *Out) {
	l := j.lead
	if l == nil || l.tracker == nil || !l.open || mutantToldOnce {
		return
	}
	switch {
	case j.rec.Tally().Sum() <= l.tracker.known:
		l.readAt = 0
		return
	case l.readAt == 0: // the word of an end may come after the count of it
	case l.readAt > now:
		return
	case l.reading == 0:
		c.readBlocks(j, out)
	}
	l.readAt = now + leadAgain
	c.waits.at = min(c.waits.at, l.readAt)
}

// inheritTask makes a ready task ours that the steward of before may have
// begun.
func (c *Core) inheritTask(j *job, it item, out *Out) {
	if _, elsewhere := j.lead.away[it.index]; elsewhere {
		return
	}
	off := uint8(it.index % BlockSize)
	op := blockOp{kind: bTakeImplicit, off: off, to: off, from: j.lead.from, once: j.spec.Once && !mutantHeirOnce, most: j.spec.crashes(), sure: true}
	op.Owner = c.self
	c.takeBlock(j, it.index/BlockSize, op, out)
}
