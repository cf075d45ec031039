package instance

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Sizes of a fault run. Half of the runs have few hosts, so that thousands of seeds
// are cheap and their jobs get in each other's way; a tenth have enough for shards
// to split, again and again.
const (
	faultHostsMin = 3
	faultHostsFew = 5
	faultHostsMid = 16
	faultHostsMax = 64
	faultJobsMin  = 12
	faultJobsMax  = 36
	submitSpan    = 4 * time.Second
	faultSpan     = 10 * time.Second // all faults begin in it
	faultLongest  = 14 * time.Second
	cutLongest    = 30 * time.Second // of a partition, longer than any lease
	settleSpan    = 90 * time.Second // after the last fault, everything ends within
)

// FaultWorld draws a cluster, its jobs and its faults from a seed.
func FaultWorld(seed uint64, trace func(string)) *World {
	d := engine.NewDice(seed, 1)
	hosts := drawHosts(d)
	w := NewWorld(Options{
		Seed: seed, Hosts: hosts, Slots: int32(2 + d.N(7)), Links: drawLinks(d),
		Looks: engine.LooksOf(seed), Words: true, Trace: trace, MaxSteps: 3e6, Policy: drawPolicy(engine.NewDice(seed, streamPolicy)),
		Roles: drawRoles(engine.NewDice(seed, streamRoles), hosts),
	})
	if d.Chance(0.3) {
		for _, h := range w.hosts {
			h.skew = int64(d.Between(0, 6*time.Second) - 3*time.Second)
		}
	}
	for i := range faultJobsMin + d.N(faultJobsMax-faultJobsMin+1) {
		w.add(w.drawJob(d, i))
	}
	if d.Chance(0.5) {
		w.drawSteps(d)
	}
	w.drawVariety(d)
	if d.Chance(0.2) {
		w.drawDrain(d)
	}
	w.drawClients(d)
	w.drawBags(w.Dice(streamBags))
	w.drawTaskSteps(w.stepRng)
	w.drawGangs(w.Dice(streamGangs))
	w.drawRecordClients(w.Dice(streamRecords))
	w.drawQuota(w.Dice(streamQuota))
	w.At(faultSpan+cutLongest+settleSpan/2, w.cancelTooLarge)
	w.At(faultSpan+cutLongest+settleSpan/2, w.cancelBagsTooLarge)
	w.At(faultSpan, w.checkPace)
	w.At(explainEvery, w.checkExplained)
	w.At(idleEvery, w.checkIdle)
	for range d.N(6) {
		w.drawFault(d)
	}
	if d.Chance(0.7) {
		w.drawFuse(d)
	}
	w.drawDiskFaults(w.Dice(streamDiskFaults))
	w.drawChurn(w.Dice(streamChurn))
	w.drawAwaits(w.Dice(streamAwaits), 0.15)
	w.drawPolicies(w.Dice(streamPolicies), 3)
	w.At(actsEvery, w.lookAtChoices)
	return w
}

func drawHosts(d *engine.Dice) int {
	most := faultHostsMax
	switch roll := d.N(10); {
	case roll < 6:
		most = faultHostsFew
	case roll < 9:
		most = faultHostsMid
	}
	return faultHostsMin + d.N(most-faultHostsMin+1)
}

// drawLinks is a network on a day of some badness.
func drawLinks(d *engine.Dice) engine.Links {
	l := engine.Quiet()
	switch d.N(4) {
	case 0: // a good day
	case 1:
		l.Loss, l.Dup = 0.01, 0.01
	case 2:
		l.LateDup, l.LateMax, l.Loss = 0.03, 8*time.Second, 0.005
	case 3:
		l.Loss, l.Dup, l.LateDup, l.LateMax = 0.1*d.Unit(), 0.05*d.Unit(), 0.1*d.Unit(), 12*time.Second
		l.LatencyMax = time.Duration(1+d.N(20)) * time.Millisecond
	}
	return l
}

