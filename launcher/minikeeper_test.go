package launcher_test

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/launcher"
)

// keeper is what a real one would do, without processes.
type keeper struct {
	host     *host
	start    Start
	running  bool
	over     bool
	told     bool // got a signal
	ended    []RankEnd
	ends     []RankEnd // planned
	at       time.Duration
	err      *filch.Error
	cause    CauseKind
	deaf     bool // does not answer
	left     int32
	stubborn bool // ends at KILL only
	stops    []Deed
	signals  []int32
	alone    time.Duration // since when there is no launcher
}

func (h *host) start(s Start) {
	if s.Launch.Nodes[s.Index].Node != h.Name {
		h.net.t.Fatalf("%s starts a keeper of %s", h.Name, s.Launch.Nodes[s.Index].Node)
	}
	if h.keepers[s.Launch.Ident] != nil {
		h.net.t.Fatalf("%s starts %v twice", h.Name, s.Launch.Ident)
	}
	for _, o := range h.keepers {
		if !o.over && o.start.Launch.Ident.Job != s.Launch.Parent && s.Launch.Ident.Job != o.start.Launch.Parent {
			for _, c := range s.Cores {
				if slices.Contains(o.start.Cores, c) {
					h.net.t.Fatalf("%s at %v: job %d gets core %d of job %d", h.Name, h.net.Now(), s.Launch.Ident.Job, c, o.start.Launch.Ident.Job)
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
		k.say(KeeperReady{Ident: s.Launch.Ident, Err: k.err, Cause: k.cause})
		if s.Go {
			k.begin()
		}
	})
}

func (k *keeper) say(ev any) {
	h := k.host
	h.input(func(out *Outbox) { h.node.Keeper(h.net.Now(), ev, out) })
}

func (k *keeper) begin() {
	if k.running || k.over {
		return
	}
	k.running = true
	k.say(RanksStarted{Ident: k.start.Launch.Ident})
	k.host.net.After(k.at, func() {
		if k.over || k.told {
			return
		}
		k.finish(k.planned(), 0)
	})
	for _, e := range k.ends {
		if e.Kind == CauseNone {
			continue
		}
		k.host.net.After(k.at/2, func() {
			if !k.over && !k.told {
				k.ended = append(k.ended, e)
				k.say(RanksEnded{Ident: k.start.Launch.Ident, Ends: []RankEnd{e}})
			}
		})
	}
}

func (k *keeper) planned() []RankEnd {
	var ends []RankEnd
	for _, s := range k.start.Launch.Nodes[k.start.Index].Ranks {
		for i := range s.Count {
			r := s.First + filch.Rank(i)
			if slices.ContainsFunc(k.ended, func(e RankEnd) bool { return e.Rank == r }) {
				continue
			}
			ends = append(ends, RankEnd{Rank: r})
		}
	}
	return ends
}

func (k *keeper) finish(ends []RankEnd, left int32) {
	k.over = true
	k.ended = append(k.ended, ends...)
	k.left = left
	id := k.start.Launch.Ident
	if len(ends) > 0 {
		k.say(RanksEnded{Ident: id, Ends: ends})
	}
	k.say(KeeperDone{Ident: id, Left: left})
}

func (h *host) deed(d Deed) {
	k := h.keepers[d.Ident]
	if k == nil {
		return
	}
	switch d.Kind {
	case DeedGo:
		if !k.deaf {
			h.net.After(0, k.begin)
		}
	case DeedSignal:
		k.signals = append(k.signals, d.Signal)
	case DeedStop:
		k.stop(d)
	case DeedForget:
		delete(h.keepers, d.Ident)
		k.over = true
	}
}

func (k *keeper) stop(d Deed) {
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
		var ends []RankEnd
		if k.running {
			ends = k.planned()
			for i := range ends {
				ends[i] = RankEnd{Rank: ends[i].Rank, Kind: CauseSignal, Code: sig, Told: true}
			}
		}
		k.finish(ends, k.left)
	})
}
