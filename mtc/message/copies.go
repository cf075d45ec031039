package message

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Length is how long the tasks of a kind took on the node of the sender: nine of ten took no
// longer. Hash is of the name of the kind.
type Length struct {
	Job  filch.JobID
	Hash uint32
	Took time.Duration
}

func (l *Length) fields(c *record.Codec) {
	record.Int32(c, &l.Job)
	record.U32(c, &l.Hash)
	record.Amount(c, &l.Took)
}

// CopyItem is a task that runs on the victim, and of which the thief may run a copy. Number
// numbers the copies of a victim's incarnation.
type CopyItem struct {
	Number uint64
	TaskItem
}

func (k *CopyItem) fields(c *record.Codec) {
	record.Number(c, &k.Number)
	k.TaskItem.fields(c)
}

// CopyState is how far a copy is.
type CopyState uint8

// The states of a copy, where the copy is to run.
const (
	CopyOffered CopyState = iota + 1 // the node asks whether the copy may begin
	CopyWaits                        // may begin, and waits for its job, its line, or room
	CopyRuns
	CopyRecords // the end of the copy is being recorded
	CopyOver
)

// CopySay tells the owner of a task about a copy of the task.
type CopySay struct {
	Life   uint64 // of the owner
	Number uint64
	Job    filch.JobID
	Index  int32
	State  CopyState
	Ended  bool          // the end of the task is recorded
	Took   time.Duration // since the copy began; 0: it did not begin
}

// CopyAnswer answers a [CopySay]: the copy may begin, or the owner needs no copy, and knows
// what was said.
type CopyAnswer struct {
	Life   uint64 // of the owner
	Number uint64
	Go     bool
}

func (m *CopySay) fields(c *record.Codec) {
	record.Number(c, &m.Life)
	record.Number(c, &m.Number)
	record.Int32(c, &m.Job)
	record.Index(c, &m.Index)
	record.U8(c, &m.State)
	c.Require(m.State >= CopyOffered && m.State <= CopyOver)
	c.Flag(&m.Ended)
	record.Amount(c, &m.Took)
}

func (m *CopyAnswer) fields(c *record.Codec) {
	record.Number(c, &m.Life)
	record.Number(c, &m.Number)
	c.Flag(&m.Go)
}
