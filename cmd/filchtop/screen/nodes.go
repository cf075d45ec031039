package screen

import (
	"fmt"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Widths of the columns of nodes.
const (
	nodeNameMin, nodeNameMax = 6, 16
	busyWidth                = 9
	readyWidth               = 8
	rateWidth                = 7
	stealsMin                = 16
	cellsMin                 = 8
)

// nodeColumns are the columns of the nodes on this screen.
type nodeColumns struct{ name, cells, steals, each int }

// columns divides the width: names, cells, numbers, steals. If a node has more slots than
// there are cells, a cell stands for several slots.
func (m *Model) columns(width int) nodeColumns {
	c := nodeColumns{name: nodeNameMin, each: 1}
	most := 1
	for i := range m.view.Nodes {
		n := &m.view.Nodes[i]
		c.name = min(max(c.name, len(n.Node)+2), nodeNameMax)
		most = max(most, int(n.Slots))
	}
	room := max(width-c.name-busyWidth-readyWidth-rateWidth-stealsMin-4, cellsMin)
	for (most+c.each-1)/c.each > room {
		c.each *= 2
	}
	c.cells = max((most+c.each-1)/c.each, len("SLOTS 1:16"))
	c.steals = max(width-c.name-busyWidth-readyWidth-rateWidth-4-c.cells, 0)
	return c
}

// nodeRows are the rows of nodes, with the head.
func (m *Model) nodeRows(l *layout) []string {
	c := m.columns(l.width)
	slots := "SLOTS"
	if c.each > 1 {
		slots = fmt.Sprintf("SLOTS 1:%d", c.each)
	}
	head := fit("  NODE", c.name) + " " + fit(slots, c.cells) + " " + right("BUSY", busyWidth) + right("READY", readyWidth) + right("RATE", rateWidth) + "  STEALS FROM"
	if end := m.nodesTop + l.nodes; m.nodesTop > 0 || end < len(m.nodesShown) {
		head += fmt.Sprintf("  (%d-%d of %d)", m.nodesTop+1, min(end, len(m.nodesShown)), len(m.nodesShown))
	}
	lines := []string{m.head(head, m.focus == paneNodes)}
	for _, i := range m.nodesShown[m.nodesTop:min(m.nodesTop+l.nodes, len(m.nodesShown))] {
		lines = append(lines, m.nodeLine(m.view.Nodes[i].Node, &c))
	}
	return lines
}

// head marks the table that keys move in.
func (m *Model) head(s string, focus bool) string {
	if m.Once {
		return s
	}
	if focus {
		s = ">" + s[1:]
	}
	return m.paint(dim, s)
}

func (m *Model) nodeLine(name filch.NodeName, c *nodeColumns) string {
	p := m.nodes[name]
	n := &p.info
	mark := " "
	if name == m.node && !m.Once {
		mark = "*"
	}
	title := fit(mark+" "+string(name), c.name)
	if name == m.node && m.focus == paneNodes {
		title = m.paint(chosen, title)
	}
	busy := fmt.Sprintf("%d/%d", n.Work.Busy, n.Slots)
	numbers := right(busy, busyWidth) + right(fmt.Sprint(n.Work.Ready), readyWidth) + right(number(p.rate), rateWidth)
	if m.Once {
		numbers = right(busy, busyWidth) + right(fmt.Sprint(n.Work.Ready), readyWidth) + right("-", rateWidth)
	}
	tail := numbers + "  " + fit(m.thefts(&p), c.steals)
	switch {
	case !alive(n.State):
		tail = m.paint(red, "  "+ui.Clean(n.State))
	case n.Silent:
		tail = m.paint(red, "  no answer")
	case n.State != "up":
		tail = numbers + "  " + fit(n.State+" "+m.thefts(&p), c.steals)
	}
	return title + " " + m.cells(n, c) + " " + tail
}

// thefts names the victims of a node, the last first.
func (m *Model) thefts(p *nodePast) string {
	var words []string
	for i := len(p.info.Work.From) - 1; i >= 0; i-- {
		t := p.info.Work.From[i]
		w := fmt.Sprintf("%s:%d", t.Victim, t.Won)
		if _, recent := p.stolen[t.Victim]; recent {
			w += "<"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

// cells draws the slots of a node, and fills the column. Jobs come in the order of their
// ids; a cell of several slots shows the job of the first slot that is not free.
func (m *Model) cells(n *wire.NodeGlance, c *nodeColumns) string {
	all := m.slotRow(n)
	var b strings.Builder
	count := 0
	for i := 0; i < len(all) && count < c.cells; i += c.each {
		one := all[i]
		for _, s := range all[i:min(i+c.each, len(all))] {
			if one.letter == '.' || one.letter == '-' {
				one = s
			}
		}
		b.WriteString(m.paint(one.style, string(rune(one.letter))))
		count++
	}
	b.WriteString(strings.Repeat(" ", max(c.cells-count, 0)))
	return b.String()
}

// cell is a slot on the screen.
type cell struct {
	letter byte
	style  style
}

// slotsMax bounds the cells of a node before they are joined.
const slotsMax = 1 << 14

// slotRow is a cell for each slot of a node.
func (m *Model) slotRow(n *wire.NodeGlance) []cell {
	total := int(min(max(n.Slots, 0), slotsMax))
	row := make([]cell, 0, total)
	put := func(k int32, c cell) {
		for range min(int(k), total-len(row)) {
			row = append(row, c)
		}
	}
	switch {
	case !alive(n.State):
		put(int32(total), cell{deadLetter, red})
		return row
	case n.Silent:
		put(int32(total), cell{'?', red})
		return row
	}
	for _, h := range n.Holders {
		put(h.Slots-h.Spare, m.jobCell(&h))
		put(h.Spare, cell{'+', jobStyle(m.letter(h.Job))})
	}
	put(n.Stuck, cell{'!', red})
	free := cell{'.', dim}
	if n.State == "draining" {
		free.letter = '-'
	}
	put(int32(total-len(row)), free)
	return row
}

func (m *Model) jobCell(h *launcher.Holder) cell {
	l := m.letter(h.Job)
	c := cell{l, jobStyle(l)}
	if h.Gathers && l != anyLetter {
		c.letter = l - 'a' + 'A'
		c.style = "4;" + c.style
	}
	return c
}

// letter is the letter of a job.
func (m *Model) letter(job filch.JobID) byte {
	if l, ok := m.letterOf[job]; ok {
		return l
	}
	return anyLetter
}
