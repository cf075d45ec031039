package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/clocks"
	"github.com/filch-hpc/filch/cmd/filch/eventlog"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// Limits of a page.
const (
	maxDrawn   = 100_000 // bars of the timeline: the longest
	maxListed  = 20      // of the slowest tasks, and of the tasks that did not end well
	maxSamples = 1000    // of the slots in use
)

// page is the data of the page, as the script reads them. Times are seconds since the begin
// of the job, but for those named UnixNS.
type page struct {
	Job      launcher.JobInfo `json:"job"`
	Instance string           `json:"instance"`
	MadeNS   int64            `json:"made_unix_ns"`
	Seconds  float64          `json:"seconds"`
	Nodes    []nodeRow        `json:"nodes"`
	Bars     columns          `json:"bars"`
	LeftOut  int              `json:"left_out"` // shorter bars that are not drawn
	Unknown  int32            `json:"unknown"`  // tasks without a recorded start and end
	Never    int32            `json:"never"`    // tasks that ended without a start
	Again    int32            `json:"again"`    // attempts before the last
	Gangs    bool             `json:"gangs"`
	InUse    []int32          `json:"in_use"` // slots in use, at equal steps
	Bill     []line           `json:"bill"`
	Bound    float64          `json:"bound"`
	Chain    chain            `json:"chain"`
	Slowest  []tasklist.Row   `json:"slowest"`
	Bad      []tasklist.Row   `json:"bad"`
	BadMore  int              `json:"bad_more"`
	Asked    asked            `json:"asked"`
	Steals   steals           `json:"steals"`
	Clocks   string           `json:"clocks"`
	Graph    *graph           `json:"graph,omitempty"` // of a workflow, for --json

	tasks int // that began; a gang has a bar for each rank
}

// nodeRow is a node of the page.
type nodeRow struct {
	Name  filch.NodeName `json:"name"`
	Slots int32          `json:"slots"`
	Lanes int32          `json:"lanes"` // of the timeline
	Peak  int32          `json:"peak"`  // slots in use at a time
	Tasks int            `json:"tasks"`
	Busy  float64        `json:"busy"` // slot-seconds
	Lost  []span         `json:"lost"`
	Drain []span         `json:"drain"`
}

// line is a line of the bill.
type line struct {
	Text    string  `json:"text"`
	Seconds float64 `json:"seconds"` // of slots
	Busy    bool    `json:"busy,omitempty"`
}

// chain is the critical path of a workflow: the longest chain of tasks that wait for each other.
type chain struct {
	Seconds float64        `json:"seconds"`
	Tasks   int            `json:"tasks"`
	Longest []tasklist.Row `json:"longest"` // of its tasks, in their order
}

// asked is what tasks asked for and used.
type asked struct {
	MemBytes int64   `json:"memory_bytes"` // of a task; 0: none
	SlotSecs float64 `json:"slot_seconds"` // of all tasks
	CPUSecs  float64 `json:"cpu_seconds"`
	Peak     int64   `json:"peak_bytes"`   // the largest
	Mean     int64   `json:"mean_bytes"`   // of the peaks
	Known    int64   `json:"known"`        // tasks with a peak
	Output   int64   `json:"output_bytes"` // of files or streams
	Moved    int64   `json:"moved_bytes"`  // between nodes at most; of workflows
}

// steals counts the steals that the nodes remember.
type steals struct {
	Won   int64 `json:"won"`
	Tasks int64 `json:"tasks"`
}

// collector collects the data of a page.
type collector struct {
	conn   *client.Client
	page   page
	work   work
	ends   []ended
	clocks clocks.Clocks
	at     map[filch.NodeName]int32 // in page.Nodes and work.Nodes
	states map[filch.NodeName]*wire.NodeInfo

	open    map[gang]gathering
	parents [][]int32 // of a task of a workflow, by index
	slots   []int32   // of a task, by index; empty: all take work.Each
	flow    *flow     // of a workflow, where the graph is wanted

	rankEnds eventlog.Ranks
}

