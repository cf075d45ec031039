package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/cmd/filch/manual"
)

// Real ranks, tasks and workers have the variables that the table names for them, and
// no other; what the outer environment says of a job does not reach them.
func TestEnvironmentOfPrograms(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	outer := []string{"FILCH_RANK=99", "FILCH_SECRET=hush", "FILCH_SECRET_FILE=hush", "FILCH_SERIAL=99", "FILCH_NODE=n1", "FILCH_LOCAL_RANK=99"}
	// Beside its own variables, a program has the variables that the tests set for
	// filch, and its user would have set.
	given := []string{"FILCH_LOCAL", "FILCH_HOME", "FILCH_FILCHD", "FILCH_FILCHTOP"}
	for _, c := range []struct {
		name     string
		args     []string
		in       func(manual.In) bool
		optional []string
		more     []string
	}{
		{name: "rank", args: []string{"run", "-n", "1", "env"}, in: func(i manual.In) bool { return i.Rank }},
		{name: "task", args: []string{"submit", "--wait", "--", "env"}, in: func(i manual.In) bool { return i.Task }},
		{name: "task of a list", args: []string{"submit", "--wait", "--each-line", "-", "--", "env"}, in: func(i manual.In) bool { return i.Task }, optional: []string{"FILCH_LINE"}},
		// A rank of a gang has the variables of ranks, and the number of its task.
		{name: "rank of a gang", args: []string{"submit", "-n", "1", "--wait", "--", "env"}, in: func(i manual.In) bool { return i.Rank }, optional: []string{"FILCH_RUN"}, more: []string{"FILCH_TASK"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := shared.filch(c.args...)
			for _, kv := range os.Environ() { // of make and of the person who runs the tests
				name, _, _ := strings.Cut(kv, "=")
				cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return e == kv && strings.HasPrefix(name, "FILCH_") })
			}
			cmd.Env = append(cmd.Env, outer...)
			cmd.Stdin = strings.NewReader("a line\n")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("filch %s: %v", strings.Join(c.args, " "), err)
			}
			if c.args[0] == "submit" {
				if out, err = shared.filch("logs", strings.TrimSpace(string(out))).Output(); err != nil {
					t.Fatalf("filch logs: %v", err)
				}
			}
			got := map[string]string{}
			for line := range strings.Lines(string(out)) {
				if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); strings.HasPrefix(name, "FILCH_") {
					got[name] = value
				}
			}
			want := map[string]bool{}
			for _, v := range manual.Variables {
				if c.in(v.In) && (!v.In.Optional || slices.Contains(c.optional, v.Name)) {
					want[v.Name] = true
				}
			}
			for _, name := range append(c.more, given...) {
				want[name] = true
			}
			for _, name := range slices.Sorted(maps.Keys(got)) {
				if !want[name] {
					t.Errorf("a %s has %s=%s, which the table does not name for it", c.name, name, got[name])
				}
				if got[name] == "99" || got[name] == "hush" {
					t.Errorf("a %s has %s of the environment around filch", c.name, name)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(want)) {
				if _, is := got[name]; !is {
					t.Errorf("a %s lacks %s", c.name, name)
				}
			}
		})
	}
}
