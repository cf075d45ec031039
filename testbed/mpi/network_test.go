package mpi_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// TestSecondNetwork has virtual nodes on a host with a bridge of containers, as
// Docker makes it: a second network with an address that reaches nobody else.
func TestSecondNetwork(t *testing.T) {
	c := alone(t)
	out, err := c.Hosts[0].Command(t.Context(), "sh", "-ec",
		"ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up").CombinedOutput()
	if err != nil {
		t.Fatalf("make the bridge: %v: %s", err, out)
	}
	c.Must(0, "up", "--instance", c.Instance, "--nodes", "3", "--slots", "2")
	runs := rig.Sized(5, 20)
	for i := range runs {
		r := c.run(30*time.Second, "-n", "6", "-N", "3", openProgram(t, "alltoallv"), "10")
		if r.code != 0 || r.stdout != "alltoallv of 6: 0 wrong\n" {
			t.Fatalf("run %d of %d: %v", i+1, runs, r)
		}
	}
	t.Logf("%d of %d runs of alltoallv on 3 x 2 ranks were right", runs, runs)
	c.Must(0, "down")
}
