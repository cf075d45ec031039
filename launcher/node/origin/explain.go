package origin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// tickSay sends a waiting client the reason for the wait.
func (o *Origin) tickSay(t *local.Turn, j *job) {
	if o.jobs[j.id] != j || j.run != nil || j.clock.say <= t.Now && o.giveUpLate(t, j) {
		return
	}
	if j.clock.refresh <= t.Now {
		j.clock.refresh = filch.Never
		if j.gather != nil {
			var moves stealer.Moves
			j.gather.Refresh(t.Now, launcher.MaxPlaces, &moves)
			o.gatherqueue.move(t, j, moves)
		}
	}
	if j.clock.say <= t.Now {
		j.clock.say = t.Now + SayEvery
		j.clock.refresh = t.Now + SayEvery - refreshBefore
		o.seek(t, j)
		o.tell(t, j, launcher.StillWaiting{Job: j.id, Text: o.explainer.missing(j) + lentText(t.Now, j)})
	}
}

// explainer describes the state of this origin's jobs, with the reasons. An explainer
// changes nothing.
type explainer struct {
	*joblist
	records  *records.Records
	endings  *endings
	line     *gatherqueue
	knot     *knot
	walltime *walltime
	scout    *scout
}

// before returns what a job waits for before the job gathers slots, or "".
func (e *explainer) before(j *job) string {
	if e.Dead {
		return fmt.Sprintf("waits until %s is a member again: the other nodes declared this node dead", e.Cfg.Name)
	}
	if j.kept.unrecorded {
		return "waits until the record of the job is stored: " + e.records.StoreTrouble()
	}
	if j.unclaimed() {
		return "waits for its client to connect again: the launcher was restarted"
	}
	if j.req.HeldBy != "" && j.run == nil {
		return fmt.Sprintf("%s holds the run: filch release %d lets it gather slots", j.req.HeldBy, j.id)
	}
	if j.clock.lostUntil != filch.Never {
		return j.lostText()
	}
	if j.wait != nil {
		return j.wait.Text()
	}
	if j.step != nil {
		if j.step.behind != 0 {
			text := fmt.Sprintf("waits for slots of %s that step %d uses", j.inside(), j.step.behind)
			if e.knot.stuck[j.id] {
				text += "; deadlock: " + e.knot.text
			}
			return text
		}
		return fmt.Sprintf("waits for %s, which holds job %d", j.step.arbiter, j.req.Parent)
	}
	if j.reserving == reserves {
		return j.reserveText()
	}
	if j.lined {
		return fmt.Sprintf("waits for its turn: %d jobs submitted on %s gather slots, %d wait in the queue", e.line.active, e.Cfg.Name, len(e.line.queue))
	}
	if j.behind {
		return fmt.Sprintf("waits for its turn: at most %d jobs of its array run at a time", j.req.Array.Most)
	}
	return ""
}

// missing returns a line about the wait of a job: how much is missing, and the jobs and
// nodes that have the slots.
func (e *explainer) missing(j *job) string {
	if text := e.before(j); text != "" {
		return text
	}
	if j.gather == nil {
		if err := e.NeverFits(&j.need); err != nil {
			if e.ListPartial {
				text := err.Text + "; waits for the list of members, which is not whole yet"
				if names := e.scout.unfound(j); len(names) > 0 {
					text += "; no node leads to " + launcher.ListNames(names)
				}
				return text
			}
			if e.Grows {
				return err.Text + "; waits for nodes of a pool (filch pool)"
			}
			return err.Text + "; waits for more nodes"
		}
		return ""
	}
	if mutantMuteJobs {
		return ""
	}
	held, asked := j.gather.Held()
	text := fmt.Sprintf("room for %d of %s is held, %d missing (%s asked)", held, filch.Plural(j.need.Ranks, "rank"), max(0, int64(j.need.Ranks)-held), filch.Plural(asked, "node"))
	if recalled := j.gather.Recalled(); held >= int64(j.need.Ranks) && len(recalled) > 0 {
		text = fmt.Sprintf("room for %s is held, in part lent to tasks: %s did not report yet that no task has the slots any more", filch.Plural(held, "rank"), launcher.ListNames(recalled))
	} else if held >= int64(j.need.Ranks) {
		text = fmt.Sprintf("room for %s is held, but not on the nodes asked for (%s asked)", filch.Plural(held, "rank"), filch.Plural(asked, "node"))
		if j.need.Spare > 0 {
			text = fmt.Sprintf("room for %s is held, but not yet for the ranks and %s (%s asked)", filch.Plural(held, "rank"), filch.Plural(j.need.Spare, "spare node"), filch.Plural(asked, "node"))
		}
	}
	if by := e.blockers(j); len(by) > 0 {
		text += ": " + strings.Join(by, "; ")
	} else if unsaid := e.silentLenders(j); len(unsaid) > 0 {
		text += ": " + launcher.ListNames(unsaid) + " did not report yet which jobs have the slots there"
	}
	if e.knot.stuck[j.id] {
		text += "; deadlock: " + e.knot.text
	}
	if e.Ledger.Ending() && e.walltime.takes(j) == 0 {
		text += "; the nodes are taken away soon and lend slots only to jobs that are known to finish: give a limit with -t LIMIT"
	}
	if drained, _ := e.DrainText(j.need.Allows); drained != "" {
		text += "; " + drained
	}
	return text
}

