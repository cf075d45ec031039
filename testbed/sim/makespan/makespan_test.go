package makespan

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// dataDir is where the published workflow files may be: beside the repository.
const dataDir = "../../../../shared/data"

// TestYardsticks has schedules that can be found by hand: two slots, and a chain of two tasks
// of 3 s beside three tasks of 2 s, the shortest of which has the first number.
func TestYardsticks(t *testing.T) {
	const sec = time.Second
	w := newIdeal([]record.GraphNode{{}, {}, {}, {}, {Parents: []int32{3}}}, []time.Duration{2 * sec, 2 * sec, 2 * sec, 3 * sec, 3 * sec})
	if got := w.list(2, w.urgent); got != 6*sec {
		t.Errorf("the critical path takes %v, want 6s", got)
	}
	if got := w.heft(2); got != 6*sec {
		t.Errorf("HEFT takes %v, want 6s", got)
	}
	if got := w.list(2, w.short); got != 8*sec {
		t.Errorf("min-min takes %v, want 8s: the chain goes last", got)
	}
	if got, by := w.best(2); got != 6*sec || by != "critical path" {
		t.Errorf("the best is %s with %v", by, got)
	}
	if got := w.list(2, by([]int32{0, 1, 3, 2, 4})); got != 8*sec {
		t.Errorf("the given order takes %v, want 8s", got)
	}
	// A gap: while a slot waits for the long task, HEFT has room for a short one.
	gap := newIdeal([]record.GraphNode{{}, {Parents: []int32{0}}, {Parents: []int32{0}}, {}}, []time.Duration{4 * sec, 5 * sec, 5 * sec, 3 * sec})
	if got := gap.heft(2); got != 9*sec {
		t.Errorf("HEFT takes %v, want 9s", got)
	}
}

// TestOrder holds the bars of the order of starts: for two workflows of our own, and with the
// published files for all of them or, with -short, for small ones.
func TestOrder(t *testing.T) {
	list := []Workflow{fork(40), chains("chains", 8, 10, 0)}
	for i := range list {
		for k := range list[i].Nodes {
			list[i].Nodes[k].Length = list[i].Lengths[k]
		}
	}
	files, err := Load(dataDir)
	if err != nil {
		t.Logf("no published workflow is compared: %v", err)
	}
	for _, w := range files {
		if !testing.Short() || len(w.Nodes) <= 120 && strings.Contains("CyberShake_100 Inspiral_100 1000genome-chameleon-2ch-100k-001", w.Name) {
			list = append(list, w)
		}
	}
	sums, err := PrintOrder(os.Stderr, list, policy.Policy{Kind: policy.Auto}, LostWorst)
	if err != nil {
		t.Fatal(err)
	}
	stated := &sums[Lengths]
	if !stated.Holds(Lengths) {
		t.Errorf("with known lengths the order of starts misses a bar: lost %.2f%% in the mean, %.2f%% at worst (%s on %d hosts)", 100*stated.Mean, 100*stated.Worst.Lost(), stated.Worst.Workflow, stated.Worst.Hosts)
	}
	for _, k := range []Known{Sizes, Nothing} {
		if sums[k].Mean > 0.06 {
			t.Errorf("with %s known the order of starts loses %.2f%% in the mean", k, 100*sums[k].Mean)
		}
	}
}

// TestBags holds the bars for bags with stated lengths.
func TestBags(t *testing.T) {
	hosts, seeds := BagHosts, 2
	if testing.Short() {
		hosts, seeds = []int{4}, 1
	}
	sum, err := PrintBags(os.Stderr, hosts, seeds, policy.Policy{Kind: policy.Auto})
	if err != nil {
		t.Fatal(err)
	}
	if !sum.Holds() {
		t.Errorf("bags with stated lengths lose %.2f%% in the mean, %.2f%% at worst (%s on %d hosts)", 100*sum.Mean, 100*sum.Worst.Lost(), sum.Worst.Bag, sum.Worst.Hosts)
	}
	if sum.Unstated < 5*LostMean {
		t.Errorf("in the order of submission the bags lose %.2f%%: they show nothing", 100*sum.Unstated)
	}
}

// fork is a chain of ten tasks of 1 s behind n fillers with larger input.
func fork(n int) Workflow {
	w := Workflow{Name: "chain behind fillers"}
	for range n {
		w.add("filler", 500*time.Millisecond, 1000)
		w.Nodes[len(w.Nodes)-1].Bytes = 1000
	}
	last := w.add("link", time.Second, 0)
	for range 9 {
		last = w.add("link", time.Second, 0, last)
	}
	return w
}

// TestAutoIsNearTheBest runs some of the workloads of [Workloads] in a small size: auto is
// little behind the best of the policies that do not choose, and places by the input where that
// is the best.
func TestAutoIsNearTheBest(t *testing.T) {
	const hosts, behind = 4, 0.20 // the bar of 3 % is missed where transfers take all the time
	for _, w := range Workloads(1, hosts*slotsEach) {
		if testing.Short() && !slices.Contains([]string{"fan-out", "pipeline", "all-pairs", "chains, 100 MB", "one source, 20 MB"}, w.Name) {
			continue
		}
		r, err := Compare(&w, hosts, 1, Gigabit)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("figure: %s: auto %v, the best is %s with %v", w.Name, r.Auto.Time, Fixed[r.Best()], r.Fixed[r.Best()].Time)
		if r.Behind() > behind {
			t.Errorf("%s: auto takes %v, %.1f%% behind %s", w.Name, r.Auto.Time, 100*r.Behind(), Fixed[r.Best()])
		}
		if r.Auto.Local < 0.9 && w.Name == "chains, 100 MB" {
			t.Errorf("%s: %.0f%% of the input is local, want 90%%", w.Name, 100*r.Auto.Local)
		}
	}
}

