package record

import (
	"testing"

	"github.com/filch-hpc/filch"
)

// A job with a task that failed has failed, whatever was skipped for it.
func TestJobState(t *testing.T) {
	for _, c := range []struct {
		void  filch.State
		tally Tally
		want  filch.State
	}{
		{0, Tally{OK: 5}, filch.OK},
		{0, Tally{OK: 4, Failed: 1}, filch.Failed},
		{0, Tally{OK: 3, Failed: 1, Skipped: 1}, filch.Failed},
		{filch.Skipped, Tally{OK: 3, Failed: 1, Skipped: 1}, filch.Failed},
		{filch.Skipped, Tally{Lost: 1, Skipped: 4}, filch.Failed},
		{filch.Skipped, Tally{Killed: 1, Skipped: 4}, filch.Failed},
		{filch.Skipped, Tally{Skipped: 5}, filch.Skipped},
		{filch.Skipped, Tally{OK: 5}, filch.OK},
		{filch.Cancelled, Tally{OK: 2, Failed: 1, Cancelled: 2}, filch.Cancelled},
		// The cancel came before the end, as JobVoid changes no finished job; an open job
		// might have got more tasks.
		{filch.Cancelled, Tally{OK: 5}, filch.Cancelled},
	} {
		j := Job{Total: 5, Closed: true, Void: c.void, Zones: []ZoneTally{{Tally: c.tally}}}
		if got := j.State(); got != c.want {
			t.Errorf("%v, %+v: got %v, want %v", c.void, c.tally, got, c.want)
		}
	}
}

// A job begins with the first start that a node reports with its tallies.
func TestJobBegan(t *testing.T) {
	v := (&Job{Total: 9, Closed: true}).Encode()
	for _, c := range []struct{ began, want int64 }{{0, 0}, {500, 500}, {700, 500}, {0, 500}, {300, 300}} {
		var err error
		v, _, err = mergeJob(v, EncodeJobOp(JobOp{Kind: JobZoneTally, Tally: ZoneTally{Tally: Tally{OK: 1}}, Began: c.began}))
		if err != nil {
			t.Fatal(err)
		}
		if j, err := DecodeJob(v); err != nil || j.Began != c.want {
			t.Errorf("a report of %d: the job began at %d, %v, want %d", c.began, j.Began, err, c.want)
		}
	}
}
