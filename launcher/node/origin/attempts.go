package origin

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// attempts handles the launched jobs of this origin, from the launch to the end of the
// last rank. It counts the participants that are ready, started and done, sends orders
// to the participants, and selects the end that decides the exit code. The counters of a
// run always match its participants.
type attempts struct {
	*joblist
	origin  runOwner
	records *records.Records
	ranks   ownRanks
	line    *gatherqueue
	lost    *lostranks
	parents *parents
	tasks   gangTasks
	renewAt time.Duration // of the leases of running jobs
}

// runOwner decides how a job continues after an attempt is over, and sends the job's
// events to the client.
type runOwner interface {
	onRunOver(t *local.Turn, j *job)
	again(t *local.Turn, j *job)
	finish(t *local.Turn, j *job, e launcher.EndRecord)
	isHandedOver(t *local.Turn, id filch.JobID) bool
	keep(t *local.Turn, j *job)
	tell(t *local.Turn, j *job, e launcher.Event)
}

// run is a launched attempt at its origin.
type run struct {
	launch                  launcher.Launch
	participants            []participant // by index in launch.Nodes
	prepared, started, done int32         // participants in this phase or a later one
	going                   bool          // the gate is open
	unsure                  bool          // the gate may not have opened; going is true
	unsent                  *unsent       // the launch is not sent yet; else nil
	told                    bool          // the client knows of the start
	at                      runClock
	halt                    haltOrder
	cause                   verdict // the first
	tally                   tally
	sigs                    []int32
	gate                    bool                          // failed behind the gate: to be launched again
	lost                    bool                          // a node was lost
	doneRecords             []*launcher.ParticipantRecord // of done participants, for a takeover
}

// unsent is a launch waiting for the store to have the job's record. A launch with a loan
// uses this node alone.
type unsent struct {
	loan   *slots.Loan
	shares []stealer.Share
}

// runClock is the moments of a run.
type runClock struct {
	began   time.Duration // the gate opened
	prepare time.Duration // the keepers must be ready
	limit   time.Duration // --time
	warn    time.Duration // --signal
	first   time.Duration // -W
	again   time.Duration // no participant is due before
	armed   bool          // limit and warn were set
	waits   bool          // first was
	resumed bool          // began comes from a record
}

// haltOrder is the origin's order to the participants to stop their ranks; level 0 is no
// order.
type haltOrder struct {
	level  int32
	signal int32
	grace  time.Duration
	reason string
	user   bool // the user wants the job ended: no further attempt
}

// participant is a node's share of an attempt, as the origin knows the share.
type participant struct {
	phase   launcher.Phase
	done    bool
	lost    bool
	unsent  bool  // output of the node is missing
	swept   bool  // the node reported no process left
	kept    bool  // recorded as done
	owed    bool  // the last acknowledgement waits for the store
	have    int32 // ends received
	told    int32 // of these, ends caused by the node's launcher
	sigs    int32 // signals delivered
	again   time.Duration
	wait    time.Duration
	back    time.Duration // after a restart of the launcher: the ranks must turn up
	runsFor time.Duration // if lost: how long the ranks may run from that moment
}

func (r *run) uses(node filch.NodeName, lease filch.LeaseID) bool {
	for i := range r.launch.Nodes {
		if r.launch.Nodes[i].Node == node && r.launch.Nodes[i].Lease == lease {
			return true
		}
	}
	return false
}

func (r *run) deadline() time.Duration {
	return min(r.at.prepare, r.at.limit, r.at.warn, r.at.first, r.at.again)
}

// launch starts an attempt on the shares. With a loan the attempt uses this node alone
// and runs at once; an attempt on a single other node needs no gate either.
func (a *attempts) launch(t *local.Turn, j *job, shares []stealer.Share, loan *slots.Loan) {
	nodes := make([]launcher.NodeRanks, len(shares))
	for i, s := range shares {
		nodes[i] = launcher.NodeRanks{Node: s.Node, Lease: s.Lease, Ranks: s.Spans}
	}
	r := a.newRun(j, nodes)
	j.run, j.state = r, filch.Ready
	t.Event(j.event(events.JobLaunched, int64(len(nodes))))
	waits := j.req.Detach && !mutantEagerLaunch || j.gang != 0 && !a.tasks.OnLaunched(t, j.gang)
	j.clock.say, j.clock.refresh = filch.Never, filch.Never
	r.at.prepare = t.Now + r.prepareWait()
	if single := len(nodes) == 1; single {
		a.openGate(t, j)
	}
	if !waits {
		a.origin.keep(t, j)
		a.dispatch(t, j, loan)
		return
	}
	// If this node was cut off, another node may have taken the detached job over. No
	// rank starts before the record names this node as the owner. No rank of a gang starts
	// before the task's record has the start.
	r.at.prepare = filch.Never
	r.unsent = &unsent{loan: loan, shares: slices.Clone(shares)}
	if loan == nil {
		a.line.unsent++
	}
	if j.gang == 0 {
		a.records.Commit(t, j.id, func(t *local.Turn) { a.send(t, j, r) })
	}
	a.wakeJob(j, j.deadline())
}