func (w *World) drawJob(d *engine.Dice, i int) *job {
	each := int(w.opt.Slots)
	total := w.opt.Hosts * each
	j := &job{host: int32(d.N(w.opt.Hosts)), outcome: newOutcome(), index: i}
	j.Submit = d.Between(1, submitSpan)
	j.Runs = d.Between(time.Millisecond, 2*time.Second)
	switch d.N(10) {
	case 0, 1, 2, 3:
		j.Slots = 1 + d.N(each) // fits on a node
	case 4, 5, 6:
		j.Slots = 1 + d.N(4*each)
	case 7:
		j.Slots = total / 2
	case 8:
		j.Slots = total*6/10 + 1
	case 9:
		j.Slots = total
	}
	if j.Slots <= 4*each && d.Chance(0.1) {
		j.Runs = d.Between(2*time.Second, 25*time.Second)
	}
	shape := launcher.Shape{Ranks: int32(j.Slots), PerRank: filch.Room{Slots: 1}}
	w.drawShape(d, j, &shape)
	j.request = launcher.Request{
		Shape:  shape,
		Policy: launcher.Policy{KillOnBad: true, KillWait: d.Between(200*time.Millisecond, 2*time.Second)},
		Order:  order(i),
	}
	j.plan = plan{checksMin: 50 * time.Microsecond, checksMax: 2 * time.Millisecond, spread: 5 * time.Millisecond, unready: -1}
	w.drawEnds(d, j)
	return j
}

// drawShape makes some jobs ask for more than slots.
func (w *World) drawShape(d *engine.Dice, j *job, s *launcher.Shape) {
	each := int(w.opt.Slots)
	switch d.N(8) {
	case 0: // fat ranks
		s.PerRank.Slots = int32(1 + d.N(each))
		most := each / int(s.PerRank.Slots) * w.opt.Hosts
		s.Ranks = int32(max(1, min(int(s.Ranks)/int(s.PerRank.Slots), most)))
	case 1: // memory
		s.PerRank.MemBytes = hostMemory / int64(1+d.N(4))
		most := int(hostMemory/s.PerRank.MemBytes) * w.opt.Hosts
		s.Ranks = int32(min(int(s.Ranks), most))
	case 2: // spread out
		s.MinNodes = int32(1 + d.N(min(int(s.Ranks), w.opt.Hosts)))
	case 3:
		s.PerNode = int32(1 + d.N(each))
		s.Ranks = min(s.Ranks, s.PerNode*int32(w.opt.Hosts))
	case 4:
		s.Layout = launcher.Layout(d.N(3))
	}
	j.Slots = int(s.Ranks * s.PerRank.Slots)
}

// drawEnds decides how the ranks of a job end.
func (w *World) drawEnds(d *engine.Dice, j *job) {
	ranks := int(j.request.Shape.Ranks)
	if d.Chance(0.2) {
		j.plan.deaf = true
	}
	switch d.N(8) {
	case 0, 1:
		kinds := []launcher.RankEnd{
			{Kind: launcher.CauseExit, Code: int32(1 + d.N(100))},
			{Kind: launcher.CauseSignal, Code: 11},
			{Kind: launcher.CauseAbort, Code: int32(1 + d.N(100))},
			{Kind: launcher.CauseNoFinalize},
			{Kind: launcher.CauseOOM, Code: 9},
		}
		for range 1 + d.N(3) {
			b := badEnd{rank: filch.Rank(d.N(ranks)), after: d.Between(0, j.Runs), end: kinds[d.N(len(kinds))]}
			j.plan.bad = append(j.plan.bad, b)
		}
	case 2:
		j.plan.unready = int32(d.N(min(ranks, 8)))
		j.plan.unreadyCause = []launcher.CauseKind{launcher.CauseNotFound, launcher.CauseNotExec}[d.N(2)]
	case 3:
		j.request.Policy.TimeLimit = d.Between(50*time.Millisecond, time.Second)
	}
}