// lentText says which tasks run in the slots of a job that gathers.
func lentText(now time.Duration, j *job) string {
	if j.gather == nil {
		return ""
	}
	return local.LentText(j.gather.Lent(now))
}

// lostText says which ranks of an earlier attempt the job waits for.
func (j *job) lostText() string {
	if len(j.kept.lost) == 0 {
		return "waits until all keepers of the last launcher have connected: some may still run ranks of the job"
	}
	lost := make([]filch.NodeName, len(j.kept.lost))
	for i := range lost {
		lost[i] = j.kept.lost[i].Node
	}
	return fmt.Sprintf("waits until no rank of the job can run on %s any more: until the node is back, or its lease has run out", launcher.ListNames(lost))
}

// silentLenders returns the lenders, none draining, that have not named the job with the missing slots lately.
func (e *explainer) silentLenders(j *job) (nodes []filch.NodeName) {
	for _, s := range j.gather.Seats(e.Members.Len()) {
		if m := e.Members.Get(s.Node); !s.Full() && m != nil && !e.Drains(m) && (s.Old || s.Last.Holder == 0 && s.Last.Lacks == "") {
			nodes = append(nodes, s.Node)
		}
	}
	return nodes
}

// blockers describes the jobs with most of the slots that j waits for, or of what else j
// lacks. A job that no lender confirmed lately may have ended, and is not named.
func (e *explainer) blockers(j *job) []string {
	type block struct {
		job   filch.JobID
		holds int32
		nodes []string
		lacks string
		old   int // 1: not confirmed
	}
	var all []block
	for _, s := range j.gather.Seats(e.Members.Len()) {
		if s.Full() || s.Last.Holder == 0 && s.Last.Lacks == "" {
			continue
		}
		i := slices.IndexFunc(all, func(b block) bool { return b.job == s.Last.Holder && b.lacks == s.Last.Lacks })
		if i < 0 {
			i = len(all)
			all = append(all, block{job: s.Last.Holder, lacks: s.Last.Lacks})
		}
		if s.Old {
			all[i].old = 1
		}
		all[i].holds += s.Last.Holds
		all[i].nodes = append(all[i].nodes, string(s.Node))
	}
	slices.SortStableFunc(all, func(a, b block) int { return cmp.Or(a.old-b.old, cmp.Compare(b.holds, a.holds)) })
	var out []string
	for i, b := range all {
		if b.old > 0 && i == 0 {
			return nil
		}
		if i == 3 || b.old > 0 {
			out = append(out, fmt.Sprintf("%d jobs more", len(all)-i))
			break
		}
		slices.SortFunc(b.nodes, stealer.Natural)
		on := strings.Join(b.nodes[:min(len(b.nodes), 3)], ", ")
		if len(b.nodes) > 3 {
			on += fmt.Sprintf(" and %d more", len(b.nodes)-3)
		}
		switch {
		case b.lacks == "":
			out = append(out, fmt.Sprintf("job %d has %s on %s", b.job, filch.Plural(b.holds, "slot"), on))
		case b.job == 0:
			out = append(out, fmt.Sprintf("slots are free on %s, but %s lacking", on, areLacking(b.lacks)))
		default:
			out = append(out, fmt.Sprintf("slots are free on %s, but %s lacking, of which job %d has most", on, areLacking(b.lacks), b.job))
		}
	}
	return out
}

