package node_test

import (
	"flag"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

var (
	chaosSeed  = flag.Uint64("seed", 0, "replay one seed of TestChaos")
	chaosSeeds = flag.Int("seeds", 40, "seeds of TestChaos")
)

// TestChaos runs random jobs on a few nodes under loss, late duplicates,
// reordering, crashes with and without the keepers, restarts and pauses; then
// the world heals, and every job must have ended and every slot be whole.
func TestChaos(t *testing.T) {
	if *chaosSeed > 0 {
		chaos(t, *chaosSeed)
		return
	}
	seeds := *chaosSeeds
	if testing.Short() {
		seeds = 15
	}
	for seed := range uint64(seeds) {
		chaos(t, seed+1)
		if t.Failed() {
			return
		}
	}
}

func chaos(t *testing.T, seed uint64) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("replay: go test ./launcher/node -run TestChaos -args -seed=%d", seed)
		}
		if r := recover(); r != nil {
			t.Fatalf("%v\nreplay: go test ./launcher/node -run TestChaos -args -seed=%d", r, seed)
		}
	}()
	w := newNet(t, 5, 4)
	w.rng, w.dice = filch.Rand(seed*7919), filch.Rand(seed)
	w.faults = faults{drop: 0.03, dup: 0.05, delayMax: 3 * ms}
	w.behave = w.randomLife
	var ids []filch.JobID
	at := map[filch.JobID]filch.NodeName{}
	client := launcher.ClientID(0)
	for range 25 {
		switch w.pick(12) {
		case 0, 1, 2, 3, 4, 5:
			name := w.names[w.pick(5)]
			client++
			if id := w.submit(name, client, w.randomJob()); id != 0 {
				ids = append(ids, id)
				at[id] = name
			}
		case 6:
			for _, id := range ids {
				if h := w.nodes[at[id]]; w.pick(3) == 0 {
					h.input(func(out *launcher.Outbox) { h.node.Cancel(w.Now(), id, 0, "test", out) })
				}
			}
		case 7:
			h := w.nodes[w.names[w.pick(5)]]
			h.input(func(out *launcher.Outbox) {
				h.node.ClientGone(w.Now(), launcher.ClientID(1+w.pick(int(client)+1)), out)
			})
		case 8:
			w.crashAndBack(w.names[w.pick(5)], true, 8*sec+time.Duration(w.pick(10))*sec)
		case 9:
			w.crashAndBack(w.names[w.pick(5)], false, time.Duration(w.pick(4000))*ms)
		case 10:
			h := w.nodes[w.names[w.pick(5)]]
			h.Pause(filch.Never)
			w.After(time.Duration(w.pick(3000))*ms, h.Resume)
		case 11:
			if len(ids) > 0 {
				id := ids[w.pick(len(ids))]
				h := w.nodes[at[id]]
				h.input(func(out *launcher.Outbox) { h.node.Signal(w.Now(), id, 10, out) })
			}
		}
		w.run(time.Duration(w.pick(2000)) * ms)
	}
	w.faults = faults{delayMax: ms}
	w.calm(400 * sec)
}

func (w *net) pick(n int) int { return int(w.random() * float64(n)) }

// randomLife plans how the ranks of a keeper live and end.
func (w *net) randomLife(k *keeper) {
	k.at = time.Duration(1+w.pick(4000)) * ms
	spans := k.start.Launch.Nodes[k.start.Index].Ranks
	switch w.pick(20) {
	case 0:
		k.ends = []launcher.RankEnd{{Rank: spans[0].First, Kind: launcher.CauseSignal, Code: 11}}
	case 1:
		k.ends = []launcher.RankEnd{{Rank: spans[0].First, Kind: launcher.CauseExit, Code: 3}}
	case 2:
		k.err, k.cause = filch.Errorf(filch.NotFound, "not on %s", k.host.Name), launcher.CauseNotFound
	case 3:
		id := k.start.Launch.Ident
		w.After(k.at/2, func() {
			if k.over || k.host.keepers[id] != k {
				return
			}
			k.over = true
			k.say(launcher.KeeperGone{Ident: id, Text: "killed"})
		})
	}
}

func (w *net) randomJob() launcher.Request {
	r := gang(int32(1 + w.pick(12)))
	switch w.pick(8) {
	case 0:
		r.Shape.MinNodes, r.Shape.MaxNodes = 2, 3
		r.Shape.Ranks = max(r.Shape.Ranks, 2)
	case 1:
		r.Shape.Exclusive = true
	case 2:
		r.Shape.PerRank.Slots = 2
		r.Shape.Ranks = min(r.Shape.Ranks, 8)
	case 3:
		r.Shape.PerNode = 2
		r.Shape.Ranks = min(r.Shape.Ranks, 8)
	case 4:
		r.Shape.Only = []filch.NodeName{"n2", "n4"}
		r.Shape.Ranks = 2 + r.Shape.Ranks%7
	}
	r.Detach = w.pick(3) == 0
	r.Policy.Requeue = w.pick(4) == 0
	r.Policy.NoKill = w.pick(6) == 0
	r.Policy.KillOnBad = w.pick(3) > 0
	if w.pick(5) == 0 {
		r.Policy.TimeLimit = time.Duration(1+w.pick(3)) * sec
	}
	if w.pick(8) == 0 {
		r.Policy.WaitFirst = sec
	}
	if w.pick(8) == 0 {
		r.Patient = 3 * sec
	}
	return r
}

// crashAndBack ends a launcher, alone or with its keepers, lets the others
// find out where it stays away, and starts it again.
func (w *net) crashAndBack(name filch.NodeName, keepers bool, away time.Duration) {
	h := w.nodes[name]
	if !h.Up() {
		return
	}
	w.crash(name, keepers)
	inc := h.cfg.Incarnation
	w.After(5*sec, func() {
		if !h.Up() && h.cfg.Incarnation == inc {
			w.declare(name, filch.Dead)
		}
	})
	if !keepers {
		// Keepers wait 6.5 s for a launcher and then end.
		w.After(6500*ms, func() {
			if !h.Up() {
				w.crash(name, true)
			}
		})
	}
	w.After(away, func() { w.restart(name) })
}
