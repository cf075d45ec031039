package screen

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// The inputs of [Model.Update].
type (
	// Size is the size of the terminal, in cells.
	Size struct{ Width, Height int }
	// Key is a key by name: "q", "up", "enter", "ctrl+c".
	Key string
	// Tick says what time it is.
	Tick time.Time
	// Told is an answer of a launcher.
	Told struct {
		At   time.Time
		View *wire.Overview
	}
	// Failed is a question without an answer.
	Failed struct {
		At   time.Time
		Text string
	}
	// Said is what a command printed.
	Said struct{ Title, Text string }
)

// Order is what the program has to do after an input; the zero value is nothing.
type Order struct {
	Quit  bool
	Run   []string // arguments of filch; a [Said] with the Title follows
	Title string
}

// pane is a part of the screen with a selected row.
type pane uint8

const (
	paneJobs pane = iota
	paneNodes
)

// mode is what the screen shows, and what a key means.
type mode uint8

const (
	modeTables  mode = iota
	modeFilter       // keys write the filter
	modeConfirm      // y gives the order
	modeText         // the output of a command, or the help
)

// Limits of what a screen remembers.
const (
	textLines  = 2000 // of the output of a command
	filterMax  = 64   // letters of the filter
	marksMax   = 32   // of the ends of a job's tasks, for the rate
	rateOver   = 10 * time.Second
	letters    = 26 // of the alphabet; all but deadLetter are for jobs
	anyLetter  = '#'
	deadLetter = 'x'
	recentOver = 5 * time.Second // a steal is new for so long
)

// Model is all that a screen knows. The zero Model with an Instance is a screen without
// data.
type Model struct {
	Instance string
	Color    bool
	Once     bool // all rows, no keys

	width, height int
	now           time.Time
	view          *wire.Overview
	at            time.Time // of view
	fault         string    // why the last question has no answer
	tasks         bool      // the tasks of the selected job are shown

	focus      pane
	job        filch.JobID    // selected
	node       filch.NodeName // selected
	jobSort    int
	nodeSort   int
	filter     string
	mode       mode
	ask        string // of modeConfirm
	order      Order  // of modeConfirm
	title      string // of modeText
	lines      []string
	top        int // first line of modeText
	letterOf   map[filch.JobID]byte
	marks      map[filch.JobID][]mark
	nodes      map[filch.NodeName]nodePast
	nodesTop   int
	jobsTop    int
	stealRate  float64
	endRate    float64
	jobsShown  []row
	nodesShown []int // indices of view.Nodes
}

// row is a job in the order of the screen.
type row struct{ index int }

// mark is the number of a job's ended tasks at a time.
type mark struct {
	at   time.Time
	done int32
}

// nodePast is what the screen remembers of a node.
type nodePast struct {
	seen   time.Time // last answer
	info   wire.NodeGlance
	rate   float64 // tasks a second between the last two answers
	won    map[filch.NodeName]int64
	stolen map[filch.NodeName]time.Time // a steal was new at this time
}

// Wants is the job whose tasks the screen shows; 0: none.
func (m Model) Wants() filch.JobID {
	if m.tasks {
		return m.job
	}
	return 0
}

// Update takes an input.
func (m Model) Update(in any) (Model, Order) {
	switch in := in.(type) {
	case Size:
		m.width, m.height = in.Width, in.Height
	case Tick:
		m.now = time.Time(in)
	case Told:
		m.told(in)
	case Failed:
		m.now, m.fault = in.At, in.Text
	case Said:
		m.mode, m.title, m.top = modeText, in.Title, 0
		m.lines = strings.SplitN(strings.TrimRight(in.Text, "\n"), "\n", textLines+1)
		if len(m.lines) > textLines {
			m.lines = append(m.lines[:textLines:textLines], "(more lines are left out)")
		}
	case Key:
		order := m.key(string(in))
		m.arrange()
		return m, order
	}
	m.arrange()
	return m, Order{}
}

