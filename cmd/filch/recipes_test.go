package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var recipe = regexp.MustCompile("(?s)\\*\\*([^*]+)\\.\\*\\*.*?\n```sh\n(.*?)```")

// TestEnsembleRecipes runs the recipes of docs/ensembles.md as they stand there, each in a
// folder with programs of their names.
func TestEnsembleRecipes(t *testing.T) {
	b, err := os.ReadFile("../../docs/ensembles.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	// What each recipe leaves behind.
	checks := map[string]string{
		"One program, many inputs":                      `test "$(grep -h -c . log | tail -1)" = 12`,
		"A grid of parameters, at most eight at a time": `test "$(cat out.300.1 out.320.4 | sort | uniq -c | wc -l)" = 2 && test "$(ls out.* | wc -l)" = 9`,
		"Members of different sizes":                    `test "$(wc -l <log)" = 42`,
		"Prepare, run, reduce":                          `test "$(cat summary)" = 40`,
		"A second step for each member":                 `test "$(cat analysis.* | sort | uniq -c | tr -s ' ')" = " 10 4"`,
		"Only what failed, once more":                   `test "$(wc -l <log)" = 42`,
	}
	programs := map[string]string{
		"solver":  "echo \"$FILCH_RANK\" >>log; echo \"$@\"\n",
		"prepare": "echo prepared >prepared\n",
		// Member 7 fails the first time.
		"flaky": "echo \"$FILCH_RANK\" >>log; if [ $1 = 7 ] && ! [ -e tried ]; then sleep 0.2; : >tried; exit 1; fi\n",
	}
	_, recipes, _ := strings.Cut(string(b), "## Recipes")
	all := recipe.FindAllStringSubmatch(recipes, -1)
	if len(all) != len(checks) {
		t.Errorf("%d recipes are in the page, and %d have a check", len(all), len(checks))
	}
	for _, r := range all {
		t.Run(strings.ReplaceAll(r[1], " ", "-"), func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range programs {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"case1.in", "case2.in", "case3.in"} {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			check, known := checks[r[1]]
			if !known {
				t.Fatalf("no check for the recipe %q", r[1])
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", r[2]+check)
			cmd.Dir, cmd.Env = dir, shared.filch().Env
			if out, err := cmd.CombinedOutput(); err != nil {
				log, _ := os.ReadFile(filepath.Join(dir, "log"))
				t.Errorf("%v\n%s\nlog:\n%s", err, out, log)
			}
		})
	}
}
