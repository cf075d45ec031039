//go:build root

package mpi_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/mpi"
	"github.com/filch-hpc/filch/testbed/rig"
)

// docker makes a bridge of containers as Docker does, with the translation of
// addresses by which a connection from the bridge's address to itself, which goes
// over the loopback, comes from 127.0.0.1.
const docker = `ip link add docker0 type bridge
ip addr add 172.17.0.1/16 dev docker0
ip link set docker0 up
nft add table ip nat
nft 'add chain ip nat POSTROUTING { type nat hook postrouting priority 100; }'
nft 'add rule ip nat POSTROUTING oifname != "docker0" ip saddr 172.17.0.0/16 masquerade'`

// TestSecondNetwork has virtual nodes on a host that has Docker.
func TestSecondNetwork(t *testing.T) {
	c := alone(t)
	if out, err := c.Hosts[0].Command(t.Context(), "sh", "-ec", docker).CombinedOutput(); err != nil {
		t.Fatalf("make the bridge: %v: %s; what it needs: %s", err, out, mpi.Install)
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
