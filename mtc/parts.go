package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/ends"
	"github.com/filch-hpc/filch/mtc/lines"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// node is the Core as the parts in packages of their own see the Core.
type node struct{ *Core }

func (n node) Now() time.Duration                              { return n.now }
func (n node) Wall() int64                                     { return n.wall(n.now) }
func (n node) Length() time.Duration                           { return n.mover.length() }
func (n node) Rate() int64                                     { return n.pace.estimates.Measured() }
func (n node) Working() int                                    { return n.cfg.Members.Working() }
func (n node) Self() record.Owner                              { return n.self }
func (n node) Serial() uint64                                  { return n.commits.Serial() }
func (n node) Wake(at time.Duration)                           { n.waits.at = min(n.waits.at, at) }
func (n node) Warn(id filch.JobID, format string, args ...any) { n.note(noteWarn, id, format, args...) }

func (n node) Merge(key string, kind record.RecordKind, delta []byte, then func(record.Answer)) {
	n.commits.merge(key, kind, delta, then)
}

func (n node) Lookup(key string, kind record.RecordKind, then func(record.Answer)) {
	n.commits.lookup(key, kind, then)
}

// record keeps a task's end until the records have the end.
func (c *Core) record(j *job, it queue.Item, t record.Task) {
	j.queue.Forget(it.Index)
	c.recorder.End(j, it, t)
}

// The methods below are a job as the parts see the job: see [ends.Job] and [lines.Job].

func (j *job) ID() filch.JobID                    { return j.id }
func (j *job) Pending() *ends.Pending             { return &j.pending }
func (j *job) Over() bool                         { return j.over }
func (j *job) Graph() bool                        { return j.rec != nil && j.rec.Graph }
func (j *job) Last() bool                         { return j.running == 0 && j.queue.Empty() && j.queue.pending == 0 }
func (j *job) Led(list []message.ToldEnd)         { j.core.ledEnds(j, list) }
func (j *job) Recorded(rec *record.Job)           { j.core.onRecord(j, rec) }
func (j *job) Look()                              { j.core.lookJob(j) }
func (j *job) Payloads() *lines.Lines             { return &j.payloads }
func (j *job) HasLines() bool                     { return j.spec.Payloads }
func (j *job) Record() *record.Job                { return j.rec }
func (j *job) Range(i int32) (hi int32)           { return j.queue.RangeAt(i) }
func (j *job) Next(most int, f func(index int32)) { j.queue.Next(most, f) }
func (j *job) Forget()                            { j.core.forget(j) }

func (j *job) Leader() (name filch.NodeName, led bool) {
	if j.rec != nil {
		name = j.rec.Leader.Node
	}
	return name, j.leader != nil
}
