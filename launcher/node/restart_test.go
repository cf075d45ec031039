package node_test

import (
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	. "github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/node/origin"
	"github.com/filch-hpc/filch/launcher/node/records"
)

// restart begins a new launcher on a crashed node, with its records and the
// keepers that live.
func (w *net) restart(name filch.NodeName) {
	h := w.nodes[name]
	h.cfg.Incarnation++
	h.Start(0, h.tick)
	h.newNode()
	h.node.StoreRestore(h.images(), false)
	met := func(o filch.NodeName) bool { return w.faults.cut == nil || !w.faults.cut(o, name) }
	for _, o := range w.names {
		if o != name && w.nodes[o].Up() && met(o) {
			h.node.Peer(w.Now(), w.peer(o, filch.Up), &h.out)
		}
	}
	keys := make([]string, 0, len(h.records))
	for k := range h.records {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var records []launcher.Record
	for _, k := range keys {
		records = append(records, h.records[k])
	}
	h.node.Restore(w.Now(), records, &h.out)
	h.act()
	for _, o := range w.names {
		if p := w.nodes[o]; p.Up() && o != name && met(o) {
			p.input(func(out *launcher.Outbox) { p.node.Peer(w.Now(), w.peer(name, filch.Up), out) })
		}
	}
	if w.late > 0 {
		w.After(w.late, func() { h.adopt(h.node) })
		return
	}
	h.adopt(h.node)
}

// adopt finds the keepers that live, unless the launcher was restarted again.
func (h *host) adopt(inst *Node) {
	if h.node != inst || !h.Up() {
		return
	}
	ids := make([]filch.Ident, 0, len(h.keepers))
	for id := range h.keepers {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b filch.Ident) int { return int(a.Job) - int(b.Job) })
	defer h.input(func(out *launcher.Outbox) { h.node.Settled(h.net.Now(), out) })
	for _, id := range ids {
		k := h.keepers[id]
		if k == nil {
			continue
		}
		s := k.start
		if s.Lease > 0 {
			s.Lease = max(s.Lease-(h.net.Now()-k.alone), 1)
		}
		k.say(launcher.Adopted{Start: s, Ended: slices.Clone(k.ended)})
		switch {
		case k.over:
			k.say(launcher.KeeperDone{Ident: id})
		case k.running:
			k.say(launcher.RanksStarted{Ident: id})
		default:
			k.say(launcher.KeeperReady{Ident: id})
		}
	}
}

// reattach lets the client of a job come back to a launcher that was restarted.
func (w *net) reattach(name filch.NodeName, client launcher.ClientID, id filch.JobID) {
	h := w.nodes[name]
	h.input(func(out *launcher.Outbox) { h.node.Reattach(w.Now(), client, id, out) })
}

// A launcher alone dies, the origin's or a participant's: its ranks go on, and
// the code is right if it is back in time.
func TestALauncherIsRestartedUnderARun(t *testing.T) {
	for _, who := range []filch.NodeName{"n1", "n2"} {
		for _, away := range []time.Duration{0, 500 * ms, 3500 * ms} {
			for _, kind := range []launcher.CauseKind{launcher.CauseNone, launcher.CauseExit} {
				w := newNet(t, 2, 4)
				w.behave = func(k *keeper) {
					k.at = 10 * sec
					if k.host.Name == "n2" && kind != launcher.CauseNone {
						k.at = 4 * sec // the bad end comes 2 s after the start
						k.ends = []launcher.RankEnd{{Rank: k.start.Launch.Nodes[k.start.Index].Ranks[0].First, Kind: kind, Code: 5}}
					}
				}
				id := w.submit("n1", 1, gang(8))
				w.run(sec)
				w.crash(who, false)
				w.run(away)
				w.restart(who)
				w.run(100 * ms)
				w.reattach("n1", 1, id)
				w.run(12 * sec)
				want := int32(0)
				if kind != launcher.CauseNone {
					want = 5
				}
				if e := w.ended(id); e.Code != want {
					t.Errorf("%s away for %v: ended %+v, want %d", who, away, e, want)
				}
				w.run(10 * sec)
				w.quiet()
			}
		}
	}
}

