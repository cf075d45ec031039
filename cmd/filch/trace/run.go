package trace

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/eventlog"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
)

// Stages of a launch, besides [launcher.StageRunning].
const (
	stageWaits   = "waits for slots"
	stageGathers = "gathers slots"
	stageLaunch  = "launch"
	stageWires   = "wire-up"
	stageEnds    = "ends"
)

// launch has what the events tell of the launch of an attempt of a run. A time without an event
// is 0.
type launch struct {
	gathers, launched int64
	asked             int64 // ranks that the gather needs
	nodes             map[filch.NodeName]nodeStages
}

// nodeStages are the times of a node of a run.
type nodeStages struct{ started, wired, ranks int64 }

func (l *launch) take(node filch.NodeName, at int64, e *events.Event) {
	if l.nodes == nil {
		l.nodes = map[filch.NodeName]nodeStages{}
	}
	n := l.nodes[node]
	switch e.Kind {
	case events.JobGathers:
		l.gathers, l.asked = at, e.Count
	case events.JobLaunched:
		l.launched = at
	case events.RanksStarted:
		n.started, n.ranks = at, e.Count
	case events.RanksWired:
		if n.wired = at; n.started != 0 {
			n.started = min(n.started, eventlog.WireUp(at, e))
		}
	}
	l.nodes[node] = n
}

// between is a time that is not known, or in an order that cannot be, moved between two others.
func between(at, from, to, unknown int64) int64 {
	if at == 0 {
		at = unknown
	}
	return min(max(at, from), to)
}

// writeRun draws a run: the stages before the launch on the origin, the stages on each node, and
// each rank in its slots.
func (w *writer) writeRun() error {
	var l launch
	w.readEvents(func(node filch.NodeName, at int64, e *events.Event) {
		if e.Try == w.info.Attempt {
			w.ranks.Take(node, at, e)
			l.take(node, at, e)
		}
	})
	return w.drawRun(&l)
}

func (w *writer) drawRun(l *launch) error {
	i := w.info
	begin := i.Submit + int64(i.Waited*1e9)
	end := begin + int64(i.Elapsed*1e9)
	launched := between(l.launched, i.Submit, begin, begin)
	gathers := between(l.gathers, i.Submit, launched, launched)
	ends := w.ranks.Of(eventlog.OfRun, launched)
	slots, last := map[filch.NodeName]int64{}, map[filch.NodeName]int64{}
	all := int64(0)
	for k := range ends {
		e := &ends[k]
		n := int64(e.Slots.Len())
		slots[e.Node] += n
		all += n
		last[e.Node] = max(last[e.Node], e.At)
	}
	w.paint.stage(i.Origin, i.Submit, gathers, stageWaits, nil)
	if gathers < launched {
		w.paint.stage(i.Origin, gathers, launched, stageGathers, counts("ranks", l.asked, "slots", all))
	}
	args := []arg{{key: "name", text: ui.Clean(i.Name)}, {key: "state", text: i.State}, {key: "ranks of the job", num: int64(i.Ranks)}}
	for _, n := range i.Nodes {
		at := l.nodes[n]
		started := between(at.started, launched, end, begin)
		wired := between(at.wired, started, end, started)
		over := between(last[n], wired, end, end)
		w.paint.stage(n, launched, end, "job "+i.ID.String(), append(args[:3:3], counts("ranks here", at.ranks, "slots here", slots[n])...))
		w.stage(n, launched, started, stageLaunch)
		w.stage(n, started, wired, stageWires)
		w.stage(n, wired, over, launcher.StageRunning)
		w.stage(n, over, end, stageEnds)
	}
	for k := range i.Bad {
		if r := &i.Bad[k]; r.Node != "" {
			w.paint.stage(r.Node, end, end+arrowSlice, fmt.Sprintf("rank %d ended with %d", r.Rank, r.Code), []arg{{key: "text", text: ui.Clean(r.Text)}})
			break // further bars would lie on the first
		}
	}
	s := newSorter()
	defer s.close()
	for k := range ends {
		if err := w.addRank(s, &span{Begin: launched, Task: eventlog.OfRun}, &ends[k]); err != nil {
			return err
		}
	}
	err := s.each(w.paint.span)
	w.paint.close()
	return err
}

// stage draws a stage of a node that has a length.
func (w *writer) stage(node filch.NodeName, begin, end int64, what string) {
	if begin < end {
		w.paint.stage(node, begin, end, what, nil)
	}
}

// counts are two details that are not 0.
func counts(a string, n int64, b string, m int64) (list []arg) {
	if n != 0 {
		list = append(list, arg{key: a, num: n})
	}
	if m != 0 {
		list = append(list, arg{key: b, num: m})
	}
	return list
}

// addRank adds a rank that has ended; p is the attempt of the rank.
func (w *writer) addRank(s *sorter, p *span, e *eventlog.RankEnd) error {
	r := *p
	r.Node, r.Rank, r.State, r.Code = w.paint.row(e.Node), e.Rank, e.State, e.Code
	r.End = max(e.At, r.Begin)
	began := between(e.Began, r.Begin, r.End, r.Begin)
	r.Launch = began - r.Begin
	r.Wire = between(e.Wired, began, r.End, began) - began
	return told(r.in(&e.Slots, s.add))
}
