package proc_test

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
)

// What two starts of a task print is told apart though both are its first
// attempt.
func TestRunnerTellsStartsApart(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) { o.Argv = []string{"sh", "-c", "echo $FILCH_ATTEMPT; exit 3"} })
	job := c.job
	for nth := range int32(2) {
		c.end(c.start(launcher.TaskStart{Index: 4, Nth: nth + 1}))
	}
	if got, want := c.printed()["4.1"], "1\n1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var starts []int32
	if _, err := output.ReadSegments(c.place.OutputDir(job), func(p output.Printed) bool { return true }, func(p output.Printed) bool {
		starts = append(starts, p.Attempt)
		return true
	}); err != nil || !slices.Equal(starts, []int32{1, 2}) {
		t.Errorf("what was printed is kept as of the starts %v (%v)", starts, err)
	}
}