// areLacking is what a rank lacks, with the verb.
func areLacking(what string) string {
	if what == slots.LacksGPUs {
		return what + " are"
	}
	return what + " is"
}

// Explain returns the state of a job of this origin, with the reason.
func (e *explainer) Explain(now time.Duration, id filch.JobID) (launcher.Explanation, *filch.Error) {
	j := e.jobs[id]
	if j == nil {
		p := e.endings.past.Find(id)
		if p == nil {
			return launcher.Explanation{}, e.endings.noJob(id)
		}
		return launcher.Explanation{Job: id, State: p.Info.State, Phase: "end", Text: p.Info.Cause, Need: p.Info.Ranks}, nil
	}
	x := launcher.Explanation{Job: id, State: j.state.String(), Need: j.need.Ranks, Phase: "launch", By: j.req.HeldBy}
	x.Spawned = j.req.Spawner != 0
	if j.req.Parent == 0 {
		x.Inside = j.req.Inside.Job
	}
	if e.knot.stuck[id] {
		x.Deadlock, x.Hint = true, "filch refuses the youngest of these runs, so that the oldest can start; to avoid this, "+untieHint(j)
	}
	switch {
	case j.run != nil && j.run.halt.level > 0 && j.run.cause.Text == "":
		x.Text = "is being stopped, and will be launched again: " + j.run.halt.reason
	case j.run != nil && j.run.halt.level > 0:
		x.Phase, x.Text = "end", j.run.cause.Text
	case j.run != nil && j.run.told:
		x.Phase, x.Text = "run", fmt.Sprintf("runs on %s, %d of %s ended", filch.Plural(len(j.run.participants), "node"), j.run.tally.ended, filch.Plural(j.need.Ranks, "rank"))+j.spares.Text(j.req.Shape.Spare)+e.goneText(j)
	case j.run != nil:
		x.Text = fmt.Sprintf("being launched: %d of %d nodes ready", j.run.prepared, len(j.run.participants))
	case j.gather != nil:
		e.explainGather(now, j, &x)
	default:
		x.Phase, x.Text = "wait", e.missing(j)
	}
	if need := e.walltime.expectedRun(&j.req, j.need.Ranks); need > 0 && j.run == nil {
		x.Text += "; " + durationText(&j.req, j.need.Ranks, need) + ", so the job gives up in " + filch.ShortTime(max(j.clock.patient-now, 0)) + ": after that it could not finish"
	}
	return x, nil
}

