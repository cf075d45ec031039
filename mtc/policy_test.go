package mtc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

func TestHeaviestInputFirst(t *testing.T) {
	var h queue.Heap
	for _, b := range []int64{5, 900, 1, 70, 900, 0, 33} {
		h.Push(queue.Item{Index: int32(len(h)), Bytes: b})
	}
	var got []string
	for len(h) > 0 {
		it := h.Pop()
		got = append(got, fmt.Sprintf("%d:%d", it.Bytes, it.Index))
	}
	if want := []string{"900:1", "900:4", "70:3", "33:6", "5:0", "1:2", "0:5"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// fatTree is a root with large output and many children: the case in which a
// rigid policy runs everything where the root ran (MATRIX v2, III.B.3d).
func fatTree(children int) []record.GraphNode {
	parents := [][]int32{nil}
	for range children {
		parents = append(parents, []int32{0})
	}
	return workflow(parents...)
}

func TestPoliciesPlaceDifferently(t *testing.T) {
	const children = 120
	byRoot := map[policy.Kind]int{}
	for _, kind := range []policy.Kind{policy.MLB, policy.MDL, policy.RLDS, policy.FLDS} {
		r := newRig(t, 4, 2, policy.Policy{Kind: kind, Threshold: 1 << 20, LocalTime: 100 * time.Millisecond})
		r.length = slow(20 * time.Millisecond)
		r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: 64 << 20} }
		r.submit(0, submit.Job{Job: 1, Nodes: fatTree(children)})
		r.run(1, time.Minute)
		byRoot[kind] = r.byNode[r.task(1, 0).By.Node]
	}
	t.Logf("figure: tasks where the root ran: %v", byRoot)
	if byRoot[policy.MDL] != children+1 || byRoot[policy.RLDS] != children+1 {
		t.Errorf("mdl and rlds ran %d and %d of %d tasks where their data are", byRoot[policy.MDL], byRoot[policy.RLDS], children+1)
	}
	if byRoot[policy.MLB] > 2*children/4 {
		t.Errorf("mlb ran %d of %d tasks in one place", byRoot[policy.MLB], children+1)
	}
	if byRoot[policy.FLDS] >= byRoot[policy.RLDS] {
		t.Errorf("flds ran %d tasks where the data are, as many as rlds", byRoot[policy.FLDS])
	}
}

func TestPolicyChangesWhileRunning(t *testing.T) {
	r := newRig(t, 4, 2, policy.Policy{Kind: policy.MDL})
	r.length = slow(20 * time.Millisecond)
	r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: 64 << 20} }
	r.submit(0, submit.Job{Job: 1, Nodes: fatTree(400)})
	r.idle(500 * time.Millisecond)
	at := r.node(r.task(1, 0).By.Node)
	q := at.Queues()
	if q.Dedicated == 0 || q.Shared != 0 {
		t.Fatalf("under mdl %+v, want all dedicated", q)
	}
	at.SetPolicy(r.now, policy.Policy{Kind: policy.MLB}, &at.out)
	r.act(at)
	if q := at.Queues(); q.Dedicated != 0 {
		t.Errorf("after the change to mlb %+v, want none dedicated", q)
	}
	r.run(1, time.Minute)
	if n := r.byNode[at.cfg.Self]; n > 300 {
		t.Errorf("%d of 401 tasks ran in one place although they were shared", n)
	}
}

// TestTasksGoWhereTheyEndFirst: under adage small inputs follow free slots, and tasks stay with
// inputs that would take longer to move than the tasks take.
func TestTasksGoWhereTheyEndFirst(t *testing.T) {
	const children, length = 79, 100 * time.Millisecond
	for _, large := range []bool{false, true} {
		r := newRig(t, 4, 2, policy.Policy{Kind: policy.ADAGE})
		r.length = slow(length)
		r.result = func(s Start) End {
			e := End{Run: s.Run, State: filch.OK, Bytes: 1 << 10}
			if large {
				e.Bytes = 1 << 40
			}
			return e
		}
		r.submit(0, submit.Job{Job: 1, Nodes: fatTree(children)})
		r.run(1, time.Minute)
		root := r.task(1, 0).By.Node
		t.Logf("figure: large %v: tasks by node %v, after %v", large, r.byNode, r.now)
		switch {
		case large && r.byNode[root] != children+1:
			t.Errorf("%d of %d tasks ran where their large input is", r.byNode[root], children+1)
		case !large && r.now > length*(children/8+3):
			t.Errorf("the tasks took %v on eight slots, at best %v", r.now, length*(children/8+2))
		}
	}
}

