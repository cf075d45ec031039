package trace

import (
	"fmt"
	"strconv"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// painter turns spans, in the order of time, into slices and counts.
type painter struct {
	out     sink
	job     filch.JobID
	nodes   []nodeRow
	step    int64 // ns between two counts of a node at least
	flow    uint64
	args    []arg
	overlap int64 // spans that found no free lane
}

// nodeRow is a node of the trace.
type nodeRow struct {
	name    filch.NodeName
	lanes   []int64 // end of the last span, by lane
	steals  bool    // the track is declared
	files   bool    // likewise
	counted int64   // time of the last count
	counts  bool    // likewise
	jobs    bool
}

// maxLanes bounds the lanes of a node. A node with more tasks at a time shows the others on
// the last lane.
const maxLanes = 4096

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

// lane returns the lowest lane of a node that is free at the begin of a span. The records do
// not name the slots of a task: the lanes show how many tasks ran at a time.
func (p *painter) lane(s *span) int32 {
	n := &p.nodes[s.Node]
	for i := range n.lanes {
		if n.lanes[i] <= s.Begin {
			n.lanes[i] = s.End
			return int32(i)
		}
	}
	if len(n.lanes) == maxLanes {
		p.overlap++
		n.lanes[maxLanes-1] = max(n.lanes[maxLanes-1], s.End)
		return maxLanes - 1
	}
	n.lanes = append(n.lanes, s.End)
	lane := int32(len(n.lanes) - 1)
	p.out.declare(track{s.Node, lane})
	return lane
}

// span draws a span, with the stages of its files inside.
func (p *painter) span(s *span) error {
	t := track{s.Node, p.lane(s)}
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
	p.out.slice(t, s.Begin, s.End, p.job.String()+"."+strconv.Itoa(int(s.Task)), p.args, 0, 0)
	in, out := s.Begin+s.In, s.End-s.Out
	if s.In > 0 && in <= s.End {
		p.out.slice(t, s.Begin, in, launcher.StageInputs, nil, 0, 0)
	}
	if s.Out > 0 && out >= max(in, s.Begin) {
		p.out.slice(t, out, s.End, launcher.StageOutputs, nil, 0, 0)
	}
	p.count(s.Node, s.Begin)
	return nil
}

// count draws the number of running tasks of a node.
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
	busy := int64(0)
	for _, end := range n.lanes {
		if end > at {
			busy++
		}
	}
	p.out.count(t, at, busy)
}

// close ends the counts: each node runs nothing after its last span.
func (p *painter) close() {
	for i := range p.nodes {
		n := &p.nodes[i]
		if !n.counts {
			continue
		}
		last := n.counted
		for _, end := range n.lanes {
			last = max(last, end)
		}
		p.out.count(track{int32(i), laneCounter}, last, 0)
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
