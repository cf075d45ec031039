package queue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// RunTime is the duration of a successful run. Runs are no jobs of this package, but the
// mirror keeps their durations beyond the nodes.
type RunTime struct {
	Kind  string // kind shared by similar runs; see [record.Spec.Like]
	Ended int64  // unix ns
	Took  time.Duration
}

func (t *RunTime) fields(c *record.Codec) {
	record.Int(c, &t.Ended)
	record.Int(c, &t.Took)
}

// AppendRun appends the line of a RunTime.
func AppendRun(b []byte, t RunTime) []byte {
	c := record.Writing(32)
	t.fields(&c)
	return AppendLine(b, record.KeyRun+t.Kind, c.B)
}

// takeRun reads a line of [AppendRun]; lines may come twice or in any order.
func (m *Recovered) takeRun(kind string, value []byte) bool {
	c, t := record.Reading(value), RunTime{Kind: kind}
	t.fields(&c)
	if c.Done() != nil || len(kind) > record.MaxLike || t.Took < 0 {
		return false
	}
	if !slices.Contains(m.runs[kind], t) {
		m.runs[kind] = append(m.runs[kind], t)
	}
	return true
}

// Runs are the last runs of each kind, in the order of their ends.
func (m *Recovered) Runs() (all []RunTime) {
	for _, kind := range slices.Sorted(maps.Keys(m.runs)) {
		list := slices.SortedFunc(slices.Values(m.runs[kind]), func(a, b RunTime) int { return cmp.Compare(a.Ended, b.Ended) })
		all = append(all, list[max(0, len(list)-policy.DurationsMax):]...)
	}
	return all
}
