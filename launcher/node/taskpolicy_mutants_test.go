//go:build mutants

package node_test

import (
	"os"
	"testing"

	. "github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/testbed/sim/planted"
)

func init() { Plant(os.Getenv("NODE_MUTANT")) }

// TestMutantsOfThePolicy plants each fault of the policy's record in a process of its own, in
// which the test beside it must fail.
func TestMutantsOfThePolicy(t *testing.T) {
	planted.MustFail(t, "NODE_MUTANT", [][2]string{
		{"old-policy", "TestTheLastPolicyStays"},
		{"policy-yields", "TestTheLastPolicyStays"},
		{"policy-unread", "TestPolicyReachesEveryNode"},
	})
}
