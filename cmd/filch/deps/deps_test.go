package deps

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// A job that waits for its turn waits for the jobs of its name that were submitted before: all
// that run, and the last of those that wait for their turn, whatever their numbers.
func TestNamesakes(t *testing.T) {
	code := int32(0)
	jobs := []launcher.JobInfo{
		{ID: 1, Name: "solve", Submit: 1},
		{ID: 2, Name: "other", Submit: 2},
		{ID: 3, Name: "solve", Submit: 3, Code: &code},
		{ID: 4, Name: "solve", Submit: 4, Kind: "step"},
		{ID: 130, Name: "solve", Submit: 5, Dep: "singleton"},
		{ID: 7, Name: "solve", Submit: 7, Dep: "afterok:2,singleton"},
		{ID: 6, Name: "solve", Submit: 6, Dep: "singleton"},
		{ID: 8, Name: "solve", Submit: 8, Dep: "afterok:2"},
	}
	if got, want := namesakes(jobs, "solve"), []filch.JobID{1, 8, 7}; !slices.Equal(got, want) {
		t.Errorf("a job of the name waits for %v, want %v", got, want)
	}
	if got := namesakes(jobs, "none"); len(got) > 0 {
		t.Errorf("a job of a new name waits for %v", got)
	}
}
