package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/varint"
)

// Timed returns a payload of a task with the given limit; 0 is none.
func Timed(limit time.Duration, payload []byte) []byte {
	if limit <= 0 {
		return payload
	}
	return append(varint.AppendUvarints([]byte{PayloadTimed}, uint64(limit)), payload...)
}

// Untimed returns a payload without its limit, its rule for retries and its need.
func Untimed(p []byte) []byte {
	_, rest := splitTimed(p)
	_, rest = splitRule(rest)
	_, rest = splitNeed(rest)
	return rest
}

// Needed returns a payload without a limit and a rule, with the number of the task's need;
// see [record.Spec.Needs].
func Needed(need int, payload []byte) []byte {
	if need == 0 {
		return payload
	}
	return append(varint.AppendUvarints([]byte{PayloadNeed}, uint64(need)), payload...)
}

// TaskNeed returns the number of a task's need.
func TaskNeed(p []byte) int {
	_, rest := splitTimed(p)
	_, rest = splitRule(rest)
	need, _ := splitNeed(rest)
	return need
}

func splitNeed(p []byte) (int, []byte) {
	if len(p) == 0 || p[0] != PayloadNeed {
		return 0, p
	}
	d := varint.Reader{B: p[1:]}
	need := d.Uvarint()
	if d.Bad {
		return 0, p // the daemon reports the malformed payload when starting the task
	}
	return int(min(need, record.MaxNeeds)), d.Tail()
}

// Ruled returns a payload without a limit, with a rule for retries of the task; nil is
// none.
func Ruled(rule *record.Retry, payload []byte) []byte {
	if rule == nil {
		return payload
	}
	b := rule.Encode()
	return append(append(varint.AppendUvarints([]byte{PayloadRuled}, uint64(len(b))), b...), payload...)
}

// TaskRetry returns a task's own rule for retries, nil if the task has none.
func TaskRetry(p []byte) *record.Retry {
	_, rest := splitTimed(p)
	rule, _ := splitRule(rest)
	return rule
}

func splitRule(p []byte) (*record.Retry, []byte) {
	if len(p) == 0 || p[0] != PayloadRuled {
		return nil, p
	}
	d := varint.Reader{B: p[1:]}
	b := d.Bytes(len(p))
	if d.Bad {
		return nil, p // the daemon reports the malformed payload when starting the task
	}
	rule, err := record.DecodeRetry(b)
	if err != nil {
		return nil, p
	}
	return rule, d.Tail()
}

// TaskLimit returns a task's own limit, 0 if the task has none.
func TaskLimit(p []byte) time.Duration {
	limit, _ := splitTimed(p)
	return limit
}

// MarkBytes is the length of a mark, as in package workflow.
const MarkBytes = 16

// Marked returns a payload with the mark of a workflow's task.
func Marked(mark [MarkBytes]byte, payload []byte) []byte {
	return append(append([]byte{PayloadMarked}, mark[:]...), payload...)
}

// TaskMark returns the mark in a payload without a limit, zero if there is none, and the
// payload without the mark.
func TaskMark(p []byte) (mark [MarkBytes]byte, rest []byte) {
	if len(p) <= MarkBytes || p[0] != PayloadMarked {
		return mark, p
	}
	return [MarkBytes]byte(p[1:]), p[1+MarkBytes:]
}

func splitTimed(p []byte) (time.Duration, []byte) {
	if len(p) == 0 || p[0] != PayloadTimed {
		return 0, p
	}
	d := varint.Reader{B: p[1:]}
	limit := d.Uvarint()
	if d.Bad {
		return 0, p // the daemon reports the malformed payload when starting the task
	}
	return time.Duration(min(limit, uint64(filch.Never))), d.Tail()
}
