package spec_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
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

// What sbatch takes from a script and filch does not is no option, and is not dropped either.
func TestSbatchDropsNoLine(t *testing.T) {
	for _, c := range []struct{ args, script, said, err string }{
		{"", "#SBATCH -J one foo -t 5\n", "", "line 1: Invalid directive found in batch script: \"foo\""},
		{"", "#SBATCH -n 1\n#SBATCH hetjob\n#SBATCH -n 2\n", "", "line 2: filch does not do heterogeneous jobs"},
		{"", "#!/bin/sh\n\n#SBATCH --arry=1\n", "", "line 3: unknown option --arry"},
		{"-n 1 : -n 2", "", "", "filch does not do heterogeneous jobs"},
		{"", "#!/bin/sh\n#PBS -N name\n", "", "filch does not read the #PBS lines of the script"},
		{"", "#!/bin/sh\n#BSUB -J name\n", "", "filch does not read the #BSUB lines of the script"},
		{"", "#PBS -N name\n#SBATCH -n 2\n", "filch does not read the #PBS lines of the script", ""},
		{"--ignore-pbs", "#PBS -N name\n", "", ""},
		{"", "#SBATCH --ignore-pbs\n#PBS -N name\n", "", ""},
		{"", "#PBSnot\necho\n#PBS -N late\n", "", ""},
	} {
		r, err := spec.ParseSbatch(strings.Fields(c.args), func(string) string { return "" })
		if err == nil {
			err = r.Directives(c.script)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if said := strings.Join(r.Client.Said, "|"); text != c.err || said != c.said {
			t.Errorf("%q %q: got %q, said %q", c.args, c.script, text, said)
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

func TestSbatchPropagates(t *testing.T) {
	all := []launcher.Rlimit{{Resource: 3}, {Resource: 4}, {Resource: 15}}
	for value, want := range map[string]int{"": 3, "=ALL": 3, "=all": 3, "=NONE": 0, "=none": 0, "=STACK": 1, "=core,stack": 2, "=RLIMIT_CORE": 1} {
		r, err := spec.ParseSbatch([]string{"--propagate" + value, "job.sh"}, func(string) string { return "" })
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		if got := len(r.Client.Limits.Of(slices.Clone(all))); got != want {
			t.Errorf("--propagate%s: got %d limits, want %d", value, got, want)
		}
	}
	for _, bad := range []string{"--propagate=", "--propagate=NONE,CORE", "--propagate=x", "--get-user-env=x", "--get-user-env=0", "--get-user-env=9LS", "--get-user-env=999"} {
		if _, err := spec.ParseSbatch([]string{bad, "job.sh"}, func(string) string { return "" }); err == nil {
			t.Errorf("%s: want an error", bad)
		}
	}
	r, err := spec.ParseSbatch([]string{"--get-user-env=20S", "job.sh"}, func(string) string { return "" })
	if b := r.Client.Batch; err != nil || !b.UserEnv || b.UserEnvWait != 20*time.Second || !b.UserEnvPlain {
		t.Errorf("got %+v, %v", b, err)
	}
}
