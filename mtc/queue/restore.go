package queue

import (
	"iter"
	"maps"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Left is the tasks of a recovered job without an end.
type Left struct {
	Ranges []policy.Range // whole blocks without a started task
	Items  []Item
}

// Singly takes the single tasks out of l, by index: their leader queues the tasks one by one.
func (l *Left) Singly() map[int32]Item {
	tried := make(map[int32]Item, len(l.Items))
	for _, it := range l.Items {
		tried[it.Index] = it
	}
	l.Items = nil
	return tried
}

// Requeue queues the tasks of a recovered job.
func (q *Ready) Requeue(l *Left) {
	for _, s := range l.Ranges {
		q.Ranges.Add(s)
	}
	for _, it := range l.Items {
		q.Hold(&it)
		q.Shared.Push(it)
	}
}

// leftHop is the hop of a single task that was moved to its leader once.
const leftHop = 1

// Left is the tasks without an end: unknown blocks as ranges, the rest of a bag, and all
// tried tasks as single tasks. Of a job whose tasks begin one by one, only the tried tasks.
func (r *RecoveredJob) Left() (l Left) {
	bag := !r.Job.Graph && !r.Job.OneByOne()
	lo := int32(0)
	for _, num := range slices.Sorted(maps.Keys(r.Blocks)) {
		at := num * record.BlockSize
		if bag && lo < at {
			l.Ranges = append(l.Ranges, policy.Range{Next: lo, Hi: at, Front: lo})
		}
		lo = min(at+record.BlockSize, r.Job.Total)
		b := r.Blocks[num]
		if bag {
			for i := at; i < lo; i++ {
				b.At(uint8(i - at))
			}
		}
		for i := range b.Tasks {
			if t := &b.Tasks[i]; t.State == 0 {
				l.Items = append(l.Items, Item{
					Index: at + int32(b.Offs[i]), Attempt: t.Attempt, Hop: leftHop, Crashes: t.Crashes, Recalls: t.Recalls, Tracked: true, Maybe: t.Maybe,
				})
			}
		}
	}
	if bag && lo < r.Job.Total {
		l.Ranges = append(l.Ranges, policy.Range{Next: lo, Hi: r.Job.Total, Front: lo})
	}
	return l
}

// Ends yields the tasks with an end, by index.
func (r *RecoveredJob) Ends() iter.Seq2[int32, *record.Task] {
	return func(yield func(int32, *record.Task) bool) {
		for _, num := range slices.Sorted(maps.Keys(r.Blocks)) {
			b := r.Blocks[num]
			for i := range b.Tasks {
				if t := &b.Tasks[i]; t.State != 0 && !yield(num*record.BlockSize+int32(b.Offs[i]), t) {
					return
				}
			}
		}
	}
}

// Puts are the merges that write the records of the job, all but the job's own record,
// for a leader that owns the tasks without an end.
func (r *RecoveredJob) Puts(leader record.Owner) (list []record.Put) {
	put := func(key string, kind record.RecordKind, delta []byte) {
		list = append(list, record.Put{Key: key, Kind: kind, Delta: delta})
	}
	put(record.KeySpec(r.ID), record.RecordFact, r.Spec.Encode())
	for _, n := range slices.Sorted(maps.Keys(r.Long)) {
		put(record.KeyLong(r.ID, n), record.RecordFact, r.Long[n])
	}
	for _, num := range slices.Sorted(maps.Keys(r.Lines)) {
		put(record.KeyPayload(r.ID, num), record.RecordPayload, r.Lines[num].Encode())
	}
	zones := make(map[int32][]record.ZoneOp)
	for _, num := range slices.Sorted(maps.Keys(r.Blocks)) {
		b := r.Blocks[num]
		ops := make([]record.BlockOp, 0, len(b.Tasks))
		for i := range b.Tasks {
			ops = append(ops, restoreOp(leader, b.Offs[i], &b.Tasks[i]))
		}
		put(record.KeyBlock(r.ID, num), record.RecordBlock, record.EncodeBlockOps(ops, false))
		zones[num/record.ZoneBlocks] = zoneOps(zones[num/record.ZoneBlocks], leader, r.Job, num, b)
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		if ops := zones[zone]; len(ops) > 0 {
			put(record.KeyZone(r.ID, zone), record.RecordZone, record.EncodeZoneOps(ops, false))
		}
	}
	return list
}

// restoreOp makes a record's task equal to the recovered task.
func restoreOp(leader record.Owner, off uint8, t *record.Task) record.BlockOp {
	op := record.BlockOp{Kind: record.BlockEnd, Off: off, Task: *t}
	if op.Owner = t.By; t.State == 0 {
		op.Kind, op.Owner = record.BlockMove, leader
	}
	return op
}

// Adopted are the tasks that a take of a block gave to a node, by their offsets: those to
// queue, and those that are lost.
func Adopted(num int32, b *record.Block, taken []byte, self record.Owner) (items []Item, lost []int32) {
	for _, off := range taken {
		t, i := b.Find(off), num*record.BlockSize+int32(off)
		switch {
		case t == nil:
		case t.State == filch.Lost:
			lost = append(lost, i)
		case t.State == 0 && t.Owner == self && !t.Started:
			items = append(items, Item{Index: i, Attempt: t.Attempt, Hop: t.Hop, Crashes: t.Crashes, Recalls: t.Recalls, Tracked: true, Maybe: t.Maybe})
		}
	}
	return items, lost
}
