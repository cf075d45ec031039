package record

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
)

func TestWhenIsMet(t *testing.T) {
	for end := filch.OK; end <= filch.Cancelled; end++ {
		for when, want := range map[When]bool{WhenOK: end == filch.OK, WhenAny: true, WhenNotOK: end != filch.OK} {
			if got := when.Met(end); got != want {
				t.Errorf("%v is met by %v: %v", when, end, got)
			}
		}
		if j := Before(end); !j.Finished() || (j.State() == filch.OK) != (end == filch.OK) {
			t.Errorf("a run that is %v looks like a job that is %v", end, j.State())
		}
	}
	if Before(filch.Waiting).Finished() {
		t.Error("a run without an end looks finished")
	}
}

func TestRecordKeepsWhen(t *testing.T) {
	for _, when := range [][]When{nil, {WhenAny, WhenNotOK}} {
		j := &Job{Total: 1, After: []filch.JobID{4, 9}, When: when, Void: filch.Skipped, Orders: Orders{Serial: 2, Reason: "why"}}
		got, err := DecodeJob(j.Encode())
		if err != nil || !slices.Equal(got.When, when) || got.Void != filch.Skipped || got.Reason != "why" {
			t.Errorf("%+v, %v", got, err)
		}
		if want := append(when, WhenOK, WhenOK)[1]; got.WhenOf(9) != want {
			t.Errorf("job 9 is waited for with %v, want %v", got.WhenOf(9), want)
		}
	}
}
