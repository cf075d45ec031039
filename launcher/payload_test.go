package launcher

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

func TestPayloads(t *testing.T) {
	for _, c := range []struct {
		name    string
		payload []byte
		rest    string
		limit   time.Duration
	}{
		{"without a limit", Timed(0, []byte("\x01item")), "\x01item", 0},
		{"with one", Timed(90*time.Second, []byte("\x01item")), "\x01item", 90 * time.Second},
		{"with a need", Timed(90*time.Second, Needed(7, []byte("\x01item"))), "\x01item", 90 * time.Second},
		{"a need that is cut", []byte{PayloadNeed, 0x80}, string([]byte{PayloadNeed, 0x80}), 0},
		{"a line", []byte("\x00item"), "\x00item", 0},
		{"nothing", nil, "", 0},
		{"a limit that is cut", []byte{PayloadTimed, 0x80}, string([]byte{PayloadTimed, 0x80}), 0},
		{"a limit beyond all time", []byte{PayloadTimed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, "", filch.Never},
	} {
		if rest, limit := Untimed(c.payload), TaskLimit(c.payload); string(rest) != c.rest || limit != c.limit {
			t.Errorf("%s: got %q, %v", c.name, rest, limit)
		}
	}
	ruled := Timed(time.Second, Ruled(&record.Retry{Delay: time.Second}, Needed(30000, []byte("\x01item"))))
	if need := TaskNeed(Needed(7, nil)); need != 7 {
		t.Errorf("the need is %d, want 7", need)
	}
	if need := TaskNeed(ruled); need != record.MaxNeeds {
		t.Errorf("a need beyond all is %d, want %d", need, record.MaxNeeds)
	}
}
