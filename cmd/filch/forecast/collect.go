package forecast

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// Limits of a forecast.
const (
	maxJobs   = 256    // jobs of the queue: the target and the oldest others
	maxSample = 1024   // times of ended tasks of a job
	maxGraph  = 20_000 // tasks without an end of a workflow
)

// Of the tasks on no node, some for each running task count as ended: their ends are being
// recorded. The others are of a lost node, or move.
const (
	endingWaves = 4
	endingLeast = 64
)

// collector makes a queue of the knowledge of the instance.
type collector struct {
	conn  *client.Client
	now   time.Time
	nodes []wire.NodeInfo
	jobs  []launcher.JobInfo // live, in the order in which they get slots
	past  []launcher.JobInfo
	queue queue
	notes []string // on things left out of the forecast
}

// collect reads the queue, and returns the index of the target; -1: the job has ended.
func collect(c *client.Client, id filch.JobID) (*collector, int, error) {
	k := &collector{conn: c, now: time.Now()}
	all, err := cli.QueryJobs(c)
	if err != nil {
		return nil, 0, err
	}
	if k.nodes, err = cli.QueryNodes(c); err != nil {
		return nil, 0, err
	}
	for i := range all {
		switch j := &all[i]; {
		case j.Code != nil:
			k.past = append(k.past, *j)
		case j.Parent == 0 || j.ID == id: // a step runs in slots of its job
			k.jobs = append(k.jobs, *j)
		}
	}
	slices.SortFunc(k.jobs, func(a, b launcher.JobInfo) int {
		return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
	})
	target := slices.IndexFunc(k.jobs, func(j launcher.JobInfo) bool { return j.ID == id })
	if target < 0 {
		return k, -1, nil
	}
	if n := len(k.jobs); n > maxJobs {
		first := k.jobs[:maxJobs-1]
		if target < maxJobs {
			first = k.jobs[:maxJobs]
		} else {
			first = append(slices.Clone(first), k.jobs[target])
		}
		k.notes = append(k.notes, "only the oldest "+filch.Plural(maxJobs, "job")+" of "+strconv.Itoa(n)+" count")
		k.jobs, target = first, min(target, maxJobs-1)
	}
	k.slots()
	for i := range k.jobs {
		if err := k.add(&k.jobs[i]); err != nil && i == target {
			return nil, 0, err
		}
	}
	for i := range k.jobs {
		k.conditions(i)
	}
	return k, target, k.restrict(target)
}

// slots counts the free slots of each node. Slots that a gang gathers are free: the gang is in
// the queue.
func (k *collector) slots() {
	for i := range k.nodes {
		n := &k.nodes[i]
		free := n.Slots - n.Stuck
		for _, h := range n.Holders {
			if !h.Gathers {
				free -= h.Slots
			}
		}
		if !k.takes(i) {
			free = 0
		}
		k.queue.free = append(k.queue.free, max(free, 0))
	}
}

// takes reports whether a node takes new work.
func (k *collector) takes(i int) bool {
	return k.nodes[i].State == filch.Up.String() && !k.nodes[i].Draining
}

// add adds a job to the queue.
func (k *collector) add(i *launcher.JobInfo) error {
	j := job{id: i.ID, slots: 1, left: 1, never: i.Held != ""}
	var err error
	if cli.IsTasks(i) {
		err = k.addTasks(&j, i)
	} else {
		k.addRun(&j, i)
	}
	if i.Begin > 0 {
		j.begin = max(time.Duration(i.Begin-k.now.UnixNano()).Seconds(), 0)
	}
	k.queue.jobs = append(k.queue.jobs, j)
	return err
}

// addRun adds a run.
func (k *collector) addRun(j *job, i *launcher.JobInfo) {
	j.ranks = i.Ranks
	if i.Dep == "" && i.Begin == 0 {
		j.waited = k.now.Sub(time.Unix(0, i.Submit)).Seconds()
	}
	j.length = k.runLength(i)
	if i.Outlook != nil {
		j.slots = max(i.Outlook.Each, 1)
	}
	on := k.held(i.ID)
	if i.State == filch.Running.String() || len(on) > 0 {
		j.left, j.running = 0, []part{{age: i.Elapsed, limit: i.Left, on: on}}
	}
	j.nodes = k.allowed(nil, true)
}

