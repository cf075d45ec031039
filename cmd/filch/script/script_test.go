package script

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// apply applies the directives of a script with this text to an option --name.
func apply(t *testing.T, text string, mode os.FileMode) (words []string, name string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	declare := func(p *pflag.FlagSet) { p.String("job-name", "", "") }
	given := pflag.NewFlagSet("", pflag.ContinueOnError)
	declare(given)
	given.Bool("slurm-env", false, "")
	o := Options{Given: given, Declare: declare, Never: func(string) bool { return false }}
	words, err = o.Apply([]string{path, "x"})
	if len(words) > 1 {
		words = slices.DeleteFunc(words, func(w string) bool { return w == path })
	}
	return words, given.Lookup("job-name").Value.String(), err
}

// The words before and behind the path of a script, and the name that the script sets.
func TestScripts(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		mode  os.FileMode
		words []string
		job   string
	}{
		"executable":       {"#!/bin/bash -e\n#FILCH --job-name a\n", 0o755, []string{"x"}, "a"},
		"plain":            {"#!/bin/bash -e\n#FILCH --job-name a\n", 0o644, []string{"/bin/bash", "-e", "x"}, "a"},
		"first-goes":       {"#!/bin/sh\n#SBATCH --job-name=b\n#FILCH --job-name a\n", 0o755, []string{"x"}, "a"},
		"no-interpreter":   {"#FILCH --job-name a\ntrue\n", 0o644, []string{"/bin/sh", "x"}, "a"},
		"executable-plain": {"\n# text\n#SBATCH -J a\n", 0o755, []string{"/bin/sh", "x"}, "a"},
		"no-directive":     {"# text\ntrue\n#FILCH --job-name a\n", 0o755, []string{"x"}, ""},
		"no-text":          {"#FILCH --job-name a\n\x00", 0o755, []string{"x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			words, job, err := apply(t, c.text, c.mode)
			if err != nil || !slices.Equal(words, c.words) || job != c.job {
				t.Errorf("got %q, name %q, %v; want %q, name %q", words, job, err, c.words, c.job)
			}
		})
	}
}
