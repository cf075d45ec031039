package record

import (
	"fmt"
	"strings"

	"github.com/filch-hpc/filch"
)

// How a job is cut into records.
const (
	MaxTasks     = 1 << 30 // tasks of one job
	ZoneSize     = 1 << 16 // indices in a zone, whose record has the owner of each part
	BlockSize    = 256     // indices in a block, whose record has the ends of the tasks
	PayloadSize  = 8       // payloads in a record, which stays below the store's bound
	MaxPayload   = 30 << 10
	ZoneBlocks   = ZoneSize / BlockSize
	FirstAttempt = filch.Attempt(1)
)

// RecordKind is the kind of a record, and selects the record's [Merge].
type RecordKind uint8

// The kinds of records; they are stored: append only.
const (
	RecordFact    RecordKind = iota + 1 // bytes that the first writer sets (a spec)
	RecordJob                           // state, leader and tally of a job
	RecordZone                          // owners of parts of 65,536 indices, tally of the blocks
	RecordBlock                         // ends, attempts and single owners of 256 tasks
	RecordPayload                       // payloads of 8 tasks
	RecordCap                           // holders of the tokens of a capped job
	// RecordBefore is looked up, and never stored: the [Job] under the key, or [Before] of
	// the run with that number.
	RecordBefore
	RecordChain // jobs of one name that begin one after the other
)

// Merge applies a change to a record: a pure function. Old is nil for a record that does
// not exist; an error leaves the record as it is. The same delta again gives the same
// record, and the reply reports the result to the proposer again.
type Merge func(old, delta []byte) (new, reply []byte, err error)

// Merges are the merges of all kinds, for the store.
func Merges() map[RecordKind]Merge {
	return map[RecordKind]Merge{
		RecordFact: mergeFact, RecordJob: mergeJob, RecordZone: mergeZone, RecordBlock: mergeBlock,
		RecordPayload: mergePayload, RecordCap: mergeCap, RecordChain: mergeChain,
	}
}

// Owner is an incarnation of a node.
type Owner struct {
	Node        filch.NodeName
	Incarnation uint64
}

func (o Owner) String() string { return fmt.Sprintf("%s#%d", o.Node, o.Incarnation) }

// Verdict is the result of an operation of a delta.
type Verdict uint8

const (
	VerdictDone    Verdict = iota
	VerdictEnded           // too late: the task has its end
	VerdictOther           // another node owns, tried or started the task
	VerdictInvalid         // the operation makes no sense for this record
)

// Tally counts tasks by their ends. Usage adds up what the tasks used, as far as known. Cut
// says that the output of at least one task was not kept whole.
type Tally struct {
	OK, Failed, Killed, Lost, Skipped, Cancelled int32
	Usage                                        filch.Usage
	Cut                                          bool
}

// Sum is the number of ended tasks.
func (t Tally) Sum() int32 { return t.OK + t.Failed + t.Killed + t.Lost + t.Skipped + t.Cancelled }

// Bad is the number of tasks that did not end well.
func (t Tally) Bad() int32 { return t.Sum() - t.OK }

// BadText counts the tasks that did not end well, by their ends: "2 failed, 1 lost"; ""
// if all ended well.
func (t Tally) BadText() string {
	var parts []string
	for _, c := range []struct {
		n    int32
		word string
	}{{t.Failed, "failed"}, {t.Killed, "killed"}, {t.Lost, "lost"}, {t.Skipped, "skipped"}, {t.Cancelled, "cancelled"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	return strings.Join(parts, ", ")
}

// Plus is the sum of both tallies.
func (t Tally) Plus(u Tally) Tally {
	if u.Usage != (filch.Usage{}) {
		t.Usage = t.Usage.Plus(u.Usage)
	}
	return Tally{
		t.OK + u.OK, t.Failed + u.Failed, t.Killed + u.Killed, t.Lost + u.Lost,
		t.Skipped + u.Skipped, t.Cancelled + u.Cancelled, t.Usage, t.Cut || u.Cut,
	}
}

func (t *Tally) add(s filch.State, n int32) {
	switch s {
	case filch.OK:
		t.OK += n
	case filch.Failed:
		t.Failed += n
	case filch.Killed:
		t.Killed += n
	case filch.Lost:
		t.Lost += n
	case filch.Skipped:
		t.Skipped += n
	case filch.Cancelled:
		t.Cancelled += n
	}
}

// Flags above the bits of a tally's last count.
const (
	tallyUsage = MaxTasks << 1 // the usage follows
	tallyCut   = MaxTasks << 2
)

func (t *Tally) fields(c *Codec) {
	for _, n := range [...]*int32{&t.OK, &t.Failed, &t.Killed, &t.Lost, &t.Skipped} {
		Index(c, n)
	}
	last := uint64(t.Cancelled)
	if t.Usage != (filch.Usage{}) {
		last |= tallyUsage
	}
	if t.Cut {
		last |= tallyCut
	}
	last = c.UpTo(last, tallyCut|tallyUsage|MaxTasks)
	count := last &^ (tallyCut | tallyUsage)
	c.Require(count <= MaxTasks)
	t.Cancelled, t.Cut = int32(count), last&tallyCut != 0
	if last&tallyUsage != 0 {
		c.usage(&t.Usage)
	}
}

// mergeFact keeps the value that was written first.
func mergeFact(old, delta []byte) (val, reply []byte, err error) {
	if len(delta) > MaxBlob {
		return nil, nil, ErrMalformed
	}
	if len(old) == 0 {
		return delta, nil, nil
	}
	if string(old) != string(delta) {
		return old, []byte{byte(VerdictOther)}, nil
	}
	return old, nil, nil
}
