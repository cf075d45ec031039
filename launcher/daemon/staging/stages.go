package staging

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// Stages lists the stages so far of an attempt whose files g stages; none of another. node is
// the node of g.
func Stages(g *Files, serial uint64, node filch.NodeName) (list []launcher.TaskTime) {
	b := g.attempts[serial]
	if b == nil {
		return nil
	}
	add := func(stage string, at time.Time) {
		if !at.IsZero() {
			list = append(list, launcher.TaskTime{Stage: stage, UnixNS: at.UnixNano(), Node: node})
		}
	}
	add(launcher.StageInputs, b.begun)
	add(launcher.StageRunning, b.filled)
	add(launcher.StageOutputs, b.ended)
	return list
}
