package node_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/launcher"
	. "github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/policy"
)

// drain has a node drain for a reason, or take work again with "", and all hear
// of it.
func (w *net) drain(name filch.NodeName, why string) {
	h := w.nodes[name]
	var d *launcher.Drain
	standing := filch.Up
	if why != "" {
		d, standing = &launcher.Drain{Reason: why}, filch.Draining
	}
	h.input(func(out *launcher.Outbox) { h.node.Drain(w.Now(), d, out) })
	for _, o := range w.names {
		if o != name {
			p := w.peer(name, standing)
			p.Why = why
			w.nodes[o].input(func(out *launcher.Outbox) { w.nodes[o].node.Peer(w.Now(), p, out) })
		}
	}
}

// A node that drains starts none of the tasks that are queued there or submitted
// there, and the others start them at once; what runs goes on.
func TestTasksLeaveADrainedNode(t *testing.T) {
	w := newNet(t, 3, 2)
	w.chores.lasts = 4 * sec
	queued := w.bag("n2", 1, 60, nil)
	w.run(sec)
	running := w.nodes["n2"].node.TasksHere(queued).Running
	w.drain("n2", "bad dimm")
	w.run(sec)
	if here := w.nodes["n2"].node.TasksHere(queued); here.Ready > 0 || running != 2 || here.Running != 2 {
		t.Errorf("a second after the drain %d tasks are queued on n2 and %d run, want 0 and the 2 of before (%d)", here.Ready, here.Running, running)
	}
	begun := w.chores.begun["n2"]
	later := w.bag("n2", 2, 6, nil)
	if n := w.tally(later, 120*sec).OK + w.tally(queued, 120*sec).OK; n != 66 {
		t.Errorf("%d of 66 tasks ended well", n)
	}
	if n := w.chores.begun["n2"] - begun; n > 0 {
		t.Errorf("%d tasks began on n2 after its drain", n)
	}

	w.drain("n1", "night")
	w.drain("n3", "night")
	waits := w.bag("n1", 3, 4, nil)
	w.run(30 * sec)
	if text, all := w.nodes["n3"].node.Drained(); !all || text != "n1, n3 are drained (night), n2 is drained (bad dimm)" {
		t.Errorf("it is said that %q, all: %t", text, all)
	}
	if w.heard(waits, launcher.TasksFinished) != nil {
		t.Error("a bag ended although all nodes drain")
	}
	id := w.submit("n1", 4, gang(1))
	w.run(sec)
	if x, err := w.nodes["n1"].node.Explain(w.Now(), id); err != nil || !strings.HasSuffix(x.Text, "; n1, n3 are drained (night), n2 is drained (bad dimm)") {
		t.Errorf("of a run it is said %q, %v", x.Text, err)
	}
	w.drain("n2", "")
	w.tally(waits, 10*sec)
	if text, all := w.nodes["n2"].node.Drained(); all || text != "n1, n3 are drained (night)" {
		t.Errorf("it is said that %q, all: %t", text, all)
	}
	w.drain("n1", "")
	w.drain("n3", "")
	w.run(10 * sec)
	w.ended(id)
	w.quiet()
}

// A drain outlives a launcher and a life: the next one starts with it.
func TestDrainOutlivesALife(t *testing.T) {
	w := newNet(t, 3, 2)
	w.chores.lasts = sec
	w.drain("n2", "night")
	n2 := w.nodes["n2"]
	n2.input(func(out *launcher.Outbox) {
		n2.node.Peer(w.Now(), Peer{Name: "n2", Incarnation: n2.cfg.Incarnation, Standing: filch.Dead}, out)
		n2.node.Reborn(w.Now(), n2.cfg.Incarnation+1, out)
	})
	w.run(sec)
	cfg := n2.cfg
	cfg.Drain = &launcher.Drain{Reason: "night"}
	for what, s := range map[string]launcher.SlotInfo{"reborn": n2.node.Slots(), "restarted": New(cfg, store.New(records.StoreConfig(&cfg))).Slots()} {
		if !s.Draining || s.Drain == nil || s.Drain.Reason != "night" {
			t.Errorf("%s it has %+v", what, s)
		}
	}
}

