package trace

import (
	"fmt"
	"strconv"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/eventlog"
	"github.com/filch-hpc/filch/launcher"
)

// painter turns spans, in the order of time, into slices and counts.
type painter struct {
	out    sink
	job    filch.JobID
	nodes  []nodeRow
	step   int64 // ns between two counts of a node at least
	flow   uint64
	args   []arg
	astray int64 // spans that are not in the rows of their slots
}

// nodeRow is a node of the trace.
type nodeRow struct {
	name    filch.NodeName
	rows    rows
	steals  bool  // the track is declared
	files   bool  // likewise
	counted int64 // time of the last count
	counts  bool  // likewise
	jobs    bool
}

// row returns the index of a node, and declares the node when it is new.
func (p *painter) row(name filch.NodeName) int32 {
	for i := range p.nodes {
		if p.nodes[i].name == name {
			return int32(i)
		}
	}
	p.nodes = append(p.nodes, nodeRow{name: name})
	i := int32(len(p.nodes) - 1)
	p.out.node(i, string(name))
	return i
}

// span takes in a span, and draws the span before in the same row.
func (p *painter) span(s *span) error {
	n := &p.nodes[s.Node]
	lane, fresh := n.rows.lane(s)
	if fresh {
		p.out.declare(track{s.Node, lane})
	}
	if s.Slot != anySlot && lane != s.Slot {
		p.astray++
	}
	if last := n.rows.put(lane, s); last != nil {
		p.draw(lane, last)
	}
	p.count(s.Node, s.Begin)
	return nil
}

// draw draws a span, with its stages inside.
func (p *painter) draw(lane int32, s *span) {
	t := track{s.Node, lane}
	p.args = append(p.args[:0], arg{key: "state", text: s.State.String()})
	if s.Code != 0 {
		p.args = append(p.args, arg{key: "exit_code", num: int64(s.Code)})
	}
	if s.Try > 1 {
		p.args = append(p.args, arg{key: "try", num: int64(s.Try)})
	}
	if s.Queued > 0 {
		p.args = append(p.args, arg{key: "queued_ms", num: s.Queued / 1e6})
	}
	if s.Slots > 1 {
		p.args = append(p.args, arg{key: "slots", num: int64(s.Slots)})
	}
	p.out.slice(t, s.Begin, s.End, p.name(s), p.args, 0, 0)
	in, out := s.Begin+s.In, s.End-s.Out
	if launched := s.Begin + s.Launch; s.Launch+s.Wire > 0 && launched <= s.End {
		wired := min(launched+s.Wire, s.End)
		p.inside(t, s.Begin, launched, stageLaunch)
		p.inside(t, launched, wired, stageWires)
		p.out.slice(t, wired, s.End, launcher.StageRunning, nil, 0, 0)
	}
	if s.In > 0 && in <= s.End {
		p.out.slice(t, s.Begin, in, launcher.StageInputs, nil, 0, 0)
	}
	if s.Out > 0 && out >= max(in, s.Begin) {
		p.out.slice(t, out, s.End, launcher.StageOutputs, nil, 0, 0)
	}
}

// inside draws a stage of a slice; a stage without a length is not drawn.
func (p *painter) inside(t track, begin, end int64, what string) {
	if begin < end {
		p.out.slice(t, begin, end, what, nil, 0, 0)
	}
}

// name is the name of a span: a task, or a rank of a run or of a task.
func (p *painter) name(s *span) string {
	name := p.job.String()
	if s.Task != eventlog.OfRun {
		name += "." + strconv.Itoa(int(s.Task))
	}
	if s.Rank != noRank {
		name += " rank " + strconv.Itoa(int(s.Rank))
	}
	return name
}

// count draws the number of running tasks or ranks of a node.
func (p *painter) count(node int32, at int64) {
	n := &p.nodes[node]
	t := track{node, laneCounter}
	if !n.counts {
		n.counts = true
		p.out.declare(t)
	} else if at-n.counted < p.step {
		return
	}
	n.counted = at
	p.out.count(t, at, n.rows.busy(at))
}

// close draws the last spans, and ends the counts: each node runs nothing after its last span.
func (p *painter) close() {
	for i := range p.nodes {
		n := &p.nodes[i]
		if !n.counts {
			continue
		}
		end := n.counted
		n.rows.each(func(lane int32, s *span) {
			end = max(end, s.End)
			p.draw(lane, s)
		})
		p.out.count(track{int32(i), laneCounter}, end, 0)
	}
}

// arrowSlice is the length of the slices of a steal or a transfer: an arrow needs a slice at each end.
const arrowSlice = 1000

// steal draws a steal: an arrow from the victim to the thief.
func (p *painter) steal(thief, victim filch.NodeName, at, count int64) {
	p.flow++
	from, to := p.stealTrack(victim), p.stealTrack(thief)
	tasks := filch.Plural(count, "task")
	p.out.slice(from, at, at+arrowSlice, fmt.Sprintf("gives %s to %s", tasks, thief), nil, p.flow, 0)
	p.out.slice(to, at+arrowSlice, at+2*arrowSlice, fmt.Sprintf("takes %s of %s", tasks, victim), nil, 0, p.flow)
}

// transfer draws the way of files from the end of a task to the begin of another.
func (p *painter) transfer(from, to *moveEnd, bytes int64) {
	p.flow++
	name := p.job.String() + "." + strconv.Itoa(int(from.task))
	a, b := p.filesTrack(from.node), p.filesTrack(to.node)
	p.args = append(p.args[:0], arg{key: "bytes_at_most", num: bytes})
	p.out.slice(a, from.at, from.at+arrowSlice, fmt.Sprintf("files of %s go to %s", name, p.nodes[to.node].name), p.args, p.flow, 0)
	at := max(to.at, from.at+arrowSlice)
	p.out.slice(b, at, at+arrowSlice, fmt.Sprintf("files of %s for %s.%d", name, p.job, to.task), p.args, 0, p.flow)
}

func (p *painter) filesTrack(node int32) track {
	t := track{node, laneFiles}
	if n := &p.nodes[node]; !n.files {
		n.files = true
		p.out.declare(t)
	}
	return t
}

func (p *painter) stealTrack(name filch.NodeName) track {
	i := p.row(name)
	t := track{i, laneSteals}
	if !p.nodes[i].steals {
		p.nodes[i].steals = true
		p.out.declare(t)
	}
	return t
}

// stage draws a stage of the job on the job's row of a node.
func (p *painter) stage(name filch.NodeName, begin, end int64, what string, args []arg) {
	i := p.row(name)
	t := track{i, laneJob}
	if !p.nodes[i].jobs {
		p.nodes[i].jobs = true
		p.out.declare(t)
	}
	p.out.slice(t, begin, max(begin, end), what, args, 0, 0)
}