// held are the used slots of a job.
func (k *collector) held(id filch.JobID) (on []share) {
	for n := range k.nodes {
		for _, h := range k.nodes[n].Holders {
			if h.Job == id && !h.Gathers && h.Slots > 0 && k.takes(n) {
				on = append(on, share{int32(n), h.Slots})
			}
		}
	}
	return on
}

// runLength is the time of a run: as runs of its kind took, or, with fewer of these, as ended
// runs of this instance with its name and size.
func (k *collector) runLength(i *launcher.JobInfo) (l length) {
	if o := i.Outlook; o != nil {
		l.limit, l.ends, l.mean, l.deviation = o.Limit, o.Runs, o.Mean, o.Deviation
	}
	var took []float64
	for p := range k.past {
		v := &k.past[p]
		if v.Name == i.Name && v.Kind == i.Kind && v.Ranks == i.Ranks && v.State == filch.OK.String() && len(took) < maxSample {
			took = append(took, v.Elapsed)
		}
	}
	if len(took) > l.ends {
		l.sample = took
	}
	return l
}

// allowed are the nodes open to a job; nil: all.
func (k *collector) allowed(nodes *filch.Nodes, gang bool) []bool {
	list, all := make([]bool, len(k.nodes)), true
	for n := range k.nodes {
		m := filch.Member{Name: k.nodes[n].Node, Labels: k.nodes[n].Labels}
		list[n] = k.nodes[n].Role.Takes(gang) && (nodes == nil || nodes.Allows(&m))
		all = all && list[n]
	}
	if all {
		return nil
	}
	return list
}

// errEnough ends the reading of a sample.
var errEnough = errors.New("enough")

