package disk

import (
	"errors"
	"fmt"
)

// Errors that callers tell apart.
var (
	ErrLocked = errors.New("another process holds it")
	ErrClosed = errors.New("the log is closed")
	ErrQuota  = errors.New("the quota")
)

// Kind of a report.
type Kind uint8

const (
	// Torn: one of the newest segments ends in the middle of a record, as a
	// crash leaves it.
	Torn Kind = iota + 1
	// Damaged: bytes within a segment are wrong and were skipped.
	Damaged
	// Unreadable: the disk gives an error; the segment is left as it is.
	Unreadable
	// Failed: what was appended cannot be written or synced. The log tries again.
	Failed
	// Failing: it still cannot.
	Failing
	// Back: all that waited is written and synced.
	Back
	// Untidy: a compaction was given up; nothing is lost.
	Untidy
)

var kindNames = [...]string{
	Torn: "torn", Damaged: "damaged", Unreadable: "unreadable", Failed: "failed",
	Failing: "failing", Back: "back", Untidy: "untidy",
}

func (k Kind) String() string { return kindNames[k] }

// Report is something that somebody should hear of.
type Report struct {
	Kind    Kind
	Segment string // of Torn, Damaged, Unreadable
	Offset  int64
	Bytes   int64 // skipped; of Failed and Failing: waiting to be written
	Entries int   // waiting
	Err     error
}

func (r Report) String() string {
	switch r.Kind {
	case Torn:
		return fmt.Sprintf("%s of the log ends in a torn record: %d bytes from %d on are cut off", r.Segment, r.Bytes, r.Offset)
	case Damaged:
		return fmt.Sprintf("%s of the log is damaged: %d bytes from %d on are skipped", r.Segment, r.Bytes, r.Offset)
	case Unreadable:
		return fmt.Sprintf("%s of the log cannot be read: %d bytes from %d on are skipped: %v", r.Segment, r.Bytes, r.Offset, r.Err)
	case Failed, Failing:
		return fmt.Sprintf("%v; %d entries of %d bytes wait in memory", r.Err, r.Entries, r.Bytes)
	case Back:
		return "the log is written again"
	}
	return fmt.Sprint(r.Err)
}

// Stats is how a log stands.
type Stats struct {
	SizeBytes  int64 // of all segments
	LiveBytes  int64 // of what counts: what a log of it alone would take
	QuotaBytes int64
	Keys       int
	Segments   int
	Number     uint64 // of the last entry
	Synced     uint64 // up to which all are durable; of a log without syncs, written
	Waiting    int    // entries not yet written
	Failed     error  // nil while it works
	Skipped    int64  // bytes that could not be read when it was opened
	Damaged    bool   // some of them were more than a torn end: what was durable may be gone
}