func TestAnAttachedJobWhoseClientDoesNotComeBackIsEnded(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 100 * sec }
	attached := w.submit("n1", 1, gang(4))
	detached := w.detach("n1", 2, gang(4))
	w.run(sec)
	w.crash("n1", false)
	w.run(sec)
	w.restart("n1")
	w.run(origin.ReclaimWait - 500*ms)
	n1 := w.nodes["n1"].node
	if i, ok := n1.Job(w.Now(), attached); !ok || i.State != "running" {
		t.Errorf("job %+v, want it running while its client may come back", i)
	}
	w.run(sec)
	if i, _ := n1.Job(w.Now(), attached); i.State != "cancelled" {
		t.Errorf("job is %s, want it cancelled", i.State)
	}
	if i, _ := n1.Job(w.Now(), detached); i.State != "running" {
		t.Errorf("detached job is %s, want it running", i.State)
	}
	w.run(100 * sec)
	if i, _ := n1.Job(w.Now(), detached); i.State != "ok" {
		t.Errorf("detached job is %s, want ok", i.State)
	}
	w.quiet()
	// It is remembered over another restart.
	w.crash("n1", false)
	w.restart("n1")
	if i, ok := w.nodes["n1"].node.Job(w.Now(), detached); !ok || i.State != "ok" || *i.Code != 0 {
		t.Errorf("after a restart the job is %+v, want ok", i)
	}
}

func TestAWaitingJobIsRestoredWithItsTicket(t *testing.T) {
	w := newNet(t, 2, 4)
	first := w.submit("n2", 1, gang(8))
	w.run(50 * ms)
	old := w.detach("n1", 2, gang(8))
	young := w.submit("n2", 3, gang(8))
	w.run(50 * ms)
	w.crash("n1", false)
	w.run(100 * ms)
	w.restart("n1")
	w.run(10 * sec)
	w.ended(first)
	i, ok := w.nodes["n1"].node.Job(w.Now(), old)
	if !ok || i.State != "ok" {
		t.Fatalf("the restored job is %+v, want ok", i)
	}
	if e := w.ended(young); e.Code != 0 {
		t.Errorf("the younger job ended %+v", e)
	}
	w.quiet()
}

// A launcher that was stopped for so long that the others declared it dead
// learns it, reaps what it has and comes back with a new incarnation.
func TestADeclaredDeadNodeReapsAndIsReborn(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at, k.stubborn = 60*sec, true }
	over := w.submit("n1", 1, gang(8)) // n1 and another
	w.run(200 * ms)
	mine := w.submit("n2", 2, gang(8)) // waits
	w.run(200 * ms)
	n1 := w.nodes["n1"]
	n1.Pause(filch.Never)
	w.run(6 * sec)
	w.declare("n1", filch.Dead)
	w.run(2 * sec)
	n1.Resume()
	n1.input(func(out *launcher.Outbox) { n1.node.Peer(w.Now(), w.peer("n1", filch.Dead), out) })
	w.run(2 * sec)
	if e := w.ended(over); e.Code != 122 {
		t.Errorf("ended %+v, want 122", e)
	}
	for _, k := range n1.keepers {
		if !k.over {
			t.Error("ranks still run on the node that was declared dead")
		}
	}
	n1.cfg.Incarnation++
	n1.input(func(out *launcher.Outbox) { n1.node.Reborn(w.Now(), n1.cfg.Incarnation, out) })
	w.declare("n1", filch.Up)
	w.run(100 * sec)
	if e := w.ended(mine); e.Code != 0 {
		t.Errorf("the waiting job ended %+v, want 0", e)
	}
	w.quiet()
}

func TestAPauseUnderThreeSecondsCostsNothing(t *testing.T) {
	for _, who := range []filch.NodeName{"n1", "n2"} {
		w := newNet(t, 2, 4)
		w.behave = func(k *keeper) { k.at = 20 * sec }
		id := w.submit("n1", 1, gang(8))
		h := w.nodes[who]
		for range 4 {
			w.run(2 * sec)
			h.Pause(filch.Never)
			w.declare(who, filch.Suspect)
			w.run(2900 * ms)
			h.Resume()
			w.declare(who, filch.Up)
		}
		w.run(10 * sec)
		if e := w.ended(id); e.Code != 0 {
			t.Errorf("%s stopped now and then: ended %+v, want 0", who, e)
		}
		w.quiet()
	}
}

