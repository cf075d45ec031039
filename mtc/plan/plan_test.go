package plan

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/graph"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

func made(t testing.TB, nodes []record.GraphNode) *Plan {
	t.Helper()
	g, err := graph.New(len(nodes), func(i int) []int32 { return nodes[i].Parents })
	if err != nil {
		t.Fatal(err)
	}
	return New(g, func(i int32) *record.GraphNode { return &nodes[i] }, &policy.Estimates{}, 0)
}

// TestBottomLevels has the chains of ADAGE, III: a level is the greatest sum of run times
// and transfer times from a task to the end.
func TestBottomLevels(t *testing.T) {
	const sec = time.Second
	output := int64(new(policy.Estimates).Bandwidth()) // a second on the network
	p := made(t, []record.GraphNode{
		{Length: 2 * sec, Output: output},
		{Length: 3 * sec, Parents: []int32{0}},
		{Length: 1 * sec, Parents: []int32{0}, Output: 2 * output},
		{Length: 4 * sec, Parents: []int32{1, 2}, Output: 8 * output}, // nobody reads the output
		{Length: 9 * sec},
	})
	for i, want := range []time.Duration{10 * sec, 7 * sec, 7 * sec, 4 * sec, 9 * sec} {
		if got := p.Level(int32(i)); got != want {
			t.Errorf("task %d has level %v, want %v", i, got, want)
		}
	}
}

// TestUnknownLengths: a task without a stated length takes the length of its kind, else
// the mean of the known lengths, else the guess.
func TestUnknownLengths(t *testing.T) {
	p := made(t, []record.GraphNode{{Kind: "a"}, {Kind: "a"}, {Kind: "b"}, {}})
	for i := range int32(4) {
		if p.Length(i) != time.Second {
			t.Errorf("with nothing known task %d takes %v, not the guess", i, p.Length(i))
		}
	}
	p.Ended(0, filch.OK, "n1", 8*time.Second, 0)
	if p.Level(1) != time.Second {
		t.Error("a level changed before the update")
	}
	if !p.Update(0) {
		t.Fatal("the first measured length changed no level")
	}
	for i, want := range []time.Duration{8, 8, 8, 8} {
		if got := p.Length(int32(i)); got != want*time.Second {
			t.Errorf("after one end of kind a task %d takes %v, want %v", i, got, want*time.Second)
		}
	}
	p.Ended(2, filch.OK, "n1", 2*time.Second, 0)
	if p.Update(updateEach / 2) {
		t.Error("levels were computed twice within updateEach")
	}
	if !p.Update(2*updateEach) || p.Length(0) != 8*time.Second || p.Length(2) != 2*time.Second || p.Length(3) != 5*time.Second {
		t.Errorf("lengths %v, %v, %v; want those of kinds a and b, and the mean 5s", p.Length(0), p.Length(2), p.Length(3))
	}
	p.Ended(1, filch.OK, "n1", 8*time.Second, 0)
	if p.Update(time.Hour) {
		t.Error("an end as expected changed the levels")
	}
	stated := made(t, []record.GraphNode{{Length: time.Second, Kind: "a"}})
	stated.Ended(0, filch.OK, "n1", time.Minute, 0)
	if stated.Update(time.Hour) || stated.Length(0) != time.Second {
		t.Error("a measured length replaced a stated one")
	}
}

// TestUrgentFirst: of tasks that become ready together, the longest chain is placed first, and
// equal ones in the order of their numbers.
func TestUrgentFirst(t *testing.T) {
	const sec = time.Second
	p := made(t, []record.GraphNode{{Length: 2 * sec}, {Length: 9 * sec}, {Length: 2 * sec}, {Length: sec}, {Length: 5 * sec, Parents: []int32{3}}})
	if got, want := p.Urgent([]int32{0, 1, 2, 3}), []int32{1, 3, 0, 2}; !slices.Equal(got, want) {
		t.Errorf("ready tasks are placed in the order %v, want %v", got, want)
	}
}

// TestHostileLengths: sums of stated lengths do not wrap around.
func TestHostileLengths(t *testing.T) {
	const long = 1 << 62
	p := made(t, []record.GraphNode{{Length: long, Output: long}, {Length: long, Output: long, Parents: []int32{0}}, {Length: long, Parents: []int32{1}}})
	if a, b := p.Level(0), p.Level(2); a < b || b <= 0 {
		t.Errorf("levels %v and %v", a, b)
	}
}

// TestChoiceBeforeLengths: with no length known, a task counts as short, so that the data of a
// workflow count from the start; once enough ends tell that the tasks are long, the data are little.
func TestChoiceBeforeLengths(t *testing.T) {
	nodes := []record.GraphNode{{Output: 5_000_000}}
	for i := int32(1); i < 960; i++ {
		nodes = append(nodes, record.GraphNode{Output: 5_000_000, Parents: []int32{(i - 1) / 10}})
	}
	p := made(t, nodes)
	if p.Choice.Kind != policy.ADAGE {
		t.Errorf("with nothing known: %s, want adage", p.Choice)
	}
	for i := range int32(sureEnds) {
		p.Ended(i, filch.OK, "n1", 10*time.Second, 5_000_000)
	}
	if p.Update(time.Minute); p.Choice.Kind != policy.MLB {
		t.Errorf("after %d ends: %s, want mlb", sureEnds, p.Choice)
	}
}

