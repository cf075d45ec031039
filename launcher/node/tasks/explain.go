package tasks

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/before"
	"github.com/filch-hpc/filch/mtc/record"
)

// Sum is the sum of the nodes' answers about a job of tasks, and the list of nodes
// without an answer.
type Sum struct {
	launcher.TasksHere
	Silent []filch.NodeName // no answer: their tasks are in no count
}

// Add adds a node's answer.
func (s *Sum) Add(v *launcher.TasksHere) {
	s.Waiting += v.Waiting
	s.Ready += v.Ready
	s.Running += v.Running
	s.Ending = s.Ending || v.Ending
	if v.Ended != nil {
		all := launcher.TaskCounts{}
		if s.Ended != nil {
			all = *s.Ended
		}
		all.Add(v.Ended)
		s.Ended = &all
	}
	if v.Began > 0 && (s.Began == 0 || v.Began < s.Began) {
		s.Began = v.Began
	}
	s.Late += v.Late
	s.Held += v.Held
	s.Tied += v.Tied
	s.Inner += v.Inner
	s.Opening += v.Opening
	if now, one := s.Gathers > 0, v.Gathers > 0; one && !now || one == now && s.Lacks == "" {
		s.Lacks = v.Lacks
	}
	s.Gathers += v.Gathers
	s.GangSlots += v.GangSlots
	s.Astray += v.Astray
	s.Remaining += v.Remaining
	if s.Ranks == "" {
		s.Ranks = v.Ranks
	}
	if s.Resting += v.Resting; v.Again > 0 && (s.Again == 0 || v.Again < s.Again) {
		s.Again = v.Again
	}
	s.Cap = max(s.Cap, v.Cap)
	if v.Of >= s.Of && v.Expected > 0 {
		s.Expected, s.Limited, s.Of = v.Expected, v.Limited, v.Of
	}
	if s.Why == "" {
		s.Why = v.Why
	}
	if v.License != "" && (s.License == "" || v.Ready > 0) {
		s.License, s.LicenseEach, s.LicenseFree = v.License, v.LicenseEach, v.LicenseFree
	}
	if s.Named == "" {
		s.Named = v.Named
	}
	if s.Placed == "" {
		s.Placed = v.Placed
	}
	if v.Ready > 0 && s.After == 0 {
		s.After = v.After
	}
	if s.Kind == "" || v.Suited > s.Suited {
		s.Kind, s.Suited = v.Kind, v.Suited
	}
}

// Fill sets in the info of a job, made from the job's record, how many of the live tasks
// are running and ready.
func (s *Sum) Fill(i *launcher.JobInfo) {
	c := &i.Tasks
	left := c.Waiting
	c.Running = int32(min(s.Running, int64(left)))
	c.Ready = int32(min(s.Ready, int64(left-c.Running)))
	c.Waiting = left - c.Running - c.Ready
	if at := float64(max(s.Began-i.Submit, 0)) / 1e9; s.Began > 0 && at < i.Waited {
		i.Elapsed, i.Waited = i.Waited+i.Elapsed-at, at
	}
	if c.Running > 0 {
		i.State = filch.Running.String()
	}
}

// Settle counts the tasks of a bag that no node has after [Sum.Fill]: tasks wait in workflows,
// and in jobs that wait for others. The others move between nodes, or their ends are being
// recorded. Beside ready tasks they are few: those with an end that a node tells of count as
// ended, and the others as ready, so that no more tasks seem to run than there are slots. Beside
// none they run, until their ends are recorded. Tasks that start no more, see [launcher.Void],
// neither run nor are ready.
func (s *Sum) Settle(i *launcher.JobInfo) {
	c := &i.Tasks
	waits := (i.Dep != "" || i.Begin != 0) && s.Running+s.Ready == 0 && !s.Ending
	if i.Kind != "bag" || i.Code != nil || waits || strings.Contains(i.Dep, record.WhenEach.String()) {
		return
	}
	if (c.Ready > 0 || i.Void != nil) && s.Ended != nil && s.Ended.Total <= c.Waiting { // else some ends are counted by now
		c.Waiting -= s.Ended.Total
		total := c.Total
		c.Add(s.Ended)
		c.Total = total
	}
	settleVoid(i)
	i.Ending = c.Waiting
	to := &c.Ready
	if c.Ready == 0 && (c.Running > 0 || s.Ending) {
		to = &c.Running
	}
	*to += c.Waiting
	if c.Waiting = 0; c.Running > 0 || s.Ending {
		i.State = filch.Running.String()
	}
}

