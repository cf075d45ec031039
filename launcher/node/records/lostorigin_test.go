package records

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// The record of an attached run is from the start of the ranks: the time until the loss of the
// origin counts as elapsed, and of a job that waited none.
func TestLostOriginKeepsTheTime(t *testing.T) {
	const second = int64(1e9)
	for state, want := range map[filch.State]float64{filch.Running: 7, filch.Waiting: 0} {
		e := &launcher.JobEntry{Info: launcher.JobInfo{State: state.String(), Submit: 100 * second, Waited: 3}}
		if state == filch.Running {
			e.Info.Elapsed = 0.047
		}
		loseOrigin(e, "n1", 110*second)
		if i := &e.Info; i.Elapsed != want || *i.Code != filch.ExitNodeLost || i.State != "lost" || i.Origin != "n1" {
			t.Errorf("%v: elapsed %v, code %d, %s, origin %s; want %v, 122, lost, n1", state, i.Elapsed, *i.Code, i.State, i.Origin, want)
		}
	}
}
