package mtc

import (
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// payloadAhead bounds the payload records that are fetched ahead of need.
const payloadAhead = 32

// payload returns the state of a task's line. If the line is away, payload fetches the
// line and the next lines.
func (c *Core) payload(j *job, index int32) queue.LineIs {
	if !j.spec.Payloads {
		return queue.LineHere
	}
	first := index / record.PayloadSize
	last := first
	if len(j.queue.Ranges) > 0 {
		if s := &j.queue.Ranges[0]; s.Next <= index+1 && index < s.Hi {
			last = min(first+payloadAhead, (s.Hi-1)/record.PayloadSize)
		}
	}
	for part := first; part <= last; part++ {
		c.fetch(j, part)
	}
	for _, h := range [...]*queue.Heap{&j.queue.Dedicated, &j.queue.Shared} {
		for i := range min(len(*h), queue.LinesKept/4) {
			c.fetch(j, (*h)[i].Index/record.PayloadSize)
		}
	}
	is, lacks := j.payloads.State(index)
	if lacks {
		c.missing(j, first)
	}
	return is
}

func (c *Core) fetch(j *job, part int32) {
	if !j.payloads.Ask(part) {
		return
	}
	c.commits.lookup(record.KeyPayload(j.id, part), record.RecordPayload, func(a record.Answer) {
		d, err := record.DecodePayload(a.Value)
		if a.Status != record.AnswerDone || err != nil {
			// Its adder has not written the record yet.
			c.missing(j, part)
			return
		}
		j.payloads.Keep(part, d)
	})
}
