package query

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// explainer answers why jobs and tasks wait, and who has the slots.
type explainer struct{ sv *Server }

// explain explains the state of a job or of a task. For a local client, the answer also
// names the jobs that have the slots.
func (ex explainer) explain(q wire.Query, arg func(int) string, local bool) (any, error) {
	v, err := ex.sv.aboutJob(wire.Query{Verb: q.Verb, Args: q.Args[:min(len(q.Args), 1)]}, arg, local)
	if err != nil || !local {
		return v, err
	}
	x, err := as[launcher.Explanation](v)
	if err != nil {
		return nil, err
	}
	if arg(1) != "" {
		if err := ex.explainTask(&x, arg); err != nil {
			return nil, err
		}
	}
	if x.Short {
		ex.findHolders(&x)
	}
	return x, nil
}

// as converts an answer of any form: the answer of another node is JSON.
func as[T any](v any) (x T, err error) {
	if x, ok := v.(T); ok {
		return x, nil
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &x)
	}
	if err != nil {
		err = filch.Errorf(filch.Internal, "cannot read an answer: %s", err.Error())
	}
	return x, err
}

// explainTask makes the explanation of a job the explanation of one of its tasks.
func (ex explainer) explainTask(x *launcher.Explanation, arg func(int) string) error {
	job, index, err := ex.sv.parseTask(arg)
	switch {
	case err != nil:
		return err
	case x.Phase != "tasks" && x.Phase != "end":
		return filch.Errorf(filch.Invalid, "cannot explain task %d.%d: job %d is a run, which has ranks and no tasks", job, index, job).
			WithHint("filch explain %d is about all ranks", job)
	}
	t, err := ex.sv.taskNamed(job, index)
	if err != nil {
		return err
	}
	x.Task, x.State, x.Need = &index, t.State, 1
	switch t.State {
	case filch.Running.String():
		x.Text, x.Short = runningText(t), false
		x.Node, x.Nodes, x.Took = t.Node, t.Nodes, t.Took
	case filch.Ready.String():
		if x.By != "" {
			x.Text = "does not start: " + x.Text
			break
		}
		x.Text = "waits for slots. The whole job, looked at just before: " + x.Text
	case filch.Waiting.String():
		if x.Short = false; len(t.Behind) > 0 {
			x.Behind, x.Text = t.Behind, "waits for the end of "+launcher.ListTasks(job, t.Behind, nil)
		} else if text := ex.eachText(t); text != "" {
			x.Text = "waits for the good end of " + text
		}
	case filch.Skipped.String():
		x.Phase, x.Text, x.Short, x.Stuck, x.Deadlock, x.Hint = "end", endedText(t), false, false, false, ""
		if text := ex.eachText(t); text != "" {
			x.Text += ": the task waits for the good end of " + text
		}
	default:
		x.Phase, x.Text, x.Short, x.Stuck, x.Deadlock, x.Hint = "end", endedText(t), false, false, false, ""
	}
	if len(t.Silent) > 0 {
		x.Text += "; " + launcher.ListNames(t.Silent) + " did not answer: the task may run there"
	}
	return nil
}

// eachText names the tasks of other bags for which a task waits with aftercorr, without those
// that ended well; "" if there are none.
func (ex explainer) eachText(t *launcher.Task) string {
	j, err := ex.sv.taskJob(t.Job)
	if err != nil || j == nil {
		return ""
	}
	var parts []string
	for i := range j.Record.After {
		id, when, _ := j.Record.At(i)
		if when != record.WhenEach {
			continue
		}
		state := "not known"
		if a, err := ex.sv.taskNamed(id, t.Index); err == nil {
			state = a.State
		} else if kindOf(err) == filch.NotFound {
			state = "missing"
		}
		if state != filch.OK.String() {
			parts = append(parts, fmt.Sprintf("task %d.%d, which is %s", id, t.Index, state))
		}
	}
	return strings.Join(parts, " and of ")
}

// runningText describes a task that runs.
func runningText(t *launcher.Task) string {
	at := string(t.Node)
	if len(t.Nodes) > 0 {
		at = launcher.ListNames(t.Nodes)
	}
	text := fmt.Sprintf("runs on %s for %s", at, shortTime(t.Took))
	if t.Left > 0 {
		text += ", and for " + shortTime(t.Left) + " more at most: then the time limit ends the task"
	}
	if t.Attempts > 1 {
		text += fmt.Sprintf("; attempt %d", t.Attempts)
	}
	return text
}

func shortTime(seconds float64) string {
	return filch.ShortTime(time.Duration(seconds * float64(time.Second)))
}