// TestChoiceAvoidsACrowd: auto binds the tasks of a shallow workflow to their input; once most of the
// outputs are on one node, auto takes the node that ends a task first.
func TestChoiceAvoidsACrowd(t *testing.T) {
	const pairs, output = 100, 20_000_000
	for _, crowded := range []bool{false, true} {
		var nodes []record.GraphNode
		for i := range int32(pairs) {
			nodes = append(nodes, record.GraphNode{Kind: "a", Output: output, Length: time.Second}, record.GraphNode{Kind: "b", Length: time.Second, Parents: []int32{2 * i}})
		}
		p := made(t, nodes)
		if p.Choice.Kind != policy.MDL {
			t.Errorf("before the first end: %s, want mdl", p.Choice)
		}
		for i := range int32(40) {
			node := filch.NodeName("n1")
			if !crowded {
				node = filch.NodeName("n" + string(rune('1'+i%4)))
			}
			p.Ended(2*i, filch.OK, node, time.Second, output)
		}
		want := map[bool]policy.Kind{false: policy.MDL, true: policy.ADAGE}[crowded]
		if p.Update(time.Minute); p.Choice.Kind != want {
			t.Errorf("crowded %v: %s, want %v", crowded, p.Choice, want)
		}
	}
}

// TestChoiceIsSteady: transfers take 6.05 % of the time, and auto chooses adage from 6 % on. While
// the bandwidth moves by less than a quarter, auto keeps the choice; once the network is twice as
// fast, auto changes the choice, and keeps the new one.
func TestChoiceIsSteady(t *testing.T) {
	const rate, output = 100_000_000, 605_000_000
	p := made(t, []record.GraphNode{{Kind: "first", Length: 93 * time.Second, Output: output}, {Length: time.Second, Parents: []int32{0}}, {Length: time.Millisecond, Parents: []int32{1}}})
	now := time.Duration(0)
	choices := []policy.Kind{p.Choice.Kind}
	moved := func(bytes int64) {
		p.Moved(bytes, time.Second)
		p.Ended(0, filch.OK, "n1", 93*time.Second, output)
		now += time.Minute
		if p.Update(now); p.Choice.Kind != choices[len(choices)-1] {
			choices = append(choices, p.Choice.Kind)
		}
	}
	moved(rate)
	for k := range 40 {
		moved(rate * []int64{115, 115, 87, 87}[k%4] / 100)
	}
	if want := []policy.Kind{policy.MLB, policy.ADAGE}; !slices.Equal(choices, want) {
		t.Errorf("while the bandwidth moves by 15 %%, auto chooses %v, want %v", choices, want)
	}
	for range 40 {
		moved(2 * rate)
	}
	if want := []policy.Kind{policy.MLB, policy.ADAGE, policy.MLB}; !slices.Equal(choices, want) {
		t.Errorf("after the bandwidth doubled, auto chose %v, want %v", choices, want)
	}
}

// million is a workflow of a million tasks with two parents each.
func million() []record.GraphNode {
	nodes := make([]record.GraphNode, 1_000_000)
	for i := range nodes {
		nodes[i].Length, nodes[i].Kind = time.Duration(i%97)*time.Millisecond, "k"
		if i > 1 {
			nodes[i].Parents = []int32{int32(i) - 1 - int32(i)%2, int32(i / 2)}
		}
	}
	return nodes
}

// TestPlanOfAMillion: the levels of a million tasks take less than two seconds, and 40 bytes a
// task.
func TestPlanOfAMillion(t *testing.T) {
	nodes := million()
	g, err := graph.New(len(nodes), func(i int) []int32 { return nodes[i].Parents })
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, begin := heap(), time.Now()
	p := New(g, func(i int32) *record.GraphNode { return &nodes[i] }, &policy.Estimates{}, 0)
	took := time.Since(begin)
	each := (float64(heap()) - float64(before)) / float64(len(nodes))
	runtime.KeepAlive(nodes)
	t.Logf("figure: the levels of %d tasks: %v, %.1f bytes a task", len(nodes), took, each)
	if took > 2*time.Second || each > 40 {
		t.Errorf("%v and %.1f bytes a task, want at most 2s and 40", took, each)
	}
	if p.Level(0) <= p.Level(int32(len(nodes)-1)) {
		t.Error("the first task has no higher level than the last")
	}
}

// BenchmarkPlan is the cost of the levels of a million tasks.
func BenchmarkPlan(b *testing.B) {
	nodes := million()
	b.ReportAllocs()
	for b.Loop() {
		made(b, nodes)
	}
}
