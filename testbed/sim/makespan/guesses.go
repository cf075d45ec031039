package makespan

import (
	"cmp"
	"fmt"
	"io"
	"time"
)

// guesses are the best that an order can know of tasks whose lengths nobody states: a guess
// gives each task a length.
var guesses = []struct {
	name  string
	guess func(w *Workflow, g *ideal) []time.Duration
}{
	{"all tasks alike", func(w *Workflow, _ *ideal) []time.Duration { return w.fitted(func(int) float64 { return 0 }, false) }},
	{"mean of the kind", func(w *Workflow, _ *ideal) []time.Duration { return w.fitted(func(int) float64 { return 0 }, true) }},
	{"line over the input", func(w *Workflow, _ *ideal) []time.Duration { return w.fitted(w.input, true) }},
	{"line over the output", func(w *Workflow, _ *ideal) []time.Duration {
		return w.fitted(func(i int) float64 { return float64(w.Nodes[i].Output) }, true)
	}},
	{"number of tasks behind", func(_ *Workflow, g *ideal) []time.Duration { return g.behind() }},
}

// input is the bytes that a task reads.
func (w *Workflow) input(i int) float64 {
	n := float64(w.Nodes[i].Bytes)
	for _, p := range w.Nodes[i].Parents {
		n += float64(w.Nodes[p].Output)
	}
	return n
}

// guessMost bounds a guess, as a multiple of the mean of the kind and as a part.
const guessMost = 8

// fitted is the lengths by the line over a size that fits the tasks of each kind best, or, if
// the kinds do not differ, a second.
func (w *Workflow) fitted(size func(i int) float64, kinds bool) []time.Duration {
	type sums struct{ n, x, y, xx, xy float64 }
	fits := map[string]*sums{}
	for i := range w.Nodes {
		f := fits[w.Nodes[i].Kind]
		if f == nil {
			f = &sums{}
			fits[w.Nodes[i].Kind] = f
		}
		x, y := size(i), float64(w.Lengths[i])
		f.n, f.x, f.y, f.xx, f.xy = f.n+1, f.x+x, f.y+y, f.xx+x*x, f.xy+x*y
	}
	list := make([]time.Duration, len(w.Nodes))
	for i := range list {
		if list[i] = time.Second; !kinds {
			continue
		}
		f := fits[w.Nodes[i].Kind]
		mean, slope := f.y/f.n, 0.0
		if spread := f.xx/f.n - f.x/f.n*f.x/f.n; spread > 1 {
			slope = (f.xy/f.n - f.x/f.n*f.y/f.n) / spread
		}
		list[i] = time.Duration(min(max(mean+slope*(size(i)-f.x/f.n), mean/guessMost), guessMost*mean))
	}
	return list
}

// behind is a second for each task that waits for a task, on any way.
func (w *ideal) behind() []time.Duration {
	list := make([]time.Duration, len(w.lengths))
	seen := make([]int, len(w.lengths))
	for i := range list {
		work := []int32{int32(i)}
		for n := 0; len(work) > 0; n++ {
			last := work[len(work)-1]
			work = work[:len(work)-1]
			list[i] = time.Duration(n) * time.Second
			for _, c := range w.children[last] {
				if seen[c] != i+1 {
					seen[c] = i + 1
					work = append(work, c)
				}
			}
		}
	}
	return list
}

// PrintGuesses prints what lists by guesses lose: no core that learns from ends knows more.
func PrintGuesses(out io.Writer, list []Workflow) {
	fmt.Fprintf(out, "Lists by guesses of the lengths, with the whole workflow known, on %v hosts of %d slots: lost to the best of critical path, HEFT and min-min\n\n| guess | mean | worst | at |\n|---|---|---|---|\n", HostNumbers, slotsEach)
	for _, k := range guesses {
		sum := Sum{}
		for i := range list {
			w := &list[i]
			g := newIdeal(w.Nodes, w.Lengths)
			by := newIdeal(w.Nodes, k.guess(w, g)).levels
			for _, hosts := range HostNumbers {
				l := Loss{Workflow: w.Name, Hosts: hosts}
				l.Best, l.By = g.best(hosts * slotsEach)
				l.Order = g.list(hosts*slotsEach, func(a, b int32) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })
				sum.Add(l)
			}
		}
		fmt.Fprintf(out, "| %s | %.2f %% | %.1f %% | %s, %d hosts |\n", k.name, 100*sum.Mean, 100*sum.Worst.Lost(), sum.Worst.Workflow, sum.Worst.Hosts)
	}
}
