package screen

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Widths of the columns of jobs.
const (
	idWidth      = 6
	jobNameMin   = 10
	jobNameMax   = 32
	kindWidth    = 8
	stateWidth   = 9
	doneWidth    = 14
	slotsWidth   = 6
	elapsedWidth = 8
	barWide      = 10
	wide         = 120 // from this width on, jobs have a bar and a kind
)

// jobRows are the rows of jobs, with the head.
func (m *Model) jobRows(l *layout) []string {
	name := jobNameMin
	if l.width >= wide {
		name = min(jobNameMin+(l.width-wide)/2, jobNameMax)
	}
	head := "    " + right("JOB", idWidth) + "  " + fit("NAME", name) + " "
	if l.width >= wide {
		head += fit("KIND", kindWidth) + " "
	}
	head += fit("STATE", stateWidth) + " " + right("DONE", doneWidth)
	if l.width >= wide {
		head += strings.Repeat(" ", barWide+3)
	}
	head += right("SLOTS", slotsWidth) + right("RATE", rateWidth) + right("LEFT", elapsedWidth) + "  WHERE / WHY"
	if end := m.jobsTop + l.jobs; m.jobsTop > 0 || end < len(m.jobsShown) || m.view.More > 0 {
		head += fmt.Sprintf("  (%d-%d of %d)", min(m.jobsTop+1, len(m.jobsShown)), min(end, len(m.jobsShown)), len(m.jobsShown)+m.view.More)
	}
	lines := []string{m.head(head, m.focus == paneJobs)}
	slots := m.slotsOf()
	for _, r := range m.jobsShown[m.jobsTop:min(m.jobsTop+l.jobs, len(m.jobsShown))] {
		j := &m.view.Jobs[r.index]
		lines = append(lines, m.jobLine(j, l.width, name, slots[j.ID]))
	}
	return lines
}

func (m *Model) jobLine(j *wire.OverviewJob, width, name int, slots int32) string {
	mark, letter := " ", " "
	if j.ID == m.job && !m.Once {
		mark = "*"
	}
	if l, ok := m.letterOf[j.ID]; ok {
		letter = m.paint(jobStyle(l), string(rune(l)))
	}
	title := right(j.ID.String(), idWidth) + "  " + fit(j.Name, name)
	if j.ID == m.job && m.focus == paneJobs {
		title = m.paint(chosen, title)
	}
	line := mark + " " + letter + " " + title + " "
	if width >= wide {
		line += fit(j.Kind, kindWidth) + " "
	}
	state := j.State
	if j.Held != "" && j.Code == nil {
		state = "held"
	}
	text := fit(state, stateWidth)
	switch state {
	case "failed", "killed", "lost":
		text = m.paint(red, text)
	}
	line += text + " "
	progress := fmt.Sprintf("%d ranks", j.Ranks)
	if isTasks(j) {
		progress = fmt.Sprintf("%d/%d", done(j), j.Tasks.Total)
	}
	line += right(progress, doneWidth)
	if width >= wide {
		b := strings.Repeat(" ", barWide+2)
		if isTasks(j) {
			b = bar(share(j), barWide)
		}
		line += " " + b
	}
	rate, left := "-", "-"
	if j.Code == nil {
		rate, left = m.pace(j)
	}
	return line + right(fmt.Sprint(slots), slotsWidth) + right(rate, rateWidth) + right(left, elapsedWidth) + "  " + ui.Clean(why(j))
}

// jobDetail is a line about the selected job: on a narrow screen the table has no room.
func (m *Model) jobDetail() string {
	row := m.jobRow()
	if m.view == nil || row < 0 {
		return ""
	}
	j := &m.view.Jobs[m.jobsShown[row].index]
	return fmt.Sprintf("* job %d %s: %s", j.ID, ui.Clean(j.Name), ui.Clean(why(j)))
}

func isTasks(j *wire.OverviewJob) bool { return j.Kind == "bag" || j.Kind == "workflow" }

// pace is the rate of a job without an end, and the time to its end: of tasks by the rate,
// of a run by the time limit.
func (m *Model) pace(j *wire.OverviewJob) (rate, left string) {
	rate, left = "-", "-"
	secs := j.Left
	if isTasks(j) && j.State == filch.Running.String() {
		r := m.rateOf(j)
		rate = number(r)
		if rest := float64(j.Tasks.Total - done(j)); r > 0 && !j.Open {
			secs = rest / r
		}
	}
	if secs > 0 {
		left = filch.ShortTime(time.Duration(min(secs, 1e8) * float64(time.Second)))
	}
	return rate, left
}

// why says where a job runs, what it lacks, or how it ended.
func why(j *wire.OverviewJob) string {
	switch {
	case j.Held != "" && j.Code == nil:
		return "held by " + j.Held
	case j.Gathers > 0:
		return fmt.Sprintf("%d %s: %s", j.Gathers, filch.Agree(j.Gathers, "gang gathers", "gangs gather"), cmp.Or(j.Lacks, "lacks slots"))
	case j.Cause != "" && (j.Code == nil || *j.Code != 0):
		return j.Cause
	case isTasks(j) && j.Code == nil:
		words := fmt.Sprintf("%d running, %d ready", j.Tasks.Running, j.Tasks.Ready)
		if bad := j.Tasks.Failed + j.Tasks.Killed + j.Tasks.Lost; bad > 0 {
			words = fmt.Sprintf("%d bad, ", bad) + words
		}
		return words
	case j.Code != nil:
		return "ended after " + filch.ShortTime(time.Duration(j.Elapsed*float64(time.Second)))
	}
	names := make([]string, len(j.Nodes))
	for i, n := range j.Nodes {
		names[i] = string(n)
	}
	if s := strings.Join(names, ","); s != "" {
		return "on " + s
	}
	return ""
}

// taskRows are the longest tasks of the selected job, with the head.
func (m *Model) taskRows(l *layout) []string {
	peak := ""
	for i := range m.view.Jobs {
		if j := &m.view.Jobs[i]; j.ID == m.job && j.Peak > 0 {
			peak = ", the largest ended task took " + ui.ShortSize(j.Peak)
		}
	}
	lines := []string{m.paint(dim, fmt.Sprintf("    TASKS of job %d that run, the longest first%s", m.job, peak))}
	if len(m.view.Tasks) == 0 {
		return append(lines, "    none")
	}
	for _, t := range m.view.Tasks[:min(len(m.view.Tasks), l.tasks)] {
		kind := ""
		if t.Copy {
			kind = "  a copy"
		}
		if len(t.Nodes) > 1 || len(t.Nodes) == 1 && t.Nodes[0] != t.Node {
			kind = "  ranks on " + launcher.ListNames(t.Nodes)
		}
		memory := "-"
		if t.Memory > 0 {
			memory = ui.ShortSize(t.Memory)
		}
		lines = append(lines, "    "+right(fmt.Sprintf("%d.%d", m.job, t.Index), 14)+"  "+fit(string(t.Node), nodeNameMax)+right(filch.ShortTime(time.Duration(t.Took*float64(time.Second))), elapsedWidth)+right(memory, 10)+right(fmt.Sprintf("try %d", t.Attempt), 8)+kind)
	}
	return lines
}
