package node_test

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// keeper is what a real one would do, without processes.
type keeper struct {
	host     *host
	start    launcher.Start
	running  bool
	over     bool
	told     bool // got a signal
	ended    []launcher.RankEnd
	ends     []launcher.RankEnd // planned
	at       time.Duration
	err      *filch.Error
	cause    launcher.CauseKind
	deaf     bool // does not answer
	left     int32
	stubborn bool // ends at KILL only
	stops    []launcher.Deed
	signals  []int32
	alone    time.Duration // since when there is no launcher
}

func (h *host) start(s launcher.Start) {
	if s.Launch.Nodes[s.Index].Node != h.Name {
		h.net.t.Fatalf("%s starts a keeper of %s", h.Name, s.Launch.Nodes[s.Index].Node)
	}
	if h.keepers[s.Launch.Ident] != nil {
		h.net.t.Fatalf("%s starts %v twice", h.Name, s.Launch.Ident)
	}
	for _, o := range h.keepers {
		if !o.over && o.start.Launch.Ident.Job != s.Launch.Parent && s.Launch.Ident.Job != o.start.Launch.Parent {
			for _, c := range s.Slots {
				if slices.Contains(o.start.Slots, c) {
					h.net.t.Fatalf("%s at %v: job %d gets slot %d of job %d", h.Name, h.net.Now(), s.Launch.Ident.Job, c, o.start.Launch.Ident.Job)
				}
			}
		}
	}
	k := &keeper{host: h, start: s}
	h.keepers[s.Launch.Ident] = k
	h.net.behave(k)
	if k.deaf {
		return
	}
	h.net.After(ms, func() {
		if k.over {
			return
		}
		k.over = k.err != nil
		k.say(launcher.KeeperReady{Ident: s.Launch.Ident, Err: k.err, Cause: k.cause})
		if s.Go {
			k.begin()
		}
	})
}

func (k *keeper) say(ev any) {
	h := k.host
	h.input(func(out *launcher.Outbox) { h.node.Keeper(h.net.Now(), ev, out) })
}

func (k *keeper) begin() {
	if k.running || k.over {
		return
	}
	k.running = true
	k.say(launcher.RanksStarted{Ident: k.start.Launch.Ident})
	k.host.net.After(k.at, func() {
		if k.over || k.told {
			return
		}
		k.finish(k.planned(), 0)
	})
	for _, e := range k.ends {
		if e.Kind == launcher.CauseNone {
			continue
		}
		k.host.net.After(k.at/2, func() {
			if !k.over && !k.told {
				k.ended = append(k.ended, e)
				k.say(launcher.RanksEnded{Ident: k.start.Launch.Ident, Ends: []launcher.RankEnd{e}})
			}
		})
	}
}

func (k *keeper) planned() []launcher.RankEnd {
	var ends []launcher.RankEnd
	for _, s := range k.start.Launch.Nodes[k.start.Index].Ranks {
		for i := range s.Count {
			r := s.First + filch.Rank(i)
			if slices.ContainsFunc(k.ended, func(e launcher.RankEnd) bool { return e.Rank == r }) {
				continue
			}
			e := launcher.RankEnd{Rank: r}
			if i := slices.IndexFunc(k.ends, func(e launcher.RankEnd) bool { return e.Rank == r && e.Kind == launcher.CauseNone }); i >= 0 {
				e = k.ends[i]
			}
			ends = append(ends, e)
		}
	}
	return ends
}

func (k *keeper) finish(ends []launcher.RankEnd, left int32) {
	k.over = true
	k.ended = append(k.ended, ends...)
	k.left = left
	id := k.start.Launch.Ident
	if len(ends) > 0 {
		k.say(launcher.RanksEnded{Ident: id, Ends: ends})
	}
	k.say(launcher.KeeperDone{Ident: id, Left: left})
}

func (h *host) deed(d launcher.Deed) {
	k := h.keepers[d.Ident]
	if k == nil {
		return
	}
	switch d.Kind {
	case launcher.DeedGo:
		if !k.deaf {
			h.net.After(0, k.begin)
		}
	case launcher.DeedSignal:
		k.signals = append(k.signals, d.Signal)
	case launcher.DeedStop:
		k.stop(d)
	case launcher.DeedForget:
		delete(h.keepers, d.Ident)
		k.over = true
	}
}

func (k *keeper) stop(d launcher.Deed) {
	if k.over {
		return
	}
	k.told = true
	k.stops = append(k.stops, d)
	wait, sig := 5*ms, d.Signal
	if k.stubborn && d.Signal != 9 {
		wait, sig = max(d.Grace, wait), 9
	}
	k.host.net.After(wait, func() {
		if k.over {
			return
		}
		var ends []launcher.RankEnd
		if k.running {
			ends = k.planned()
			for i := range ends {
				ends[i] = launcher.RankEnd{Rank: ends[i].Rank, Kind: launcher.CauseSignal, Code: sig, Told: true}
			}
		}
		k.finish(ends, k.left)
	})
}