// TestTasksAvoidLoadedNodes: a workflow of four tasks, submitted at one node, goes to the node
// with free slots; the others run a long bag.
func TestTasksAvoidLoadedNodes(t *testing.T) {
	r := newRig(t, 4, 2, policy.Policy{Kind: policy.ADAGE})
	r.length = slow(time.Minute)
	r.submit(0, submit.Job{Job: 1, Total: 8})
	r.idle(5 * time.Second)
	idle := r.nodes[2]
	idle.SetRoom(r.now, filch.Room{Slots: 6, MemBytes: 1 << 30}, &idle.out)
	r.act(idle)
	r.submit(0, submit.Job{Job: 2, Nodes: workflow(nil, nil, nil, nil)})
	r.idle(100 * time.Millisecond)
	for _, s := range r.started[8:] {
		if !slices.ContainsFunc(idle.running, func(u rigRun) bool { return u.end.Run == s.Run }) {
			t.Errorf("task %d of the workflow did not begin on the idle node", s.Index)
		}
	}
	if len(r.started) != 12 {
		t.Errorf("%d tasks began within 100 ms, want 12", len(r.started))
	}
}

// TestTakeoverChoosesNodes: the tasks of a dead node go on where they end first, at once: the
// node that takes them over gives tasks to idle nodes.
func TestTakeoverChoosesNodes(t *testing.T) {
	for _, kind := range []policy.Kind{policy.MDL, policy.ADAGE, policy.Auto} {
		r := newRig(t, 4, 2, policy.Policy{Kind: kind})
		r.length = slow(10 * time.Second)
		// The root, at n4, has all data: its children are n4's.
		r.result = func(s Start) End { return End{Run: s.Run, State: filch.OK, Bytes: 1 << 40} }
		for i := range 3 {
			d := r.nodes[i]
			d.SetRoom(0, filch.Room{}, &d.out)
			r.act(d)
		}
		r.submit(0, submit.Job{Job: 1, Nodes: fatTree(6)})
		r.idle(15 * time.Second)
		if n := r.nodes[3].Queues(); n.Dedicated+n.Running != 6 {
			t.Fatalf("%v: n4 has %+v, want all children of the root", kind, n)
		}
		for i := range 3 {
			d := r.nodes[i]
			d.SetRoom(r.now, filch.Room{Slots: 2, MemBytes: 1 << 30}, &d.out)
			r.act(d)
		}
		r.idle(time.Second)
		gifts := 0
		r.hear = func(from, _ filch.NodeName, m message.Message) {
			if o, ok := m.(*message.Offer); ok && o.Ask == 0 && from == "n1" {
				gifts += len(o.Tasks)
			}
		}
		r.nodes[3].down = true
		for _, d := range r.nodes[:3] {
			d.SetMember(r.now, filch.Member{Name: "n4", Incarnation: 1, Standing: filch.Dead}, &d.out)
			r.act(d)
		}
		r.idle(10 * time.Millisecond)
		if want := kind.Asks(); (gifts > 0) != want {
			t.Errorf("%v: the new owner gave %d tasks away at once", kind, gifts)
		}
		if j := r.run(1, time.Minute); j.Tally().OK != 7 {
			t.Errorf("%v: %+v, want 7 ok", kind, j.Tally())
		}
	}
}

// TestChoiceChangesPlaces: with one short task known, auto binds tasks to the node with their
// large input. When the first ends say that the tasks take long, and the place of the input counts for
// nothing, the tasks that still wait are free.
func TestChoiceChangesPlaces(t *testing.T) {
	const tasks, each = 100, 10 * time.Minute
	r := newRig(t, 5, 4, policy.Policy{Kind: policy.Auto})
	r.length = func(s Start) time.Duration {
		if s.Index == 0 {
			return each / 10_000
		}
		return each
	}
	r.result = func(s Start) End {
		e := End{Run: s.Run, State: filch.OK}
		if s.Index == 0 {
			e.Bytes = 16 << 30
		}
		return e
	}
	nodes := fatTree(tasks)
	for i := range nodes {
		nodes[i].Kind = "k"
	}
	nodes[0].Output = 16 << 30
	r.submit(0, submit.Job{Job: 1, Nodes: nodes})
	r.idle(time.Second)
	before, _ := r.nodes[0].Look().Choice(1)
	r.run(1, 24*time.Hour)
	if before.Kind != policy.ADAGE {
		t.Errorf("with nothing known auto chose %s, want adage", before)
	}
	if most := 8 * each; r.now > most {
		t.Errorf("%d tasks of %v on 20 slots took %v, want at most %v: tasks on nodes %v", tasks, each, r.now, most, r.byNode)
	}
}

