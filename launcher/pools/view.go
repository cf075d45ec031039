package pools

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/pool"
)

// View reads from an overview what a holder of a pool sees: the work that waits, and the nodes.
// Wall is the time of day.
func View(o *wire.Overview, wall int64) *pool.View {
	v := &pool.View{}
	busy, ended := 0.0, int64(0)
	for i := range o.Nodes {
		n := &o.Nodes[i]
		if n.State == "dead" || n.State == "left" || n.State == "gone" {
			continue
		}
		at := pool.Node{
			Name: string(n.Node), Group: n.Alloc, Slots: n.Slots, Busy: n.Work.Busy, Ended: n.Work.Ended, Silent: n.Silent || n.Work.Silent,
			Draining: n.State == "draining", Left: time.Duration(n.Work.Left * float64(time.Second)),
		}
		if n.Slots > 0 {
			at.Age = time.Duration(n.Work.SlotSecs / float64(n.Slots) * float64(time.Second))
		}
		for _, h := range n.Holders {
			at.Busy = max(at.Busy, h.Slots, 1)
		}
		v.Nodes = append(v.Nodes, at)
		busy, ended = busy+n.Work.BusySecs, ended+n.Work.Ended
	}
	if ended > 0 {
		v.Length = busy / float64(ended)
	}
	for i := range o.Jobs {
		viewJob(v, &o.Jobs[i], wall)
	}
	return v
}

// viewJob adds what a job can use: not tasks that wait for their next try, and no more tasks
// than may run at a time.
func viewJob(v *pool.View, j *wire.OverviewJob, wall int64) {
	switch {
	case j.Code != nil || j.Held != "" || j.Dep != "" || j.Begin > wall:
	case j.Kind == "bag" || j.Kind == "workflow":
		running := int64(j.Tasks.Running)
		ready := max(int64(j.Tasks.Ready)-j.Resting, 0)
		if j.Cap > 0 {
			ready = min(ready, max(int64(j.Cap)-running, 0))
		}
		gangs := min(j.Gathers, ready)
		v.Ready += ready - gangs
		v.Slots += (ready - gangs) * int64(max(j.Each, 1))
		v.Running += running
		for range gangs { // at least an allocation for each, and one more while the gang still gathers
			v.Gangs = append(v.Gangs, pool.Gang{Slots: j.Each, Nodes: 1})
		}
	case j.State == filch.Waiting.String():
		each := int32(1)
		if j.Outlook != nil {
			each = max(j.Outlook.Each, 1)
		}
		v.Gangs = append(v.Gangs, pool.Gang{Slots: j.Ranks * each})
	}
}
