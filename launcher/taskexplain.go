package launcher

import (
	"fmt"
	"strconv"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/stealer"
)

// TasksSum is what the nodes have of a job of tasks, and which of them did not say.
type TasksSum struct {
	TasksHere
	Silent []filch.NodeName // they did not answer: what they have counts as waiting
}

// Add adds what a node answered.
func (s *TasksSum) Add(v *TasksHere) {
	s.Waiting += v.Waiting
	s.Ready += v.Ready
	s.Running += v.Running
	s.Late += v.Late
	s.Held += v.Held
	s.Tied += v.Tied
	s.Opening += v.Opening
	s.Cap = max(s.Cap, v.Cap)
	if v.Of >= s.Of && v.Expected > 0 {
		s.Expected, s.Limited, s.Of = v.Expected, v.Limited, v.Of
	}
	if s.Why == "" {
		s.Why = v.Why
	}
}

// Fill has the info of a job, made from its record, say which of the tasks that have
// not ended run, and which are ready.
func (s *TasksSum) Fill(i *JobInfo) {
	c := &i.Tasks
	left := c.Waiting
	c.Running = int32(min(s.Running, int64(left)))
	c.Ready = int32(min(s.Ready, int64(left-c.Running)))
	c.Waiting = left - c.Running - c.Ready
	if c.Running > 0 {
		i.State = filch.Running.String()
	}
}

// ExplainTasks says why a job of tasks stands where it stands, by its record and by
// what the nodes have of it. Of a job that has not ended it always has a word.
func (n *Node) ExplainTasks(rec *mtc.Job, i *JobInfo, s *TasksSum) Explanation {
	x := Explanation{Job: i.ID, State: i.State, Phase: "tasks", Need: i.Tasks.Total, Text: i.Cause}
	if i.Code != nil {
		x.Phase = "end"
		return x
	}
	x.Text, x.Stuck = n.tasksText(rec, i, s)
	x.Text = s.Explain(x.Text) + n.goneTasksText()
	return x
}

func (n *Node) tasksText(rec *mtc.Job, i *JobInfo, s *TasksSum) (text string, stuck bool) {
	c := &i.Tasks
	switch {
	case i.Open && c.Running+c.Ready+c.Waiting == 0:
		return fmt.Sprintf("it is open, and all of its tasks have ended: filch submit --to %d adds more, filch close %[1]d ends it", i.ID), false
	case s.Held > 0:
		text = strconv.FormatInt(s.Held, 10) + " tasks that run once wait until the queue's mirror tells of them"
		if s.Why != "" {
			text += ": " + s.Why
		}
		return text, false
	case c.Running > 0:
		return n.runningText(c, s) + n.openingText(s), false
	case c.Ready > 0 && s.Opening > 0:
		return tasksDo(c.Ready, "is", "are") + " ready" + n.openingText(s), false
	case c.Ready > 0 && s.Late >= int64(c.Ready):
		return tasksDo(c.Ready, "is", "are") + " ready", true
	case c.Ready > 0:
		return n.readyText(c.Ready)
	case len(rec.After) > 0 && c.Waiting == c.Total:
		return "it waits for the end of " + jobList(rec.After), false
	}
	return n.unheldText(rec, c, s) + n.faultText(), false
}

// faultText says what keeps the store from recording; "" if nothing is known to.
func (n *Node) faultText() string {
	if fault := n.storeFault(); fault != "" {
		return "; " + fault + ", as filch doctor says"
	}
	return ""
}

// openingText says of how many of the ready tasks the start is being recorded; "" if of none.
func (n *Node) openingText(s *TasksSum) string {
	if s.Opening == 0 {
		return ""
	}
	return fmt.Sprintf("; of %d the start is being recorded", s.Opening) + n.faultText()
}

func (n *Node) runningText(c *TaskCounts, s *TasksSum) string {
	text := fmt.Sprintf("%s, %d %s ready", tasksDo(c.Running, "runs", "run"), c.Ready, plural(c.Ready, "is", "are"))
	if c.Ready > 0 && s.Cap > 0 {
		text += fmt.Sprintf("; at most %d run at a time", s.Cap)
	}
	if drained, _ := n.Drained(); drained != "" && c.Ready > 0 {
		text += "; " + drained
	}
	if s.Tied > 0 {
		text += fmt.Sprintf("; %d of them wait for runs that they started, and those for slots that only such tasks have", s.Tied)
	}
	return text
}

// readyText says what tasks wait for that are ready: for slots, or for a node that
// takes work; stuck says that there is none.
func (n *Node) readyText(ready int32) (text string, stuck bool) {
	drained, all := n.Drained()
	if text = tasksDo(ready, "is", "are") + " ready"; all {
		return text + ", and no node takes work: " + drained + "; filch drain --undo NODE ends that", true
	}
	text += plural(ready, " and waits for slots", " and wait for slots")
	if drained != "" {
		return text + " of the other nodes: " + drained, false
	}
	return text + "; filch nodes shows who has them", false
}

// unheldText says where tasks are that no node has that answered.
func (n *Node) unheldText(rec *mtc.Job, c *TaskCounts, s *TasksSum) string {
	if mutantMuteTasks {
		return ""
	}
	lead := rec.Steward
	switch k := n.members.Find(lead.Node); {
	case lead.Node == n.cfg.Name:
	case k < 0:
		return fmt.Sprintf("%s, which led the job, is not among the nodes: another node takes over its %d tasks that have not ended, 15 s after it first missed %[1]s",
			lead.Node, c.Waiting)
	case n.members.At(k).Standing >= stealer.Dead || n.members.At(k).Incarnation != lead.Incarnation:
		return fmt.Sprintf("%s, which led the job, is dead: another node takes over its %d tasks that have not ended", lead.Node, c.Waiting)
	}
	if len(s.Silent) > 0 {
		return fmt.Sprintf("%s waiting, and %s did not answer", tasksDo(c.Waiting, "is", "are"), listNames(s.Silent))
	}
	return tasksDo(c.Waiting, "is", "are") + " on the way from one node to another, read back after a node died, or done and about to be recorded"
}

// goneTasksText says what becomes of tasks where nodes are gone; "" if none is.
func (n *Node) goneTasksText() string {
	var gone []filch.NodeName
	for i := range n.members.Len() {
		if p := n.members.At(int32(i)); p.Standing == stealer.Gone {
			gone = append(gone, p.Name)
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return "; no launcher runs on " + listNames(gone) + ": its tasks go on elsewhere, but those that run once and were started there " +
		"wait until it is back, or is dead 5 s after its last sign of life"
}

// tasksDo says what a number of tasks do: "1 task runs", "2 tasks run".
func tasksDo(n int32, one, more string) string {
	return fmt.Sprintf("%d %s %s", n, plural(n, "task", "tasks"), plural(n, one, more))
}

func plural(n int32, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
