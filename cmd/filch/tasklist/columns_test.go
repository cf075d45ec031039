package tasklist

import (
	"encoding/json"
	"fmt"
	"testing"

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
