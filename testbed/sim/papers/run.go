package papers

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Point is a point of a curve.
type Point struct{ X, Y float64 }

// Result is what came out of a run.
type Result struct {
	Numbers map[string]float64 `json:"numbers"`
	Curves  map[string][]Point `json:"curves,omitempty"`
}

// args are the settings of a run. The first that is absent or wrong is kept as the error.
type args struct {
	set  map[string]string
	used map[string]bool
	err  error
	data string // the folder with workflow files
}

// kinds are the kinds of runs.
var kinds = map[string]func(a *args) (Result, error){
	"flat": runFlat, "curves": runCurves, "bag": runBag, "gangs": runGangs, "flow": runFlow, "pile": runPile, "tree": runTree, "policy": runPolicy,
}

// Run runs the run with a name. data is the folder with workflow files.
func Run(name, data string) (Result, error) {
	words := strings.Fields(name)
	if len(words) == 0 || kinds[words[0]] == nil {
		return Result{}, fmt.Errorf("cannot run %q: the kinds of runs are %s", name, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	a := &args{set: map[string]string{}, used: map[string]bool{}, data: data}
	for _, w := range words[1:] {
		key, value, is := strings.Cut(w, "=")
		if !is || a.set[key] != "" {
			return Result{}, fmt.Errorf("cannot run %q: %q is no setting, or is there twice", name, w)
		}
		a.set[key] = value
	}
	r, err := kinds[words[0]](a)
	if a.err != nil {
		err = a.err
	}
	for key := range a.set { // any order: one is enough
		if err == nil && !a.used[key] {
			err = fmt.Errorf("%s is no setting of this kind of run", key)
		}
	}
	if err != nil {
		return Result{}, fmt.Errorf("cannot run %q: %w", name, err)
	}
	maps.DeleteFunc(r.Numbers, func(_ string, x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) // by no time, or no work
	return r, nil
}

// text is a setting; without a usual value the setting must be there.
func (a *args) text(key string, usual ...string) string {
	a.used[key] = true
	value, is := a.set[key]
	switch {
	case is:
		return value
	case len(usual) > 0:
		return usual[0]
	case a.err == nil:
		a.err = fmt.Errorf("%s is not set", key)
	}
	return ""
}

func (a *args) note(key string, err error) {
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("%s: %w", key, err)
	}
}

func (a *args) number(key string, usual ...string) int {
	text := a.text(key, usual...)
	if a.err != nil {
		return 1
	}
	n, err := strconv.Atoi(text)
	a.note(key, err)
	return n
}

func (a *args) part(key string, usual ...string) float64 {
	text := a.text(key, usual...)
	if a.err != nil {
		return 1
	}
	n, err := strconv.ParseFloat(text, 64)
	a.note(key, err)
	return n
}

func (a *args) time(key string, usual ...string) time.Duration {
	text := a.text(key, usual...)
	if a.err != nil {
		return 1
	}
	d, err := time.ParseDuration(text)
	a.note(key, err)
	return d
}

func (a *args) seed() uint64 { return uint64(a.number("seed")) }