// collect reads a job of tasks, or a run, whose ranks take the place of tasks. With wantGraph, the page has
// the graph of a workflow.
func collect(c *client.Client, id filch.JobID, instance string, wantGraph bool) (*page, error) {
	k := &collector{conn: c, at: map[filch.NodeName]int32{}, states: map[filch.NodeName]*wire.NodeInfo{}}
	p := &k.page
	if err := cli.Ask(c, cli.QueryWait, &p.Job, wire.VerbInfo, id.String()); err != nil {
		return nil, err
	}
	p.Job.Rows = nil
	k.clocks = clocks.Measure(c)
	p.Instance, p.MadeNS, p.Clocks = instance, time.Now().UnixNano(), k.clocks.String()
	k.work.Begin, k.work.End = p.Job.Submit, p.Job.Submit+int64((p.Job.Waited+p.Job.Elapsed)*1e9)
	if p.Job.Code == nil {
		k.work.End = p.MadeNS
	}
	p.Seconds = seconds(k.work.End - k.work.Begin)
	if !p.isTasks() {
		k.run()
		return p, nil
	}
	job, err := taskrecords.Open(c, id)
	if err == nil && wantGraph && job.Rec.Graph {
		k.flow = newFlow(job.Rec.Total)
	}
	if err == nil {
		err = k.nodes(job.Spec)
	}
	if err == nil {
		err = k.differ(job)
	}
	if err == nil {
		err = k.tasks(job)
	}
	if err != nil {
		return nil, err
	}
	k.running(job.Spec)
	if k.flow != nil && len(k.parents) > 0 {
		p.Graph = k.flow.graph(k.parents)
	}
	k.events()
	k.sumUp()
	return p, nil
}

// isTasks tells a job of tasks from a run.
func (p *page) isTasks() bool { return cli.IsTasks(&p.Job) }

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// nodes takes in the nodes of the instance that the job may use.
func (k *collector) nodes(spec *record.Spec) error {
	var list []wire.NodeInfo
	if err := cli.Ask(k.conn, cli.QueryWait, &list, wire.VerbNodes, wire.OnlyHere); err != nil {
		return err
	}
	for i := range list {
		n := &list[i]
		m := filch.Member{Name: n.Node, Labels: n.Labels}
		if n.State == filch.Left.String() || len(spec.Needs) == 0 && spec.Nodes != nil && !spec.Nodes.Allows(&m) {
			continue
		}
		k.states[n.Node] = n
		k.work.Nodes[k.node(n.Node)].Slots = n.Slots
	}
	return nil
}

// node is the index of a node.
func (k *collector) node(name filch.NodeName) int32 {
	i, ok := k.at[name]
	if !ok {
		i = int32(len(k.work.Nodes))
		k.at[name] = i
		k.work.Nodes = append(k.work.Nodes, nodeTime{})
		k.page.Nodes = append(k.page.Nodes, nodeRow{Name: name})
	}
	return i
}

// tasks takes in the ended tasks, and the slowest and those that did not end well.
func (k *collector) tasks(job *taskrecords.Job) error {
	p := &k.page
	k.work.Limit, k.work.Tasks = job.Spec.Cap, job.Rec.Total
	p.Asked.MemBytes = job.Spec.Room(0).MemBytes
	took, node, bytes := make([]int64, len(k.parents)), make([]int32, len(k.parents)), make([]int64, len(k.parents))
	for i := range node {
		node[i] = -1
	}
	var bad, never []int32 // the second: without a start
	err := job.Each(func(i int32, t *record.Task) error {
		name := job.Spec.Name(i)
		p.Again += max(int32(t.Attempt)-1, 0)
		k.flow.ended(i, t)
		switch started := t.Began > 0 && t.By.Node != ""; {
		case !t.State.Final():
			return nil
		case !started:
			p.Never++
			never = append(never, name)
			return nil
		case t.State != filch.OK:
			bad = append(bad, name)
		}
		k.end(name, k.width(i), t)
		if int(i) < len(took) {
			took[i], node[i], bytes[i] = max(t.TookUS, 0)*1e3, k.node(t.By.Node), t.Bytes
		}
		return nil
	})
	if err != nil {
		return err
	}
	var path []int32
	k.work.Never = p.Never
	k.work.Chain, path = longest(k.parents, took)
	p.Asked.Moved = moved(k.parents, node, bytes)
	p.Chain.Seconds, p.Chain.Tasks = seconds(k.work.Chain), len(path)
	if n := p.Asked.Known; n > 0 {
		p.Asked.Mean /= n
	}
	p.Unknown = job.Rec.Total - int32(len(k.ends)) - p.Never
	slices.SortFunc(k.ends, func(a, b ended) int {
		return cmp.Or(cmp.Compare(b.Bar.length(), a.Bar.length()), cmp.Compare(a.Task, b.Task))
	})
	var slow []int32
	for i := range k.ends[:min(len(k.ends), maxListed)] {
		slow = append(slow, k.ends[i].Task)
	}
	if len(path) > maxListed { // the longest, in the order of the path
		long := slices.Clone(path)
		slices.SortStableFunc(long, func(a, b int32) int { return cmp.Compare(took[b], took[a]) })
		path = slices.DeleteFunc(path, func(i int32) bool { return !slices.Contains(long[:maxListed], i) })
	}
	for i := range path {
		path[i] = job.Spec.Name(path[i])
	}
	if p.Chain.Longest, err = tasklist.FindAll(k.conn, k.page.Job.ID, path); err != nil {
		return err
	}
	bad = append(bad, never...)
	p.BadMore = max(len(bad)-maxListed, 0)
	if p.Slowest, err = tasklist.FindAll(k.conn, k.page.Job.ID, slow); err == nil {
		p.Bad, err = tasklist.FindAll(k.conn, k.page.Job.ID, bad[:min(len(bad), maxListed)])
	}
	return err
}

