package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
)

func someJobs() []launcher.JobInfo {
	zero, three, task := int32(0), int32(3), int32(7)
	return []launcher.JobInfo{
		{ID: 40, Name: "dock/a", Kind: "run", State: "running", Submit: 1e9, Elapsed: 5, Ranks: 4, Nodes: []filch.NodeName{"n1"}, Left: 55},
		{ID: 2, Name: "dock/b", Kind: "bag", State: "failed", Code: &three, Submit: 2e9, Waited: 4, Elapsed: 9, Tasks: launcher.TaskCounts{Total: 6, OK: 5, Failed: 1}},
		{ID: 3, Name: "step", Kind: "step", State: "running", Parent: 40, Submit: 3e9},
		{ID: 4, Name: "over", Kind: "step", State: "ok", Code: &zero, Parent: 40, Submit: 4e9},
		{ID: 5, Name: "of a task", Kind: "step", State: "running", Parent: 2, Task: &task, Submit: 5e9},
		{ID: 6, Name: "wait", Kind: "run", State: "waiting", Submit: 6e9, Cause: "room"},
	}
}

func TestJobListsAreChosen(t *testing.T) {
	for _, c := range []struct {
		list jobListing
		want []filch.JobID
	}{
		{jobListing{}, []filch.JobID{40, 2, 3, 6}},
		{jobListing{steps: true}, []filch.JobID{40, 2, 3, 4, 5, 6}},
		{jobListing{states: "running,failed"}, []filch.JobID{40, 2, 3}},
		{jobListing{name: "dock*"}, []filch.JobID{40, 2}},
		{jobListing{name: "dock/?"}, []filch.JobID{40, 2}},
		{jobListing{name: "dock"}, []filch.JobID{}},
		{jobListing{sort: "id"}, []filch.JobID{2, 3, 6, 40}},
		{jobListing{sort: "-elapsed"}, []filch.JobID{2, 40, 3, 6}},
		{jobListing{sort: "size"}, []filch.JobID{3, 6, 40, 2}},
		{jobListing{sort: "state"}, []filch.JobID{6, 40, 3, 2}},
	} {
		if err := c.list.check(); err != nil {
			t.Errorf("%+v: %v", c.list, err)
		}
		got := []filch.JobID{}
		for _, j := range c.list.choose(someJobs()) {
			got = append(got, j.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c.list, got, c.want)
		}
	}
}

func TestJobListsRefuseNonsense(t *testing.T) {
	for want, l := range map[string]jobListing{
		`--state up: there is no state "up"`:                          {states: "up"},
		`--state ok,: there is no state ""`:                           {states: "ok,"},
		`--columns: there is no column "cost"`:                        {columns: "id,cost"},
		`--columns: there is no column ""`:                            {columns: "+"},
		`--sort: there is no column "-id"`:                            {sort: "--id"},
		`--name [a is no pattern: a [ needs a ]`:                      {name: "[a"},
		`--columns does not go with --json, which prints every field`: {columns: "id", json: true},
	} {
		if _, misuse := l.check().(ui.Misuse); !misuse || l.check().Error() != want {
			t.Errorf("got %v, want %s", l.check(), want)
		}
	}
}

func TestJobColumns(t *testing.T) {
	jobs := someJobs()
	for name, want := range map[string]string{
		"id": "40 2 5 6", "name": "dock/a dock/b of a task wait", "code": "- 3 - -", "size": "4 6 0 0", "elapsed": "5s 9s - -",
		"left": "55s - - -", "parent": "- - 2.7 -", "nodes": "n1 - - -", "cause": "- - - room", "where": "n1 6, 5 ok, 1 failed  room",
		"tasks": "4 6, 5 ok, 1 failed 0 0", "waited": "0s 4s 0s 0s",
	} {
		c, err := findColumn(name)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, i := range []int{0, 1, 4, 5} {
			got.WriteString(" " + c.cell(&jobs[i]))
		}
		if got.String()[1:] != want {
			t.Errorf("%s: got %q, want %q", name, got.String()[1:], want)
		}
	}
	if l := (jobListing{columns: "ended,+id"}); l.check() == nil {
		t.Error("+id after other columns was taken for a column")
	}
	l := jobListing{usual: []string{"id"}, columns: "+cause,LEFT"}
	chosen, err := l.chosen()
	if err != nil || len(chosen) != 3 || chosen[2].head != "LEFT" {
		t.Errorf("got %v, %v", chosen, err)
	}
}

// Behind a pipe, no cell of a table is cut.
func TestPipesGetWholeCells(t *testing.T) {
	j := &launcher.JobInfo{ID: 1, Kind: "run", State: "waiting", Name: strings.Repeat("name", 20), Cause: strings.Repeat("cause ", 50)}
	for i := range jobColumns {
		c := &jobColumns[i]
		for _, text := range []string{j.Name, j.Cause} {
			if got := c.cell(j); strings.HasPrefix(got, text[:8]) && got != text {
				t.Errorf("column %s has %q", c.name, got)
			}
		}
	}
}