// settleVoid counts tasks that no node has and that start no more by the order's state: of a
// whole job all, and of single tasks those without an end, if no other task is ready.
func settleVoid(i *launcher.JobInfo) {
	c, v := &i.Tasks, i.Void
	if v == nil || c.Ready > 0 && v.Tasks < c.Total {
		return
	}
	to := &c.Cancelled
	if v.State == filch.Skipped.String() {
		to = &c.Skipped
	}
	n := min(c.Waiting, max(v.Tasks-*to, 0))
	*to += n
	c.Waiting -= n
}

// explainer describes the state of jobs of tasks, with the reasons. An explainer changes
// nothing.
type explainer struct {
	*local.Self
	records *records.Records
}

// ExplainTasks explains the state of a job of tasks, from the job's record and the nodes'
// answers. For a live job the text is never empty.
func (e *explainer) ExplainTasks(rec *record.Job, i *launcher.JobInfo, s *Sum) launcher.Explanation {
	x := launcher.Explanation{Job: i.ID, State: i.State, Phase: "tasks", Need: i.Tasks.Total, Text: i.Cause}
	if i.Code != nil {
		x.Phase = "end"
		return x
	}
	x.Text, x.Stuck = e.tasksText(rec, i, s)
	if rec.Held {
		x.Text = fmt.Sprintf("%s holds the job: filch release %d lets more of its tasks start; %s", rec.By, i.ID, heldText(&i.Tasks))
		x.By, x.Stuck = rec.By, i.Tasks.Running == 0 // a command that waits says so
		return x
	}
	if x.Short = i.Tasks.Ready > 0 && !x.Stuck && s.Held == 0; x.Short {
		x.Takes = s.Named
	}
	if x.Deadlock = s.Tied > 0; x.Deadlock {
		x.Hint = fewerTasks
	}
	x.Text = addPace(&s.TasksHere, x.Text) + e.goneTasksText()
	if s.Placed != "" {
		x.Text += "; the policy auto places the tasks by " + s.Placed
	}
	x.Text += gathersText(&s.TasksHere)
	return x
}

// fewerTasks says how to run tasks that start runs without a deadlock.
const fewerTasks = "filch refuses the youngest of these runs, so that the oldest can start; to avoid this, start fewer tasks at a time (--array 1-50%2 runs two), or give each task the slots of its run: " +
	"filch submit -c N -- filch run -n N ..., without --new-job"

// heldText counts the tasks of a held job that go on, and the tasks that do not start.
func heldText(c *launcher.TaskCounts) string {
	left := countTasks(c.Ready+c.Waiting, "does not start", "do not start")
	if c.Running == 0 {
		return left
	}
	return countTasks(c.Running, "runs on", "run on") + ", " + left
}

func (e *explainer) tasksText(rec *record.Job, i *launcher.JobInfo, s *Sum) (text string, stuck bool) {
	c := &i.Tasks
	switch {
	case i.Open && c.Running+c.Ready+c.Waiting == 0:
		return fmt.Sprintf("the job is open, and all of its tasks have ended: filch submit --to %d adds tasks, filch close %[1]d ends the job", i.ID), false
	case s.Held > 0:
		text = strconv.FormatInt(s.Held, 10) + " --once tasks wait until the mirror of the queue has recorded them"
		if s.Why != "" {
			text += ": " + s.Why
		}
		return text, false
	case c.Running > 0:
		return e.runningText(c, s) + e.openingText(s), false
	case c.Ready > 0 && s.Opening > 0:
		return countTasks(c.Ready, "is", "are") + " ready" + e.openingText(s), false
	case c.Ready > 0 && s.Late >= int64(c.Ready):
		return countTasks(c.Ready, "is", "are") + " ready", true
	case c.Ready > 0 && s.Resting >= int64(c.Ready):
		return countTasks(c.Ready, "has", "have") + " failed and will be tried again" + againText(s) + " (--retry-delay)", false
	case c.Ready > 0 && s.Remaining >= int64(c.Ready):
		return countTasks(c.Ready, "is", "are") + " ready, and " + filch.Agree(c.Ready, "starts", "start") + " again when all ranks of the attempt before are gone" + ranksText(s), false
	case c.Ready > 0:
		text, stuck = e.readyText(c.Ready, s)
		return text + restingText(s) + remainsText(s), stuck
	}
	if w := before.New(i.ID, rec.Name, &rec.Conditions); w != nil && c.Waiting == c.Total {
		if met, _ := w.Verdict(i.Submit + int64((i.Waited+i.Elapsed)*1e9)); !met {
			return w.Text(), false
		}
	}
	return e.unheldText(rec, c, s) + e.faultText(), false
}

// faultText names the fault keeping the store from recording; "" if no fault is known.
func (e *explainer) faultText() string {
	if fault := e.records.StoreFault(); fault != "" {
		return "; " + fault + "; filch doctor says more"
	}
	return ""
}