// told takes an answer. Rates come from the answer before.
func (m *Model) told(in Told) {
	span := in.At.Sub(m.at).Seconds()
	first := m.view == nil || span <= 0
	m.now, m.fault = in.At, ""
	past := m.nodes
	m.nodes = make(map[filch.NodeName]nodePast, len(in.View.Nodes))
	ends, steals := int64(0), int64(0)
	for _, n := range in.View.Nodes {
		old, known := past[n.Node]
		p := nodePast{seen: in.At, info: n, stolen: map[filch.NodeName]time.Time{}, won: map[filch.NodeName]int64{}}
		if n.Silent || n.Work.Silent {
			p = old // the last answer stays
			if !known {
				p.info = n
			}
			p.info.State, p.info.Silent, p.rate = n.State, true, 0
			m.nodes[n.Node] = p
			continue
		}
		if e := n.Work.Ended - old.info.Work.Ended; known && !first && e >= 0 {
			ends += e
			steals += max(n.Work.Won-old.info.Work.Won, 0)
			p.rate = float64(e) / span
		}
		for _, t := range n.Work.From {
			p.won[t.Victim] = t.Won
			at, recent := old.stolen[t.Victim]
			if known && !first && t.Won > old.won[t.Victim] {
				at, recent = in.At, true
			}
			if recent && in.At.Sub(at) < recentOver {
				p.stolen[t.Victim] = at
			}
		}
		m.nodes[n.Node] = p
	}
	if !first {
		m.endRate, m.stealRate = float64(ends)/span, float64(steals)/span
	}
	m.remember(in)
	m.view, m.at = in.View, in.At
}

// remember notes the ends of tasks, and gives letters to jobs with slots.
func (m *Model) remember(in Told) {
	marks := make(map[filch.JobID][]mark, len(in.View.Jobs))
	for i := range in.View.Jobs {
		j := &in.View.Jobs[i]
		list := append(slices.Clone(m.marks[j.ID]), mark{in.At, done(j)})
		for len(list) > 2 && (len(list) > marksMax || in.At.Sub(list[0].at) > rateOver) {
			list = list[1:]
		}
		marks[j.ID] = list
	}
	m.marks = marks
	holds := map[filch.JobID]bool{}
	for i := range in.View.Nodes {
		for _, h := range m.nodes[in.View.Nodes[i].Node].info.Holders {
			holds[h.Job] = true
		}
	}
	kept, used := map[filch.JobID]byte{}, [letters]bool{}
	for id, l := range m.letterOf { // in any order: letters differ
		if holds[id] && l != anyLetter {
			kept[id] = l
			used[l-'a'] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(holds)) {
		if kept[id] != 0 {
			continue
		}
		kept[id] = anyLetter
		// A job keeps its letter from frame to frame, and most jobs get the letter of their id.
		for k := range letters {
			l := (int(id) - 1 + k) % letters
			if !used[l] && 'a'+l != deadLetter {
				used[l] = true
				kept[id] = byte('a' + l)
				break
			}
		}
	}
	m.letterOf = kept
}

// done counts the ended tasks of a job.
func done(j *wire.OverviewJob) int32 {
	t := &j.Tasks
	return t.OK + t.Failed + t.Killed + t.Lost + t.Skipped + t.Cancelled
}

// rateOf is how many tasks of a job end a second: in the last seconds, or since the begin.
func (m *Model) rateOf(j *wire.OverviewJob) float64 {
	list := m.marks[j.ID]
	if len(list) >= 2 {
		a, b := list[0], list[len(list)-1]
		if span := b.at.Sub(a.at).Seconds(); span > 0 {
			return float64(b.done-a.done) / span
		}
	}
	if j.Elapsed > 0 {
		return float64(done(j)) / j.Elapsed
	}
	return 0
}

// The orders of the tables.
var (
	jobSorts  = []string{"state", "id", "done", "slots", "elapsed"}
	nodeSorts = []string{"name", "busy", "ready", "rate"}
)

// arrange chooses and sorts the rows, and keeps the selection on rows that exist.
func (m *Model) arrange() {
	if m.view == nil {
		return
	}
	m.jobsShown, m.nodesShown = nil, nil
	for i := range m.view.Jobs {
		if j := &m.view.Jobs[i]; m.passes(j.ID.String(), j.Name, j.Kind, j.State) {
			m.jobsShown = append(m.jobsShown, row{i})
		}
	}
	slots := m.slotsOf()
	slices.SortStableFunc(m.jobsShown, func(x, y row) int {
		a, b := &m.view.Jobs[x.index], &m.view.Jobs[y.index]
		switch jobSorts[m.jobSort] {
		case "state":
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.ID, a.ID))
		case "done":
			return cmp.Or(cmp.Compare(share(b), share(a)), cmp.Compare(a.ID, b.ID))
		case "slots":
			return cmp.Or(cmp.Compare(slots[b.ID], slots[a.ID]), cmp.Compare(a.ID, b.ID))
		case "elapsed":
			return cmp.Or(cmp.Compare(b.Elapsed, a.Elapsed), cmp.Compare(a.ID, b.ID))
		}
		return cmp.Compare(a.ID, b.ID)
	})
	for i := range m.view.Nodes {
		if n := &m.view.Nodes[i]; m.passes(string(n.Node), n.State, string(n.Labels)) {
			m.nodesShown = append(m.nodesShown, i)
		}
	}
	slices.SortStableFunc(m.nodesShown, func(x, y int) int {
		a, b := m.nodes[m.view.Nodes[x].Node], m.nodes[m.view.Nodes[y].Node]
		switch nodeSorts[m.nodeSort] {
		case "busy":
			return cmp.Compare(b.info.Work.Busy, a.info.Work.Busy)
		case "ready":
			return cmp.Compare(b.info.Work.Ready, a.info.Work.Ready)
		case "rate":
			return cmp.Compare(b.rate, a.rate)
		}
		return 0 // by name
	})
	m.keepSelection()
}

