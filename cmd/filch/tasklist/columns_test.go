package tasklist

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// filch tasks --json tells what the table tells: every column has a field with the same fact.
func TestJSONTellsWhatTheTableTells(t *testing.T) {
	code := int32(7)
	row := Row{
		Task: launcher.Task{
			Job: 3, Index: 5, State: "cancelled", Reason: "wrong input", Code: &code, Attempts: 2, Node: "n4", Began: 1700000000123456,
			Took: 1.5, Bytes: 99, Cut: true, Used: launcher.Used{User: 2.5, System: 0.5, Peak: 9 << 20},
		},
		Number: 15, Name: "project", Command: "echo a", Signal: 9, Stderr: "last words",
	}
	held := Row{Task: launcher.Task{State: "ready"}, HeldBy: "ada"}
	told := map[string]bool{}
	for _, c := range []struct {
		column string
		row    *Row
		field  string
		fact   func(v any) string // the field as the cell of --tsv tells it
	}{
		{"task", &row, "task", nil},
		{"number", &row, "number", nil},
		{"name", &row, "name", nil},
		{"state", &row, "state", nil},
		{"node", &row, "node", nil},
		{"began", &row, "began_unix_us", func(v any) string { return fmt.Sprintf("%.6f", v.(float64)/1e6) }},
		{"elapsed", &row, "elapsed", func(v any) string { return fmt.Sprintf("%.6f", v) }},
		{"tries", &row, "attempts", nil},
		{"code", &row, "exit_code", nil},
		{"signal", &row, "signal", nil},
		{"memory", &row, "memory_peak_bytes", func(v any) string { return fmt.Sprintf("%.0f", v) }},
		{"cpu", &row, "cpu_user", func(v any) string { return fmt.Sprintf("%.6f", v.(float64)+row.System) }},
		{"output", &row, "output_bytes", nil},
		{"reason", &row, "reason", nil},
		{"state", &held, "state", func(any) string { return "held" }},
		{"reason", &held, "held_by", func(v any) string { return "held by " + v.(string) }},
		{"cut", &row, "output_cut", func(v any) string { return map[bool]string{true: "yes"}[v.(bool)] }},
		{"command", &row, "command", nil},
		{"stderr", &row, "stderr_last", nil},
	} {
		b, err := json.Marshal(c.row)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(b, &fields); err != nil {
			t.Fatal(err)
		}
		told[c.column] = true
		col := columnOf(c.column)
		cell := col.plain
		if cell == nil {
			cell = col.cell
		}
		fact := fmt.Sprint(fields[c.field])
		if c.fact != nil {
			fact = c.fact(fields[c.field])
		}
		if got := cell(c.row); got != fact || got == "" {
			t.Errorf("the column %s says %q, and %s says %q", c.column, got, c.field, fact)
		}
	}
	for i := range columns {
		if name := columns[i].name; !told[name] {
			t.Errorf("no field of --json is known for the column %s", name)
		}
	}
}

// --sort orders tasks by every column that can be a key, and tasks that are equal there by
// number.
func TestTasksAreSortedByEveryKey(t *testing.T) {
	rows := make([]Row, 5)
	for i := range rows {
		r := &rows[i]
		r.Index, r.Number = int32(i), []int32{40, 10, 30, 20, 10}[i]
		r.State = []string{"ok", "failed", "running", "killed", "failed"}[i]
		r.Node = []filch.NodeName{"n3", "n1", "n2", "n1", "n4"}[i]
		r.Began, r.Took = []int64{5, 4, 3, 2, 2}[i], []float64{1.5, 2.5, 0.5, 2.5, 9}[i]
		r.Attempts, r.Signal = []filch.Attempt{1, 1, 2, 3, 2}[i], []int32{0, 9, 15, 0, 2}[i]
		if code := []int32{7, -1, 0, 143, 7}[i]; code >= 0 {
			r.Code = &code
		}
		r.Bytes, r.Peak = []int64{10, 30, 20, 20, 5}[i], []int64{4, 4, 1, 8, 16}[i]
		r.User, r.System = []float64{1, 2, 7, 0, 0}[i], []float64{5, 2, 0, 4, 1}[i]
	}
	orders := map[string][]int32{
		"task":    {0, 1, 2, 3, 4},
		"number":  {1, 4, 3, 2, 0},
		"state":   {1, 4, 3, 0, 2},
		"node":    {1, 3, 2, 0, 4},
		"began":   {3, 4, 2, 1, 0},
		"elapsed": {4, 1, 3, 0, 2},
		"tries":   {3, 2, 4, 0, 1},
		"code":    {3, 0, 4, 2, 1}, // a task without a code is the last
		"signal":  {2, 1, 4, 0, 3},
		"memory":  {4, 3, 0, 1, 2},
		"cpu":     {2, 0, 1, 3, 4},
		"output":  {1, 2, 3, 0, 4},
	}
	seen := map[string]string{}
	for i := range columns {
		key := columns[i].name
		l, err := (&taskListFlags{sort: key}).lister()
		want, known := orders[key]
		if known != (err == nil) {
			t.Errorf("--sort %s: %v; the test knows an order: %t", key, err, known)
		}
		if err != nil {
			continue
		}
		var got []int32
		for _, r := range l.largest([]Row{rows[4], rows[2], rows[0], rows[3], rows[1]}) {
			got = append(got, r.Index)
		}
		if !slices.Equal(got, want) {
			t.Errorf("--sort %s: got %v, want %v", key, got, want)
		}
		if other := seen[fmt.Sprint(got)]; other != "" {
			t.Errorf("--sort %s and --sort %s give one order: the rows do not tell the keys apart", key, other)
		}
		seen[fmt.Sprint(got)] = key
	}
}

// The command of a built-in task that sleeps is one that filch submit reads as the same time.
func TestBuiltinTextIsReadBack(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"sleep:0s": 0, "sleep:64ms": 64 * time.Millisecond, "sleep:1m": time.Minute, "sleep:1d": 24 * time.Hour,
		"sleep:1.234s": 1234 * time.Millisecond, "sleep:0.000001s": time.Microsecond, "sleep:3725.25s": time.Hour + 2*time.Minute + 5250*time.Millisecond,
	} {
		got := builtinText(binary.BigEndian.AppendUint64([]byte{launcher.BodySleep}, uint64(d)))
		if read, err := filch.ReadTime(strings.TrimPrefix(got, "sleep:")); got != want || err != nil || read != d {
			t.Errorf("a sleep of %v is %q, read as %v, %v; want %q", d, got, read, err, want)
		}
	}
}