// TestGatesHaveNoFiles: a task at the leader waits for all files and reads none. The tasks behind read
// a file each, and go to the nodes of their files, not to the leader.
func TestGatesHaveNoFiles(t *testing.T) {
	const files = 40
	for _, kind := range []policy.Kind{policy.MDL, policy.ADAGE, policy.Auto} {
		r := newRig(t, 4, 1, policy.Policy{Kind: kind})
		r.length = slow(100 * time.Millisecond)
		r.result = func(s Start) End {
			e := End{Run: s.Run, State: filch.OK}
			if s.Index < files {
				e.Bytes = 64 << 20
			}
			return e
		}
		nodes := make([]record.GraphNode, files)
		gate := record.GraphNode{After: files}
		for i := range int32(files) {
			nodes[i].Kind = "file"
			gate.Parents = append(gate.Parents, i)
		}
		nodes = append(nodes, gate)
		for i := range int32(files) {
			nodes = append(nodes, record.GraphNode{Kind: "read", Parents: []int32{i, files}, After: 1})
		}
		r.submit(0, submit.Job{Job: 1, Nodes: nodes})
		r.run(1, time.Minute)
		hits := 0
		for i := range int32(files) {
			if r.task(1, i).By.Node == r.task(1, files+1+i).By.Node {
				hits++
			}
		}
		if r.task(1, files).By.Node != "n1" {
			t.Fatalf("%v: the gate ran on %s", kind, r.task(1, files).By.Node)
		}
		if hits < files*7/10 {
			t.Errorf("%v: %d of %d tasks ran where their files are", kind, hits, files)
		}
	}
}

// TestVictimsChangeWhileRunning: thieves ask the nodes of the policy that holds now: with fixed
// the next nodes in the order of names, two more after many failures; with none no node; at
// random most of the nine.
func TestVictimsChangeWhileRunning(t *testing.T) {
	r := newRig(t, 9, 1, policy.Policy{})
	r.length = slow(100 * time.Millisecond)
	asked := map[filch.NodeName]map[filch.NodeName]bool{}
	r.hear = func(from, to filch.NodeName, m message.Message) {
		if m.Kind() != message.KindLoadAsk {
			return
		}
		if asked[from] == nil {
			asked[from] = map[filch.NodeName]bool{}
		}
		asked[from][to] = true
	}
	for i, c := range []struct {
		victims     policy.Victims
		least, most int // nodes that a thief asks
	}{{policy.Fixed, 3, 5}, {policy.NoStealing, 0, 0}, {policy.Random, 6, 8}, {policy.Fixed, 3, 5}} {
		for _, d := range r.nodes {
			d.SetPolicy(r.now, policy.Policy{Victims: c.victims}, &d.out)
			r.act(d)
		}
		r.idle(policy.AskWait) // answers to earlier questions
		clear(asked)
		job := filch.JobID(i + 1)
		r.submit(0, submit.Job{Job: job, Total: 200})
		r.idle(5 * time.Second)
		for _, d := range r.nodes[1:] {
			if n := len(asked[d.cfg.Self]); n < c.least || n > c.most {
				t.Errorf("%s, %s: asked %d nodes, want %d to %d: %v", c.victims, d.cfg.Self, n, c.least, c.most, asked[d.cfg.Self])
			}
		}
		if far := []filch.NodeName{"n1", "n8", "n9"}; c.victims == policy.Fixed && slices.ContainsFunc(far, func(n filch.NodeName) bool { return asked["n2"][n] }) {
			t.Errorf("fixed, n2: asks %v, want the next nodes in the order of names", asked["n2"])
		}
		r.run(job, time.Minute)
	}
}