// cancelTooLarge has clients give up what cannot fit any more, since nodes
// were lost for good: such a job waits for nodes, as it should.
func (w *World) cancelTooLarge() {
	for _, j := range w.jobs {
		h := w.hosts[j.host]
		if j.over() || j.orphaned || j.submittedAt < 0 || j.live() || h.node == nil || j.parent != nil || j.task != nil || w.couldFit(j) {
			continue
		}
		j.cancelled = true
		h.call(func(now time.Duration, out *launcher.Outbox) { h.node.Cancel(now, j.id, 15, "the plan", out) })
	}
	for _, h := range w.hosts {
		if h.node == nil {
			continue
		}
		for _, i := range h.node.Jobs(h.Local()) { // and what no client ever heard of, or another node took over
			j := w.byID[i.ID]
			if !isFinal(i.State) && (j == nil || j.request.Detach && !j.live() && !w.couldFit(j)) {
				if j != nil {
					j.cancelled = true
				}
				h.call(func(now time.Duration, out *launcher.Outbox) { h.node.Cancel(now, i.ID, 15, "the plan", out) })
			}
		}
	}
}

// couldFit reports whether the hosts that are not lost have room for a job.
func (w *World) couldFit(j *job) bool {
	s := &j.request.Shape
	each := w.opt.Slots / s.PerRank.Slots
	if s.PerRank.MemBytes > 0 {
		each = min(each, int32(hostMemory/s.PerRank.MemBytes))
	}
	if s.PerNode > 0 {
		each = min(each, s.PerNode)
	}
	if s.PerRank.GPUs > 0 {
		each = min(each, hostGPUs*filch.GPU/s.PerRank.GPUs)
	}
	var left int32
	for _, h := range w.hosts {
		named := slices.Contains(s.Only, h.Name)
		if (h.lost || !h.role.Takes(true)) && named {
			return false
		}
		if !h.lost && h.role.Takes(true) && !slices.Contains(s.Exclude, h.Name) && (named || s.Only == nil) {
			left++
		}
	}
	if w.opt.Roles != nil {
		left -= s.Spare // without roles each run has space for its spare node: see [World.drawSpare]
	}
	return each*left >= s.Ranks && left >= s.MinNodes
}

// add makes a job part of the run; a step's turn comes with its parent's start.
func (w *World) add(j *job) {
	j.index = len(w.jobs)
	w.jobs = append(w.jobs, j)
	if j.parent != nil {
		j.parent.steps = append(j.parent.steps, j)
		return
	}
	w.At(j.Submit, func() { w.hosts[j.host].submit(j) })
}

// drawSteps gives some jobs steps: small runs inside their slots.
func (w *World) drawSteps(d *engine.Dice) {
	for _, parent := range append([]*job(nil), w.jobs...) {
		if !d.Chance(0.15) || parent.request.Shape.PerRank != (filch.Room{Slots: 1}) {
			continue
		}
		for range 1 + d.N(3) {
			j := &job{outcome: newOutcome(), parent: parent}
			j.Slots = 1 + d.N(parent.Slots)
			j.Runs = d.Between(time.Millisecond, max(parent.Runs/2, 2*time.Millisecond))
			j.request = launcher.Request{
				Shape:  launcher.Shape{Ranks: int32(j.Slots), PerRank: filch.Room{Slots: 1}},
				Policy: parent.request.Policy, Order: order(len(w.jobs)),
			}
			j.request.Policy.TimeLimit = 0
			j.plan = plan{checksMin: 50 * time.Microsecond, checksMax: time.Millisecond, unready: -1}
			w.add(j)
		}
	}
}

// begin submits the steps of a job that has started, each from one of the
// nodes that it runs on.
func (w *World) begin(parent *job, nodes []launcher.NodeRanks) {
	for i, j := range parent.steps {
		if j.submittedAt >= 0 {
			continue
		}
		h := w.byName[nodes[(parent.index+i)%len(nodes)].Node]
		j.host, j.request.Parent = h.Index, parent.id
		j.Submit = w.Now() + time.Duration(1+i)*time.Millisecond
		w.At(j.Submit, func() { w.hosts[j.host].submit(j) })
	}
}

