package disk

import (
	"errors"
	"testing"
)

func TestReportOfEntriesThatWait(t *testing.T) {
	err := errors.New("write a.log: no space left on device")
	for n, want := range map[int]string{
		1: "write a.log: no space left on device; 1 entry of 9 bytes waits in memory",
		2: "write a.log: no space left on device; 2 entries of 9 bytes wait in memory",
	} {
		if got := (Report{Kind: Failing, Err: err, Entries: n, Bytes: 9}).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