// openingText says for how many of the ready tasks the start is being recorded; "" if for
// none.
func (e *explainer) openingText(s *Sum) string {
	if s.Opening == 0 {
		return ""
	}
	return fmt.Sprintf("; the starts of %d are being recorded", s.Opening) + e.faultText()
}

func (e *explainer) runningText(c *launcher.TaskCounts, s *Sum) string {
	text := fmt.Sprintf("%s, %d %s ready", countTasks(c.Running, "runs", "run"), c.Ready, filch.Agree(c.Ready, "is", "are"))
	if s.GangSlots > 0 && c.Ready == 0 { // with ready tasks, the list of holders says so
		text += "; the gangs that run have " + filch.Plural(int(s.GangSlots), "slot")
	}
	text += restingText(s) + remainsText(s)
	if s.Astray > 0 {
		text += fmt.Sprintf("; %d of them %s over when all ranks are gone", s.Astray, filch.Agree(s.Astray, "is", "are")) + ranksText(s)
	}
	if c.Ready > 0 && s.Cap > 0 {
		text += fmt.Sprintf("; at most %d run at a time", s.Cap)
	}
	if c.Ready > 0 && s.License != "" && s.LicenseFree < s.LicenseEach {
		text += "; they wait" + licenseText(s)
	}
	if drained, _ := e.Drained(); drained != "" && c.Ready > 0 {
		text += "; " + drained
	}
	switch {
	case s.Tied > 0:
		text += fmt.Sprintf("; deadlock: %d of them wait for runs that they started, and these runs wait for slots that such tasks hold", s.Tied)
	case s.Inner > 0:
		text += fmt.Sprintf("; %d of them keep their slots while they wait for runs that they started, which wait for slots", s.Inner)
	}
	return text
}

// gathersText says in sentences how many of the ready tasks are gangs that gather slots, and what
// one of them lacks; if none does, what keeps them from gathering, "" if that is unknown.
func gathersText(h *launcher.TasksHere) string {
	if h.Gathers == 0 && h.Lacks != "" {
		return ". No gang of the job gathers slots: " + h.Lacks
	} else if h.Gathers == 0 {
		return ""
	}
	text := fmt.Sprintf(". %d of the ready tasks %s of several nodes", h.Gathers, filch.Agree(h.Gathers, "is a gang that gathers slots", "are gangs that gather slots"))
	if h.Lacks != "" {
		text += ". " + filch.Agree(h.Gathers, "This gang", "One of these gangs") + " waits: " + h.Lacks
	}
	return text
}

// remainsText says how many of the ready tasks are gangs that wait for the ranks of their
// attempt before; "" if none does.
func remainsText(s *Sum) string {
	if s.Remaining == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of the ready %s again when all ranks of the attempt before are gone", s.Remaining, filch.Agree(s.Remaining, "starts", "start")) + ranksText(s)
}

// ranksText names nodes with ranks that a gang waits for; "" if no node is known.
func ranksText(s *Sum) string {
	if s.Ranks == "" {
		return ""
	}
	return ": " + s.Ranks
}

// restingText says how many of the ready tasks wait for their next try; "" if none does.
func restingText(s *Sum) string {
	if s.Resting == 0 {
		return ""
	}
	when := againText(s)
	if when == "" {
		when = " later"
	}
	return fmt.Sprintf("; %d of them failed and will be tried again%s (--retry-delay)", s.Resting, when)
}

// againText says when the first resting task is tried again; "" if that is unknown.
func againText(s *Sum) string {
	wait := filch.ShortTime(time.Duration(s.Again * float64(time.Second)).Round(time.Second))
	switch {
	case s.Again <= 0:
		return ""
	case s.Resting > 1:
		return ", the first in " + wait
	}
	return " in " + wait
}

// readyText says why ready tasks wait: for slots, or for a node taking work. stuck is
// true if no node takes work.
func (e *explainer) readyText(ready int32, s *Sum) (text string, stuck bool) {
	drained, all := e.Drained()
	switch {
	case s.License != "" && s.LicenseFree < s.LicenseEach:
		return countTasks(ready, "is", "are") + " ready and " + filch.Agree(ready, "waits", "wait") + licenseText(s), false
	case s.Kind != "" && s.Suited == 0:
		return countTasks(ready, "is", "are") + " ready, and no node suits: a task takes " + s.Kind + "; a node of that kind may join (filch up --label, filch join --label)", true
	case s.Kind != "" && s.Named != "":
		return fmt.Sprintf("%s ready and %s for room on the %s: a task takes %s%s; filch nodes shows the use of slots and resources",
			countTasks(ready, "is", "are"), filch.Agree(ready, "waits", "wait"), nodesThatSuit(s.Suited), s.Kind, afterText(s)), false
	case s.Kind != "":
		return fmt.Sprintf("%s ready and %s for slots of the %s: a task takes %s; filch nodes shows the use of slots",
			countTasks(ready, "is", "are"), filch.Agree(ready, "waits", "wait"), nodesThatSuit(s.Suited), s.Kind), false
	}
	if text = countTasks(ready, "is", "are") + " ready"; all {
		return text + ", and no node takes work: " + drained + "; filch drain --undo NODE ends a drain", true
	}
	text += filch.Agree(ready, " and waits for slots", " and wait for slots")
	if s.Named != "" {
		text += " and " + string(s.Named)
	}
	if drained != "" {
		return text + " of the other nodes: " + drained, false
	}
	return text + "; filch nodes shows the use of slots", false
}