// goneText describes the wait for nodes of a run that are gone; "" if no node is gone.
func (e *explainer) goneText(j *job) string {
	var gone []filch.NodeName
	for i := range j.run.launch.Nodes {
		name := j.run.launch.Nodes[i].Node
		if k := e.Members.Find(name); k >= 0 && e.Members.At(k).Standing == filch.Gone && !j.run.participants[i].done {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return "; the launcher has ended on " + launcher.ListNames(gone) + ", where ranks run on for up to 4 s: " +
		"a launcher that is started again within this time continues the job; 5 s after its last heartbeat the node counts as lost"
}

func (e *explainer) explainGather(now time.Duration, j *job, x *launcher.Explanation) {
	held, asked := j.gather.Held()
	x.Short = held < int64(j.need.Ranks) || j.need.Spare > 0
	x.Held, x.Asked = int32(min(held, int64(j.need.Ranks))), asked
	x.Phase, x.Text, x.Fills = j.gather.Stage().String(), e.missing(j)+lentText(now, j), j.gather.Lent(now).Tasks
	for _, s := range j.gather.Seats(e.Members.Len()) {
		if s.Full() {
			continue
		}
		if s.Old {
			s.Last.Holder, s.Last.Holds = 0, 0
		}
		x.Places = append(x.Places, launcher.Place{
			Node: s.Node, Held: s.Last.Held, Want: s.Limit, Free: s.Last.Free, Holder: s.Last.Holder, Holds: s.Last.Holds,
		})
		if len(x.Places) == launcher.MaxPlaces {
			return
		}
	}
}

// info returns a snapshot of a job; e is the job's end, or nil.
func (j *job) info(now time.Duration, origin filch.NodeName, e *launcher.EndRecord) launcher.JobInfo {
	i := launcher.JobInfo{
		ID: j.id, Name: j.req.Name, Kind: "run", Parent: j.req.Parent, Origin: origin, State: j.state.String(),
		Attempt: j.try(), Ranks: j.need.Ranks, Nodes: []filch.NodeName{}, Detached: j.req.Detach, Submit: j.ticket.UnixNS,
		Hop: j.kept.hop, Earlier: j.kept.earlier, Lost: j.kept.causes, Spawned: j.req.Spawner != 0,
	}
	if e == nil {
		i.Held = j.req.HeldBy
		i.Dep, i.Begin = j.req.Before.String(), j.req.Before.Begin
	}
	if i.Parent != 0 {
		i.Kind = "step"
	} else {
		i.Inside = j.req.Inside.Job
	}
	if j.req.Task != 0 && j.step != nil {
		i.Task = &j.step.index
	}
	i.Waited = seconds(now - j.submitted)
	var nodes []filch.NodeName
	if e == nil {
		i.Spares = j.spares.Nodes()
	}
	if r := j.run; r != nil {
		for k := range r.launch.Nodes {
			i.Nodes = append(i.Nodes, r.launch.Nodes[k].Node)
		}
		nodes = r.tally.nodes
		if r.going {
			i.Waited, i.Elapsed = seconds(j.waited), seconds(now-r.at.began)
		}
		i.Cause = r.cause.Text
	}
	i.Tasks = j.tasks(e)
	if e == nil {
		if j.run != nil {
			i.Used = launcher.UsedOf(j.run.tally.rows.Sum)
		}
		return i
	}
	i.Used, i.Rows = launcher.UsedOf(e.Usage), e.Rows
	c := e.Code
	i.State, i.Code, i.Cause = e.State.String(), &c, e.Cause.Text
	for k := range e.Ranks {
		b := launcher.RankInfo{Rank: e.Ranks[k].Rank, Code: e.Ranks[k].Kind.Code(e.Ranks[k].Code)}
		if k < len(nodes) {
			b.Node = nodes[k]
			b.Text = e.Ranks[k].Line(b.Node)
		}
		i.Bad = append(i.Bad, b)
	}
	return i
}

// tasks counts the ranks of a job by state.
func (j *job) tasks(e *launcher.EndRecord) (t launcher.TaskCounts) {
	state := j.state
	if r := j.run; r != nil {
		t = r.tally.by
		// The other ranks ended before a restart.
		if known := t.OK + t.Failed + t.Killed + t.Lost + t.Cancelled; known < r.tally.ended {
			t.Failed += min(r.tally.bad, r.tally.ended-known)
			t.OK += max(0, r.tally.ended-known-r.tally.bad)
		}
		if r.going && e == nil {
			state = filch.Running
		}
	}
	if e != nil {
		switch state = e.State; {
		case state == filch.OK:
		case j.run == nil || !j.run.going:
			state = max(state, filch.Skipped)
		case state == filch.Failed:
			state = filch.Killed
		}
		if e.State == filch.Cancelled {
			t.Cancelled, t.Killed = t.Cancelled+t.Killed, 0
		}
	}
	t.Total = j.need.Ranks
	t.Rest(state)
	return t
}

// Jobs lists the jobs of this origin: ended jobs by their end, then live jobs by id.
func (e *explainer) Jobs(now time.Duration) []launcher.JobInfo {
	out := e.endings.past.Infos()
	for _, j := range e.sortedJobs() {
		if j.gang == 0 {
			out = append(out, e.withOutlook(now, j))
		}
	}
	return out
}

func (e *explainer) liveInfo(now time.Duration, j *job) launcher.JobInfo {
	i := j.info(now, e.Cfg.Name, nil)
	if j.run == nil {
		i.Cause = e.missing(j)
	} else if limit := j.run.at.limit; j.run.going && limit != filch.Never {
		i.Left = seconds(max(limit-now, time.Millisecond))
	}
	return i
}

// Job returns a snapshot of a job of this origin.
func (e *explainer) Job(now time.Duration, id filch.JobID) (launcher.JobInfo, bool) {
	if j := e.jobs[id]; j != nil {
		i := e.withOutlook(now, j)
		if j.run != nil {
			i.Rows = j.run.tally.rows.Encode(j.run.launch.Nodes)
		}
		return i, true
	}
	if p := e.endings.past.Find(id); p != nil {
		return p.Info, true
	}
	return launcher.JobInfo{}, false
}

func seconds(d time.Duration) float64 { return d.Seconds() }
