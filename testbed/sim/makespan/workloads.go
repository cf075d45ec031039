package makespan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Megabyte is a million bytes, as the papers count.
const Megabyte = 1_000_000

// Workloads are the shapes and applications of the papers, for some slots: bags, fans and
// pipelines (MATRIX v2, IV.D: degree 10, tasks of 50 ms, outputs of 5 MB), image stacking and
// all-pairs, and chains with large data. The same seed makes the same workloads.
func Workloads(seed uint64, slots int) []Workflow {
	d := engine.NewDice(seed, 1)
	ms := func(n int) func() time.Duration {
		return func() time.Duration { return time.Duration(n) * time.Millisecond }
	}
	list := []Workflow{
		bag("bag of 64 ms", 100*slots, ms(64)),
		bag("bag, 0-1 s", 20*slots, func() time.Duration { return d.Between(0, time.Second) }),
		bag("bag, 1 of 50 takes 5 s", 30*slots, func() time.Duration {
			if d.Chance(0.02) {
				return 5 * time.Second
			}
			return 100 * time.Millisecond
		}),
	}
	for _, shape := range []string{"fan-out", "fan-in", "pipeline", "random"} {
		list = append(list, fan(shape, 30*slots, d))
	}
	for _, locality := range []int{1, 3, 10} {
		list = append(list, stacking(locality, 20*slots))
	}
	return append(list, allPairs(slots, 40*slots), chains("chains, 100 MB", 2*slots, 10, 100*Megabyte), chains("chains, 1 MB", 2*slots, 10, Megabyte), spring(20*slots))
}

// bag is independent tasks.
func bag(name string, n int, length func() time.Duration) Workflow {
	w := Workflow{Name: name}
	for range n {
		w.Lengths = append(w.Lengths, length())
	}
	return w
}

// add appends a task with an output, and returns the number of the task.
func (w *Workflow) add(kind string, length time.Duration, output int64, parents ...int32) int32 {
	i := int32(len(w.Nodes))
	w.Nodes = append(w.Nodes, record.GraphNode{Name: fmt.Sprint(kind, i), Kind: kind, Output: output, Parents: parents})
	w.Lengths = append(w.Lengths, length)
	return i
}

// degree of the fans, and the length of the pipelines.
const degree = 10

// fan is one of the shapes of MATRIX v2, or a random graph.
func fan(shape string, n int, d *engine.Dice) Workflow {
	w := Workflow{Name: shape}
	for i := range int32(n) {
		var parents []int32
		switch {
		case i == 0:
		case shape == "fan-out":
			parents = []int32{(i - 1) / degree}
		case shape == "pipeline" && i%degree > 0:
			parents = []int32{i - 1}
		case shape == "random":
			for range d.N(4) {
				if p := max(i-1-int32(d.N(60)), 0); len(parents) == 0 || parents[len(parents)-1] < p {
					parents = append(parents, p)
				}
			}
		case shape == "fan-in" && int(i) >= n-n/degree:
			first := (int(i) - (n - n/degree)) * (degree - 1)
			for p := first; p < min(first+degree-1, n-n/degree); p++ {
				parents = append(parents, int32(p))
			}
		}
		w.add("task", d.Between(0, 100*time.Millisecond), int64(d.N(10*Megabyte)), parents...)
	}
	return w
}

// stacking has images of 2 MB, each of which so many tasks cut in 158 ms, and a last task
// that gathers 10 KB of each cut.
func stacking(locality, n int) Workflow {
	w := Workflow{Name: fmt.Sprintf("stacking, %d a file", locality)}
	var cuts []int32
	for i := 0; i < n; i += locality {
		image := w.add("image", 10*time.Millisecond, 2*Megabyte)
		for range locality {
			cuts = append(cuts, w.add("cut", 158*time.Millisecond, 10_000, image))
		}
	}
	w.add("gather", 158*time.Millisecond, 10_000, cuts[:min(len(cuts), record.MaxInputs)]...)
	return w
}

// allPairs has files of 12 MB, and a task of 100 ms for each of n pairs.
func allPairs(files, n int) Workflow {
	w := Workflow{Name: "all-pairs"}
	for range files {
		w.add("file", 10*time.Millisecond, 12*Megabyte)
	}
	for k := range n {
		a, b := int32(k/files%files), int32(k%files)
		parents := []int32{a, b}
		if a == b {
			parents = parents[:1]
		}
		w.add("pair", 100*time.Millisecond, 1000, parents...)
	}
	return w
}

// chains are n chains of tasks of 100 to 300 ms that pass bytes on.
func chains(name string, n, long int, bytes int64) Workflow {
	w := Workflow{Name: name}
	for c := range n {
		last := w.add("link", 100*time.Millisecond, bytes)
		for k := range long - 1 {
			last = w.add("link", time.Duration(100+(c*37+k*53)%200)*time.Millisecond, bytes, last)
		}
	}
	return w
}

// spring is one task with 20 MB of output that n tasks of 200 ms read.
func spring(n int) Workflow {
	w := Workflow{Name: "one source, 20 MB"}
	source := w.add("source", 100*time.Millisecond, 20*Megabyte)
	for range n {
		w.add("reader", 200*time.Millisecond, 1000, source)
	}
	return w
}

// Scaled are the workflows of list whose names hold one of names, with times and sizes by
// factors: so that tasks take as long as tasks of the papers do.
func Scaled(list []Workflow, times, sizes float64, names ...string) (scaled []Workflow) {
	for _, w := range list {
		for _, name := range names {
			if !strings.Contains(w.Name, name) {
				continue
			}
			c := Workflow{Name: w.Name, Nodes: slices.Clone(w.Nodes)}
			for i := range c.Nodes {
				n := &c.Nodes[i]
				d := time.Duration(float64(w.Lengths[i]) * times)
				c.Lengths = append(c.Lengths, d)
				n.Length, n.Output, n.Bytes = d, int64(float64(n.Output)*sizes), int64(float64(n.Bytes)*sizes)
			}
			scaled = append(scaled, c)
			break
		}
	}
	return scaled
}
