package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher/spec"
)

func TestSbatchReadsDirectives(t *testing.T) {
	r, err := spec.ParseSbatch([]string{"-n", "3", "--mail-type=ALL", "-A", "me", "script", "-n", "9"})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Directives("#!/bin/sh\n#SBATCH -n 7 -c 2 # two each\n#SBATCH --comment=\"a b\" -J 'x y'\n\n# a comment\n#SBATCHnot\necho\n#SBATCH -t 5\n")
	if err != nil {
		t.Fatal(err)
	}
	s, b := r.Request.Shape, r.Client.Batch
	if s.Ranks != 3 || s.PerRank.Slots != 2 || b.Comment != "a b" || b.Account != "me" || r.Request.Name != "x y" || r.Request.Policy.TimeLimit != 0 {
		t.Errorf("got %+v, %+v, %q", s, b, r.Request.Name)
	}
	if got := strings.Join(r.Argv, " "); got != "script -n 9" {
		t.Errorf("the command is %q", got)
	}
	for _, text := range []string{"#SBATCH --nosuch\n", "#SBATCH -J 'x\n", "#SBATCH -N x\n"} {
		if err := r.Directives(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestIndices(t *testing.T) {
	for in, want := range map[string]string{"1,3,5": "[1 3 5]", "0-6:2": "[0 2 4 6]", "3,1-3": "[3 1 2]"} {
		if got, err := spec.Indices(in); err != nil || fmt.Sprint(got) != want {
			t.Errorf("Indices(%q) = %v, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "a", "3-1", "0-4%2", "1:2:3", "99999", "0-4:0", "-1"} {
		if got, err := spec.Indices(in); err == nil {
			t.Errorf("Indices(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzSbatch(f *testing.F) {
	f.Add("-n 3 script", "#!/bin/sh\n#SBATCH -J 'x y' --array=0-9:3\n")
	f.Fuzz(func(_ *testing.T, line, text string) {
		if r, err := spec.ParseSbatch(strings.Split(line, " ")); err == nil {
			_ = r.Directives(text)
			_, _ = r.Finish(environment)
		}
	})
}
