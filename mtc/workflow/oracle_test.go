package workflow

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recipe is a random workflow without a cycle: tasks only wait for tasks with
// a smaller number, and files may have several writers.
type recipe struct {
	seconds []float64
	edges   [][2]int
	reads   map[int][]string
	writes  map[int][]string
}

func cook(r *rand.Rand, single bool) recipe {
	n := 1 + r.IntN(40)
	c := recipe{reads: map[int][]string{}, writes: map[int][]string{}}
	for range n {
		c.seconds = append(c.seconds, float64(r.IntN(5000))/1000)
	}
	for range r.IntN(2 * n) {
		a, b := r.IntN(n), r.IntN(n)
		if a != b {
			c.edges = append(c.edges, [2]int{min(a, b), max(a, b)})
		}
	}
	for f := range r.IntN(2 * n) {
		name := fmt.Sprintf("f%d", f)
		cut := r.IntN(n) // writers below, readers from here on
		for k := range n {
			switch {
			case k < cut && r.IntN(4) == 0 && (!single || !slices.ContainsFunc(c.all(), func(w string) bool { return w == name })):
				c.writes[k] = append(c.writes[k], name)
			case k >= cut && r.IntN(5) == 0:
				c.reads[k] = append(c.reads[k], name)
			}
		}
	}
	return c
}

func (c *recipe) all() (names []string) {
	for k := range c.seconds {
		names = append(names, c.writes[k]...)
	}
	return names
}

func (c *recipe) dax(order []int) string {
	var b strings.Builder
	for _, k := range order {
		fmt.Fprintf(&b, "<job id=\"t%d\" runtime=\"%v\">\n", k, c.seconds[k])
		for _, f := range c.reads[k] {
			fmt.Fprintf(&b, "<uses file=\"%s\" link=\"input\" size=\"10\"/>\n", f)
		}
		for _, f := range c.writes[k] {
			fmt.Fprintf(&b, "<uses file=\"%s\" link=\"output\" size=\"10\"/>\n", f)
		}
		b.WriteString("</job>\n")
	}
	for _, e := range c.edges {
		fmt.Fprintf(&b, "<child ref=\"t%d\"><parent ref=\"t%d\"/></child>\n", e[1], e[0])
	}
	return dax(b.String())
}

func (c *recipe) wfFormat(order []int) string {
	type task map[string]any
	var spec, run []task
	for _, k := range order {
		parents, children := []string{}, []string{}
		for i, e := range c.edges {
			if e[1] == k && i%3 != 1 {
				parents = append(parents, fmt.Sprintf("t%d", e[0]))
			}
			if e[0] == k && i%3 != 2 {
				children = append(children, fmt.Sprintf("t%d", e[1]))
			}
		}
		id := fmt.Sprintf("t%d", k)
		spec = append(spec, task{"id": id, "name": "same", "parents": parents, "children": children, "inputFiles": append([]string{}, c.reads[k]...), "outputFiles": append([]string{}, c.writes[k]...)})
		run = append(run, task{"id": id, "runtimeInSeconds": c.seconds[k]})
	}
	b, _ := json.MarshalIndent(task{"workflow": task{"specification": task{"tasks": spec}, "execution": task{"tasks": run}}}, "", " ")
	return string(b)
}

func (c *recipe) native(order []int) string {
	var b strings.Builder
	b.WriteString("filch: 1\ntasks:\n")
	for _, k := range order {
		fmt.Fprintf(&b, "  t%d:\n    run: x\n    time: %vs\n    inputs: [%s]\n    outputs: [%s]\n", k, c.seconds[k], strings.Join(c.reads[k], ", "), strings.Join(c.writes[k], ", "))
		var after []string
		for _, e := range c.edges {
			if e[1] == k {
				after = append(after, fmt.Sprintf("t%d", e[0]))
			}
		}
		fmt.Fprintf(&b, "    after: [%s]\n", strings.Join(after, ", "))
	}
	return b.String()
}

// Edges, levels and the critical path of random workflows, in every form, are
// those of a slow reading that shares no line with the loaders.
func TestOracle(t *testing.T) {
	dir := t.TempDir()
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 4))
		single := seed%3 == 0
		c := cook(r, single)
		order := r.Perm(len(c.seconds))
		slices.Sort(order) // DAX names children below their jobs only
		name := filepath.Join(dir, fmt.Sprintf("w%d", seed))
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			write := func(text string) {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			text := c.dax(order)
			write(text)
			want := slowDAX(t, name)
			compare(t, load(t, text), want)
			r.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
			text = c.wfFormat(order)
			write(text)
			compare(t, load(t, text), slowWfFormat(t, name))
			compare(t, load(t, text), want)
			if single {
				compare(t, load(t, c.native(order)), want)
			}
		})
	}
}

// A greedy schedule never beats the bound, and needs no more than twice it
// (Graham): the bound is neither too high nor absurdly low.
func TestBoundHolds(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		c := cook(r, false)
		order := make([]int, len(c.seconds))
		for i := range order {
			order[i] = i
		}
		g := load(t, c.dax(order))
		m := g.Measure()
		for _, slots := range []int{1, 2, 3, 7, 100} {
			took, bound := greedy(g, slots), m.Bound(slots)
			if took < bound || took > 2*bound {
				t.Errorf("seed %d, %d slots: a schedule takes %v, the bound is %v", seed, slots, took, bound)
			}
		}
	}
}

// greedy starts any ready task on any free slot.
func greedy(g *Graph, slots int) (now time.Duration) {
	end := make([]time.Duration, len(g.Tasks))
	state := make([]int, len(g.Tasks)) // 0 waiting, 1 running, 2 done
	for done, running := 0, 0; done < len(g.Tasks); {
		for i := range g.Tasks {
			ready := state[i] == 0 && running < slots
			for _, p := range g.Tasks[i].Parents {
				ready = ready && state[p] == 2
			}
			if ready {
				state[i], end[i] = 1, now+g.Tasks[i].Cost
				running++
			}
		}
		next := time.Duration(-1)
		for i := range g.Tasks {
			if state[i] == 1 && (next < 0 || end[i] < next) {
				next = end[i]
			}
		}
		now = next
		for i := range g.Tasks {
			if state[i] == 1 && end[i] <= now {
				state[i] = 2
				running--
				done++
			}
		}
	}
	return now
}

// BenchmarkLoad is the time and memory of a chain of wide levels: each task
// reads a file of its parent and writes one.
func BenchmarkLoad(b *testing.B) {
	for _, form := range []string{"dax", "native"} {
		b.Run(form+"/tasks=10000", func(b *testing.B) {
			c := recipe{reads: map[int][]string{}, writes: map[int][]string{}}
			order := make([]int, 10000)
			for k := range order {
				order[k] = k
				c.seconds = append(c.seconds, 1)
				c.writes[k] = []string{fmt.Sprintf("f%d", k)}
				if k >= 100 {
					c.reads[k] = []string{fmt.Sprintf("f%d", k-100)}
				}
			}
			text := c.dax(order)
			if form == "native" {
				text = c.native(order)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if g := load(b, text); len(g.Tasks) != 10000 {
					b.Fatal(len(g.Tasks))
				}
			}
		})
	}
}