func TestIDsAreNeverGivenOutTwice(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = ms }
	seen := map[filch.JobID]bool{}
	for life := range 3 {
		for i := range 5 * records.BlockMin {
			name := w.names[i%2]
			client := launcher.ClientID(1000*life + i + 1)
			w.submit(name, client, gang(1))
			w.run(5 * ms)
			id := w.accepted[client]
			if seen[id] || id <= 0 {
				t.Fatalf("life %d: job %d on %s got the id %d", life, i, name, id)
			}
			seen[id] = true
		}
		w.crash("n2", true)
		w.restart("n2")
		w.run(sec)
	}
}

// The same of a node that only takes part: what its ranks do when they are
// ended is nobody's business any more.
func TestADeclaredDeadParticipantEnds(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at, k.stubborn = 60*sec, true }
	id := w.submit("n1", 1, gang(8))
	w.run(200 * ms)
	part := filch.NodeName("n2")
	if len(w.nodes[part].keepers) == 0 {
		part = "n3"
	}
	h := w.nodes[part]
	h.Pause(filch.Never)
	w.run(6 * sec)
	w.declare(part, filch.Dead)
	w.run(2 * sec)
	h.Resume()
	h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer(part, filch.Dead), out) })
	for _, k := range h.keepers { // one rank first, the others a while later
		e := launcher.RankEnd{Rank: k.planned()[0].Rank, Kind: launcher.CauseSignal, Code: 15, Told: true}
		k.ended = append(k.ended, e)
		k.say(launcher.RanksEnded{Ident: k.start.Launch.Ident, Ends: []launcher.RankEnd{e}})
	}
	w.run(20 * sec)
	if e := w.ended(id); e.Code != 122 {
		t.Errorf("ended %+v, want 122", e)
	}
	if n := len(h.keepers); n != 0 {
		t.Errorf("%d keepers were not told to leave", n)
	}
	h.cfg.Incarnation++
	h.input(func(out *launcher.Outbox) { h.node.Reborn(w.Now(), h.cfg.Incarnation, out) })
	w.declare(part, filch.Up)
	w.run(10 * sec)
	w.quiet()
}

// A client that waits for a job on a node declared dead meanwhile receives the end.
func TestAWatchOutlivesALife(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 60 * sec }
	r := gang(8)
	r.Shape.Only = []filch.NodeName{"n2", "n3"}
	id := w.detach("n2", 1, r)
	w.run(2 * sec)
	told := 0
	n1 := w.nodes["n1"]
	n1.input(func(out *launcher.Outbox) {
		n1.node.WatchRecord(w.Now(), launcher.JobKey(id), dht.Version{}, func() { told++ }, out)
	})
	w.until("the record as it is", 5*sec, func() bool { return told > 0 })
	w.split("n1")
	w.heal("n1")
	w.run(10 * sec)
	before := told
	w.until("the end of the job", 120*sec, func() bool { i, _ := w.told(id); return i.Code != nil })
	w.run(sec)
	if told == before {
		t.Error("the end was not told")
	}
	w.run(30 * sec)
	w.quiet()
}

// A wait for a change of a record costs next to no message: the home tells.
func TestAWatchAsksNothing(t *testing.T) {
	w := newNet(t, 5, 4)
	minutes := func() int {
		w.run(10 * sec)
		before := w.sent
		w.run(600 * sec)
		return w.sent - before
	}
	without := minutes()
	told := 0
	for _, name := range w.names {
		h := w.nodes[name]
		h.input(func(out *launcher.Outbox) {
			h.node.WatchRecord(w.Now(), "test/pools", dht.Version{}, func() { told++ }, out)
		})
	}
	if with := minutes(); with > without+len(w.names)*4 || told > 0 {
		t.Errorf("%d nodes that wait send %d messages in 10 minutes, %d without a wait, and hear of %d changes", len(w.names), with, without, told)
	}
}
