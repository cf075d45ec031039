package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/filch-hpc/filch/launcher/wire"
)

// The shapes of workflows, of so many pipes as there are slots.
const (
	shapeLaunchers = 4
	shapeSlots     = 2 // of each
)

// shapesOf are workflows of about n tasks that do nothing.
func shapesOf(n int) map[string][]task {
	const pipes = shapeLaunchers * shapeSlots
	all := map[string][]task{}
	one := func(i int, after ...string) task { return task{Name: fmt.Sprintf("t%d", i), Run: "true", After: after} }
	last := one(n)
	for i := range n {
		name := fmt.Sprintf("t%d", i)
		all["bag"] = append(all["bag"], one(i))
		all["fan-in"] = append(all["fan-in"], one(i))
		last.After = append(last.After, name)
		all["fan-out"] = append(all["fan-out"], one(i, "root"))
		if i < pipes {
			all["pipeline"] = append(all["pipeline"], one(i))
		} else {
			all["pipeline"] = append(all["pipeline"], one(i, fmt.Sprintf("t%d", i-pipes)))
		}
	}
	all["fan-in"] = append(all["fan-in"], last)
	all["fan-out"] = append(all["fan-out"], task{Name: "root", Run: "true"})
	return all
}

// shapes measures workflows of each shape, and what the launchers say to each
// other meanwhile.
func (b *bench) shapes() []taskFigure {
	tableOf("workflows of /bin/true, from the file to the last end; pipelines have %d pipes", shapeLaunchers*shapeSlots)
	return b.onMesh("dags", shapeLaunchers, shapeSlots, func(m *mesh) (all []taskFigure) {
		shapes := shapesOf(b.many.shapes)
		for _, name := range []string{"bag", "fan-in", "fan-out", "pipeline"} {
			file := filepath.Join(b.scratch, name+".json")
			err := writeWorkflow(file, name, shapes[name])
			h := b.newHeat(name, m, shapeSlots, 0)
			h.add(name, len(shapes[name]), err, m.env, b.filch, "workflow", "run", file)
			before, err := m.kinds()
			f := &h.run()[0]
			var after map[string]float64
			if err == nil {
				after, err = m.kinds()
			}
			if err != nil {
				f.Error = err.Error()
			}
			if f.Error == "" {
				f.Messages = map[string]float64{}
				for kind, n := range after {
					if n -= before[kind]; n > 0 {
						f.Messages[kind] = n / float64(f.Tasks*(h.runs+1))
					}
				}
				f.printMessages()
			}
			all = append(all, *f)
		}
		return all
	})
}

// kinds is how many messages the launchers sent each other, by kind.
func (m *mesh) kinds() (map[string]float64, error) {
	all := map[string]float64{}
	return all, m.stats(func(s *wire.StatsInfo) {
		for kind, n := range s.Sent {
			all[kind] += float64(n)
		}
	})
}

// printMessages prints those that count, the most frequent first.
func (f *taskFigure) printMessages() {
	var kinds []string
	total := 0.0
	for kind, n := range f.Messages {
		total += n
		if n >= 0.00005 {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(x, y string) int { return cmp.Compare(f.Messages[y], f.Messages[x]) })
	fmt.Printf("  %.4f messages a task:", total)
	for _, kind := range kinds {
		fmt.Printf(" %s %.4f", kind, f.Messages[kind])
	}
	fmt.Println()
}
