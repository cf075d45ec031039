package spec_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/spec"
)

func TestSbatchReadsDirectives(t *testing.T) {
	r, err := spec.ParseSbatch([]string{"-n", "3", "--mail-type=ALL", "-A", "me", "script", "-n", "9"}, func(name string) string {
		return map[string]string{"SBATCH_ACCOUNT": "other", "SBATCH_PARTITION": "long", "SBATCH_TIMELIMIT": "7", "SBATCH_ARRAY_INX": "0-3%2"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Directives("#!/bin/sh\n#SBATCH -n 7 -c 2 # two each\n#SBATCH --comment=\"a b\" -J 'x y' -p short\n\n# a comment\n#SBATCHnot\necho\n#SBATCH -t 5\n")
	if err != nil {
		t.Fatal(err)
	}
	s, b := r.Request.Shape, r.Client.Batch
	if s.Ranks != 3 || s.PerRank.Slots != 2 || b.Comment != "a b" || b.Account != "me" || b.Partition != "long" || len(b.Array) != 4 || b.ArrayMost != 2 || r.Request.Name != "x y" || r.Request.Policy.TimeLimit != 7*time.Minute {
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
	for in, want := range map[string]string{"1,3,5": "[1 3 5]", "0-6:2": "[0 2 4 6]", "3,1-3": "[3 1 2]", "0-3:3%7": "[0 3] at most 7"} {
		got, most, err := spec.Indices(in)
		text := fmt.Sprint(got)
		if most > 0 {
			text += fmt.Sprintf(" at most %d", most)
		}
		if err != nil || text != want {
			t.Errorf("Indices(%q) = %s, %v, want %s", in, text, err, want)
		}
	}
	for _, in := range []string{"", "a", "3-1", "0-4%", "0-4%0", "0%2,4", "1:2:3", "99999", "0-4:0", "-1"} {
		if got, _, err := spec.Indices(in); err == nil {
			t.Errorf("Indices(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzSbatch(f *testing.F) {
	f.Add("-n 3 script", "#!/bin/sh\n#SBATCH -J 'x y' --array=0-9:3\n")
	f.Fuzz(func(_ *testing.T, line, text string) {
		if r, err := spec.ParseSbatch(strings.Split(line, " "), func(string) string { return "" }); err == nil {
			_ = r.Directives(text)
			_, _ = r.Finish(environment)
		}
	})
}
