package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// A person cancels a job of gangs, or a gang of it, around the death of the owner of the gang:
// the gang ends as cancelled, its ranks end, and none begin from then on.
func TestACancelAroundTheDeathOfAGangsOwner(t *testing.T) {
	for _, kind := range []string{"job", "task", "workflow"} {
		for _, after := range []time.Duration{-100 * ms, 100 * ms, sec, 4 * sec, 6 * sec, 7200 * ms, 7800 * ms, 10 * sec} {
			t.Run(fmt.Sprintf("%s/%v", kind, after), func(t *testing.T) {
				w := newNet(t, 5, 4)
				late, ordered := 0, time.Duration(-1)
				w.behave = func(k *keeper) {
					k.at = 60 * sec
					if ordered >= 0 && w.Now() > ordered+sec { // an order reaches all owners within a second
						late++
					}
				}
				id, owner, _ := w.gangOfTwoIn(func(s *submit.Job) {
					if kind == "workflow" {
						s.Nodes = make([]record.GraphNode, 1)
					}
				})
				by := filch.NodeName("n5")
				for _, o := range w.names {
					if h := w.nodes[o]; o != owner {
						h.input(func(out *launcher.Outbox) { h.node.FollowTasks(w.Now(), 9, id, out) })
					}
				}
				w.After(max(after+100*ms, 0), func() {
					ordered = w.Now()
					h := w.nodes[by]
					h.input(func(out *launcher.Outbox) {
						if kind == "task" {
							h.node.OrderTasks(w.Now(), id, record.Orders{Cancels: []record.Pick{{Count: 1}}}, out)
						} else {
							h.node.CancelTasks(w.Now(), id, "", out)
						}
					})
				})
				w.run(100 * ms)
				w.diesSlowly(owner)
				w.until("the end of the bag", 40*sec, func() bool { return w.heard(id, launcher.TasksFinished) != nil })
				if n := len(w.running(launcher.TaskID{Job: id}, 0)); n > 0 {
					t.Errorf("the job is over, and %d keepers have ranks of it", n)
				}
				if b := w.heard(id, launcher.TasksFinished); b.Tally.Cancelled != 1 {
					t.Errorf("the gang ended as %+v, want cancelled", b.Tally)
				}
				w.run(30 * sec)
				if late > 0 || len(w.running(launcher.TaskID{Job: id}, 0)) > 0 {
					t.Errorf("%d keepers began with ranks of a cancelled gang, %d run", late, len(w.running(launcher.TaskID{Job: id}, 0)))
				}
			})
		}
	}
}