// addTasks adds a bag or a workflow.
func (k *collector) addTasks(j *job, i *launcher.JobInfo) error {
	j.left = int(i.Tasks.Ready + i.Tasks.Waiting)
	j.left -= min(int(i.Ending), max(endingWaves*int(i.Tasks.Running), endingLeast), j.left)
	r, err := taskrecords.Open(k.conn, i.ID)
	if err != nil {
		j.never = true
		return err
	}
	s := r.Spec
	j.slots, j.ranks, j.atMost = max(s.Need(0).Each.Slots, 1), s.Need(0).Gang.Ranks, int(s.Cap)
	j.firm = s.Firm || s.Once
	j.nodes = k.allowed(s.Nodes, j.ranks > 0)
	j.length.limit = s.Limit.Seconds()
	graph := i.Kind == "workflow" && i.Tasks.Total <= maxGraph
	if s.Limits && i.Kind != "workflow" {
		if err := k.ownLimits(j, r); err != nil {
			return err
		}
	}
	var ended []bool
	var took []float64 // of the tasks of a workflow that ended well; 0 of the others
	if graph {
		ended, took = make([]bool, r.Rec.Total), make([]float64, r.Rec.Total)
	}
	err = r.Each(func(t int32, e *record.Task) error {
		if graph && e.State.Final() {
			ended[t] = true
			if e.State == filch.OK {
				took[t] = float64(max(e.TookUS, 1)) / 1e6
			}
		}
		if e.State == filch.OK && e.Began > 0 && len(j.length.sample) < maxSample {
			j.length.sample = append(j.length.sample, float64(max(e.TookUS, 0))/1e6)
		} else if len(j.length.sample) == maxSample && !graph {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if len(j.length.sample) == 0 && s.Expect > 0 {
		j.length.mean, j.length.ends = s.Expect.Seconds(), 1
	}
	index := k.running(j, i)
	k.pace(j, i)
	if graph {
		return k.order(j, r, ended, took, index)
	}
	if i.Kind == "workflow" {
		k.notes = append(k.notes, "job "+i.ID.String()+" has many tasks: the order of its tasks does not count")
	}
	return nil
}

// running adds the running tasks of a job, and returns their indices.
func (k *collector) running(j *job, i *launcher.JobInfo) (index []int32) {
	var list launcher.RunningTasks
	if i.Tasks.Running == 0 || cli.Ask(k.conn, cli.QueryWait, &list, wire.VerbRunning, i.ID.String()) != nil {
		j.left += int(i.Tasks.Running)
		return nil
	}
	on := k.held(i.ID)
	for t := range list.Tasks {
		v := &list.Tasks[t]
		if v.Copy {
			continue
		}
		p := part{age: v.Took}
		for want := j.slots * max(j.ranks, 1); want > 0; {
			at := slices.IndexFunc(on, func(h share) bool {
				return h.slots > 0 && (j.ranks > 0 || k.nodes[h.node].Node == v.Node)
			})
			if at < 0 {
				break
			}
			n := min(want, on[at].slots)
			on[at].slots, want = on[at].slots-n, want-n
			p.on = append(p.on, share{on[at].node, n})
		}
		j.running, index = append(j.running, p), append(index, v.Index)
	}
	if more := int(i.Tasks.Running) - len(j.running); more > 0 {
		j.left += more
	}
	return index
}

// gapMost bounds the time between two tasks on a slot: a longer time is no cost of the launchers.
const gapMost = 0.05

// pace sets the time between two tasks on a slot from the rate of the job.
func (k *collector) pace(j *job, i *launcher.JobInfo) {
	done, wide := float64(i.Tasks.OK+i.Tasks.Failed+i.Ending), float64(len(j.running))
	if done < 2*wide || wide == 0 || i.Dep != "" || i.Begin != 0 {
		return
	}
	busy := wide * i.Elapsed
	for n := range j.running {
		busy -= j.running[n].age
	}
	mean, _ := j.length.moments()
	j.gap = min(max(busy/done-mean, 0), gapMost)
}

// conditions takes in the jobs before a job.
func (k *collector) conditions(i int) {
	info, j := &k.jobs[i], &k.queue.jobs[i]
	if info.Dep == "" || len(j.running) > 0 {
		return
	}
	deps, err := spec.ReadDeps(info.Dep)
	if err != nil {
		j.never = true
		return
	}
	j.any = deps.Any
	for _, d := range deps.List {
		word, tasks, _ := strings.Cut(d.Word, ".")
		id, _ := strconv.ParseInt(word, 10, 64)
		at := slices.IndexFunc(k.jobs, func(o launcher.JobInfo) bool { return int64(o.ID) == id })
		if at < 0 { // ended, and its end let the job wait on
			if deps.Any {
				j.after, j.any = nil, false
				return
			}
			continue
		}
		if tasks != "" {
			k.notes = append(k.notes, "job "+info.ID.String()+" waits for tasks of job "+word+", which count as the whole job")
		}
		j.after = append(j.after, wait{at, d.When == record.WhenStarted, d.Delay.Seconds()})
	}
	for at := 0; deps.Alone && at < i; at++ {
		if k.jobs[at].Name == info.Name {
			j.after = append(j.after, wait{job: at})
		}
	}
}

// restrict limits a waiting run to its nodes.
func (k *collector) restrict(target int) error {
	i, j := &k.jobs[target], &k.queue.jobs[target]
	if cli.IsTasks(i) || len(j.running) > 0 {
		return nil
	}
	var x launcher.Explanation
	if err := cli.Ask(k.conn, cli.QueryWait, &x, wire.VerbExplain, i.ID.String()); err != nil {
		return err
	}
	if len(x.Places) == 0 || len(x.Places) >= launcher.MaxPlaces {
		return nil
	}
	only := make([]bool, len(k.nodes))
	for n := range k.nodes { // a node with all slots lent to the job has no place, and a holder
		has := slices.ContainsFunc(k.nodes[n].Holders, func(h launcher.Holder) bool { return h.Job == i.ID })
		only[n] = j.may(n) && (has || slices.ContainsFunc(x.Places, func(p launcher.Place) bool { return p.Node == k.nodes[n].Node }))
	}
	j.nodes = only
	return nil
}

// unknown are the jobs of unknown length before the target, and the target.
func (k *collector) unknown(target int) (list []int) {
	needs := map[int]bool{}
	var need func(int)
	need = func(i int) {
		if needs[i] {
			return
		}
		needs[i] = true
		for _, w := range k.queue.jobs[i].after {
			need(w.job)
		}
	}
	need(target)
	for i := range k.queue.jobs {
		j := &k.queue.jobs[i]
		ahead := len(j.running) > 0 || i < target && len(k.queue.jobs[target].running) == 0
		if (needs[i] || ahead) && !j.length.known() {
			list = append(list, i)
		}
	}
	return list
}
