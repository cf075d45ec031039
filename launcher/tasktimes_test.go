package launcher

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// TestTimesInOrder: a task that begins as soon as a thief has the task came before it began, though the
// record has the begin in microseconds, rounded down. A later try stays later.
func TestTimesInOrder(t *testing.T) {
	const begin = 1_795_859_518_768_780
	for _, c := range []struct {
		moved int64 // ns after the begin
		want  []string
	}{
		{-5_000_000, []string{"submitted", "queued", "moved", "running", "ok"}},
		{0, []string{"submitted", "queued", "moved", "running", "ok"}},
		{1000, []string{"submitted", "queued", "moved", "running", "ok"}},
		{60_000_000, []string{"submitted", "queued", "running", "moved", "ok"}},
	} {
		e := &record.Task{State: filch.OK, Began: begin, TookUS: 100_000, By: record.Owner{Node: "n2"}}
		k := Task{Node: "n2", Times: TimesOf(e)}
		k.AddTimes([]TaskTime{{Stage: StageSubmitted, UnixNS: begin*1000 - 9_000_000}})
		k.AddTimes([]TaskTime{{Stage: StageQueued, UnixNS: begin*1000 - 8_000_000, Node: "n1"}, {Stage: StageMoved, UnixNS: begin*1000 + c.moved, Node: "n2", From: "n1"}})
		var got []string
		last := int64(0)
		for _, s := range k.Times {
			got = append(got, s.Stage)
			if s.UnixNS < last {
				t.Errorf("moved %d ns after the begin: the times do not ascend: %+v", c.moved, k.Times)
			}
			last = s.UnixNS
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("moved %d ns after the begin: stages %v, want %v", c.moved, got, c.want)
		}
	}
}
