package report

import (
	"cmp"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/eventlog"
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
	Task  []int32 `json:"task"`           // -2 and below: rank 0 and the further ranks of a run
	State []int8  `json:"state"`          // see shade
	Tall  []int32 `json:"tall,omitempty"` // lanes of the bar, from Lane on; absent: each has one
}

// ended is the last attempt of a task, for the timeline.
type ended struct {
	Bar     bar
	In, Out int64
	Task    int32
	State   filch.State
	On      filch.Slots // of the node; none: not known
}

// draw draws bars on the lanes of their nodes.
func (k *collector) draw(list []ended) {
	slices.SortFunc(list, func(a, b ended) int {
		return cmp.Or(cmp.Compare(a.Bar.Begin, b.Bar.Begin), cmp.Compare(a.Task, b.Task))
	})
	c := &k.page.Bars
	*c = columns{[]int64{}, []int64{}, []int64{}, []int64{}, []int32{}, []int32{}, []int32{}, []int8{}, nil} // null would break the script
	l := newLanes(list, len(k.page.Nodes))
	talls, most := []int32{}, int32(1)
	for i := range list {
		e := &list[i]
		lane, tall := l.of(i)
		talls, most = append(talls, tall), max(most, tall)
		c.Node, c.Lane, c.Task = append(c.Node, e.Bar.Node), append(c.Lane, lane), append(c.Task, e.Task)
		c.State = append(c.State, shade(e.State))
	}
	for i := range list { // the lanes may have cut the ends
		e := &list[i]
		since := func(ns int64) int64 { return (ns - k.work.Begin) / 1e3 }
		c.Begin, c.End = append(c.Begin, since(e.Bar.Begin)), append(c.End, since(e.Bar.End))
		c.In, c.Out = append(c.In, e.In/1e3), append(c.Out, e.Out/1e3)
	}
	if most > 1 {
		c.Tall = talls
	}
	for i := range k.page.Nodes {
		k.page.Nodes[i].Lanes = l.count(int32(i))
	}
}

// ranks replaces gangs whose ranks the nodes remember by a bar for each rank.
func (k *collector) ranks(list []ended) (drawn []ended) {
	for i := range list {
		e := &list[i]
		ends := k.rankEnds.Of(e.Task, e.Bar.Begin)
		if len(ends) == 0 || e.State == filch.Running || len(drawn)+len(ends)+len(list)-i > maxDrawn {
			drawn = append(drawn, *e)
			continue
		}
		for _, r := range ends {
			drawn = append(drawn, ended{Bar: bar{Begin: e.Bar.Begin, End: max(r.At, e.Bar.Begin), Node: k.node(r.Node)}, Task: e.Task, State: r.State, On: r.Slots})
		}
	}
	return drawn
}

// run takes in the ranks of a run that the nodes remember, on the slots that the ranks had. Of a
// run without an end, the ranks that still run are not known, and neither is the bill.
func (k *collector) run() {
	k.work.Each = 1
	for _, n := range k.page.Job.Nodes {
		k.node(n)
	}
	k.events()
	begin := k.work.Begin + int64(k.page.Job.Waited*1e9)
	for _, r := range k.rankEnds.Of(eventlog.OfRun, k.work.Begin) {
		if len(k.ends) == maxDrawn {
			break
		}
		b := bar{Begin: begin, End: r.At, Node: k.node(r.Node), Slots: max(r.Slots.Len(), 1)}
		if r.Began > 0 {
			b.Begin = max(r.Began, k.work.Begin)
		}
		b.Begin = min(b.Begin, b.End)
		k.work.Nodes[b.Node].Slots += r.Slots.Len()
		k.ends = append(k.ends, ended{
			Bar: b, In: max(min(r.Wired, r.At)-b.Begin, 0), Task: firstRank - r.Rank, State: r.State, On: r.Slots,
		})
	}
	if k.work.Tasks = int32(len(k.ends)); len(k.ends) == 0 {
		return
	}
	if k.sumUp(); k.page.Job.Code == nil {
		k.page.Bill, k.page.InUse = nil, nil
	}
}

// firstRank stands for the task of rank 0 of a run; -3 is rank 1.
const firstRank = -2

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