// running takes in the tasks that run now, up to now.
func (k *collector) running(spec *record.Spec) {
	if k.page.Job.Code != nil {
		return
	}
	var list launcher.RunningTasks
	if cli.Ask(k.conn, cli.QueryWait, &list, wire.VerbRunning, k.page.Job.ID.String()) != nil {
		return
	}
	for i := range list.Tasks {
		t := &list.Tasks[i]
		if t.Copy {
			continue
		}
		k.page.Unknown--
		k.flow.running(t)
		k.ends = append(k.ends, ended{
			Bar:  bar{Begin: k.work.End - int64(t.Took*1e9), End: k.work.End, Node: k.node(t.Node), Slots: k.width(t.Index)},
			Task: spec.Name(t.Index), State: filch.Running, On: t.Slots,
		})
	}
	k.page.Unknown = max(k.page.Unknown, 0)
}

// end takes in the end of a task.
func (k *collector) end(name, slots int32, t *record.Task) {
	begin := k.clocks.Correct(t.By.Node, t.Began*1e3)
	e := ended{Bar: bar{Begin: begin, End: begin + max(t.TookUS, 0)*1e3, Node: k.node(t.By.Node), Slots: slots}, Task: name, State: t.State, On: t.Slots}
	if t.Stages != nil {
		e.Bar.Queued, e.In, e.Out = int64(t.Stages.Queued), int64(t.Stages.In), int64(t.Stages.Out)
	}
	a := &k.page.Asked
	a.Output += t.Bytes
	a.SlotSecs += seconds(e.Bar.length() * int64(e.Bar.Slots))
	if t.Usage != nil {
		a.CPUSecs += (t.Usage.User + t.Usage.System).Seconds()
		a.Peak, a.Mean, a.Known = max(a.Peak, t.Usage.PeakBytes), a.Mean+t.Usage.PeakBytes, a.Known+1
	}
	k.ends = append(k.ends, e)
}