func (m *Model) keepSelection() {
	if len(m.jobsShown) > 0 && m.jobRow() < 0 {
		m.job = m.view.Jobs[m.jobsShown[0].index].ID
	}
	if len(m.nodesShown) > 0 && m.nodeRow() < 0 {
		m.node = m.view.Nodes[m.nodesShown[0]].Node
	}
	l := m.layout()
	m.jobsTop = scroll(m.jobsTop, m.jobRow(), l.jobs, len(m.jobsShown))
	m.nodesTop = scroll(m.nodesTop, m.nodeRow(), l.nodes, len(m.nodesShown))
	m.top = min(max(m.top, 0), max(len(m.lines)-l.text, 0))
}

// scroll is the first visible row, so that the selected row is visible.
func scroll(top, selected, visible, all int) int {
	if selected >= 0 {
		top = max(min(top, selected), selected-visible+1)
	}
	return max(min(top, all-visible), 0)
}

func (m *Model) jobRow() int {
	return slices.IndexFunc(m.jobsShown, func(r row) bool { return m.view.Jobs[r.index].ID == m.job })
}

func (m *Model) nodeRow() int {
	return slices.IndexFunc(m.nodesShown, func(i int) bool { return m.view.Nodes[i].Node == m.node })
}

// passes reports whether one of the words contains the filter.
func (m *Model) passes(words ...string) bool {
	return m.filter == "" || slices.ContainsFunc(words, func(w string) bool {
		return strings.Contains(strings.ToLower(w), strings.ToLower(m.filter))
	})
}

// slotsOf sums the slots of each job over the nodes.
func (m *Model) slotsOf() map[filch.JobID]int32 {
	all := map[filch.JobID]int32{}
	for _, p := range m.nodes { // in any order: sums
		if alive(p.info.State) {
			for _, h := range p.info.Holders {
				all[h.Job] += h.Slots
			}
		}
	}
	return all
}

// alive reports whether a node in this state may run ranks and tasks.
func alive(state string) bool { return state == "up" || state == "draining" || state == "suspect" }

// rank orders jobs by state: running, then waiting, then over.
func rank(j *wire.OverviewJob) int {
	switch {
	case j.Code != nil:
		return 2
	case j.State == filch.Running.String():
		return 0
	}
	return 1
}

// share is the ended part of a job's tasks, from 0 to 1.
func share(j *wire.OverviewJob) float64 {
	if j.Tasks.Total == 0 {
		return 0
	}
	return float64(done(j)) / float64(j.Tasks.Total)
}
