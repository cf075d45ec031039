package workflow

import "fmt"

// The kinds of traps.
const (
	TrapWriters     = "several-writers"
	TrapNoEdge      = "data-without-edge"
	TrapNoData      = "edge-without-data"
	TrapOneSided    = "one-sided-edge"
	TrapOverwritten = "overwritten"
	TrapInPlace     = "in-place"
	TrapName        = "odd-name"
	TrapSizes       = "sizes-differ"
	TrapUnsized     = "no-size"
	TrapBelowZero   = "size-below-zero"
	TrapNoTime      = "zero-time"
	TrapTimeBelow   = "time-below-zero"
	TrapUntimed     = "no-time"
	TrapCount       = "wrong-count"
	TrapBig         = "big"
)

// TrapKinds is every kind with its treatment, in the order of the report.
var TrapKinds = []struct{ Kind, Text string }{
	{TrapWriters, "files with several writers: each writer makes a version of its own, readers depend on all of them"},
	{TrapNoEdge, "data dependencies that no edge names: they are kept like edges"},
	{TrapNoData, "edges without any data: they are kept"},
	{TrapOneSided, "edges that only the parent or only the child names: they are kept"},
	{TrapOverwritten, "writers that come after a reader of the same file: the reader does not wait for them"},
	{TrapInPlace, "files that a task both reads and writes: the task only writes them"},
	{TrapName, "names that are no plain file name: they are changed, so that they stay in the sandbox"},
	{TrapSizes, "files whose uses state different sizes: the writer's counts, else the largest"},
	{TrapUnsized, "files without a size: taken as empty"},
	{TrapBelowZero, "sizes below zero: taken as empty"},
	{TrapNoTime, "tasks with a run time of zero"},
	{TrapTimeBelow, "tasks with a run time below zero: taken as zero"},
	{TrapUntimed, "tasks without a run time: taken as zero"},
	{TrapCount, "numbers in the file's head that differ from the tasks in the file"},
	{TrapBig, "more bytes than a replay should write: use a size scale"},
}

// bigBytes is the size above which a replay needs a size scale.
const bigBytes = int64(1) << 30

const examplesMax = 3

// traps collects the oddities of a file.
type traps struct {
	found map[string]*Trap
	once  map[string]map[int64]bool
}

func newTraps() *traps {
	return &traps{found: map[string]*Trap{}, once: map[string]map[int64]bool{}}
}

func (t *traps) add(kind, format string, args ...any) {
	trap := t.found[kind]
	if trap == nil {
		trap = &Trap{Kind: kind, Examples: []string{}}
		t.found[kind] = trap
	}
	trap.Count++
	if len(trap.Examples) < examplesMax {
		trap.Examples = append(trap.Examples, fmt.Sprintf(format, args...))
	}
}

// addOnce adds a trap for a thing only the first time.
func (t *traps) addOnce(kind, example string, id int64) {
	seen := t.once[kind]
	if seen == nil {
		seen = map[int64]bool{}
		t.once[kind] = seen
	}
	if !seen[id] {
		seen[id] = true
		t.add(kind, "%s", example)
	}
}

func (t *traps) list() []Trap {
	var all []Trap
	for _, k := range TrapKinds {
		if trap := t.found[k.Kind]; trap != nil {
			trap.Text = k.Text
			all = append(all, *trap)
		}
	}
	return all
}

// census finds the traps of a replay that only the whole graph shows.
func (b *builder) census() {
	if !b.g.Replay {
		return
	}
	var total int64
	for i := range b.g.Files {
		if total += b.g.Files[i].Size; total > SizeMax {
			break
		}
	}
	if total > bigBytes {
		b.traps.add(TrapBig, "%s in all: --size-scale %.1g makes it a gigabyte", Bytes(total), float64(bigBytes)/float64(total))
	}
	for i := range b.g.Tasks {
		t := &b.g.Tasks[i]
		at, have := 0, map[int32]bool{}
		for _, f := range t.Inputs {
			if w := b.g.Files[f].Writer; w >= 0 {
				have[w] = true
			}
		}
		for _, p := range t.Parents {
			for at < len(t.After) && t.After[at] < p {
				at++
			}
			named := at < len(t.After) && t.After[at] == p
			switch {
			case !named:
				b.traps.add(TrapNoEdge, "%s to %s", b.g.Tasks[p].Name, t.Name)
			case !have[p]:
				b.traps.add(TrapNoData, "%s to %s", b.g.Tasks[p].Name, t.Name)
			}
		}
	}
}
