package query

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/daemon/staging"
	"github.com/filch-hpc/filch/launcher/glance"
	"github.com/filch-hpc/filch/launcher/node/tasks"
	"github.com/filch-hpc/filch/launcher/wire"
)

// The records do not have all that runs now: the first start of most tasks is not
// recorded. This file asks the nodes of the tasks.

// maxLive bounds the jobs in a node's answer: at most 70 bytes each, so that the answer
// fits into a frame.
const maxLive = 100_000

// live counts this node's tasks without a recorded end, by job.
func (sv *Server) live() (all []launcher.Live, err error) {
	all = []launcher.Live{}
	err = sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		all = append(all, t.Node.Live()...)
		all = all[:min(len(all), maxLive)]
		for i := range all {
			held := sv.daemon.Mirror.Holds(all[i].Job, -1)
			all[i].Running -= held
			all[i].Ready += held
		}
	})
	return all, err
}

// countLive sets the state and the counts of running and ready tasks in a list of jobs.
// Without a live job of tasks, no node is asked.
func (sv *Server) countLive(list []launcher.JobInfo) {
	if !slices.ContainsFunc(list, glance.IsLiveTasks) {
		return
	}
	sums := make(map[filch.JobID]*tasks.Sum)
	add := func(all []launcher.Live) {
		for _, l := range all {
			if sums[l.Job] == nil {
				sums[l.Job] = &tasks.Sum{}
			}
			sums[l.Job].Add(&launcher.TasksHere{Ready: l.Ready, Running: l.Running, Ending: l.Ending, Ended: l.Ended, Began: l.Began})
		}
	}
	own, _ := sv.live()
	add(own)
	peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbLive}, func(_ peers.Member, v []launcher.Live, err error) {
		if err == nil {
			add(v)
		}
	})
	for i := range list {
		glance.FillLive(&list[i], sums[list[i].ID])
	}
}

// taskNow returns this node's knowledge of one task. The third argument is the number of the
// task in this job, where that is not the number by which people call the task.
func (sv *Server) taskNow(arg func(int) string) (here launcher.TaskNow, err error) {
	job, index, err := sv.parseTask(arg)
	if err != nil {
		return here, err
	}
	place, err := strconv.ParseInt(cmp.Or(arg(2), arg(1)), 10, 32)
	if err != nil {
		return here, filch.Errorf(filch.Invalid, "%q is not the number of a task", arg(2))
	}
	err = sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		here = t.Node.TaskNow(t.Now, time.Now().UnixNano(), job, index, int32(place))
		if here.Running = here.Running && sv.daemon.Mirror.Holds(job, int64(index)) == 0; here.Running {
			here.Times = append(here.Times, stagesOf(sv.daemon.Files, sv.in.Self, &here)...)
		}
	})
	return here, err
}

// stagesOf lists the stages of a running task on this node.
func stagesOf(files *staging.Files, self filch.NodeName, h *launcher.TaskNow) []launcher.TaskTime {
	if list := staging.Stages(files, h.Serial, self); list != nil {
		return list
	}
	return []launcher.TaskTime{{Stage: launcher.StageRunning, UnixNS: h.BeganNS, Node: self}}
}

// maxMoves bounds the nodes that are asked for the way of an ended task.
const maxMoves = 16

// findWay completes an ended task with what the nodes remember where it was: the node that
// ran the task, the node that had the task before, and so on. Where one of these does not answer,
// the nodes before it are not known, and all nodes are asked.
func (sv *Server) findWay(task *launcher.Task, place int32) {
	args := []string{task.Job.String(), strconv.Itoa(int(task.Index)), strconv.Itoa(int(place))}
	var way []launcher.TaskTime
	asked, lost := map[filch.NodeName]bool{"": true}, false
	for next := []filch.NodeName{sv.in.Self, task.Node}; len(next) > 0 && len(asked) <= maxMoves; next = next[1:] {
		if asked[next[0]] {
			continue
		}
		asked[next[0]] = true
		var h launcher.TaskNow
		var err error
		if next[0] == sv.in.Self {
			h, err = sv.taskNow(func(i int) string { return args[i] })
		} else if err = sv.checkUp(next[0], true); err == nil {
			err = sv.daemon.Questions.Ask(next[0], peers.AskWait, wire.Query{Verb: wire.VerbTaskNow, Args: args}, &h)
		}
		if err != nil {
			lost = true
			continue
		}
		way = append(way, h.Times...)
		for _, a := range h.Times {
			next = append(next, a.From)
		}
	}
	if lost {
		peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbTaskNow, Args: args}, func(m peers.Member, h launcher.TaskNow, err error) {
			if err == nil && !asked[m.Name] {
				way = append(way, h.Times...)
			}
		})
	}
	task.AddTimes(way)
}

// findLive completes a task without a recorded end with the knowledge of all nodes.
func (sv *Server) findLive(task *launcher.Task, place int32) {
	if task.State != filch.Waiting.String() && task.State != filch.Ready.String() && task.State != filch.Running.String() {
		sv.findWay(task, place)
		return
	}
	args := []string{task.Job.String(), strconv.Itoa(int(task.Index)), strconv.Itoa(int(place))}
	ready, queued := false, false
	take := func(node filch.NodeName, h *launcher.TaskNow) {
		ready, queued = ready || h.Leads && len(h.Behind) == 0, queued || h.Queued
		task.Behind = append(task.Behind, h.Behind...)
		task.Again = max(task.Again, h.Again)
		task.AddTimes(h.Times)
		if h.Ranks != "" {
			task.Ranks = h.Ranks
		}
		switch {
		case h.Running && h.Copy:
			task.Copies = append(task.Copies, launcher.TaskCopy{Node: node, BeganNS: h.BeganNS, Took: h.Took})
		case h.Running:
			task.State, task.Node, task.Nodes, task.Attempts = filch.Running.String(), node, h.Nodes, max(task.Attempts, h.Attempt)
			task.BeganNS, task.Began, task.Took, task.Left = h.BeganNS, h.BeganNS/1e3, h.Took, h.Left
		}
	}
	if own, err := sv.taskNow(func(i int) string { return args[i] }); err == nil {
		take(sv.in.Self, &own)
	}
	peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbTaskNow, Args: args}, func(m peers.Member, h launcher.TaskNow, err error) {
		if err != nil {
			task.Silent = append(task.Silent, m.Name)
			return
		}
		take(m.Name, &h)
	})
	if task.State == filch.Running.String() {
		task.Silent, task.Again, task.Ranks = nil, 0, ""
		return
	}
	if j, err := sv.taskJob(task.Job); err == nil && j != nil && !j.Record.Graph && !j.Record.Singly() {
		ready = queued || j.Record.Tally().Sum() > 0 || len(j.Record.After) == 0
	}
	if ready {
		task.State = filch.Ready.String()
	}
}
