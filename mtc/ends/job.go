package ends

import (
	"iter"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/record"
)

// Node is the node of a [Recorder].
type Node interface {
	Now() time.Duration
	Wall() int64           // the time of day of Now, in unix ns
	Length() time.Duration // mean of tasks
	Rate() int64           // measured bandwidth from other nodes, in bytes per second; 0: none
	Working() int          // nodes that take work
	Self() record.Owner
	Serial() uint64 // never used before
	Wake(at time.Duration)
	Warn(id filch.JobID, format string, args ...any)
	Send(to filch.NodeName, m message.Message)
	// Outdone takes in that a task ended well here, and the record has the end of another node.
	Outdone(id filch.JobID, index int32)
	Merge(key string, kind record.RecordKind, delta []byte, then func(record.Answer))
}

// Job is a job of the node.
type Job interface {
	ID() filch.JobID
	Pending() *Pending
	Last() bool  // only ends and tallies of the job are left here
	Graph() bool // the tasks wait for each other
	Over() bool  // finished: no tally is missing
	// Leader is the node that leads the job; "" if the node does not know, led if this
	// node does.
	Leader() (name filch.NodeName, led bool)
	Led(list []message.ToldEnd) // takes recorded ends in, where this node leads the job
	Recorded(rec *record.Job)   // takes a newer record of the job in
	Look()                      // looks up the job's record
	Forget()                    // forgets the job if nothing is left
}

// Pending is a node's unsent ends, tallies and reports of a job.
type Pending struct {
	blocks map[int32]*block
	zones  map[int32]*zone
	unsaid int64
	began  int64
	tells  []tell // ends that the graph's leader did not receive, or did not acknowledge
}

// Owed reports whether something is left to send.
func (p *Pending) Owed() bool { return len(p.blocks) > 0 || len(p.zones) > 0 || len(p.tells) > 0 }

// Unsaid is the number of ends that are not recorded.
func (p *Pending) Unsaid() int64 { return p.unsaid }

// Begins notes that a task of the job starts on this node at a unix time in ns.
func (p *Pending) Begins(at int64) {
	if p.began == 0 {
		p.began = at
	}
}

// Began is the time of the first start on this node; 0 none.
func (p *Pending) Began() int64 { return p.began }

// Tells reports whether the job's leader owes an acknowledgment.
func (p *Pending) Tells() bool { return len(p.tells) > 0 }

// Untell forgets the reports: no leader is left to receive the reports.
func (p *Pending) Untell() { p.tells = nil }

// Each yields each task with an end that is not recorded, and the end, in any order.
func (p *Pending) Each() iter.Seq2[int32, *record.Task] {
	return func(yield func(int32, *record.Task) bool) {
		for num, b := range p.blocks { // any order
			for i := range b.ends {
				if !yield(num*record.BlockSize+int32(b.ends[i].Off), &b.ends[i].Task) {
					return
				}
			}
		}
	}
}

// block holds a block's ends until they are recorded.
type block struct {
	job    Job
	num    int32
	ends   []record.BlockOp
	due    time.Duration
	flying bool
	listed bool
}

// zone holds the tallies of blocks until their zone has them.
type zone struct {
	job    Job
	num    int32
	told   []record.ZoneOp
	due    time.Duration
	flying bool
	listed bool
}

// zoneOf returns the buffer for a zone of the job, and makes the buffer if there is none
// yet.
func zoneOf(j Job, num int32) *zone {
	p := j.Pending()
	z := p.zones[num]
	if z == nil {
		if p.zones == nil {
			p.zones = make(map[int32]*zone)
		}
		z = &zone{job: j, num: num}
		p.zones[num] = z
	}
	return z
}