// events takes in the losses and drains of nodes, and the steals. A node remembers its last
// events only: an event that is not there leaves its time to another cause.
func (k *collector) events() {
	open := func(list []span, at int64) []span {
		if n := len(list); n > 0 && list[n-1].End == 0 {
			return list
		}
		return append(list, span{Begin: at})
	}
	shut := func(list []span, at int64) {
		if n := len(list); n > 0 && list[n-1].End == 0 {
			list[n-1].End = at
		}
	}
	k.read("", func(node filch.NodeName, at int64, e *events.Event) {
		own, peer := k.known(node), k.known(e.Peer)
		switch {
		case e.Kind == events.NodeDrains && own != nil:
			own.Drains = open(own.Drains, at)
		case e.Kind == events.NodeBack && own != nil:
			shut(own.Drains, at)
		case (e.Kind == events.NodeGone || e.Kind == events.NodeLost || e.Kind == events.NodeLeft) && peer != nil:
			peer.Lost = open(peer.Lost, at)
		case e.Kind == events.NodeUp && peer != nil:
			shut(peer.Lost, at)
		case e.Kind == events.JobGathers:
			k.gathers(at, e)
		case e.Kind == events.JobLaunched || e.Kind == events.JobEnded || e.Kind == events.JobCancelled:
			k.gathered(at, e)
		case e.Kind == events.StealWon:
			if at >= k.work.Begin && (e.Job == 0 || e.Job == k.page.Job.ID) {
				k.page.Steals.Won++
				k.page.Steals.Tasks += e.Count
			}
		case e.Job == k.page.Job.ID && (k.page.isTasks() || e.Try == k.page.Job.Attempt):
			k.rankEnds.Take(node, at, e)
		}
	})
	for _, g := range k.open { // in any order: each is a change of its own
		k.gathering(g, k.work.End)
	}
	for name, n := range k.states { // in any order: each node has its own spans
		w := &k.work.Nodes[k.at[name]]
		if n.State == filch.Dead.String() && len(w.Lost) == 0 {
			w.Lost = open(w.Lost, k.work.Begin) // the events are gone
		}
		if n.Draining && len(w.Drains) == 0 {
			w.Drains = open(w.Drains, k.work.Begin)
		}
	}
	for i := range k.work.Nodes {
		w := &k.work.Nodes[i]
		shut(w.Lost, k.work.End)
		shut(w.Drains, k.work.End)
		w.Lost, w.Drains = k.work.within(w.Lost), k.work.within(w.Drains)
	}
}

// read hands out the events of a job, or of all, that the nodes remember, with the corrected time.
func (k *collector) read(job string, take func(node filch.NodeName, at int64, e *events.Event)) {
	another, err := k.conn.Another()
	if err != nil {
		return
	}
	defer another.Close()
	r := &eventlog.Reader{
		Job:  job,
		Idle: func() error { return nil },
		Lost: func(filch.NodeName, uint64) {},
		Event: func(node filch.NodeName, e *events.Event) error {
			take(node, k.clocks.Correct(node, e.UnixNS), e)
			return nil
		},
	}
	_ = r.Run(another)
}

// within cuts spans to the time of the job.
func (w *work) within(list []span) (in []span) {
	for _, s := range list {
		if s.Begin, s.End = max(s.Begin, w.Begin), min(s.End, w.End); s.Begin < s.End {
			in = append(in, s)
		}
	}
	return in
}

// sumUp makes the timeline, the slots in use and the bill.
func (k *collector) sumUp() {
	p := &k.page
	p.tasks = len(k.ends)
	drawn := slices.Clone(k.ends[:min(len(k.ends), maxDrawn)])
	p.LeftOut = len(k.ends) - len(drawn)
	if p.Gangs {
		drawn = k.ranks(drawn)
	}
	k.draw(drawn)
	for i := range k.ends {
		e := &k.ends[i]
		k.work.Bars = append(k.work.Bars, e.Bar)
		n := &p.Nodes[e.Bar.Node]
		n.Tasks++
		n.Busy += seconds(e.Bar.length() * int64(e.Bar.Slots))
	}
	changes := k.work.changes()
	peaks := k.work.peaks(changes)
	for i := range p.Nodes {
		n, w := &p.Nodes[i], &k.work.Nodes[i]
		if k.states[n.Name] == nil && !k.work.Spread {
			w.Slots = max(w.Slots, peaks[i]) // a node that is not there any more, or of a run
		}
		n.Slots, n.Peak = w.Slots, min(peaks[i], w.Slots)
		n.Lost, n.Drain = k.work.relative(w.Lost), k.work.relative(w.Drains)
	}
	b, busy, say := k.work.sum(changes), "tasks ran", &texts
	if !p.isTasks() {
		busy, say = "ranks ran", &runTexts
	}
	p.Bill = append(p.Bill, line{busy, seconds(b.Busy), true})
	for c := range numCauses {
		if b.Idle[c] > 0 {
			p.Bill = append(p.Bill, line{say[c], seconds(b.Idle[c]), false})
		}
	}
	p.Bound = seconds(k.work.bound())
	p.InUse = k.work.samples(changes, maxSamples)
}

// relative are spans in microseconds since the begin of the job.
func (w *work) relative(list []span) []span {
	out := make([]span, len(list))
	for i, s := range list {
		out[i] = span{(s.Begin - w.Begin) / 1e3, (s.End - w.Begin) / 1e3}
	}
	return out
}
