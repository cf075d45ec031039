package screen

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// helpText is what the key ? shows.
const helpText = `A row of cells for each node, a cell for each slot:

  a-z   a slot with ranks or tasks of the job with this letter (list of jobs)
  A-Z   a slot that the job holds while it gathers more
  #     a slot of a job without a letter
  .     a free slot               -   a free slot of a node that drains
  +     a slot kept for a loss    !   a slot whose processes cannot be killed
  x     a slot of a dead node     ?   a slot of a node that did not answer

BUSY    slots with ranks or tasks, of all slots of the node
READY   tasks that wait on the node for slots
RATE    tasks that ended on the node, a second
STEALS FROM  where the node stole tasks last, steals won each; < in the last 5 s

  up down, j k, PgUp PgDn    move in the table with the mark >
  tab     the other table    s   another order of this table
  /       show only rows with a text; enter ends, esc shows all rows again
  e enter explain the job    l   last lines of the job's output
  t       tasks of the job   i   everything about the job
  x       cancel the job (asks first)
  d u     drain the node, or let it take work again (asks first)
  ?       this help          q   quit
`

// key acts on a key.
func (m *Model) key(k string) Order {
	if k == "ctrl+c" {
		return Order{Quit: true}
	}
	switch m.mode {
	case modeFilter:
		m.typed(k)
	case modeConfirm:
		m.mode = modeTables
		if k == "y" || k == "Y" {
			return m.order
		}
	case modeText:
		m.textKey(k)
	default:
		return m.tableKey(k)
	}
	return Order{}
}

// typed changes the filter.
func (m *Model) typed(k string) {
	switch {
	case k == "enter":
		m.mode = modeTables
	case k == "esc":
		m.mode, m.filter = modeTables, ""
	case k == "backspace":
		_, n := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-n]
	case k == "space":
		m.filter += " "
	case utf8.RuneCountInString(k) == 1 && utf8.RuneCountInString(m.filter) < filterMax:
		m.filter += k
	}
}

// textKey moves in a text, or ends it.
func (m *Model) textKey(k string) {
	page := max(m.layout().text-1, 1)
	switch k {
	case "up", "k":
		m.top--
	case "down", "j":
		m.top++
	case "pgup", "b":
		m.top -= page
	case "pgdown", "space", "f":
		m.top += page
	case "home", "g":
		m.top = 0
	case "end", "G":
		m.top = len(m.lines)
	case "q", "esc", "enter", "?":
		m.mode, m.lines = modeTables, nil
	}
}

// tableKey acts on a key above the tables.
func (m *Model) tableKey(k string) Order {
	page := m.layout().nodes
	if m.focus == paneJobs {
		page = m.layout().jobs
	}
	switch k {
	case "q":
		return Order{Quit: true}
	case "esc":
		m.filter = ""
	case "?", "h":
		*m, _ = m.Update(Said{Title: "help", Text: helpText})
	case "tab", "shift+tab":
		m.focus = 1 - m.focus
	case "/":
		m.mode = modeFilter
	case "s":
		if m.focus == paneJobs {
			m.jobSort = (m.jobSort + 1) % len(jobSorts)
		} else {
			m.nodeSort = (m.nodeSort + 1) % len(nodeSorts)
		}
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-page)
	case "pgdown", "space":
		m.move(page)
	case "home", "g":
		m.move(-len(m.jobsShown) - len(m.nodesShown))
	case "end", "G":
		m.move(len(m.jobsShown) + len(m.nodesShown))
	case "t":
		m.tasks = !m.tasks
	default:
		return m.orderKey(k)
	}
	return Order{}
}

// move moves the selection by rows.
func (m *Model) move(by int) {
	if n := len(m.jobsShown); m.focus == paneJobs && n > 0 {
		m.job = m.view.Jobs[m.jobsShown[min(max(m.jobRow()+by, 0), n-1)].index].ID
	}
	if n := len(m.nodesShown); m.focus == paneNodes && n > 0 {
		m.node = m.view.Nodes[m.nodesShown[min(max(m.nodeRow()+by, 0), n-1)]].Node
	}
}

// orderKey is a key for a command of filch.
func (m *Model) orderKey(k string) Order {
	id := m.job.String()
	if m.job != 0 && m.jobRow() >= 0 {
		switch k {
		case "e", "enter":
			return runs("explain", id)
		case "i":
			return runs("info", id)
		case "l":
			return runs("logs", "--tail", strconv.Itoa(logLines), id)
		case "x":
			j := &m.view.Jobs[m.jobsShown[m.jobRow()].index]
			if j.Code != nil {
				return Order{}
			}
			m.confirm(fmt.Sprintf("cancel job %s (%s)?", id, ui.Clean(j.Name)), runs("cancel", "--yes", "-m", "filch top", id))
		}
	}
	if m.node != "" && m.nodeRow() >= 0 {
		switch k {
		case "d":
			m.confirm(fmt.Sprintf("drain node %s?", ui.Clean(string(m.node))), runs("drain", string(m.node)))
		case "u":
			m.confirm(fmt.Sprintf("let node %s take work again?", ui.Clean(string(m.node))), runs("drain", "--undo", string(m.node)))
		}
	}
	return Order{}
}

// logLines is how many lines of a job's output the key l shows.
const logLines = 200

func runs(args ...string) Order {
	return Order{Run: args, Title: ui.Clean("filch " + strings.Join(args, " "))}
}

func (m *Model) confirm(question string, o Order) { m.mode, m.ask, m.order = modeConfirm, question, o }
