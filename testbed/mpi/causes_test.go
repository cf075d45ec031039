//go:build root

package mpi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// causes are ends of rank 1, with the job's exit code. Rank 0 loses its peer by
// each, and MPICH then ends it by MPI_Abort(15), or by an assertion of UCX.
var causes = []struct {
	name string
	args []string
	code int
}{
	{"abrt", []string{"abrt", "0"}, 134},
	{"kill", []string{"kill", "0"}, 137},
	{"segv", []string{"segv", "0"}, 139},
	{"exit-9", []string{"unfinalized", "9"}, 9},
	{"exit-1", []string{"unfinalized", "1"}, 1},
	{"zero", []string{"zero", "0"}, 1},
	{"abort-42", []string{"abort", "42"}, 42},
	{"abort-15", []string{"abort", "15"}, 15},
}

// TestFirstCauses has rank 1 end on another node than that of rank 0 and of the
// client, which often hears first of what became of rank 0.
func TestFirstCauses(t *testing.T) {
	for _, where := range []string{"virtual", "hosts"} {
		t.Run(where, func(t *testing.T) {
			var c *cluster
			if where == "hosts" {
				c = up(t, 2, 1)
			} else {
				c = alone(t)
				c.Must(0, "up", "--instance", c.Instance, "--nodes", "2", "--slots", "1")
				defer c.Must(0, "down")
			}
			for _, e := range causes {
				t.Run(e.name, func(t *testing.T) { c.as(t).causes(e.args, e.code) })
			}
		})
	}
}

// causes runs one ending many times: each time the code is that of rank 1.
func (c *cluster) causes(args []string, code int) {
	c.T.Helper()
	runs, wrong, other := rig.Sized(10, 200), 0, 0
	for i := range runs {
		meeting := []string{"meet", "meet", "meet", "talk"}[i%4]
		r := c.run(30*time.Second, append(append([]string{"-n", "2", "-N", "2", program(c.T, "ends")}, args...), meeting)...)
		if r.code != code {
			wrong++
			c.T.Errorf("run %d, %s: want code %d: %v", i+1, meeting, code, r)
		} else if !strings.Contains(r.lastLine(), "rank 1 on ") {
			other++
		}
	}
	c.T.Logf("%d of %d runs ended with another code than %d; in %d of the others rank 1 was not named", wrong, runs, code, other)
	if other > 0 {
		c.T.Errorf("in %d of %d runs another rank than 1 was named", other, runs)
	}
}
