package screen

import (
	"fmt"
	"strings"
	"time"

	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// Sizes of a screen: a smaller terminal shows the upper left part of the smallest screen.
const (
	widthMin  = 60
	heightMin = 12
	widthMax  = 400
)

// layout counts the rows of each part.
type layout struct {
	width              int
	nodes, jobs, tasks int // rows below the heads
	text               int // lines of a text
}

// layout divides the screen. The nodes get at most half of the rows, and the tasks a third.
func (m *Model) layout() (l layout) {
	l.width = min(max(m.width, widthMin), widthMax)
	if m.Once {
		return layout{width: l.width, nodes: len(m.nodesShown), jobs: len(m.jobsShown), text: len(m.lines)}
	}
	height := max(m.height, heightMin)
	l.text = height - 2
	rest := height - 6 // two lines on top, two heads, the selected job, the keys
	if m.tasks {
		l.tasks = max(rest/3-1, 1)
		rest -= l.tasks + 1
	}
	l.nodes = min(len(m.nodesShown), max(rest/2, 1))
	l.jobs = max(rest-l.nodes, 0)
	return l
}

// Frame is the screen: lines without line ends, as many as the terminal has, none longer
// than the terminal is wide.
func (m *Model) Frame() []string {
	l := m.layout()
	var lines []string
	switch {
	case m.mode == modeText && !m.Once:
		lines = m.textFrame(&l)
	case m.view == nil:
		lines = append(lines, m.paint(bold, ui.Clean(m.Instance)), m.alert())
	default:
		lines = append(lines, m.paint(bold, m.headLine()), m.alert())
		lines = append(lines, m.nodeRows(&l)...)
		lines = append(lines, m.jobRows(&l)...)
		if l.tasks > 0 {
			lines = append(lines, m.taskRows(&l)...)
		}
	}
	if m.Once {
		for i := range lines {
			lines[i] = strings.TrimRight(clip(lines[i], l.width), " ")
		}
		return lines
	}
	height := max(m.height, 1)
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	if height >= heightMin && m.mode != modeText {
		lines[height-2] = m.jobDetail()
	}
	lines = append(lines[:height-1], m.footLine())
	for i := range lines {
		lines[i] = strings.TrimRight(clip(lines[i], max(m.width, 1)), " ")
	}
	return lines
}

func (m *Model) textFrame(l *layout) []string {
	end := min(m.top+l.text, len(m.lines))
	lines := []string{m.paint(bold, fmt.Sprintf("%s  lines %d-%d of %d", ui.Clean(m.title), min(m.top+1, end), end, len(m.lines)))}
	for _, s := range m.lines[m.top:end] {
		lines = append(lines, ui.Clean(strings.ReplaceAll(strings.TrimSuffix(s, "\r"), "\t", "    ")))
	}
	return lines
}

// headLine sums the nodes up.
func (m *Model) headLine() string {
	up, busy, slots, ready := 0, int32(0), int32(0), int64(0)
	for i := range m.view.Nodes {
		n := m.nodes[m.view.Nodes[i].Node].info
		if !alive(n.State) || n.Silent {
			continue
		}
		up++
		busy, slots = busy+n.Work.Busy, slots+n.Slots
		ready += n.Work.Ready
	}
	s := ui.Clean(m.Instance)
	if !m.Once {
		s += "  " + age(m.now.Sub(m.at)) + " old"
	}
	s += fmt.Sprintf("  %d/%d nodes  %d/%d slots  %d ready", up, len(m.view.Nodes), busy, slots, ready)
	if !m.Once {
		s += fmt.Sprintf("  %s tasks/s  %s steals/s", number(m.endRate), number(m.stealRate))
	}
	return s
}

// age is a time in whole seconds.
func age(d time.Duration) string { return fmt.Sprintf("%ds", int(max(d, 0).Seconds())) }

// alert says what is wrong: that no launcher answers, or which nodes are lost.
func (m *Model) alert() string {
	if m.fault != "" {
		s := m.fault
		if m.view != nil {
			s += "; the rest is " + age(m.now.Sub(m.at)) + " old"
		}
		return m.paint(red, "! "+ui.Clean(s))
	}
	if m.view == nil {
		return "asking the launcher"
	}
	var words []string
	more := 0
	for i := range m.view.Nodes {
		p := m.nodes[m.view.Nodes[i].Node]
		n := &p.info
		if n.State == "left" || alive(n.State) && !n.Silent {
			continue
		}
		if len(words) == alertNodes {
			more++
			continue
		}
		w := ui.Clean(string(n.Node)) + " is " + ui.Clean(n.State)
		if alive(n.State) {
			w = ui.Clean(string(n.Node)) + " does not answer"
		}
		if !p.seen.IsZero() {
			w += ", last seen " + age(m.now.Sub(p.seen)) + " ago"
		}
		words = append(words, w)
	}
	if more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	if len(words) == 0 {
		return ""
	}
	return m.paint(red, "! "+strings.Join(words, "; "))
}

// alertNodes bounds the lost nodes in one line.
const alertNodes = 4

// footLine names the keys, or asks.
func (m *Model) footLine() string {
	switch m.mode {
	case modeFilter:
		return "show rows with: " + ui.Clean(m.filter) + "_   (enter: done, esc: all rows)"
	case modeConfirm:
		return m.paint(red, m.ask+" y or n")
	case modeText:
		return m.paint(dim, "up down PgUp PgDn: move   q: back")
	}
	order := jobSorts[m.jobSort]
	if m.focus == paneNodes {
		order = nodeSorts[m.nodeSort]
	}
	s := "? help  q quit  tab  s by " + order + "  / filter  e explain  t tasks  l logs  x cancel  d drain"
	if m.filter != "" {
		s = "rows with \"" + ui.Clean(m.filter) + "\"  (esc: all)  " + s
	}
	return m.paint(dim, s)
}
