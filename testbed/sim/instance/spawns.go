package instance

import (
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Spawned runs: a rank of a run has its keeper submit a run, as MPI_Comm_spawn does. The client
// of the spawned run is a child of the keeper. The promise: the new ranks get slots or the call
// fails within its limit, also while the launcher is away for a moment; and nothing of a
// spawned run is left when the ranks of its job have ended.

// Sizes of the spawned runs of a slant, and bounds of their checkers.
const (
	spawnsMax    = 3 // by ranks of a run
	spawnPatient = 4 * time.Second
	awayMin      = 20 * time.Millisecond // of a launcher
	awayMax      = 2500 * time.Millisecond
	refusalLook  = 2 * time.Second
	redialPause  = 5 * time.Millisecond
)

// spawned is what a spawned run is to the rank that called.
type spawned struct {
	spawner *job          // the run of the rank; nil: not spawned
	caller  *keeper       // of the rank, once the rank has called
	away    time.Duration // the launcher dies around the call, for so long; 0: the launcher lives
	unheard bool          // the launcher dies over the call, before it answers
}

// slantSpawns has ranks of runs spawn runs, some of which want more slots than there are, while
// launchers with such ranks die for a moment.
func slantSpawns(w *World, d *engine.Dice) {
	w.lateKeepers = true
	for _, j := range append([]*job(nil), w.jobs...) {
		if j.parent != nil || len(j.steps) > 0 || j.request.Shape.PerRank.GPUs > 0 || !d.Chance(0.5) {
			continue
		}
		j.Runs = max(j.Runs, d.Between(200*time.Millisecond, 4*time.Second))
		for range 1 + d.N(spawnsMax) {
			w.drawSpawn(d, j)
		}
	}
	for range 3 {
		at, lasts := d.Between(100*time.Millisecond, faultSpan), d.Between(awayMin, awayMax)
		w.At(at, func() {
			if h := w.callerHost(); h != nil {
				w.killLauncher(h)
				w.At(at+lasts, func() { w.restart(h) })
			}
		})
		w.At(d.Between(100*time.Millisecond, faultSpan), w.killCaller)
	}
}

// killCaller kills a keeper with the client of a spawned run that runs.
func (w *World) killCaller() {
	for _, j := range w.jobs {
		if k := j.caller; k != nil && k.phase == running && !k.killed && j.live() && !j.over() && !j.orphaned {
			w.killKeeper(k.h, slices.Index(k.h.keepers, k))
			return
		}
	}
}

// drawSpawn draws a run that a rank of a run spawns.
func (w *World) drawSpawn(d *engine.Dice, by *job) {
	j := &job{outcome: newOutcome(), index: len(w.jobs), spawned: spawned{spawner: by}}
	each := by.request.Shape.PerRank
	ranks := 1 + d.N(int(w.opt.Slots/each.Slots))
	if d.Chance(0.3) {
		ranks = 1 + d.N(int(w.opt.Slots/each.Slots)*len(w.hosts))
	}
	j.Slots, j.Runs = ranks*int(each.Slots), d.Between(time.Millisecond, 2*time.Second)
	if d.Chance(0.3) {
		j.Runs = d.Between(5*time.Second, 12*time.Second)
	}
	j.request = launcher.Request{
		Order: order(j.index), Shape: launcher.Shape{Ranks: int32(ranks), PerRank: filch.Room{Slots: each.Slots}},
		Policy:  launcher.Policy{KillOnBad: true, KillWait: d.Between(200*time.Millisecond, 2*time.Second)},
		Patient: d.Between(50*time.Millisecond, spawnPatient), Call: uint64(j.index) + 1,
	}
	j.plan = plan{checksMin: 50 * time.Microsecond, checksMax: 2 * time.Millisecond, spread: 5 * time.Millisecond, unready: -1, deaf: d.Chance(0.2)}
	w.jobs = append(w.jobs, j)
	by.spawns = append(by.spawns, j)
	j.Submit = d.Between(0, by.Runs/2) // from the start of the rank
	if d.Chance(0.15) {
		j.away, j.unheard = d.Between(awayMin, awayMax), d.Chance(0.5)
	}
}

// callerHost is a host with the client of a spawned run that is not over.
func (w *World) callerHost() *host {
	for _, j := range w.jobs {
		if j.caller != nil && !j.over() && !j.orphaned {
			return j.caller.h
		}
	}
	return nil
}

// spawn has the first rank of a run call, once it runs.
func (k *keeper) spawn() {
	if k.start.Index != 0 {
		return
	}
	for _, j := range k.truth.job.spawns {
		if j.caller != nil {
			continue
		}
		j.caller, j.host = k, k.h.Index
		j.request.Spawner = k.start.Launch.Ident.Job
		j.request.Inside = launcher.Inside{Job: j.request.Spawner}
		k.w.At(k.w.Now()+j.Submit, func() {
			if k.phase != running || k.killed {
				return
			}
			if j.away > 0 && !j.unheard {
				k.w.killLauncher(k.h)
				k.w.At(k.w.Now()+j.away, func() { k.w.restart(k.h) })
			}
			j.Submit = k.w.Now()
			k.submitSpawn(j)
		})
	}
}

// submitSpawn has the client of a spawned run dial the launcher until it is there.
func (k *keeper) submitSpawn(j *job) {
	w, h := k.w, k.h
	if j.over() || j.orphaned || j.clientGone || k.killed {
		return
	}
	if h.node == nil {
		w.At(w.Now()+redialPause, func() { k.submitSpawn(j) })
		return
	}
	if j.unheard {
		j.unheard = false
		w.fuse = &fuse{host: h.Index, name: "reply", blow: func(h *host) {
			w.killLauncher(h)
			w.At(w.Now()+j.away, func() { w.restart(h) })
		}}
	}
	first := j.submittedAt < 0
	h.submit(j)
	if first {
		w.At(w.Now()+j.request.Patient+w.slack(), func() { w.checkSpawnWaits(j) })
	}
}

// checkSpawnWaits: a spawn that has no slots fails within its limit.
func (w *World) checkSpawnWaits(j *job) {
	if at := j.submittedAt + j.request.Patient + w.slack(); at > w.Now() { // submitted again
		w.At(at, func() { w.checkSpawnWaits(j) })
		return
	}
	if j.submittedAt >= 0 && !j.over() && !j.orphaned && !j.cancelled && j.startedAt < 0 && j.last() == nil && w.hosts[j.host].trouble < j.submittedAt {
		w.Fail("spawn-waits", "job %d waits for %d slots since %v, and the rank that spawned it allows %v", j.id, j.Slots, w.Now()-j.submittedAt, j.request.Patient)
	}
}

// endSpawns ends the clients of the runs that ranks of this keeper spawned, which end these
// runs: the keeper tells them, or is killed with them.
func (k *keeper) endSpawns(killed bool) {
	w, h := k.w, k.h
	for _, j := range k.truth.job.spawns {
		if j.caller != k || j.submittedAt < 0 || j.over() || j.orphaned {
			continue
		}
		switch {
		case killed || h.node == nil || j.id == 0:
			w.orphan(j)
			if h.node != nil {
				h.call(func(now time.Duration, out *launcher.Outbox) { h.node.ClientGone(now, j.client(), out) })
			}
		default:
			j.cancelled = true
			h.call(func(now time.Duration, out *launcher.Outbox) { h.node.Cancel(now, j.id, sigTerm, "its client", out) })
		}
		ended := w.Now()
		w.At(ended+goneBound+j.killWait()+w.slack(), func() { w.checkSpawnGone(j, ended) })
	}
}

// checkSpawnGone: spawned ranks end with their job.
func (w *World) checkSpawnGone(j *job, ended time.Duration) {
	a := j.last()
	if a == nil || a.live == 0 || w.hosts[j.host].trouble >= ended || w.hosts[j.host].node == nil {
		return
	}
	for _, n := range a.launch.Nodes {
		if w.byName[n.Node].trouble >= ended {
			return
		}
	}
	w.Fail("spawn-left", "%d ranks of job %d run %v after the ranks that spawned them ended", a.live, j.id, w.Now()-ended)
}

// spawnRefused reports whether a refusal says that the run of the rank that called has no ranks
// on the node, and has looked up later whether the ranks are gone.
func (w *World) spawnRefused(j *job, e *launcher.Refused) bool {
	k := j.caller
	if k == nil || !strings.Contains(e.Err.Text, "the job has no ranks on") {
		return false
	}
	w.At(w.Now()+refusalLook, func() {
		if k.phase == running && !k.killed && k.h.node != nil && !k.h.Paused() {
			w.Fail("spawn-refused", "job %d was refused as %s knew of no ranks of job %d, which run on", j.id, k.h.Name, j.request.Spawner)
		}
	})
	return true
}

// spawnAgain has the clients of spawned runs that were not accepted submit them to the launcher
// that came back.
func (h *host) spawnAgain() {
	w := h.w
	for _, j := range w.jobs {
		if j.caller != nil && j.caller.h == h && j.submittedAt >= 0 && !j.over() && !j.orphaned && j.id == 0 {
			w.At(w.Now()+w.childRng.Between(time.Millisecond, 200*time.Millisecond), func() { j.caller.submitSpawn(j) })
		}
	}
}

// checkSpawnOnce: a call starts one run, however often its client submits the run.
func (w *World) checkSpawnOnce(j *job, a *attempt) {
	for _, o := range j.attempts {
		if j.spawner != nil && o != a && o.launch.Ident.Job != a.launch.Ident.Job && o.live > 0 {
			w.Fail("spawn-twice", "jobs %d and %d are of one call of a rank, and both run", o.launch.Ident.Job, a.launch.Ident.Job)
		}
	}
}
