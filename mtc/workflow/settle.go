package workflow

import (
	"fmt"
	"slices"
)

// settle makes the edges from named parents and from files, and gives every file a single
// writer.
//
// If a replay's file has several writers, a reader depends on all writers, and reads all
// of their versions, unless these edges would make a cycle. Then the later of two writers
// wrote over the version that the reader read, and settle leaves the edge out if the
// workflow does not name the edge.
func (b *builder) settle() error {
	if err := b.selves(); err != nil {
		return err
	}
	base, cands, err := b.edges()
	if err != nil {
		return err
	}
	n := len(b.g.Tasks)
	all := slices.Clone(base)
	for _, c := range cands {
		all = append(all, c.edge)
	}
	if left := stuck(n, all); left != nil {
		component := components(n, all)
		direct := make(map[edge]bool, len(base))
		for _, e := range base {
			direct[e] = true
		}
		kept := cands[:0]
		for _, c := range cands {
			if component[c.edge.from] != component[c.edge.to] || direct[c.edge] {
				kept = append(kept, c)
				continue
			}
			b.traps.add(TrapOverwritten, "%s, by %s", b.g.Files[c.file].Origin, b.g.Tasks[c.edge.from].Name)
		}
		cands = kept
		all = slices.Clone(base)
		for _, c := range cands {
			all = append(all, c.edge)
		}
		left = stuck(n, all)
		b.connect(all)
		if left != nil {
			return b.cycle(left, func(t int32) []int32 { return b.g.Tasks[t].Parents })
		}
	} else {
		b.connect(all)
	}
	return b.versions(cands)
}

// selves treats tasks that read a file of their own outputs.
func (b *builder) selves() error {
	for i := range b.g.Tasks {
		t := &b.g.Tasks[i]
		both := false
		for _, f := range t.Inputs {
			if _, own := slices.BinarySearch(t.Outputs, f); !own {
				continue
			}
			both = true
			if !b.g.Replay {
				if err := b.problem(b.src.errorf(t.Line, "task %s reads and writes the file %s: a file is written once, by one task",
					quote(t.Name), quote(b.g.Files[f].Path))); err != nil {
					return err
				}
				continue
			}
			b.traps.add(TrapInPlace, "%s, by %s", b.g.Files[f].Origin, t.Name)
		}
		if both {
			t.Inputs = slices.DeleteFunc(t.Inputs, func(f int32) bool {
				return b.g.Files[f].Writer == int32(i) && b.more[f] == nil
			})
		}
	}
	return nil
}

// edges lists the certain edges, and the edges due to files with several writers.
func (b *builder) edges() (base []edge, cands []candidate, err error) {
	for i := range b.g.Tasks {
		t, to := &b.g.Tasks[i], int32(i)
		for _, p := range t.After {
			base = append(base, edge{p, to})
		}
		for _, f := range t.Inputs {
			w, more := b.g.Files[f].Writer, b.more[f]
			if more == nil {
				if w >= 0 && w != to {
					base = append(base, edge{w, to})
				}
				continue
			}
			for _, w := range append([]int32{w}, more...) {
				if w != to {
					cands = append(cands, candidate{edge{w, to}, f})
				}
			}
		}
		if len(base)+len(cands) > EdgesMax {
			return nil, nil, b.src.errorf(t.Line, "task %s: too many edges: at most %d", quote(t.Name), EdgesMax)
		}
	}
	return base, cands, nil
}

// connect fills in the parents.
func (b *builder) connect(edges []edge) {
	for i := range b.g.Tasks {
		b.g.Tasks[i].Parents = nil
	}
	for _, e := range edges {
		t := &b.g.Tasks[e.to]
		t.Parents = append(t.Parents, e.from)
	}
	for i := range b.g.Tasks {
		t := &b.g.Tasks[i]
		t.Parents = unique(t.Parents)
	}
}

