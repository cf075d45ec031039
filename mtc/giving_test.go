package mtc

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// A busy node gives waiting tasks away (ADAGE, listing 4): with giving alone no node steals,
// with both some tasks come unasked, and with stealing alone none does.
func TestGivingMovesTasks(t *testing.T) {
	const nodes, total = 4, 200
	for _, c := range []struct {
		balance       policy.Balance
		gives, steals bool
	}{
		{policy.ByGiving, true, false},
		{policy.ByBoth, true, true},
		{policy.ByStealing, false, true},
	} {
		r := newRig(t, nodes, 2, policy.Policy{Balance: c.balance})
		r.length = slow(20 * time.Millisecond)
		gifts := 0
		r.hear = func(_, _ filch.NodeName, m message.Message) {
			if o, is := m.(*message.Offer); is && o.Ask == 0 && len(o.Ranges)+len(o.Tasks) > 0 {
				gifts++
			}
		}
		r.submit(0, submit.Job{Job: 1, Total: total})
		if got, want := r.run(1, time.Minute).Tally(), (record.Tally{OK: total}); got != want {
			t.Errorf("balance %v: tally %+v, want %+v", c.balance, got, want)
		}
		if gives, steals := gifts > 0, r.sent[message.KindSteal] > 0; gives != c.gives || steals != c.steals {
			t.Errorf("balance %v: %d gifts and %d steals, want some: %t and %t", c.balance, gifts, r.sent[message.KindSteal], c.gives, c.steals)
		}
		for i := range nodes {
			if n := r.byNode[nodeName(i)]; n < total/nodes/2 {
				t.Errorf("balance %v: %s ran %d of %d tasks on %d nodes", c.balance, nodeName(i), n, total, nodes)
			}
		}
	}
}

// A bag goes in equal parts to as many nodes as the submission says (MATRIX v1, 3.4): where nobody
// steals, these nodes run all of the bag.
func TestBagGoesToSomeNodes(t *testing.T) {
	const nodes, total = 9, 180
	for spread, want := range map[string]int{"1": 1, "log": 3, "sqrt": 3, "all": nodes} {
		r := newRig(t, nodes, 2, policy.Policy{Victims: policy.NoStealing})
		r.length = slow(10 * time.Millisecond)
		s := submit.Job{Job: 1, Total: total}
		var err error
		if s.Spread, err = policy.ParseSpreading(spread); err != nil {
			t.Fatal(err)
		}
		r.submit(3, s)
		if got, want := r.run(1, time.Minute).Tally(), (record.Tally{OK: total}); got != want {
			t.Errorf("spread %s: tally %+v, want %+v", spread, got, want)
		}
		if len(r.byNode) != want {
			t.Errorf("spread %s: tasks ran on %d nodes, want %d: %v", spread, len(r.byNode), want, r.byNode)
		}
		for n, k := range r.byNode {
			if k != total/want {
				t.Errorf("spread %s: %s ran %d tasks, want %d", spread, n, k, total/want)
			}
		}
	}
}

// A thief under dvs asks the classes on the mesh round the leader of the job, in the paper's
// order (DVS, algorithm 1), and steals from the first node that has work.
func TestThiefAsksInTheOrderOfTheMesh(t *testing.T) {
	const nodes, leader = 16, 5
	r := newRig(t, nodes, 1, policy.Policy{Victims: policy.Mesh})
	r.length = slow(50 * time.Millisecond)
	asked := map[filch.NodeName][]filch.NodeName{} // since the last round, by thief
	load := map[filch.NodeName]map[filch.NodeName]int64{}
	rounds := map[filch.NodeName]uint32{}
	orders, firsts := 0, 0
	r.hear = func(from, to filch.NodeName, m message.Message) {
		switch m := m.(type) {
		case *message.LoadAsk:
			if rounds[from] != m.Round {
				rounds[from], asked[from], load[from] = m.Round, nil, map[filch.NodeName]int64{}
			}
			asked[from] = append(asked[from], to)
		case *message.LoadSay:
			if m.Round == rounds[to] {
				load[to][from] = m.Load
			}
		case *message.Steal:
			d := r.node(from)
			var rng filch.Rand
			want := d.cfg.Members.Choose(policy.Mesh, policy.Search{Self: from, Source: nodeName(leader), Width: nodes}, &rng)
			own := d.cfg.Members.Choose(policy.Mesh, policy.Search{Self: from, Source: from, Width: nodes}, &rng)
			if slices.Equal(want, own) || !slices.Equal(asked[from], want) {
				return // a first look before the thief knows a leader, or after failures
			}
			orders++
			for _, name := range want {
				if load[from][name] > 0 {
					if firsts++; name != to {
						t.Errorf("%s asked %v, and steals from %s; %s stands before and has %d tasks", from, want, to, name, load[from][name])
					}
					return
				}
			}
		}
	}
	r.submit(leader, submit.Job{Job: 1, Total: 400})
	if got, want := r.run(1, time.Minute).Tally(), (record.Tally{OK: 400}); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
	if orders == 0 || firsts == 0 {
		t.Errorf("%d steals followed the order of the mesh round %s, %d of these from the first with work; want some", orders, nodeName(leader), firsts)
	}
	t.Logf("figure: %d steals in the order of the mesh", orders)
}
