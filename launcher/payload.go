package launcher

import (
	"encoding/binary"
	"time"

	"github.com/filch-hpc/filch"
)

// Timed is a payload of a task with that limit; 0 is none.
func Timed(limit time.Duration, payload []byte) []byte {
	if limit <= 0 {
		return payload
	}
	return append(binary.AppendUvarint([]byte{PayloadTimed}, uint64(limit)), payload...)
}

// Untimed is a payload without its limit.
func Untimed(p []byte) []byte {
	_, rest := splitTimed(p)
	return rest
}

// taskLimit is a task's own limit, 0 if it has none.
func taskLimit(p []byte) time.Duration {
	limit, _ := splitTimed(p)
	return limit
}

func splitTimed(p []byte) (time.Duration, []byte) {
	if len(p) == 0 || p[0] != PayloadTimed {
		return 0, p
	}
	v, n := binary.Uvarint(p[1:])
	if n <= 0 {
		return 0, p // its start says that it makes no sense
	}
	return time.Duration(min(v, uint64(filch.Never))), p[1+n:]
}
