package disk

import (
	"errors"
	"fmt"
)

// Errors for callers to tell apart.
var (
	errLocked = errors.New("another process holds it")
	errClosed = errors.New("the log is closed")
	errQuota  = errors.New("the quota")
	errNumber = errors.New("an entry of the log has a wrong number")
)

// Kind is the kind of a [Report].
type Kind uint8

const (
	// Torn: one of the newest segments ends in the middle of a record, as after a
	// crash.
	Torn Kind = iota + 1
	// Damaged: bytes within a segment are wrong and were skipped.
	Damaged
	// Unreadable: the disk gives an error; the log leaves the segment unchanged.
	Unreadable
	// Failed: appended entries cannot be written or synced. The log tries again.
	Failed
	// Failing: the failure persists.
	Failing
	// Back: all waiting entries are written and synced.
	Back
	// Untidy: a compaction was given up; nothing is lost.
	Untidy
)

var kindNames = [...]string{
	Torn: "torn", Damaged: "damaged", Unreadable: "unreadable", Failed: "failed",
	Failing: "failing", Back: "back", Untidy: "untidy",
}

func (k Kind) String() string { return kindNames[k] }

// Report is a message for an operator.
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
		return fmt.Sprintf("%v; %d %s of %d bytes %s in memory", r.Err, r.Entries, plural(r.Entries, "entry", "entries"), r.Bytes, plural(r.Entries, "waits", "wait"))
	case Back:
		return "the log is written again"
	}
	return fmt.Sprint(r.Err)
}

// plural is the form of a word that goes with n.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Stats is the state of a log.
type Stats struct {
	SizeBytes  int64 // of all segments
	LiveBytes  int64 // of the current records: the size of a log with nothing else
	QuotaBytes int64
	Keys       int
	Segments   int
	Number     uint64 // of the last entry
	Synced     uint64 // up to which all are durable; in a log without syncs, written
	Waiting    int    // entries not yet written
	Failed     error  // nil while the log works
	Skipped    int64  // bytes unreadable at the time of opening
	Damaged    bool   // not just torn ends were skipped: durable entries may be gone
}