// TestPlanned has plans that can be found by hand, on two hosts of four slots: tasks without input
// share the hosts, tasks whose input takes longer to the other host than a slot takes to come free
// stay beside the input, and a task stays where its parent is. The cores run tasks where the plan
// says.
func TestPlanned(t *testing.T) {
	const sec, second = time.Second, Gigabit // bytes that take a second
	for _, c := range []struct {
		name  string
		input int64 // of each of five tasks of 10 s
		here  int   // tasks on the first host
		takes time.Duration
	}{
		{"no input", 0, 4, 10 * sec},
		{"input of 20 s", 20 * second, 5, 20 * sec},
		{"input of 5 s", 5 * second, 4, 15 * sec},
	} {
		var w Workflow
		for range 5 {
			i := w.add("task", 10*sec, 0)
			w.Nodes[i].Length, w.Nodes[i].Bytes = 10*sec, c.input
		}
		w.Bound = w.planned(2, Gigabit)
		here := 0
		for _, h := range w.Bound {
			if h == 0 {
				here++
			}
		}
		if here != c.here {
			t.Errorf("%s: %d of 5 tasks are planned on the first host, want %d: %v", c.name, here, c.here, w.Bound)
		}
		got, err := Run(&w, 2, policy.Policy{}, 1, Gigabit)
		if err != nil {
			t.Fatal(err)
		}
		if got.Time < c.takes || got.Time > c.takes+sec {
			t.Errorf("%s: the plan takes %v, want %v and less than a second more", c.name, got.Time, c.takes)
		}
	}
	w := Workflow{}
	for range 4 {
		w.add("filler", sec, 0)
	}
	first := w.add("first", 2*sec, second)
	w.add("second", sec, 0, first)
	for i := range w.Nodes {
		w.Nodes[i].Length = w.Lengths[i]
	}
	if at := w.planned(2, Gigabit); at[5] != at[4] {
		t.Errorf("a task is planned on host %d, its parent on host %d", at[5], at[4])
	}
}

// TestManyNodesHearOfAWorkflow: as many tasks without data as there are slots end after the time of
// one, on more hosts than hear of the first work of a bag. With one ready task after another, the
// leader repeats no news for all.
func TestManyNodesHearOfAWorkflow(t *testing.T) {
	const hosts, sec = 64, time.Second
	var wide, chain Workflow
	for range hosts * slotsEach {
		wide.add("task", 10*sec, 0)
	}
	last := chain.add("link", sec, 0)
	for range 9 {
		last = chain.add("link", sec, 0, last)
	}
	for _, name := range []string{"mlb", "mdl", "auto", "mlb,victims=random"} {
		p, err := policy.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(&wide, hosts, p, 1, Gigabit)
		if err != nil {
			t.Fatal(err)
		}
		if r.Time > 11*sec {
			t.Errorf("%s: %d tasks of 10 s take %v on as many slots", name, hosts*slotsEach, r.Time)
		}
		if r, err = Run(&chain, hosts, p, 1, Gigabit); err != nil || r.Messages > hosts*5 {
			t.Errorf("%s: a chain of 10 tasks takes %d messages on %d hosts: %v", name, r.Messages, hosts, err)
		}
	}
}

// TestLateBinding: of a random graph of MATRIX v2, the policy binds tasks to the host of their input, and
// hosts that are free and have the input get some of these tasks after all. With mdl none.
func TestLateBinding(t *testing.T) {
	for _, w := range Workloads(1, 8*slotsEach) {
		if w.Name != "random" {
			continue
		}
		for _, k := range []policy.Kind{policy.ADAGE, policy.Auto, policy.MDL} {
			late := 0
			for seed := range 3 {
				r, err := Run(&w, 8, policy.Policy{Kind: k}, uint64(seed)+1, Gigabit)
				if err != nil {
					t.Fatal(err)
				}
				late += r.Late
			}
			t.Logf("figure: %s: %d of %d tasks were offered once more", k, late, 3*len(w.Nodes))
			if (late > 0) != k.Asks() {
				t.Errorf("%s: %d bound tasks were offered once more", k, late)
			}
		}
	}
}

// TestStoppedThieves: tasks that become ready after thieves stopped for good stay on one host.
func TestStoppedThieves(t *testing.T) {
	w := late(stopAfter, 64)
	var took [2]time.Duration
	for k, v := range []policy.Victims{policy.ByDefault, policy.NoStealing} {
		r, err := Run(&w, 4, policy.Policy{Victims: v}, 1, Gigabit)
		if err != nil {
			t.Fatal(err)
		}
		took[k] = r.Time - stopAfter
	}
	if took[1] < 16*time.Second || took[0] > 8*time.Second {
		t.Errorf("64 tasks of 1 s take %v on four hosts with thieves, and %v with thieves that stopped; want less than 8 s, and 16 s", took[0], took[1])
	}
}
