//go:build mutants

package node_test

import (
	"testing"

	. "github.com/filch-hpc/filch/launcher/node"
)

// Each planted fault is seen by the scene of its name.
func TestMutantsOfLostRanks(t *testing.T) {
	defer Plant("")
	for name, scene := range lostScenes {
		t.Run(name, func(t *testing.T) {
			if !Plant(name) {
				t.Fatal("there is no such fault")
			}
			if wrong := scene(t); wrong == "" {
				t.Error("nothing was seen")
			} else {
				t.Log(wrong)
			}
		})
	}
}
