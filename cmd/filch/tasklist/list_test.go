package tasklist

import (
	"cmp"
	"math/rand/v2"
	"testing"

	"github.com/filch-hpc/filch/launcher"
)

// TestSortedTasksAreFewSteps: of a large job the first tasks by a column cost about a comparison a
// task, and no memory a task, in any order of the records.
func TestSortedTasksAreFewSteps(t *testing.T) {
	const total, page = 200_000, 6000
	shuffled := rand.New(rand.NewPCG(1, 2)).Perm(total)
	for name, place := range map[string]func(i int) int{
		"as sorted": func(i int) int { return i },
		"at random": func(i int) int { return shuffled[i] },
	} {
		steps := 0
		l := &lister{flags: &taskListFlags{first: 3}}
		l.less = func(a, b *Row) int { steps++; return cmp.Compare(a.Began, b.Began) }
		var kept []Row
		list := make([]Row, page)
		mallocs := testing.AllocsPerRun(1, func() {
			kept, steps, l.ordered, l.cut = nil, 0, 0, false
			for from := 0; from < total; from += page {
				for i := range list {
					list[i] = Row{Task: launcher.Task{Began: int64(place(min(from+i, total-1)))}}
				}
				kept = l.keep(kept, list[:min(page, total-from)])
			}
			kept = l.largest(kept)
		})
		if len(kept) != 3 || kept[0].Began != 0 || kept[1].Began != 1 || kept[2].Began != 2 || !l.cut {
			t.Errorf("%s: %d tasks, more %t: %+v", name, len(kept), l.cut, kept)
		}
		if steps > 2*total || mallocs > total/100 {
			t.Errorf("%s: %d comparisons and %.0f pieces of memory for %d tasks", name, steps, mallocs, total)
		}
	}
}
