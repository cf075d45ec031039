package tasklist

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
)

// column is a column of filch tasks.
type column struct {
	name  string
	help  string
	right bool
	cell  func(*Row) string   // in a table; "" is written as -
	plain func(*Row) string   // in --tsv, if not as in a table
	less  func(a, b *Row) int // order of --sort; nil: none
}

// Widths of long cells in a table.
const (
	commandWidth = 48
	stderrWidth  = 60
)

var columns = []column{
	{"task", "number within the job, as in JOB.TASK", true, func(t *Row) string { return itoa(t.Index) }, nil, func(a, b *Row) int { return 0 }},
	{"number", "FILCH_TASK", true, func(t *Row) string { return itoa(t.Number) }, nil, func(a, b *Row) int { return cmp.Compare(a.Number, b.Number) }},
	{"name", "of a task of a workflow", false, func(t *Row) string { return t.Name }, nil, nil},
	{"state", "as --state names it", false, (*Row).shownState, nil, func(a, b *Row) int { return cmp.Compare(a.State, b.State) }},
	{"node", "of the last try; n1+n2: a copy runs on n2; of a gang, the nodes of its ranks", false, (*Row).nodes, nil, func(a, b *Row) int { return cmp.Compare(a.Node, b.Node) }},
	{"began", "start of the last try, by the clock of the node", false, func(t *Row) string {
		if t.Began == 0 {
			return ""
		}
		return ui.Clock(time.UnixMicro(t.Began))
	}, func(t *Row) string { return decimal(float64(t.Began)/1e6, t.Began > 0) }, func(a, b *Row) int { return cmp.Compare(a.Began, b.Began) }},
	{"elapsed", "time of the last try; in --tsv in seconds", true, func(t *Row) string {
		if !t.ran() {
			return ""
		}
		return filch.ShortTime(time.Duration(t.Took * float64(time.Second)))
	}, func(t *Row) string { return decimal(t.Took, t.ran()) }, func(a, b *Row) int { return cmp.Compare(b.Took, a.Took) }},
	{"tries", "number of starts", true, func(t *Row) string {
		if !t.ran() && t.State != filch.Lost.String() {
			return ""
		}
		return itoa(int32(t.Attempts))
	}, nil, func(a, b *Row) int { return cmp.Compare(b.Attempts, a.Attempts) }},
	{"code", "exit code", true, func(t *Row) string {
		if t.Code == nil {
			return ""
		}
		return itoa(*t.Code)
	}, nil, func(a, b *Row) int { return cmp.Compare(codeOr(b, -1), codeOr(a, -1)) }},
	{"signal", "signal that ended the task", true, func(t *Row) string {
		if t.Signal == 0 {
			return ""
		}
		return itoa(t.Signal)
	}, nil, func(a, b *Row) int { return cmp.Compare(b.Signal, a.Signal) }},
	{"memory", "peak of the largest process; <9M is an upper bound; in --tsv in bytes", true, func(t *Row) string {
		if t.Peak == 0 {
			return ""
		}
		return ui.Peak(&t.Used)
	}, func(t *Row) string {
		if t.Peak == 0 {
			return ""
		}
		return strconv.FormatInt(t.Peak, 10)
	}, func(a, b *Row) int { return cmp.Compare(b.Peak, a.Peak) }},
	{"cpu", "processor time; in --tsv in seconds", true, func(t *Row) string {
		if t.Peak == 0 {
			return ""
		}
		return ui.CPU(&t.Used)
	}, func(t *Row) string { return decimal(t.User+t.System, t.Peak > 0) }, func(a, b *Row) int { return cmp.Compare(b.User+b.System, a.User+a.System) }},
	{"output", "bytes of kept output", true, func(t *Row) string { return strconv.FormatInt(t.Bytes, 10) }, nil, func(a, b *Row) int { return cmp.Compare(b.Bytes, a.Bytes) }},
	{"reason", "why the task was cancelled or skipped, what it waits for (aftercorr), or who holds it", false, func(t *Row) string {
		if t.HeldBy != "" {
			return "held by " + t.HeldBy
		}
		return t.Reason
	}, nil, nil},
	{"cut", "yes if output was cut", false, func(t *Row) string {
		if t.Cut {
			return "yes"
		}
		return ""
	}, nil, nil},
	{"command", "the command, or the line", false, func(t *Row) string { return ui.Clip(t.Command, commandWidth) }, func(t *Row) string { return t.Command }, nil},
	{"stderr", "last line of standard error; only on request for a task that ended well", false, func(t *Row) string { return ui.Clip(t.Stderr, stderrWidth) }, func(t *Row) string { return t.Stderr }, nil},
}