// send sends a launch that waited for a record.
func (a *attempts) send(t *local.Turn, j *job, r *run) {
	if a.jobs[j.id] != j || j.run != r || r.unsent == nil {
		return
	}
	loan := r.unsent.loan
	if loan == nil {
		a.line.unsent--
	}
	r.unsent, r.at.prepare = nil, t.Now+r.prepareWait()
	a.origin.keep(t, j)
	a.dispatch(t, j, loan)
}

// unlaunch cancels a launch before the origin has sent it.
func (a *attempts) unlaunch(t *local.Turn, j *job) {
	r := j.run
	j.run, j.state = nil, filch.Waiting
	if r.unsent.loan != nil {
		a.Ledger.End(t.Now, j.key(), r.unsent.loan.Lease, false)
		return
	}
	a.line.unsent--
	for _, at := range r.launch.Nodes {
		t.Send(at.Node, &launcher.Release{Job: j.id, Attempt: j.attempt, Lease: at.Lease})
	}
}

// wounded handles a Grant that arrives while a launch waits for its record, and reports
// whether the launch lost slots that it needs on the sender. An outdated Grant changes
// nothing.
func (u *unsent) losesSlots(from filch.NodeName, m *launcher.Grant) bool {
	for i := range u.shares {
		s := &u.shares[i]
		if s.Node != from || mutantStaleLaunch {
			continue
		}
		if m.Lease.Incarnation != s.Lease.Incarnation {
			return m.Lease.Incarnation > s.Lease.Incarnation
		}
		if m.Version <= s.Word {
			return false
		}
		s.Word = m.Version
		return m.Lease != s.Lease || m.Held < launcher.CountRanks(s.Spans)
	}
	return false
}

// dispatch sends a launch to the root of the tree, or starts the launch on this node's
// loan.
func (a *attempts) dispatch(t *local.Turn, j *job, loan *slots.Loan) {
	r, nodes := j.run, j.run.launch.Nodes
	j.launched = true
	for i := range r.participants {
		r.participants[i].again = t.Now + repeatMin
	}
	r.at.again = t.Now + repeatMin
	if loan != nil {
		r.participants[0].again, r.at.again = filch.Never, filch.Never
		a.ranks.TakePart(t, &r.launch, 0, *loan, true)
	} else {
		t.Send(nodes[0].Node, &launcher.Dispatch{Launch: r.launch, Index: 0, Go: len(nodes) == 1})
	}
	if a.remote(nodes) {
		a.renewAt = min(a.renewAt, t.Now+j.renewEvery())
	}
	a.wakeJob(j, j.deadline())
}

func (a *attempts) remote(nodes []launcher.NodeRanks) bool {
	return len(nodes) > 1 || nodes[0].Node != a.Cfg.Name
}

func (a *attempts) newRun(j *job, nodes []launcher.NodeRanks) *run {
	r := &run{participants: make([]participant, len(nodes))}
	if j.req.Shape.Exclusive && j.req.Parent == 0 {
		nodes = slices.Clone(nodes)
		for i := range nodes {
			if m := a.Members.Find(nodes[i].Node); m >= 0 {
				nodes[i].Slots = a.Members.At(m).Total.Slots
			}
		}
	}
	for i := range r.participants {
		r.participants[i].again, r.participants[i].back = filch.Never, filch.Never
	}
	r.at = runClock{prepare: filch.Never, limit: filch.Never, warn: filch.Never, first: filch.Never, again: filch.Never}
	r.launch = launcher.Launch{
		Ident: filch.Ident{Instance: a.Cfg.Instance, Job: j.id, Attempt: j.attempt},
		Name:  j.req.Name, Origin: a.Cfg.Name, Parent: j.req.Parent, Task: j.req.Task, Step: j.stepNumber(), Size: j.need.Ranks, Universe: a.universe(j), Nodes: nodes,
		Base: j.need.Base, Each: j.need.Each,
		KillWait: j.req.Policy.KillWait, Detach: j.req.Detach, Timed: j.req.Policy.TimeLimit > 0, Keep: j.req.Shape.Spare > 0, Order: j.req.Order,
		Hop: j.kept.hop, Copy: j.req.Copy, Of: j.req.Of, Life: j.life(a.Cfg.Incarnation), Staged: j.req.Staged, Ticket: j.ticket, Idle: j.unlaunched,
	}
	return r
}

// openGate records the moment from which the ranks may start.
func (a *attempts) openGate(t *local.Turn, j *job) {
	j.run.going = true
	j.run.at.began = t.Now
	j.waited = t.Now - j.submitted
}

