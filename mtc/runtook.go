package mtc

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// RunTook is how long a run took that ended well. Runs are none of the jobs
// here, but the mirror is where such things outlive the nodes.
type RunTook struct {
	Kind  string // what runs of the same kind share; see [Spec.Like]
	Ended int64  // unix ns
	Took  time.Duration
}

// MirrorRun appends the line that says it.
func MirrorRun(b []byte, t RunTook) []byte {
	var w writer
	w.int(t.Ended)
	w.int(int64(t.Took))
	return AppendMirrorLine(b, keyRun+t.Kind, w.b)
}

// keyRun begins the names of what is no record of the store, but of the mirror.
const keyRun = Prefix + "0/t/"

// takeRun takes in a line of MirrorRun, twice or in any order.
func (m *Remains) takeRun(kind string, value []byte) bool {
	r := reader{b: value}
	t := RunTook{Kind: kind, Ended: r.int(), Took: time.Duration(r.int())}
	if r.done() != nil || len(kind) > MaxLike || t.Took < 0 {
		return false
	}
	if !slices.Contains(m.runs[kind], t) {
		m.runs[kind] = append(m.runs[kind], t)
	}
	return true
}

// Runs are the last of each kind, in the order in which they ended.
func (m *Remains) Runs() (all []RunTook) {
	for _, kind := range slices.Sorted(maps.Keys(m.runs)) {
		list := slices.SortedFunc(slices.Values(m.runs[kind]), func(a, b RunTook) int { return cmp.Compare(a.Ended, b.Ended) })
		all = append(all, list[max(0, len(list)-tookMax):]...)
	}
	return all
}
