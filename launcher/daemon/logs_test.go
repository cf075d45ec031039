package daemon

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/wire"
)

// The oldest log goes when there are too many, but not one that is written.
func TestLogOfARunningJobStays(t *testing.T) {
	ls := newLogs(t.TempDir())
	first, err := ls.open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	for j := filch.JobID(2); j <= maxLogs+2; j++ {
		s, err := ls.open(j)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.append(wire.Output{Stream: 1, Data: []byte("still here\n")}); err != nil {
		t.Fatal(err)
	}
	pieces, _, _, err := output.ReadLog(ls.path(1), 0, -1, chunkBytes)
	if !ls.has(1) || err != nil || len(pieces) != 1 {
		t.Errorf("the log of a job that runs is gone: %v, %v", pieces, err)
	}
	if ls.has(2) || !ls.has(4) {
		t.Errorf("the oldest log of a job that has ended is there: %v, a newer one: %v", ls.has(2), ls.has(4))
	}
}
