package report

import (
	"cmp"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
)

// maxGraph bounds the tasks of a graph: those of the critical path, those that run, those that
// did not end well, and those that are ready come first.
const maxGraph = 1500

// graph is the graph of a workflow.
type graph struct {
	Tasks   []graphTask `json:"tasks"`    // by layer and number
	LeftOut int         `json:"left_out"` // further tasks
	Chain   float64     `json:"chain"`    // seconds of the critical path; a task without an end counts with the mean
}

// graphTask is a task of a graph.
type graphTask struct {
	Task     int32          `json:"task"`
	Name     string         `json:"name"`
	State    string         `json:"state"`
	Node     filch.NodeName `json:"node,omitempty"`
	Took     float64        `json:"took,omitempty"` // seconds
	Layer    int32          `json:"layer"`          // the most tasks before this task in a chain
	Critical bool           `json:"critical,omitempty"`
	Parents  []int32        `json:"parents"` // places in the list of tasks; those left out are not here
}

// flow collects the states of the tasks of a workflow. A nil flow collects nothing.
type flow struct{ tasks []flowTask }

type flowTask struct {
	name  string
	node  filch.NodeName
	took  int64 // ns
	state filch.State
	begun bool
}

func newFlow(total int32) *flow { return &flow{make([]flowTask, total)} }

// at is the task with an index; nil outside of the job.
func (f *flow) at(i int32) *flowTask {
	if f == nil || i < 0 || int(i) >= len(f.tasks) {
		return nil
	}
	return &f.tasks[i]
}

func (f *flow) named(i int32, name string) {
	if t := f.at(i); t != nil {
		t.name = name
	}
}

// ended takes in the record of a task.
func (f *flow) ended(i int32, r *record.Task) {
	if t := f.at(i); t != nil && r.State.Final() {
		t.state, t.node, t.took, t.begun = r.State, r.By.Node, max(r.TookUS, 0)*1e3, r.Began > 0
	}
}

// running takes in a task that runs.
func (f *flow) running(r *launcher.RunningTask) {
	if t := f.at(int32(r.Index)); t != nil && !t.state.Final() {
		t.state, t.node, t.took, t.begun = filch.Running, r.Node, int64(r.Took*1e9), true
	}
}

// graph makes the graph; the flow has a task for each list of parents.
func (f *flow) graph(parents [][]int32) *graph {
	f.settle(parents)
	took, mean := make([]int64, len(parents)), f.mean()
	for i := range took {
		switch t := &f.tasks[i]; {
		case t.state.Final():
			took[i] = t.took
		case t.state == filch.Running:
			took[i] = max(t.took, mean)
		default:
			took[i] = mean
		}
	}
	chain, path := longest(parents, took)
	layer, critical := layers(parents), map[int32]bool{}
	for _, i := range path {
		critical[i] = true
	}
	chosen := make([]int32, len(parents))
	for i := range chosen {
		chosen[i] = int32(i)
	}
	slices.SortFunc(chosen, func(a, b int32) int {
		return cmp.Or(cmp.Compare(f.weight(a, critical), f.weight(b, critical)), cmp.Compare(layer[a], layer[b]), cmp.Compare(a, b))
	})
	chosen = chosen[:min(len(chosen), maxGraph)]
	slices.SortFunc(chosen, func(a, b int32) int { return cmp.Or(cmp.Compare(layer[a], layer[b]), cmp.Compare(a, b)) })
	place := make(map[int32]int32, len(chosen))
	for k, i := range chosen {
		place[i] = int32(k)
	}
	g := &graph{Tasks: make([]graphTask, len(chosen)), LeftOut: len(parents) - len(chosen), Chain: seconds(chain)}
	for k, i := range chosen {
		t := &f.tasks[i]
		v := graphTask{Task: i, Name: t.name, State: t.state.String(), Node: t.node, Layer: layer[i], Critical: critical[i], Parents: []int32{}}
		if t.begun {
			v.Took = seconds(t.took)
		}
		for _, p := range parents[i] {
			if at, ok := place[p]; ok {
				v.Parents = append(v.Parents, at)
			}
		}
		g.Tasks[k] = v
	}
	return g
}

// settle tells tasks that wait for others from tasks that are ready.
func (f *flow) settle(parents [][]int32) {
	f.tasks = slices.Grow(f.tasks, max(len(parents)-len(f.tasks), 0))[:max(len(parents), len(f.tasks))]
	for i := range parents {
		t := &f.tasks[i]
		if t.state.Final() || t.state == filch.Running {
			continue
		}
		t.state = filch.Ready
		for _, p := range parents[i] {
			if q := f.at(p); q != nil && !q.state.Final() {
				t.state = filch.Waiting
			}
		}
	}
}

// mean is the mean time of the tasks that ended after a start; a second when none did.
func (f *flow) mean() int64 {
	sum, n := int64(0), int64(0)
	for i := range f.tasks {
		if t := &f.tasks[i]; t.state.Final() && t.begun {
			sum, n = sum+t.took, n+1
		}
	}
	if n == 0 {
		return 1e9
	}
	return sum / n
}

// layers are, of each task, the most tasks before the task in a chain. The tasks of a cycle,
// and those behind a cycle, stay where they are known to be.
func layers(parents [][]int32) []int32 {
	layer, open, children := make([]int32, len(parents)), make([]int, len(parents)), make([][]int32, len(parents))
	var free []int32 // tasks of which all parents have their layer
	for i, list := range parents {
		for _, p := range list {
			if int(p) < len(parents) {
				open[i]++
				children[p] = append(children[p], int32(i))
			}
		}
		if open[i] == 0 {
			free = append(free, int32(i))
		}
	}
	for len(free) > 0 {
		i := free[len(free)-1]
		free = free[:len(free)-1]
		for _, c := range children[i] {
			layer[c] = max(layer[c], layer[i]+1)
			if open[c]--; open[c] == 0 {
				free = append(free, c)
			}
		}
	}
	return layer
}

// weight orders the tasks of a graph that cannot show all.
func (f *flow) weight(i int32, critical map[int32]bool) int {
	switch t := &f.tasks[i]; {
	case critical[i]:
		return 0
	case t.state == filch.Running, t.state == filch.Failed, t.state == filch.Killed, t.state == filch.Lost:
		return 1
	case t.state == filch.Ready:
		return 2
	}
	return 3
}
