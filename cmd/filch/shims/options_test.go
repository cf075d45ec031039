package shims

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/spec"
)

// known reads the options that a program of Debian 12 knows: by its own answers to each
// name in its help, its manual page and its text.
func known(t *testing.T, program string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "options", program))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// TestTablesHaveEveryOption holds the tables of Slurm's commands against the programs: each
// option with its short name and its kind of value, and no further option.
func TestTablesHaveEveryOption(t *testing.T) {
	for program, table := range map[string]spec.Table{
		"srun": spec.SrunTable(), "sbatch": spec.SbatchTable(), "squeue": squeueTable(), "sacct": sacctTable(),
		"scancel": scancelTable(), "scontrol": scontrolTable(), "sinfo": sinfoTable(), "sacctmgr": sacctmgrTable(),
	} {
		want := known(t, program)
		var got []string
		for i := range table {
			o := &table[i]
			word := o.Name
			if o.Short != 0 {
				word = string(rune(o.Short)) + "," + word
			}
			switch {
			case o.Arg != "" && o.Optional != "":
				word += "[=]"
			case o.Arg != "":
				word += "="
			}
			got = append(got, word)
		}
		for _, w := range want {
			if !slices.Contains(got, w) && !slices.ContainsFunc(got, func(g string) bool { return strings.HasSuffix(g, ","+w) }) {
				t.Errorf("%s: the table lacks %s", program, w)
			}
		}
		for _, g := range got {
			_, long, _ := strings.Cut(g, ",")
			if !slices.Contains(want, g) && !slices.Contains(want, long) {
				t.Errorf("%s: the table has %s, which the program does not know", program, g)
			}
		}
		slices.Sort(got)
		if n := len(slices.Compact(got)); n != len(table) {
			t.Errorf("%s: %d options are in the table twice", program, len(table)-n)
		}
	}
}

// TestEveryVariable holds the variables of Slurm's commands against the manual pages, which
// list the variables that the commands read.
func TestEveryVariable(t *testing.T) {
	for program, list := range map[string][]spec.Variable{
		"srun": spec.SrunVariables(), "sbatch": spec.SbatchVariables(),
		"squeue": askVariables("squeue", squeueTable()), "sacct": askVariables("sacct", sacctTable()), "scancel": askVariables("scancel", scancelTable()),
		"scontrol": askVariables("scontrol", scontrolTable()), "sinfo": askVariables("sinfo", sinfoTable()), "sacctmgr": askVariables("sacctmgr", sacctmgrTable()),
	} {
		var got []string
		for _, v := range list {
			got = append(got, v.Name)
			if v.Fate != spec.Done && v.Note == "" {
				t.Errorf("%s: %s is %s without a note", program, v.Name, v.Fate)
			}
		}
		for _, name := range known(t, program+".variables") {
			if !slices.Contains(got, name) {
				t.Errorf("%s: the table lacks %s", program, name)
			}
		}
		slices.Sort(got)
		if n := len(slices.Compact(slices.Clone(got))); n != len(got) {
			t.Errorf("%s: %d variables are in the table twice", program, len(got)-n)
		}
	}
}

// The variables of a command stand for options that the command line leaves open, and a
// variable that filch does not do is named.
func TestVariablesOfQuestions(t *testing.T) {
	env := map[string]string{
		"SQUEUE_FORMAT": "%i", "SQUEUE_STATES": "all", "SQUEUE_ARRAY": "0", "SQUEUE_ALL": "1", "SQUEUE_FORMAT2": "jobid", "SLURM_CLUSTERS": "west", "SQUEUE_NAMES": "no",
	}
	q := question{set: map[string]string{"states": "R"}}
	q.environ("squeue", squeueTable(), func(name string) string { return env[name] })
	if want := map[string]string{"states": "R", "format": "%i", "all": "1", "name": "no"}; !maps.Equal(q.set, want) {
		t.Errorf("got %v, want %v", q.set, want)
	}
}

func TestFormTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for form, want := range map[string]string{
		"": "2026-01-02T15:04:05", "standard": "2026-01-02T15:04:05", "%s": "1767366245", "%d.%m.%y, 100%%": "02.01.26, 100%", "%F %T": "2026-01-02 15:04:05",
		"relative": "", "%k": "", "%": "",
	} {
		if got, ok := formTime(form, at); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v", form, got, ok)
		}
	}
}

// TestMPITableHasEveryOption holds the table of mpiexec against the help of Hydra and of
// Open MPI.
func TestMPITableHasEveryOption(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range mpiOptions() {
		for _, n := range o.names {
			if seen[n] {
				t.Errorf("-%s is in the table twice", n)
			}
			seen[n] = true
		}
	}
	for _, program := range []string{"hydra", "openmpi"} {
		for _, line := range known(t, program) {
			name, count, _ := strings.Cut(line, " ")
			o := mpiOptionOf(name)
			if o == nil {
				t.Errorf("%s: the table lacks -%s", program, name)
				continue
			}
			if n, _ := strconv.Atoi(count); n != len(o.values) && o.maybe == nil {
				t.Errorf("%s: -%s has %d values in the table, want %d", program, name, len(o.values), n)
			}
		}
	}
}

// TestEveryFateHasAReason wants a note for each option that filch does not do, and the
// fates that a program can have.
func TestEveryFateHasAReason(t *testing.T) {
	for _, p := range Programs() {
		for _, o := range p.Options {
			if o.Fate != spec.Done && o.Note == "" {
				t.Errorf("%s %s is %s without a note", p.Name, o.Option, o.Fate)
			}
			if query := slices.Contains([]string{"squeue", "sacct", "scancel", "scontrol", "sinfo"}, p.Name); query && o.Fate == spec.Left {
				t.Errorf("%s %s is left to a command that does not know the instance", p.Name, o.Option)
			}
		}
	}
}

const shimsDoc = "../../../docs/shims.md"

// TestOptionsDoc keeps the tables in docs/shims.md those of the code; make golden writes
// them.
func TestOptionsDoc(t *testing.T) {
	b, err := os.ReadFile(shimsDoc)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- The tables below are written by `make golden`. -->\n"
	head, _, ok := strings.Cut(string(b), mark)
	if !ok {
		t.Fatalf("%s has no line %s", shimsDoc, mark)
	}
	want := head + mark + optionsPage()
	if os.Getenv("FILCH_GOLDEN") != "" {
		if err := os.WriteFile(shimsDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err = os.ReadFile(shimsDoc); err != nil || string(b) != want {
		t.Errorf("%s is not what the tables say (%v); make golden writes it", shimsDoc, err)
	}
}