// armLimit starts the time limit, from the start of the first rank.
func (a *attempts) armLimit(t *local.Turn, j *job) {
	r, p := j.run, &j.req.Policy
	if r.at.armed || r.halt.level > 0 || p.TimeLimit <= 0 {
		return
	}
	r.at.armed = true
	from, least := t.Now, t.Now
	if r.at.resumed {
		// The time that the ranks ran before counts. The participants first have time to
		// report earlier ends.
		from, least = r.at.began, t.Now+ranks.TellAgainMax
	}
	r.at.limit = max(from+p.TimeLimit, least)
	if p.WarnSig > 0 {
		r.at.warn = from + max(0, p.TimeLimit-p.WarnTime)
	}
}

// armFirst starts the -W timeout at the first known end of a rank.
func (a *attempts) armFirst(t *local.Turn, j *job) {
	r := j.run
	if !r.at.waits && j.req.Policy.WaitFirst > 0 && r.halt.level == 0 {
		r.at.waits, r.at.first = true, t.Now+j.req.Policy.WaitFirst
	}
}

// advance updates a run after a change of a participant.
func (a *attempts) advance(t *local.Turn, j *job) {
	r, all := j.run, int32(len(j.run.participants))
	ready := r.prepared == all || mutantEarlyGo && r.prepared == all-1
	if !r.going && r.halt.level == 0 && ready {
		a.openGate(t, j)
		a.origin.keep(t, j)
		a.sendProceed(t, j)
	}
	if r.unsure && r.halt.level == 0 {
		a.decideGate(t, j)
	}
	if r.going && !r.told && r.halt.level == 0 && r.started == all && (r.done < all || r.ranStarted()) {
		a.tellStarted(t, j)
	}
	if r.started == all {
		r.at.prepare = filch.Never
	}
	if r.going && r.started > 0 {
		a.armLimit(t, j)
	}
	if r.done == all {
		a.origin.onRunOver(t, j)
		return
	}
	a.wakeJob(j, j.deadline())
}

// ranStarted reports whether any rank was exec'ed, or an exec was tried.
func (r *run) ranStarted() bool {
	for i := range r.participants {
		if r.participants[i].phase == launcher.PhaseStarted || r.participants[i].phase == launcher.PhaseDone && r.tally.ended > 0 {
			return true
		}
	}
	return false
}

func (a *attempts) tellStarted(t *local.Turn, j *job) {
	j.run.told = true
	t.Event(j.event(events.JobStarted, int64(j.need.Ranks)))
	j.run.at.prepare = filch.Never
	j.state = filch.Running
	if j.req.Detach {
		a.records.Mark(t, j.id, records.WritePause)
	}
	a.origin.tell(t, j, launcher.Started{Job: j.id, Size: j.need.Ranks, Nodes: j.run.launch.Nodes, Waited: j.waited, Attempt: j.attempt})
}

// goStraight is the maximum number of nodes to which the origin sends Proceed directly;
// with more nodes, Proceed goes down the tree of launches.
const goStraight = 64

func (a *attempts) sendProceed(t *local.Turn, j *job) {
	r := j.run
	tree := len(r.participants) > goStraight
	for i := range r.participants {
		r.participants[i].again, r.participants[i].wait = t.Now+repeatMin, repeatMin
		if i == 0 || !tree && !(mutantHalfGang && j.gang != 0) {
			t.Send(r.launch.Nodes[i].Node, &launcher.Proceed{Job: j.id, Attempt: j.attempt, Index: int32(i), Tree: tree})
		}
	}
	r.at.again = t.Now + repeatMin
	r.at.prepare = t.Now + launcher.PrepareWait
}

// tickRun handles expired limits, and participants without an answer.
func (a *attempts) tickRun(t *local.Turn, j *job) {
	r, p := j.run, &j.req.Policy
	if r.at.warn <= t.Now {
		r.at.warn = filch.Never
		a.signalRun(t, j, p.WarnSig)
	}
	if r.at.limit <= t.Now {
		r.at.limit = filch.Never
		a.end(t, j, launcher.Cause{Kind: launcher.CauseTimeLimit, Rank: -1, Text: "time limit of " + filch.ShortTime(p.TimeLimit) + " reached"}, launcher.SigTerm, p.KillWait)
	}
	if r.at.first <= t.Now {
		r.at.first = filch.Never
		text := filch.ShortTime(p.WaitFirst) + " passed since the first rank ended"
		a.end(t, j, launcher.Cause{Kind: launcher.CauseWaitFirst, Rank: -1, Text: text}, launcher.SigTerm, p.KillWait)
	}
	if r.at.prepare <= t.Now {
		r.at.prepare = filch.Never
		a.end(t, j, launcher.Cause{Kind: launcher.CauseOurs, Rank: -1, Node: r.slowest(), Text: string(r.slowest()) + " was not ready within " + filch.ShortTime(r.prepareWait())}, launcher.SigTerm, ranks.FailGrace)
	}
	if r.at.again <= t.Now {
		a.repeatAll(t, j)
	}
}

