package papers

import (
	"fmt"
	"io"
	"time"

	"github.com/filch-hpc/filch/testbed/sim/ranges"
)

// Book runs runs, keeps their results, and numbers them in the order of first use.
type Book struct {
	Data   string         // the folder with workflow files
	Ledger *ranges.Ledger // nil: no result is kept
	Log    io.Writer      // hears of each run that is not kept yet; nil: nobody does
	names  []string
	place  map[string]int
	done   map[string]outcome
	ran    int
	took   time.Duration
}

// outcome is a result, or why there is none.
type outcome struct {
	Result Result  `json:"result"`
	Took   float64 `json:"seconds"`
	err    error
}

// didNotRun is the cell of a run without a result.
const didNotRun = "did not run"

// look returns the outcome of a run, and its number on the page.
func (b *Book) look(name string) (outcome, int) {
	if b.place == nil {
		b.place, b.done = map[string]int{}, map[string]outcome{}
	}
	if b.place[name] == 0 {
		b.names = append(b.names, name)
		b.place[name] = len(b.names)
	}
	if o, is := b.done[name]; is {
		return o, b.place[name]
	}
	var o outcome
	if b.Ledger == nil || !b.Ledger.Has(name, &o) {
		at := computed()
		if b.Log != nil {
			fmt.Fprintf(b.Log, "%s ... ", name)
		}
		o.Result, o.err = Run(name, b.Data)
		o.Took = (computed() - at).Seconds()
		b.ran++
		if b.Log != nil {
			fmt.Fprintf(b.Log, "%.1f s\n", o.Took)
		}
		if b.Ledger != nil && o.err == nil {
			o.err = b.Ledger.Put(name, o)
		}
	}
	b.took += time.Duration(o.Took * float64(time.Second))
	b.done[name] = o
	return o, b.place[name]
}

// num is a number of a run, in a cell of the page.
func (b *Book) num(name, number, format string) Cell {
	o, n := b.look(name)
	if o.err != nil {
		return Cell{Text: didNotRun, Run: n}
	}
	x, is := o.Result.Numbers[number]
	if !is {
		return Cell{Text: fmt.Sprintf("no %q", number), Run: n}
	}
	return Cell{Text: fmt.Sprintf(format, x), Run: n}
}

// value is a number of a run for a plot.
func (b *Book) value(name, number string) (float64, bool) {
	o, _ := b.look(name)
	x, is := o.Result.Numbers[number]
	return x, is && o.err == nil
}

// curve is a curve of a run.
func (b *Book) curve(name, curve string) []Point {
	o, _ := b.look(name)
	return o.Result.Curves[curve]
}

// against is the points of a number over the runs of some names.
func (b *Book) against(number string, xs []int, name func(x int) string) (list []Point) {
	for _, x := range xs {
		if y, is := b.value(name(x), number); is {
			list = append(list, Point{float64(x), y})
		}
	}
	return list
}

// failed lists the runs without a result, and why.
func (b *Book) failed() (list []string) {
	for _, name := range b.names {
		if err := b.done[name].err; err != nil {
			list = append(list, err.Error())
		}
	}
	return list
}