// afterText names the job behind which ready tasks wait on their node; "" if there is none.
func afterText(s *Sum) string {
	if s.After == 0 {
		return ""
	}
	return fmt.Sprintf("; job %d, which is older, has a task there that finds no room: younger tasks do not overtake it", s.After)
}

// licenseText says what tasks lack of a resource that all nodes share.
func licenseText(s *Sum) string {
	return fmt.Sprintf(" for %d of %s, of which %d are free: filch resource shows the nodes that use it", s.LicenseEach, s.License, max(s.LicenseFree, 0))
}

func nodesThatSuit(n int) string {
	if n == 1 {
		return "one node that suits"
	}
	return fmt.Sprintf("%d nodes that suit", n)
}

// unheldText says where tasks are that no answering node has.
func (e *explainer) unheldText(rec *record.Job, c *launcher.TaskCounts, s *Sum) string {
	if mutantMuteTasks {
		return ""
	}
	lead := rec.Leader
	switch k := e.Members.Find(lead.Node); {
	case lead.Node == e.Cfg.Name:
	case k < 0:
		return fmt.Sprintf("%s, the leader of the job, is not a member: another node takes over its %d unfinished tasks, 15 s after missing %[1]s",
			lead.Node, c.Waiting)
	case e.Members.At(k).Standing >= filch.Dead || e.Members.At(k).Incarnation != lead.Incarnation:
		return fmt.Sprintf("%s, the leader of the job, is dead: another node takes over its %d unfinished tasks", lead.Node, c.Waiting)
	}
	if len(s.Silent) > 0 {
		return fmt.Sprintf("%s waiting, and %s did not answer", countTasks(c.Waiting, "is", "are"), launcher.ListNames(s.Silent))
	}
	if rec.Singly() && c.Waiting > 0 {
		return countTasks(c.Waiting, "waits", "wait") + ", each for the good end of a task with the same number (" + rec.Conditions.String() + ")"
	}
	if rec.Ordered() && c.Waiting > 0 {
		return countTasks(c.Waiting, "waits", "wait") + " behind longer tasks of the job"
	}
	recovered := ""
	for i := range e.Members.Len() {
		if e.Members.At(int32(i)).Standing >= filch.Dead {
			recovered = " being recovered from a dead node,"
		}
	}
	return countTasks(c.Waiting, "is", "are") + " moving between nodes," + recovered + " or done and being recorded"
}

// goneTasksText says how tasks go on after nodes are gone; "" if no node is gone.
func (e *explainer) goneTasksText() string {
	var gone []filch.NodeName
	for i := range e.Members.Len() {
		if p := e.Members.At(int32(i)); p.Standing == filch.Gone {
			gone = append(gone, p.Name)
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return "; the launcher has ended on " + launcher.ListNames(gone) + ": other nodes run its tasks; --once tasks that were started there " +
		"wait until the launcher is back, or the node counts as dead, 5 s after its last heartbeat"
}

// countTasks says how many tasks do something: "1 task runs", "2 tasks run".
func countTasks(n int32, one, more string) string {
	return filch.Plural(n, "task") + " " + filch.Agree(n, one, more)
}

// paceText says how long a task of a job is estimated to take, and why; "" if unknown.
func paceText(h *launcher.TasksHere) string {
	if h.Expected <= 0 {
		return ""
	}
	text := "estimated " + filch.ShortTime(time.Duration(h.Expected*float64(time.Second))) + " per task"
	switch {
	case h.Limited:
		return text + " (the time limit)"
	case h.Of > 0:
		return text + " (most finished tasks took less)"
	}
	return text + " (most tasks of earlier jobs of this name took less)"
}

// addPace appends to the text about a job of tasks the effects of the nodes' end.
func addPace(h *launcher.TasksHere, text string) string {
	pace := paceText(h)
	if pace != "" && text != "" {
		pace = "; " + pace
	}
	switch text += pace; {
	case h.Late == 1:
		text += "; 1 is not started: its node is taken away before the task could end"
	case h.Late > 0:
		text += fmt.Sprintf("; %d are not started: their nodes are taken away before the tasks could end", h.Late)
	}
	return text
}