// shownState is the state, or held for a task that does not start while somebody holds its job.
func (t *Row) shownState() string {
	if t.HeldBy != "" {
		return heldState
	}
	return t.State
}

// GangNodes are the nodes of the ranks of a gang; "" if they are not known.
func (t *Row) GangNodes() string {
	text := spec.FormatHosts(t.Nodes)
	if t.More > 0 {
		text += fmt.Sprintf(" and %d more", t.More)
	}
	return text
}

// nodes are the node of the task, or of a gang the nodes of its ranks, and the nodes of its
// copies.
func (t *Row) nodes() string {
	var s strings.Builder
	if len(t.Nodes) > 0 {
		s.WriteString(t.GangNodes())
	} else {
		s.WriteString(string(t.Node))
	}
	for i := range t.Copies {
		s.WriteString("+" + string(t.Copies[i].Node))
	}
	return s.String()
}

// isOn reports whether the task is on a node, as far as the list shows the nodes of the task.
func (t *Row) isOn(node filch.NodeName) bool {
	if len(t.Nodes) > 0 {
		return slices.Contains(t.Nodes, node)
	}
	return t.Node == node
}

// ran reports whether an attempt began.
func (t *Row) ran() bool { return t.Began > 0 || t.State == filch.Running.String() }

func itoa(n int32) string { return strconv.Itoa(int(n)) }

// decimal is a number of seconds; "" if not known.
func decimal(secs float64, known bool) string {
	if !known {
		return ""
	}
	return strconv.FormatFloat(secs, 'f', 6, 64)
}

func codeOr(t *Row, none int32) int32 {
	if t.Code == nil {
		return none
	}
	return *t.Code
}

// columnOf finds a column by its name.
func columnOf(name string) *column {
	for i := range columns {
		if columns[i].name == name {
			return &columns[i]
		}
	}
	return nil
}

// pickColumns reads a list of columns.
func pickColumns(text string) ([]*column, error) {
	var picked []*column
	for name := range strings.SplitSeq(text, ",") {
		c := columnOf(strings.ToLower(strings.TrimSpace(name)))
		if c == nil {
			return nil, filch.Errorf(filch.Invalid, "-o %s: there is no column %s", text, strconv.Quote(name)).WithHint("the columns are %s, or joblog alone", columnNames(false))
		}
		picked = append(picked, c)
	}
	return picked, nil
}

// columnNames lists the columns, or only those of --sort.
func columnNames(sorts bool) string {
	var names []string
	for i := range columns {
		if !sorts || columns[i].less != nil {
			names = append(names, columns[i].name)
		}
	}
	return strings.Join(names, ",")
}

// columnHelp describes the columns, for the help.
func columnHelp() string {
	var b strings.Builder
	for i := range columns {
		fmt.Fprintf(&b, "\n  %-8s %s", columns[i].name, columns[i].help)
	}
	return b.String()
}

// usualColumns are the columns without -o: the number only if the user gave the numbers,
// the name only in a workflow.
func (v *view) usualColumns() (picked []*column) {
	for _, name := range []string{"task", "number", "name", "state", "node", "elapsed", "tries", "code", "signal", "memory", "cpu", "command", "stderr"} {
		if name == "number" && v.Spec.First == 0 && v.Spec.Step <= 1 && len(v.Spec.Picks) == 0 || name == "name" && !v.Rec.Graph {
			continue
		}
		picked = append(picked, columnOf(name))
	}
	return picked
}
