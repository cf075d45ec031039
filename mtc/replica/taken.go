package replica

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// sayAgain is how often a node speaks of a copy to the owner of the task. The owner answers
// if the copy is in vain: a lost answer comes again.
const sayAgain = time.Second

// Task is a copy on this node of a task of another node.
type Task struct {
	From   record.Owner // the owner of the task
	Number uint64       // as in [Copy]
	Job    filch.JobID
	Item   queue.Item
	State  message.CopyState
	Ended  bool          // the end of the task is recorded
	Gone   bool          // off the list: nobody wants the end of the copy
	Run    uint64        // from its start
	Began  time.Duration // likewise
	at     time.Duration // when the owner hears of the copy again
}

// Taken is the copies on this node of tasks of other nodes.
type Taken struct{ list []*Task }

// Add adds an offered copy; nil if the copy is in the list.
func (t *Taken) Add(from record.Owner, k *message.CopyItem, since uint32) *Task {
	if t.Find(from, k.Number) != nil {
		return nil
	}
	x := &Task{From: from, Number: k.Number, Job: k.Job, State: message.CopyOffered, Item: queue.Item{
		Index: k.Index, Attempt: k.Attempt, Hop: k.Hop, Crashes: k.Crashes, Recalls: k.Recalls, Maybe: k.Maybe, Need: k.Need,
		Level: k.Level, Bytes: k.Bytes, Inputs: k.Inputs, Since: since,
	}}
	t.list = append(t.list, x)
	return x
}

// Find is the copy with a number; nil if there is none.
func (t *Taken) Find(from record.Owner, number uint64) *Task {
	if i := slices.IndexFunc(t.list, func(x *Task) bool { return x.From == from && x.Number == number }); i >= 0 {
		return t.list[i]
	}
	return nil
}

// Of lists the copies of tasks of an owner.
func (t *Taken) Of(o record.Owner) (list []*Task) {
	for _, x := range t.list {
		if x.From == o {
			list = append(list, x)
		}
	}
	return list
}

// Waiting lists the copies with leave to begin.
func (t *Taken) Waiting() (list []*Task) {
	for _, x := range t.list {
		if x.State == message.CopyWaits {
			list = append(list, x)
		}
	}
	return list
}

// Comes reports whether a copy waits to begin.
func (t *Taken) Comes() bool {
	return slices.ContainsFunc(t.list, func(x *Task) bool { return x.State <= message.CopyWaits })
}

// Drop takes a copy off the list.
func (t *Taken) Drop(x *Task) {
	x.Gone = true
	t.list = slices.DeleteFunc(t.list, func(y *Task) bool { return y == x })
}

// Said lists the copies whose owners are due to hear. next is when the next owner is due.
func (t *Taken) Said(now time.Duration) (due []*Task, next time.Duration) {
	next = filch.Never
	for _, x := range t.list {
		if x.at <= now {
			due = append(due, x)
			x.at = now + sayAgain
		}
		next = min(next, x.at)
	}
	return due, next
}

// soon makes the owner hear of a copy at once.
func (x *Task) soon() { x.at = 0 }

// Word is the node's word about the copy.
func (x *Task) Word(now time.Duration) *message.CopySay {
	m := &message.CopySay{Life: x.From.Incarnation, Number: x.Number, Job: x.Job, Index: x.Item.Index, State: x.State, Ended: x.Ended}
	if x.Run != 0 {
		m.Took = now - x.Began
	}
	return m
}