// endedText describes the end of a task.
func endedText(t *launcher.Task) string {
	if t.Code == nil || t.Node == "" {
		return "never started"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "ended with exit code %d on %s", *t.Code, t.Node)
	if t.Attempts > 1 {
		fmt.Fprintf(&text, " in attempt %d", t.Attempts)
	}
	if t.ByCopy {
		text.WriteString(", as a copy")
	}
	for _, r := range t.Rivals {
		fmt.Fprintf(&text, "; the start on %s: %s", r.Node, r.Reason)
	}
	return text.String() + fmt.Sprintf("; filch logs %d.%d shows the output", t.Job, t.Index)
}

// findHolders adds to an explanation the jobs that have the missing slots.
func (ex explainer) findHolders(x *launcher.Explanation) {
	v, err := ex.sv.listNodes(wire.Query{}, true, true)
	nodes, _ := v.([]wire.NodeInfo)
	if err != nil {
		return
	}
	if n := len(x.Places); n > 0 && n < launcher.MaxPlaces { // the job may not use other nodes
		nodes = slices.DeleteFunc(nodes, func(n wire.NodeInfo) bool {
			return !slices.ContainsFunc(x.Places, func(p launcher.Place) bool { return p.Node == n.Node })
		})
	}
	x.Lacks = lacks(nodes, x.Takes)
	all := sumHolders(nodes, x.Job)
	x.Holders = all[:min(len(all), launcher.MaxHolders)]
	var wg sync.WaitGroup
	for i := range x.Holders {
		wg.Go(func() { ex.describe(&x.Holders[i]) })
	}
	wg.Wait()
	for i := range x.Places {
		if k := slices.IndexFunc(nodes, func(n wire.NodeInfo) bool { return n.Node == x.Places[i].Node }); k >= 0 && x.Places[i].Holder == 0 {
			setHolder(&x.Places[i], &nodes[k], x.Job)
		}
	}
}

// lacks lists the nodes that have a resource, and too little of it free for a task.
func lacks(nodes []wire.NodeInfo, takes filch.Amounts) (list []launcher.Lack) {
	for _, name := range takes.Names() {
		want := takes.Of(name)
		for i := range nodes {
			n := &nodes[i]
			l := launcher.Lack{Node: n.Node, Resource: name, Want: want, Free: n.NamedFree.Of(name), Of: n.Named.Of(name)}
			if l.Of < want || l.Free >= want || len(list) >= launcher.MaxPlaces {
				continue
			}
			for _, h := range n.Holders {
				if has := h.Named.Of(name); has > 0 {
					l.Holders = append(l.Holders, launcher.LackHolder{Job: h.Job, Has: has})
				}
			}
			list = append(list, l)
		}
	}
	return list
}

// describe adds the name of a job with slots and, of a run, the time until the run ends.
func (ex explainer) describe(h *launcher.HolderInfo) {
	id := h.Job.String()
	v, err := ex.sv.aboutJob(wire.Query{Verb: wire.VerbInfo, Args: []string{id}}, func(int) string { return id }, true)
	if err != nil {
		return
	}
	if info, err := as[launcher.JobInfo](v); err == nil {
		h.Name, h.Kind = info.Name, info.Kind
		if h.Tasks == 0 {
			h.Left = info.Left
		}
	}
}

// setHolder names the job with most slots of a node, and the free slots of the same moment: the
// lender told earlier of other ones.
func setHolder(p *launcher.Place, n *wire.NodeInfo, asking filch.JobID) {
	p.Free = n.Free
	for _, h := range n.Holders {
		if h.Job != asking && h.Slots > p.Holds {
			p.Holder, p.Holds = h.Job, h.Slots
		}
	}
}

// sumHolders adds up the holders of slots over nodes, most slots first. A job that still
// gathers slots is not its own holder. The owner of a gang counts the task, and may have none of
// its ranks.
func sumHolders(nodes []wire.NodeInfo, asking filch.JobID) []launcher.HolderInfo {
	all := []launcher.HolderInfo{}
	for i := range nodes {
		for _, h := range nodes[i].Holders {
			if h.Job == asking && h.Gathers {
				continue
			}
			k := slices.IndexFunc(all, func(o launcher.HolderInfo) bool { return o.Job == h.Job })
			if k < 0 {
				k = len(all)
				all = append(all, launcher.HolderInfo{Holder: h})
			} else {
				all[k].Add(&h)
			}
			if h.Slots > 0 {
				all[k].Nodes = append(all[k].Nodes, nodes[i].Node)
			}
		}
	}
	all = slices.DeleteFunc(all, func(h launcher.HolderInfo) bool { return h.Slots == 0 })
	slices.SortStableFunc(all, func(a, b launcher.HolderInfo) int {
		return cmp.Or(cmp.Compare(b.Slots, a.Slots), cmp.Compare(a.Job, b.Job))
	})
	return all
}

// explainTasks explains the state of a job of tasks.
func (ex explainer) explainTasks(job filch.JobID, j *records.TaskJob) (x launcher.Explanation, err error) {
	info, sum := ex.sv.tasksSum(job, j)
	err = ex.sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { x = t.Node.ExplainTasks(j.Record, &info, &sum) })
	return x, err
}
