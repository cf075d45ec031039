package report

import (
	"cmp"
	"slices"

	"github.com/filch-hpc/filch"
)

// columns are the bars of the timeline, a slice for each field: microseconds since the begin
// of the job.
type columns struct {
	Begin []int64 `json:"begin"`
	End   []int64 `json:"end"`
	In    []int64 `json:"in"`
	Out   []int64 `json:"out"`
	Node  []int32 `json:"node"`
	Lane  []int32 `json:"lane"`
	Task  []int32 `json:"task"`
	State []int8  `json:"state"` // see shade
}

// ended is the last attempt of a task, for the timeline.
type ended struct {
	Bar     bar
	In, Out int64
	Task    int32
	State   filch.State
}

// draw gives each bar a lane of its node: the lowest that is free at its begin.
func (k *collector) draw(list []ended) {
	slices.SortFunc(list, func(a, b ended) int {
		return cmp.Or(cmp.Compare(a.Bar.Begin, b.Bar.Begin), cmp.Compare(a.Task, b.Task))
	})
	lanes := make([][]int64, len(k.page.Nodes))
	c := &k.page.Bars
	*c = columns{[]int64{}, []int64{}, []int64{}, []int64{}, []int32{}, []int32{}, []int32{}, []int8{}} // null would break the script
	for i := range list {
		e := &list[i]
		busy := lanes[e.Bar.Node]
		lane := slices.IndexFunc(busy, func(end int64) bool { return end <= e.Bar.Begin })
		if lane < 0 {
			lane = len(busy)
			busy = append(busy, 0)
		}
		busy[lane] = e.Bar.End
		lanes[e.Bar.Node] = busy
		since := func(ns int64) int64 { return (ns - k.work.Begin) / 1e3 }
		c.Begin, c.End = append(c.Begin, since(e.Bar.Begin)), append(c.End, since(e.Bar.End))
		c.In, c.Out = append(c.In, e.In/1e3), append(c.Out, e.Out/1e3)
		c.Node, c.Lane, c.Task = append(c.Node, e.Bar.Node), append(c.Lane, int32(lane)), append(c.Task, e.Task)
		c.State = append(c.State, shade(e.State))
	}
	for i := range lanes {
		k.page.Nodes[i].Lanes = int32(len(lanes[i]))
	}
}

// shade is the color of a bar: 0 ok, 1 failed, 2 other, 3 running. (A []uint8 would become a text in JSON.)
func shade(s filch.State) int8 {
	switch s {
	case filch.OK:
		return 0
	case filch.Failed, filch.Killed, filch.Lost:
		return 1
	case filch.Running:
		return 3
	}
	return 2
}