// versions makes a file for each writer of a file with several writers.
func (b *builder) versions(cands []candidate) error {
	if len(b.more) == 0 {
		return nil
	}
	several := make([]int32, 0, len(b.more))
	for f := range b.more { // any order: sorted below
		several = append(several, f)
	}
	slices.Sort(several)
	made := map[version]int32{}
	for _, f := range several {
		writers := b.more[f]
		b.traps.add(TrapWriters, "%s: %s and %s", b.g.Files[f].Origin, b.g.Tasks[b.g.Files[f].Writer].Name, b.g.Tasks[writers[0]].Name)
		made[version{b.g.Files[f].Writer, f}] = f
		for k, w := range writers {
			if len(b.g.Files) >= FilesMax {
				return b.src.errorf(b.g.Tasks[w].Line, "task %s: too many files: at most %d", quote(b.g.Tasks[w].Name), FilesMax)
			}
			v := b.g.Files[f]
			v.Path, v.Writer, v.Size = fmt.Sprintf("%s~%d", v.Path, k+2), w, b.moreSizes[f][k]
			made[version{w, f}] = int32(len(b.g.Files))
			b.g.Files = append(b.g.Files, v)
		}
	}
	for i := range b.g.Tasks {
		t := &b.g.Tasks[i]
		t.Inputs = slices.DeleteFunc(t.Inputs, func(f int32) bool { return b.more[f] != nil })
		for k, f := range t.Outputs {
			if b.more[f] != nil {
				t.Outputs[k] = made[version{int32(i), f}]
			}
		}
		slices.Sort(t.Outputs)
	}
	for _, c := range cands {
		t := &b.g.Tasks[c.edge.to]
		t.Inputs = append(t.Inputs, made[version{c.edge.from, c.file}])
	}
	for i := range b.g.Tasks {
		b.g.Tasks[i].Inputs = unique(b.g.Tasks[i].Inputs)
	}
	return nil
}

// compressed is edges from parent to child: the children of t are
// list[start[t]:start[t+1]].
func compressed(n int, edges []edge) (start, list []int32) {
	start = make([]int32, n+1)
	for _, e := range edges {
		start[e.from+1]++
	}
	for i := range n {
		start[i+1] += start[i]
	}
	list = make([]int32, len(edges))
	next := slices.Clone(start)
	for _, e := range edges {
		list[next[e.from]] = e.to
		next[e.from]++
	}
	return start, list
}

// stuck is the tasks that can never start: the tasks on a cycle, and after a cycle.
func stuck(n int, edges []edge) []int32 {
	start, list := compressed(n, edges)
	waits := make([]int32, n)
	for _, e := range edges {
		waits[e.to]++
	}
	ready := make([]int32, 0, n)
	for t := range n {
		if waits[t] == 0 {
			ready = append(ready, int32(t))
		}
	}
	for at := 0; at < len(ready); at++ {
		t := ready[at]
		for _, c := range list[start[t]:start[t+1]] {
			if waits[c]--; waits[c] == 0 {
				ready = append(ready, c)
			}
		}
	}
	if len(ready) == n {
		return nil
	}
	var left []int32
	for t := range n {
		if waits[t] > 0 {
			left = append(left, int32(t))
		}
	}
	return left
}

// components numbers the strongly connected components (Tarjan, with a stack
// of its own: a chain may have a million tasks).
func components(n int, edges []edge) []int32 {
	start, list := compressed(n, edges)
	component, index, low := make([]int32, n), make([]int32, n), make([]int32, n)
	next := slices.Clone(start[:n])
	var path, open []int32
	count, number := int32(0), int32(0)
	for root := range n {
		if index[root] != 0 {
			continue
		}
		path = append(path, int32(root))
		for len(path) > 0 {
			t := path[len(path)-1]
			if index[t] == 0 {
				count++
				index[t], low[t] = count, count
				open = append(open, t)
			}
			if next[t] < start[t+1] {
				c := list[next[t]]
				next[t]++
				switch {
				case index[c] == 0:
					path = append(path, c)
				case component[c] == 0:
					low[t] = min(low[t], index[c])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				p := path[len(path)-1]
				low[p] = min(low[p], low[t])
			}
			if low[t] != index[t] {
				continue
			}
			number++
			for {
				top := open[len(open)-1]
				open = open[:len(open)-1]
				component[top] = number
				if top == t {
					break
				}
			}
		}
	}
	return component
}