// drawFault schedules one fault.
func (w *World) drawFault(d *engine.Dice) {
	at := d.Between(time.Millisecond, faultSpan)
	h := w.hosts[d.N(len(w.hosts))]
	lasts := d.Between(50*time.Millisecond, faultLongest)
	if d.Chance(0.5) {
		lasts = d.Between(time.Millisecond, 3*time.Second)
	}
	pick := d.N(11)
	w.At(at, func() {
		switch pick {
		case 0: // a node dies and comes back
			w.crash(h)
			w.At(at+max(lasts, 100*time.Millisecond), func() { w.restart(h) })
		case 1: // a node dies for good
			w.lose(h, max(lasts, 100*time.Millisecond))
		case 2, 3: // a launcher dies and comes back
			w.killLauncher(h)
			w.At(at+lasts, func() { w.restart(h) })
		case 4:
			w.pause(h, lasts, false)
		case 5:
			w.pause(h, lasts, true)
		case 6:
			if at%4 == 0 {
				lasts += cutLongest - faultLongest
			}
			cutOff := 1
			if at%3 > 0 {
				cutOff += int(at) % (len(w.hosts) / 2)
			}
			w.partition(w.hosts[:cutOff], w.hosts[cutOff:], lasts, at%2 == 0)
		case 7:
			w.clog(h, min(lasts, 4*time.Second))
		case 8:
			w.killKeeper(h, int(at))
		case 9:
			w.island(max(lasts, 16*time.Second))
		case 10: // aimed: the gatherer of the oldest job that is about
			if j := w.oldest(); j != nil {
				w.killLauncher(w.hosts[j.host])
				w.At(at+lasts, func() { w.restart(w.hosts[j.host]) })
			}
		}
	})
}

// drawFuse has a launcher die in the middle of what it does for a job.
func (w *World) drawFuse(d *engine.Dice) {
	names := crashPoints
	f := &fuse{host: w.jobs[d.N(len(w.jobs))].host, skip: d.N(40)}
	if d.Chance(0.8) {
		f.name, f.input, f.skip = names[d.N(len(names))], d.Chance(0.3), d.N(6)
	}
	back := d.Between(10*time.Millisecond, 8*time.Second)
	crash := d.Chance(0.4)
	f.blow = func(h *host) {
		if crash {
			w.crash(h)
		} else {
			w.killLauncher(h)
		}
		w.At(w.Now()+back, func() { w.restart(h) })
	}
	w.fuse = f
}

// crashPoints are the deeds and inputs over which a launcher is made to die.
var crashPoints = []string{
	"record", "start", "go", "stop", "forget", "reply",
	"Ask", "Grant", "Release", "Dispatch", "Progress", "ProgressAck",
	"Proceed", "Halt", "Renew", "KeeperReady", "RanksStarted", "RanksEnded", "KeeperDone",
}

// Cancels and vanishing clients are part of the faults, too: drawn by job.
func (w *World) drawClients(d *engine.Dice) {
	for _, j := range w.jobs {
		if !d.Chance(0.12) {
			continue
		}
		at := j.Submit + d.Between(0, 3*time.Second)
		gone := d.Chance(0.5)
		w.At(at, func() {
			h := w.hosts[j.host]
			if h.node == nil || j.id == 0 || j.over() {
				return
			}
			if a := j.last(); a != nil && !(gone && j.request.Detach) {
				w.mustEnd(a, j.killWait()+goneBound/2, "its client went or cancelled it")
			}
			if gone {
				w.orphan(j)
				h.call(func(now time.Duration, out *launcher.Outbox) { h.node.ClientGone(now, j.client(), out) })
			} else {
				j.cancelled = true
				h.call(func(now time.Duration, out *launcher.Outbox) { h.node.Cancel(now, j.id, 15, "the plan", out) })
			}
		})
	}
}
