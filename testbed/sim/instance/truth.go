package instance

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// attempt is what really happened to one attempt of a job, as its keepers did
// it. The checkers hold the Nodes' words against it.
type attempt struct {
	w        *World
	job      *job
	launch   launcher.Launch
	taken    []bool // by place: a keeper was started
	ready    []bool // by place in the tree: that keeper said it was ready
	started  []bool // by place: its ranks were exec'ed
	ran      []bool // by rank
	ends     []truthEnd
	live     int           // ranks that run now
	unready  bool          // a keeper's checks failed
	vanished bool          // a keeper was killed
	failing  bool          // a rank ended badly
	firstAt  time.Duration // of the first exec; -1 before
	execAt   time.Duration // of the last exec
}

// truthEnd is the real end of a rank.
type truthEnd struct {
	launcher.RankEnd
	at   time.Duration
	host *host
}

// order is what the simulated keepers find in Request.Order: the number of the
// job in the workload.
func order(jobIndex int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(jobIndex)) }

func (w *World) jobOf(orderBytes []byte) *job {
	i := binary.LittleEndian.Uint32(orderBytes)
	if i >= gangOrders {
		return w.gangs[i-gangOrders].job
	}
	return w.jobs[i]
}

func (w *World) truthOf(s *launcher.Start) *attempt {
	if a := w.attempts[s.Launch.Ident]; a != nil && (a.is(&s.Launch) || !w.byName[s.Launch.Origin].forgot) {
		w.checkSameLaunch(a, &s.Launch)
		return a
	} // a launcher that forgot an attempt, as its disk was full, gives its number to another one
	j := w.jobOf(s.Launch.Order)
	a := &attempt{
		w: w, job: j, launch: s.Launch, firstAt: -1,
		taken:   make([]bool, len(s.Launch.Nodes)),
		ready:   make([]bool, len(s.Launch.Nodes)),
		started: make([]bool, len(s.Launch.Nodes)),
		ran:     make([]bool, s.Launch.Size),
	}
	w.attempts[s.Launch.Ident] = a
	if j.gang != nil {
		w.checkGangID(j, s.Launch.Ident.Job)
	}
	i := len(j.attempts) // the launch of an earlier one may come later
	for i > 0 && j.attempts[i-1].launch.Ident.Attempt > a.launch.Ident.Attempt {
		i--
	}
	j.attempts = slices.Insert(j.attempts, i, a)
	w.checkLaunch(a)
	w.checkAwaited(j)
	w.checkSpawnOnce(j, a)
	return a
}

// is reports whether a launch is that of the attempt.
func (a *attempt) is(l *launcher.Launch) bool {
	return l.Size == a.launch.Size && l.Origin == a.launch.Origin && slices.EqualFunc(l.Nodes, a.launch.Nodes, func(x, y launcher.NodeRanks) bool {
		return x.Node == y.Node && x.Lease == y.Lease
	})
}

func (a *attempt) exec(k *keeper) {
	a.started[k.start.Index] = true
	a.execAt = a.w.Now()
	if g := a.job.gang; g != nil {
		a.w.execGang(g)
	}
	if a.firstAt < 0 {
		a.firstAt = a.w.Now()
	}
	for _, r := range k.alive {
		if a.ran[r] {
			a.w.Fail("rank-twice", "rank %d of %s exec'ed twice", r, a.launch.Ident)
		}
		a.ran[r] = true
		a.live++
	}
}

func (a *attempt) end(k *keeper, end launcher.RankEnd) {
	if !a.started[k.start.Index] {
		return // killed before its exec
	}
	a.live--
	a.ends = append(a.ends, truthEnd{end, a.w.Now(), k.h})
	bad := end.Kind != launcher.CauseNone && !end.Told
	if bad && !a.failing && a.job.request.Policy.KillOnBad {
		a.failing = true
		a.w.mustEnd(a, goneBound, "a rank ended badly")
	}
}

// allRan reports whether every rank was exec'ed.
func (a *attempt) allRan() bool {
	for _, r := range a.ran {
		if !r {
			return false
		}
	}
	return true
}

// firstBad returns the first end that no one had asked for, nil if there was none.
func (a *attempt) firstBad() *truthEnd {
	for i := range a.ends {
		if e := &a.ends[i]; !e.Told && e.Kind != launcher.CauseNone {
			return e
		}
	}
	return nil
}

// endOf returns how a rank really ended.
func (a *attempt) endOf(r filch.Rank) *truthEnd {
	for i := range a.ends {
		if a.ends[i].Rank == r {
			return &a.ends[i]
		}
	}
	return nil
}
