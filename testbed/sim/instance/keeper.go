package instance

import (
	"slices"
	"syscall"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// Times of a simulated keeper, as launcher/proc has them. keeperPatience is how
// long it outlives its launcher, waiting to be adopted by the next one.
const (
	keeperWordMin  = 20 * time.Microsecond
	keeperWordMax  = 60 * time.Microsecond
	keeperPatience = 6500 * time.Millisecond
	keeperLease    = 10 * time.Second // without a word of a launcher that is stopped
)

// plan is what the ranks of a job will do; only keepers and checkers know it.
type plan struct {
	checksMin, checksMax time.Duration // from Start to Ready
	spread               time.Duration // the keepers' ranks end within this of each other
	bad                  []badEnd
	unready              int32 // place in the tree whose checks fail; -1 none
	unreadyCause         launcher.CauseKind
	deaf                 bool // its ranks ignore TERM
}

// badEnd is a rank that ends before its time.
type badEnd struct {
	rank  filch.Rank
	after time.Duration // from its exec
	end   launcher.RankEnd
}

type phase uint8

const (
	checking phase = iota
	ready
	refused // its checks failed: nothing will run
	running
	stopping
	done // nothing of it runs; it waits to be told to forget
)

// keeper stands in for launcher/proc's: it holds cores from Start to its done.
type keeper struct {
	w         *World
	h         *host
	start     launcher.Start
	truth     *attempt
	phase     phase
	gen       int           // a stop makes older steps void
	born      int32         // of the launcher that started it
	wordAt    time.Duration // its words keep their order
	ends      []launcher.RankEnd
	alive     []filch.Rank
	err       *filch.Error // why its checks failed
	killed    bool         // vanished
	vacated   bool         // its cores are free again
	signals   int
	forgotten bool          // leaves when it is done
	until     time.Duration // its ranks may run on without a launcher; Never: for ever
}

// after schedules something inside the keeper. A stop makes it void; a machine
// that stands still does it later.
func (k *keeper) after(d time.Duration, do func(k *keeper)) { k.at(k.w.Now()+d, k.gen, do) }

func (k *keeper) at(at time.Duration, gen int, do func(k *keeper)) {
	k.w.At(at, func() {
		switch {
		case k.h.frozen && k.h.Paused():
			k.at(k.h.PausedUntil(), gen, do)
		case gen == k.gen && !k.killed:
			do(k)
		}
	})
}

// say hands a word to the launcher, if there is one; what it must know later is
// said again on adoption.
func (k *keeper) say(word any) {
	h := k.h
	k.wordAt = max(k.wordAt, k.w.Now()+k.w.childRng.Between(keeperWordMin, keeperWordMax))
	h.give(k.wordAt, &input{what: "<- keeper", body: word, do: func(now time.Duration, out *launcher.Outbox) { h.node.Keeper(now, word, out) }})
}

func (w *World) startKeeper(h *host, s launcher.Start) {
	if old := h.keeper(s.Launch.Ident); old != nil {
		w.Fail("double-start", "%s: a second Start of %s", h.Name, s.Launch.Ident)
		return
	}
	k := &keeper{w: w, h: h, start: s, until: filch.Never}
	for _, span := range s.Launch.Nodes[s.Index].Ranks {
		for r := range span.Count {
			k.alive = append(k.alive, span.First+filch.Rank(r))
		}
	}
	k.born = h.Life()
	k.truth = w.truthOf(&k.start)
	k.truth.taken[s.Index] = true
	for k := range h.promises { // in any order: each is dropped or not
		if k.job == s.Launch.Ident.Job {
			delete(h.promises, k) // also of an earlier attempt, whose room was kept
		}
	}
	h.keepers = append(h.keepers, k)
	w.occupy(k)
	p := &k.truth.job.plan
	k.after(w.childRng.Between(p.checksMin, p.checksMax), (*keeper).checked)
}

func (k *keeper) checked() {
	p := &k.truth.job.plan
	if p.unready == k.start.Index {
		k.phase = refused
		err := filch.Errorf(filch.NotFound, "cannot start on %s: planned", k.h.Name)
		k.truth.unready = true
		k.err = err
		k.w.vacate(k)
		k.sayReady()
		return
	}
	k.phase = ready
	k.truth.ready[k.start.Index] = true
	k.sayReady()
	if k.start.Go {
		k.exec()
	}
}

func (k *keeper) sayReady() {
	word := launcher.KeeperReady{Ident: k.start.Launch.Ident, Err: k.err}
	if k.err != nil {
		word.Cause = k.truth.job.plan.unreadyCause
	}
	k.say(word)
}

func (k *keeper) exec() {
	k.w.checkExec(k)
	if j := k.truth.job; j.parent == nil && j.task == nil && j.caller == nil {
		k.w.checkRole(k.h, true, k.start.Launch.Ident)
	}
	k.phase = running
	k.truth.exec(k)
	k.say(launcher.RanksStarted{Ident: k.start.Launch.Ident})
	k.spawn()
	j := k.truth.job
	for i := range j.plan.bad {
		b := &j.plan.bad[i]
		if k.has(b.rank) {
			k.after(b.after, func(k *keeper) { k.endRank(b.rank, b.end) })
		}
	}
	k.after(j.Runs+k.w.childRng.Between(0, j.plan.spread), func(k *keeper) {
		k.endAll(launcher.RankEnd{})
	})
}

func (k *keeper) has(r filch.Rank) bool {
	return slices.Contains(k.alive, r)
}

// endRank ends one rank as planned.
func (k *keeper) endRank(r filch.Rank, end launcher.RankEnd) {
	for i, a := range k.alive {
		if a != r {
			continue
		}
		k.alive = append(k.alive[:i], k.alive[i+1:]...)
		end.Rank = r
		k.truth.end(k, end)
		k.ends = append(k.ends, end)
		k.say(launcher.RanksEnded{Ident: k.start.Launch.Ident, Ends: []launcher.RankEnd{end}})
		break
	}
	if len(k.alive) == 0 {
		k.finish()
	}
}

// endAll ends every rank that is left, in one way.
func (k *keeper) endAll(like launcher.RankEnd) {
	ends := make([]launcher.RankEnd, len(k.alive))
	for i, r := range k.alive {
		ends[i] = like
		ends[i].Rank = r
		k.truth.end(k, ends[i])
	}
	k.alive = nil
	k.ends = append(k.ends, ends...)
	if len(ends) > 0 {
		k.say(launcher.RanksEnded{Ident: k.start.Launch.Ident, Ends: ends})
	}
	k.finish()
}

func (k *keeper) finish() {
	k.gen++
	k.phase = done
	k.endSpawns(false)
	k.w.vacate(k)
	k.say(launcher.KeeperDone{Ident: k.start.Launch.Ident})
	if k.forgotten {
		k.h.drop(k)
	}
}

// deed is what the launcher has the keeper do.
func (k *keeper) deed(d launcher.Deed) {
	switch d.Kind {
	case launcher.DeedGo:
		if k.phase == ready {
			k.exec()
		}
	case launcher.DeedSignal:
		k.signal(d.Signal) // the simulated ranks handle it
	case launcher.DeedStop:
		k.stop(d)
	case launcher.DeedForget:
		k.forgotten = true
		if k.phase == done || k.phase == refused {
			k.h.drop(k)
		}
	}
}

func (k *keeper) stop(d launcher.Deed) {
	switch k.phase {
	case checking, ready, refused:
		k.alive = nil // never exec'ed
		k.finish()
	case running, stopping:
		term := launcher.RankEnd{Kind: launcher.CauseSignal, Code: d.Signal, Told: true}
		kill := launcher.RankEnd{Kind: launcher.CauseSignal, Code: int32(syscall.SIGKILL), Told: true}
		if k.phase == running {
			k.phase = stopping
			k.gen++
		}
		if d.Signal == int32(syscall.SIGKILL) || !k.truth.job.plan.deaf {
			k.after(k.w.childRng.Between(100*time.Microsecond, 3*time.Millisecond), func(k *keeper) { k.endAll(term) })
			return
		}
		k.after(d.Grace, func(k *keeper) { k.endAll(kill) })
	}
}

// vanish kills the keeper and all that it held, as by SIGKILL; the launcher
// sees the broken link.
func (k *keeper) vanish(text string) {
	if k.killed {
		return
	}
	k.gen++
	k.killed = true
	k.endSpawns(true)
	for _, r := range k.alive {
		k.truth.end(k, launcher.RankEnd{Rank: r, Kind: launcher.CauseSignal, Code: int32(syscall.SIGKILL), Told: true})
	}
	k.alive = nil
	k.w.vacate(k)
	k.h.drop(k)
	if text != "" {
		k.say(launcher.KeeperGone{Ident: k.start.Launch.Ident, Text: text})
	}
}

// noteLease takes in what the launcher has said before it ends.
func (k *keeper) noteLease() {
	left, known := k.h.node.Lease(k.h.Local(), k.start.Launch.Ident)
	switch {
	case known && left > 0:
		k.until = k.w.Now() + left
	case known:
		k.until = filch.Never
	}
}

// wait has the keeper end when nobody takes it over, or its lease is over before.
func (k *keeper) wait() {
	life := k.h.Life()
	k.w.At(min(k.w.Now()+keeperPatience, k.until), func() {
		if k.h.Life() == life && k.h.node == nil && !k.killed {
			k.truth.job.vanished = true
			k.vanish("")
		}
	})
}

// abandon kills all since the launcher has been silent for too long, and says
// so on the link, which is still open.
func (k *keeper) abandon() {
	if k.phase == done {
		return
	}
	k.truth.job.vanished = true
	k.gen++
	if k.phase == running || k.phase == stopping {
		k.endAll(launcher.RankEnd{Kind: launcher.CauseSignal, Code: int32(syscall.SIGKILL), Told: true})
		return
	}
	k.alive = nil
	k.finish()
}

// adopted makes the keeper known to a restarted launcher: its Start, then all
// that it had said.
func (k *keeper) adopted() {
	id := k.start.Launch.Ident
	s := k.start
	if s.Lease = 0; k.until != filch.Never {
		s.Lease = max(k.until-k.w.Now(), 1)
	}
	k.say(launcher.Adopted{Start: s, Ended: append([]launcher.RankEnd(nil), k.ends...)})
	switch {
	case k.phase == ready || k.phase == refused:
		k.sayReady()
	case k.truth.started[k.start.Index]:
		k.say(launcher.RanksStarted{Ident: id})
	}
	if k.phase == done {
		k.say(launcher.KeeperDone{Ident: id})
	}
}
