// Package glance makes what a node shows of itself, and joins what all nodes of an instance
// show: the jobs, and the tasks that wait and run. The screens, ps and the holder of a pool
// read the result; the simulation of whole nodes makes it of the same parts.
//
// The package has no clock and asks nobody: the caller gives the times, and the answers of the
// other nodes.
package glance

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/node/tasks"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Jobs lists the jobs that a node knows. Now is the time of the node, wall the time of day. A
// job may be twice in the list: see [Merge].
func Jobs(n *node.Node, now time.Duration, wall int64) []launcher.JobInfo {
	jobs := append(append([]launcher.JobInfo{}, n.Jobs(now)...), n.HomedJobs()...)
	return append(append(jobs, n.HomedTasks(wall)...), n.Led(wall)...)
}

// Live counts the tasks of jobs on a node. Held counts the tasks of a job that do not start
// before their start is on a disk.
func Live(n *node.Node, held func(job filch.JobID) int64) []wire.LiveTasks {
	all := []wire.LiveTasks{}
	for _, l := range n.Live() {
		if len(all) == wire.GlanceLive {
			break
		}
		here, waits := n.TasksHere(l.Job), held(l.Job)
		l.Running, l.Ready = l.Running-waits, l.Ready+waits
		all = append(all, wire.LiveTasks{Live: l, Gathers: here.Gathers, Lacks: clip(here.Lacks), Demand: wire.Demand{Cap: here.Cap, Each: here.Each, Resting: here.Resting}})
	}
	return all
}

// Choose keeps jobs without an end, the oldest first, and the jobs that ended last; more
// counts the live jobs that were left out. Steps of tasks are left out: there may be
// thousands.
func Choose(list []launcher.JobInfo) (kept []launcher.JobInfo, more int) {
	live, over := []launcher.JobInfo{}, []launcher.JobInfo{}
	for i := range list {
		switch j := list[i]; {
		case j.Task != nil:
		case j.Code != nil:
			over = append(over, j)
		default:
			live = append(live, j)
		}
	}
	newest := func(a, b launcher.JobInfo) int {
		return cmp.Or(cmp.Compare(b.Submit+int64((b.Waited+b.Elapsed)*1e9), a.Submit+int64((a.Waited+a.Elapsed)*1e9)), cmp.Compare(b.ID, a.ID))
	}
	slices.SortFunc(over, newest)
	slices.SortFunc(live, func(a, b launcher.JobInfo) int {
		return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
	})
	more = max(len(live)-wire.GlanceJobs, 0)
	kept = append(live[:len(live)-more], over[:min(len(over), wire.GlanceEnded)]...)
	for i := range kept {
		j := &kept[i]
		j.Nodes, j.Spares, j.Earlier, j.Bad = clipNames(j.Nodes), clipNames(j.Spares), nil, nil
		j.Name, j.Cause, j.Dep = clip(j.Name), clip(j.Cause), clip(j.Dep)
	}
	return kept, more
}

// clipNames keeps the first names, without a change of the list that was given.
func clipNames(list []filch.NodeName) []filch.NodeName {
	return slices.Clip(list[:min(len(list), wire.GlanceNames)])
}

// clip keeps whole letters of a text.
func clip(s string) string {
	if len(s) > wire.GlanceText {
		return strings.ToValidUTF8(s[:wire.GlanceText], "") + "…"
	}
	return s
}

// Join joins the jobs and tasks of nodes.
func Join(all []*wire.Glance) *wire.Overview {
	o := &wire.Overview{Jobs: []wire.OverviewJob{}}
	var jobs []launcher.JobInfo
	var running, found launcher.RunningTasks
	sums, each := map[filch.JobID]*tasks.Sum{}, map[filch.JobID]int32{}
	for _, g := range all {
		jobs, o.More = append(jobs, g.Jobs...), o.More+g.More
		found.Tasks = append(found.Tasks, g.Tasks...)
		for _, l := range g.Live {
			if sums[l.Job] == nil {
				sums[l.Job] = &tasks.Sum{}
			}
			sums[l.Job].Add(&launcher.TasksHere{Ready: l.Ready, Running: l.Running, Ending: l.Ending, Began: l.Began, Gathers: l.Gathers, Lacks: l.Lacks, Cap: l.Cap, Resting: l.Resting})
			each[l.Job] = max(each[l.Job], l.Each)
		}
	}
	running.Add(&found)
	kept, more := Choose(Merge(jobs))
	o.More += more
	for _, j := range kept {
		v := wire.OverviewJob{JobInfo: j}
		s := sums[j.ID]
		if FillLive(&v.JobInfo, s); s != nil && IsLiveTasks(j) {
			v.Gathers, v.Lacks, v.Demand = s.Gathers, s.Lacks, wire.Demand{Cap: s.Cap, Each: each[j.ID], Resting: s.Resting}
		}
		o.Jobs = append(o.Jobs, v)
	}
	slices.SortFunc(o.Jobs, func(a, b wire.OverviewJob) int { return cmp.Compare(a.ID, b.ID) })
	o.Tasks = running.Tasks[:min(len(running.Tasks), wire.GlanceTasks)]
	return o
}

// Merge merges the jobs reported by owners and by records into one list: the higher
// hop wins, then an entry with an end, then, for a live job, the entry of the owner; of
// tasks, the entry with more ends.
func Merge(all []launcher.JobInfo) []launcher.JobInfo {
	better := func(a, b *launcher.JobInfo) bool {
		switch over := a.Code != nil; {
		case a.Hop != b.Hop:
			return a.Hop > b.Hop
		case over != (b.Code != nil):
			return over
		case IsLiveTasks(*a) && a.Tasks.Waiting != b.Tasks.Waiting: // the later state of the record
			return a.Tasks.Waiting < b.Tasks.Waiting
		default: // the record of an ended job is complete
			return a.Recorded != b.Recorded && a.Recorded == over
		}
	}
	slices.SortStableFunc(all, func(a, b launcher.JobInfo) int {
		switch {
		case a.ID != b.ID:
			return int(a.ID) - int(b.ID)
		case better(&a, &b):
			return -1
		case better(&b, &a):
			return 1
		}
		return 0
	})
	return slices.CompactFunc(all, func(a, b launcher.JobInfo) bool { return a.ID == b.ID })
}

// FillLive sets in the info of a live job of tasks what the nodes count; s is nil if no node has
// a task of the job.
func FillLive(i *launcher.JobInfo, s *tasks.Sum) {
	if !IsLiveTasks(*i) {
		return
	}
	if s == nil {
		s = &tasks.Sum{}
	}
	s.Fill(i)
	s.Settle(i)
}

func IsLiveTasks(i launcher.JobInfo) bool {
	return i.Code == nil && (i.Kind == "bag" || i.Kind == "workflow")
}