func (r *run) slowest() filch.NodeName {
	for i := range r.participants {
		if s := &r.participants[i]; !s.done && (s.phase < launcher.PhasePrepared || r.going && s.phase < launcher.PhaseStarted) {
			return r.launch.Nodes[i].Node
		}
	}
	return ""
}

func (a *attempts) repeatAll(t *local.Turn, j *job) {
	r := j.run
	r.at.again = filch.Never
	for i := range r.participants {
		s := &r.participants[i]
		if s.done {
			continue
		}
		if s.back <= t.Now {
			a.lost.endLost(t, j, r.launch.Participant(i)) // in case the ranks still run
			a.onParticipantLost(t, j, i, "the launcher came back without the ranks")
			if j.run != r || s.done {
				continue
			}
		}
		if s.again <= t.Now && s.wait >= RepeatMax && !a.Alive(r.launch.Nodes[i].Node) {
			a.onParticipantLost(t, j, i, "the node is not a member") // a non-member is never declared dead
			if j.run != r || s.done {
				continue
			}
		}
		if s.again <= t.Now {
			a.repeatOne(t, j, i)
		}
		r.at.again = min(r.at.again, s.again, s.back)
	}
	if a.jobs[j.id] == j && j.run == r && (r.unsure || r.done == int32(len(r.participants))) {
		a.advance(t, j)
	}
}

// repeatOne resends the message that a participant did not answer.
func (a *attempts) repeatOne(t *local.Turn, j *job, i int) {
	r, s := j.run, &j.run.participants[i]
	to := r.launch.Nodes[i].Node
	if s.back != filch.Never && j.kept.hop > 0 {
		a.askReport(t, j, i) // before a TakeOver, the participant answers the old origin
	}
	switch {
	case r.halt.level > 0:
		a.sendHalt(t, j, i)
	case s.phase < launcher.PhasePrepared && !(r.going && len(r.participants) > 1):
		t.Send(to, &launcher.Dispatch{Launch: r.launch, Index: int32(i), Direct: true, Go: len(r.participants) == 1})
	case s.phase < launcher.PhaseStarted && r.going:
		// Otherwise this origin was restarted or took the job over, and lacks reports.
		if r.prepared == int32(len(r.participants)) && !r.unsure && !(mutantHalfGang && j.gang != 0 && i > 0) {
			t.Send(to, &launcher.Proceed{Job: j.id, Attempt: j.attempt, Index: int32(i)})
		}
	case s.sigs < int32(len(r.sigs)):
	case s.back != filch.Never && j.kept.hop > 0:
	default:
		s.again = filch.Never
		return
	}
	if s.sigs < int32(len(r.sigs)) {
		a.sendSignals(t, j, i)
	}
	s.wait = min(max(2*s.wait, repeatMin), RepeatMax)
	s.again = t.Now + s.wait
}

// renewAll renews the leases of running jobs.
func (a *attempts) renewAll(t *local.Turn) {
	a.renewAt = filch.Never
	for _, j := range a.sortedJobs() {
		if j.run != nil && a.remote(j.run.launch.Nodes) {
			a.renewAt = min(a.renewAt, t.Now+j.renewEvery())
		}
	}
	a.renew(t, "")
}

// renew renews leases with one node, or with all if the name is empty, in as few messages
// as there are peers.
func (a *attempts) renew(t *local.Turn, name filch.NodeName) {
	by := make(map[filch.NodeName]*launcher.Renew)
	for _, j := range a.sortedJobs() {
		if j.run == nil {
			continue
		}
		for i := range j.run.participants {
			s, at := &j.run.participants[i], &j.run.launch.Nodes[i]
			if s.done || s.phase < launcher.PhasePrepared || at.Node == a.Cfg.Name || name != "" && at.Node != name {
				continue
			}
			m := by[at.Node]
			if m == nil || len(m.Leases) >= launcher.MaxRenewals {
				m = &launcher.Renew{Incarnation: a.Cfg.Incarnation}
				by[at.Node] = m
				t.Send(at.Node, m)
			}
			m.Leases = append(m.Leases, launcher.Renewal{Job: j.id, Attempt: j.attempt, Index: int32(i), Lease: at.Lease})
		}
	}
}

// prepareWait is how long the keepers of a run may take until all are ready.
func (r *run) prepareWait() time.Duration {
	wait := launcher.PrepareWait + r.launch.Copy.Wait()
	if r.launch.Staged {
		wait += launcher.StageWait
	}
	return wait
}
