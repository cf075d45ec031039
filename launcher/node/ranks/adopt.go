package ranks

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
)

// onAdopted handles a keeper found running by a restarted launcher. The keepers of jobs
// come before the keepers of their steps. If the ledger cannot take the slots back, the
// node orders the keeper to end its ranks. The keeper reports its state right afterwards:
// KeeperReady, or RanksStarted, and KeeperDone.
func (h *Ranks) onAdopted(t *local.Turn, ev launcher.Adopted) {
	l := &ev.Start.Launch
	k := keyOf(l.Ident)
	if p := h.participants[k]; p != nil {
		return
	}
	if ev.Start.Index < 0 || int(ev.Start.Index) >= len(l.Nodes) {
		h.participantFor(t, l.Ident)
		return
	}
	at := l.Nodes[ev.Start.Index]
	a := slots.Ask{Key: k, Of: l.Of.Job, Origin: l.Origin, Base: l.Base, Each: l.Each, Want: launcher.CountRanks(at.Ranks)}
	loan := slots.Loan{
		Lease: at.Lease, Ranks: a.Want, Slots: ev.Start.Slots, GPUs: ev.Start.GPUs, MemBytes: ev.Start.Memory,
		Named: l.Base.Plus(l.Each.Times(a.Want)).Named,
	}
	ok := false
	if parent := h.latest(l.Parent); l.Parent != 0 && parent != nil {
		ok = h.Ledger.AdoptSub(a, loan, parent.key, int32(len(ev.Ended)) >= a.Want)
	} else {
		ok = h.Ledger.Adopt(a, loan, h.stepsOf(l.Ident.Job)...)
	}
	if !ok {
		t.Note(local.NoteError, k.Job, h.Cfg.Name, "cannot adopt a keeper: its slots are taken")
		h.participantFor(t, l.Ident)
		return
	}
	p := &participant{
		key: k, launch: l, index: ev.Start.Index, lease: at.Lease, phase: launcher.PhasePreparing, ends: ev.Ended, slots: ev.Start.Slots,
		again: filch.Never, due: filch.Never, flags: flags{open: ev.Start.Go, adopted: true, hop: l.Hop},
	}
	if len(ev.Ended) > 0 {
		p.phase = launcher.PhaseStarted
	}
	h.participants[k] = p
	h.renewLease(t, p)
	h.resume(t, p, ev.Start.Lease)
	h.setTimer(p, min(p.until, p.pull))
	h.report(t, p)
	if l.Task != 0 {
		h.stopTaskStep(t, p, TaskGone)
	}
}
