package main

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch/launcher/spec"
)

// otherLetters are the letters of submit that mean something else in filch run and srun, and
// why.
var otherLetters = map[string]string{
	"j": "GNU parallel's --jobs; srun's -j is no option of filch run",
}

// otherValues are the long names that take a value in only one of run and submit, and why.
var otherValues = map[string]string{
	"wait":      "submit waits for the end, as sbatch does; run has srun's time after the first rank that ends",
	"exclusive": "srun reads --exclusive=user, and filch knows whole nodes only",
}

// submit and run share the long names and the letters of options for the same things.
func TestSubmitSharesOptionsWithRun(t *testing.T) {
	c, _, err := newRoot().Find([]string{"submit"})
	if err != nil {
		t.Fatal(err)
	}
	p, shared := c.Flags(), 0
	letters := map[string]string{}
	for _, table := range []spec.Table{spec.SrunTable(), spec.Options[:]} {
		for i := range table {
			o := &table[i]
			if o.Short != 0 {
				letters[string(o.Short)] = o.Name
			}
			f := p.Lookup(o.Name)
			if f == nil || o.Fate == spec.Refused || o.Fate == spec.Left {
				continue
			}
			shared++
			takes := f.Value.Type() != "bool"
			if otherValues[o.Name] == "" && takes != (o.Arg != "") {
				t.Errorf("--%s takes a value in submit: %v, in run or srun: %v", o.Name, takes, o.Arg != "")
			}
			if takes && (f.NoOptDefVal != "") != (o.Optional != "") {
				t.Errorf("--%s may lack its value in submit: %v, in run or srun: %v", o.Name, f.NoOptDefVal != "", o.Optional != "")
			}
			if o.Short != 0 && f.Shorthand != "" && f.Shorthand != string(o.Short) {
				t.Errorf("--%s is -%s in submit, -%c in run", o.Name, f.Shorthand, o.Short)
			}
		}
	}
	p.VisitAll(func(f *pflag.Flag) {
		if name := letters[f.Shorthand]; f.Shorthand != "" && name != "" && name != f.Name && otherLetters[f.Shorthand] == "" {
			t.Errorf("-%s is --%s in submit, --%s in run or srun", f.Shorthand, f.Name, name)
		}
	})
	if shared < 30 {
		t.Errorf("%d long names are shared: the test reads the wrong tables", shared)
	}
}

// Help shows one name for each option: not the name of another command.
func TestHelpShowsOneName(t *testing.T) {
	for _, name := range []string{"submit", "run", "workflow"} {
		c, _, err := newRoot().Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if other := spec.Synonym(f.Name); other != f.Name {
				t.Errorf("filch %s shows --%s, whose name is --%s", name, f.Name, other)
			}
		})
	}
	for i := range spec.Options {
		if other := spec.Synonym(spec.Options[i].Name); other != spec.Options[i].Name {
			t.Errorf("filch run shows --%s, whose name is --%s", spec.Options[i].Name, other)
		}
	}
}
