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
	EndNS    int64            `json:"end_unix_ns"`
	Seconds  float64          `json:"seconds"`
	Nodes    []nodeRow        `json:"nodes"`
	Bars     columns          `json:"bars"`
	LeftOut  int              `json:"left_out"` // shorter bars that are not drawn
	Unknown  int32            `json:"unknown"`  // tasks without a recorded start and end
	InUse    []int32          `json:"in_use"`   // slots in use, at equal steps
	Bill     []line           `json:"bill"`
	Bound    float64          `json:"bound"`
	Slowest  []*tasklist.Row  `json:"slowest"`
	Bad      []*tasklist.Row  `json:"bad"`
	BadMore  int              `json:"bad_more"`
	Asked    asked            `json:"asked"`
	Steals   steals           `json:"steals"`
	Clocks   string           `json:"clocks"`
}

// nodeRow is a node of the page.
type nodeRow struct {
	Name  filch.NodeName `json:"name"`
	Slots int32          `json:"slots"`
	Lanes int32          `json:"lanes"` // tasks at a time at most
	Tasks int            `json:"tasks"`
	Busy  float64        `json:"busy"` // slot-seconds
	Lost  []span         `json:"lost"`
	Drain []span         `json:"drain"`
}

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

// line is a line of the bill.
type line struct {
	Text    string  `json:"text"`
	Seconds float64 `json:"seconds"` // of slots
	Busy    bool    `json:"busy,omitempty"`
}

// asked is what tasks asked for and used.
type asked struct {
	Slots    int32   `json:"slots"`        // of a task
	MemBytes int64   `json:"memory_bytes"` // of a task; 0: none
	SlotSecs float64 `json:"slot_seconds"` // of all tasks
	CPUSecs  float64 `json:"cpu_seconds"`
	Peak     int64   `json:"peak_bytes"` // the largest
}

// steals counts the steals that the nodes remember.
type steals struct {
	Won   int64 `json:"won"`
	Tasks int64 `json:"tasks"`
}

// ended is the last attempt of a task, for the timeline.
type ended struct {
	Bar     bar
	In, Out int64
	Task    int32
	State   filch.State
}

// collector collects the data of a page.
type collector struct {
	conn   *client.Client
	page   page
	work   work
	ends   []ended
	clocks clocks.Clocks
	at     map[filch.NodeName]int32 // in page.Nodes and work.Nodes
}