// A drain that is undone near the end of the allocation leaves the end what it is.
func TestUndoneDrainNearsTheEnd(t *testing.T) {
	for _, early := range []bool{true, false} {
		w := netOf(t, 1, 2, net{chores: chores{walltime: policy.Walltime{End: 60 * sec, Drain: 20 * sec}}})
		if early {
			w.drain("n1", "night")
		}
		w.run(45 * sec)
		if !early {
			w.drain("n1", "night")
		}
		limited := gang(1)
		limited.Policy.TimeLimit = 5 * sec
		known := w.submit("n1", 1, limited)
		w.run(sec)
		if i, _ := w.nodes["n1"].node.Job(w.Now(), known); i.State != "waiting" {
			t.Errorf("on a node that drains a run is %s", i.State)
		}
		w.drain("n1", "")
		w.submit("n1", 2, gang(1))
		if !strings.Contains(w.last(), "cannot start: the run time of this run is not known") {
			t.Errorf("a run of unknown length heard %s", w.last())
		}
		w.run(8 * sec)
		w.ended(known)
	}
}

func TestDrainWordsAreBounded(t *testing.T) {
	for _, c := range []struct {
		d  launcher.Drain
		ok bool
	}{
		{launcher.Drain{}, true},
		{launcher.Drain{Reason: strings.Repeat("x", launcher.MaxDrainReason), By: strings.Repeat("y", launcher.MaxDrainBy)}, true},
		{launcher.Drain{Reason: strings.Repeat("x", launcher.MaxDrainReason+1)}, false},
		{launcher.Drain{By: strings.Repeat("y", launcher.MaxDrainBy+1)}, false},
		{launcher.Drain{Reason: "\xff"}, false},
	} {
		if err := c.d.Check(); (err == nil) != c.ok {
			t.Errorf("%.20q, %.20q: %v", c.d.Reason, c.d.By, err)
		}
	}
}

// A node that drains hands its records to others while three of them take work.
// With fewer it keeps them, also what it handed off before: so the last one that
// takes work can go down and no record is lost.
func TestDrainedNodesKeepTheRecords(t *testing.T) {
	w := newNet(t, 5, 2)
	bag := w.bag("n1", 1, 40, nil)
	w.run(10 * sec)
	members := func(step string, want int) {
		t.Helper()
		for limit := w.Now() + 60*sec; ; w.run(sec) {
			st := w.nodes["n1"].node.StoreStatus()
			if len(st.Members) == want && st.Short == 0 {
				return
			}
			if w.Now() > limit {
				t.Fatalf("%s: %d nodes keep records, %d shards are short; want %d nodes", step, len(st.Members), st.Short, want)
			}
		}
	}
	members("all take work", 5)
	w.drain("n5", "night")
	members("four take work", 4)
	w.drain("n4", "night")
	members("three take work", 3)
	w.drain("n3", "night")
	w.drain("n2", "night")
	members("one takes work", 5)
	h := w.nodes["n1"]
	h.input(func(out *launcher.Outbox) { h.node.StoreLeave(w.Now(), out) })
	for limit := w.Now() + 60*sec; !h.node.StoreLeft(); w.run(sec) {
		if w.Now() > limit {
			t.Fatal("n1 has not handed off what it kept within a minute")
		}
	}
	st := w.nodes["n2"].node.StoreStatus()
	if len(st.Members) != 4 || len(st.Lost) > 0 || st.Short > 0 {
		t.Errorf("without n1 %d nodes keep records, %d shards are lost and %d short", len(st.Members), len(st.Lost), st.Short)
	}
	if n := w.tally(bag, sec).OK; n != 40 {
		t.Errorf("the record of the bag says that %d of 40 tasks ended well", n)
	}
}