// collect reads a job of tasks, or a run, which has no tasks.
func collect(c *client.Client, id filch.JobID, instance string) (*page, error) {
	k := &collector{conn: c, at: map[filch.NodeName]int32{}}
	p := &k.page
	if err := cli.Ask(c, cli.QueryWait, &p.Job, wire.VerbInfo, id.String()); err != nil {
		return nil, err
	}
	p.Instance, p.MadeNS = instance, time.Now().UnixNano()
	p.EndNS = p.Job.Submit + int64((p.Job.Waited+p.Job.Elapsed)*1e9)
	p.Seconds = seconds(p.EndNS - p.Job.Submit)
	k.work.Begin, k.work.End = p.Job.Submit, p.EndNS
	k.clocks = clocks.Measure(c)
	p.Clocks = k.clocks.String()
	if !cli.IsTasks(&p.Job) {
		return p, nil
	}
	if err := k.nodes(); err != nil {
		return nil, err
	}
	if err := k.tasks(); err != nil {
		return nil, err
	}
	k.events()
	k.sumUp()
	return p, nil
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// nodes takes in the nodes of the instance.
func (k *collector) nodes() error {
	var list []wire.NodeInfo
	if err := cli.Ask(k.conn, cli.QueryWait, &list, wire.VerbNodes, wire.OnlyHere); err != nil {
		return err
	}
	for i := range list {
		if n := &list[i]; n.State != filch.Left.String() {
			k.work.Nodes[k.node(n.Node)].Slots = n.Slots
		}
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
func (k *collector) tasks() error {
	job, err := taskrecords.Open(k.conn, k.page.Job.ID)
	if err != nil {
		return err
	}
	p, each := &k.page, max(job.Spec.Each.Slots, 1)*max(job.Spec.Gang.Ranks, 1)
	k.work.Limit, k.work.Tasks, k.work.Each = job.Spec.Cap, job.Rec.Total, each
	k.work.Graph = job.Rec.Graph
	p.Asked.Slots, p.Asked.MemBytes = each, job.Spec.Each.MemBytes*int64(max(job.Spec.Gang.Ranks, 1))
	var bad []int32
	err = job.Each(func(i int32, t *record.Task) error {
		if !t.State.Final() {
			return nil
		}
		if t.State != filch.OK {
			bad = append(bad, job.Spec.Name(i))
		}
		if t.Began > 0 && t.By.Node != "" {
			k.end(job.Spec.Name(i), t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.Unknown = job.Rec.Total - int32(len(k.ends))
	slices.SortFunc(k.ends, func(a, b ended) int {
		return cmp.Or(cmp.Compare(b.Bar.length(), a.Bar.length()), cmp.Compare(a.Task, b.Task))
	})
	var slow []int32
	for i := range k.ends[:min(len(k.ends), maxListed)] {
		slow = append(slow, k.ends[i].Task)
	}
	p.BadMore = max(len(bad)-maxListed, 0)
	if p.Slowest, err = k.rows(slow); err == nil {
		p.Bad, err = k.rows(bad[:min(len(bad), maxListed)])
	}
	return err
}

// rows reads tasks with their names, commands and last lines.
func (k *collector) rows(tasks []int32) (list []*tasklist.Row, err error) {
	for _, i := range tasks {
		r, err := tasklist.Find(k.conn, k.page.Job.ID, i)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// end takes in the end of a task.
func (k *collector) end(name int32, t *record.Task) {
	begin := k.clocks.Correct(t.By.Node, t.Began*1e3)
	e := ended{Bar: bar{Begin: begin, End: begin + max(t.TookUS, 0)*1e3, Node: k.node(t.By.Node), Slots: k.work.Each}, Task: name, State: t.State}
	if t.Stages != nil {
		e.Bar.Queued, e.In, e.Out = int64(t.Stages.Queued), int64(t.Stages.In), int64(t.Stages.Out)
	}
	a := &k.page.Asked
	a.SlotSecs += seconds(e.Bar.length() * int64(e.Bar.Slots))
	if t.Usage != nil {
		a.CPUSecs += (t.Usage.User + t.Usage.System).Seconds()
		a.Peak = max(a.Peak, t.Usage.PeakBytes)
	}
	k.ends = append(k.ends, e)
}

// events takes in the losses and drains of nodes, and the steals. A node remembers its last
// events only: an event that is not there leaves its time to another cause.
func (k *collector) events() {
	another, err := k.conn.Another()
	if err != nil {
		return
	}
	defer another.Close()
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
	r := &eventlog.Reader{
		Since: k.page.Job.Submit,
		Idle:  func() error { return nil },
		Lost:  func(filch.NodeName, uint64) {},
		Event: func(node filch.NodeName, e *events.Event) error {
			at := k.clocks.Correct(node, e.UnixNS)
			switch e.Kind {
			case events.NodeDrains, events.NodeBack:
				n := &k.work.Nodes[k.node(node)]
				if e.Kind == events.NodeBack {
					shut(n.Drains, at)
				} else {
					n.Drains = open(n.Drains, at)
				}
			case events.NodeGone, events.NodeLost, events.NodeLeft:
				n := &k.work.Nodes[k.node(e.Peer)]
				n.Lost = open(n.Lost, at)
			case events.NodeUp:
				shut(k.work.Nodes[k.node(e.Peer)].Lost, at)
			case events.StealWon:
				if e.Job == 0 || e.Job == k.page.Job.ID {
					k.page.Steals.Won++
					k.page.Steals.Tasks += e.Count
				}
			}
			return nil
		},
	}
	_ = r.Run(another)
	for i := range k.work.Nodes {
		shut(k.work.Nodes[i].Lost, k.work.End)
		shut(k.work.Nodes[i].Drains, k.work.End)
	}
}

// sumUp makes the timeline, the slots in use and the bill.
func (k *collector) sumUp() {
	p := &k.page
	drawn := k.ends[:min(len(k.ends), maxDrawn)]
	p.LeftOut = len(k.ends) - len(drawn)
	k.draw(drawn)
	for i := range k.ends {
		e := &k.ends[i]
		k.work.Bars = append(k.work.Bars, e.Bar)
		n := &p.Nodes[e.Bar.Node]
		n.Tasks++
		n.Busy += seconds(e.Bar.length() * int64(e.Bar.Slots))
	}
	for i := range p.Nodes {
		n, w := &p.Nodes[i], &k.work.Nodes[i]
		w.Slots = max(w.Slots, n.Lanes*k.work.Each) // a node that is not there any more
		n.Slots = w.Slots
		n.Lost, n.Drain = w.relative(w.Lost, k.work.Begin), w.relative(w.Drains, k.work.Begin)
	}
	b := k.work.sum()
	p.Bill = append(p.Bill, line{"tasks ran", seconds(b.Busy), true})
	for c := range numCauses {
		if b.Idle[c] > 0 {
			p.Bill = append(p.Bill, line{texts[c], seconds(b.Idle[c]), false})
		}
	}
	p.Bound = seconds(k.work.bound())
	p.InUse = k.work.samples(maxSamples)
}

// relative are spans in microseconds since begin.
func (*nodeTime) relative(list []span, begin int64) []span {
	out := make([]span, len(list))
	for i, s := range list {
		out[i] = span{(s.Begin - begin) / 1e3, (s.End - begin) / 1e3}
	}
	return out
}

// draw gives each bar a lane of its node: the lowest that is free at its begin.
func (k *collector) draw(list []ended) {
	slices.SortFunc(list, func(a, b ended) int {
		return cmp.Or(cmp.Compare(a.Bar.Begin, b.Bar.Begin), cmp.Compare(a.Task, b.Task))
	})
	lanes := make([][]int64, len(k.page.Nodes))
	c := &k.page.Bars
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

// shade is the color of a bar: 0 ok, 1 failed, 2 other. (A []uint8 would become a text in JSON.)
func shade(s filch.State) int8 {
	switch s {
	case filch.OK:
		return 0
	case filch.Failed, filch.Killed, filch.Lost:
		return 1
	}
	return 2
}

// samples are the slots in use at n equal steps.
func (w *work) samples(n int) []int32 {
	list := make([]int32, n)
	step := max((w.End-w.Begin)/int64(n), 1)
	use, next := int32(0), 0
	for _, c := range w.changes() {
		for next < n && w.Begin+int64(next)*step < c.at {
			list[next] = use
			next++
		}
		use += c.running
	}
	for ; next < n; next++ {
		list[next] = use
	}
	return list
}
