package manual

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher/config"
	"github.com/filch-hpc/filch/launcher/slurmenv"
)

const root = "../../.."

var variableName = regexp.MustCompile(`FILCH_[A-Z0-9_]*[A-Z0-9]`)

// literals calls add with every text of the product's code that a program can use as
// the name of a variable: strings of Go that are no sentence, and getenv of C.
func literals(t *testing.T, add func(name string)) {
	t.Helper()
	for _, top := range []string{"cmd", "dht", "launcher", "mtc", "slots", "stealer"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "cmd/filch/manual/") {
				return err
			}
			switch filepath.Ext(path) {
			case ".go":
				file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				ast.Inspect(file, func(n ast.Node) bool {
					if l, is := n.(*ast.BasicLit); is && l.Kind == token.STRING {
						text, _ := strconv.Unquote(l.Value)
						if name := variableName.FindString(text); name != "" && strings.HasPrefix(text, name) && !strings.Contains(text, " ") {
							add(name)
						}
					}
					return true
				})
			case ".c":
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				for _, m := range regexp.MustCompile(`getenv\("(FILCH_\w+)"\)`).FindAllStringSubmatch(string(text), -1) {
					add(m[1])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The table has every variable that the code names, and no other.
func TestVariablesAreThoseOfTheCode(t *testing.T) {
	used := map[string]bool{}
	literals(t, func(name string) { used[name] = true })
	settings, err := config.Show(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		used["FILCH_"+strings.ToUpper(s.Key)] = true
	}
	if len(used) < 25 || !used["FILCH_LIBPMIX"] || !used["FILCH_SLOTS"] || !used["FILCH_JOB"] {
		t.Fatalf("the search is broken: it found %v", used)
	}
	told := map[string]bool{}
	for _, v := range Variables {
		told[v.Name] = true
		if !used[v.Name] {
			t.Errorf("the code neither reads nor sets %s: take it out of the table", v.Name)
		}
		if !strings.HasSuffix(v.Text, ".") || strings.Contains(v.Text, "|") {
			t.Errorf("%s: %q is no sentence for a table", v.Name, v.Text)
		}
	}
	for name := range used {
		if !told[name] {
			t.Errorf("the table of cmd/filch/manual lacks %s, which the code reads or sets", name)
		}
	}
}

// A variable is in the table once for each reader, and programs have the variables of
// [forPrograms].
func TestVariablesHaveOneMeaning(t *testing.T) {
	var seen []string
	for _, v := range Variables {
		key := v.Name + strconv.Itoa(int(v.For))
		if slices.Contains(seen, key) {
			t.Errorf("%s is in the table twice for one reader", v.Name)
		}
		seen = append(seen, key)
		if v.For == forPrograms && !v.In.Rank && !v.In.Task {
			t.Errorf("%s is for programs, and no program has it", v.Name)
		}
	}
}

// docs/environment.md is the table of variables; make golden writes it.
func TestEnvironmentDoc(t *testing.T) {
	const path = root + "/docs/environment.md"
	want := environmentDoc()
	if os.Getenv("FILCH_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not the table of variables (%v); make golden writes it", path, err)
	}
}

// environmentDoc is docs/environment.md.
func environmentDoc() string {
	var b strings.Builder
	b.WriteString("# Environment\n\nThe variables `FILCH_*` that filch reads and sets; `filch man environment` shows them, too.\nWritten by `make golden` from a table in `cmd/filch/manual`.\n")
	for _, g := range groups {
		set := slices.ContainsFunc(Variables, func(v variable) bool { return v.For == g.who && (v.In.Rank || v.In.Task) })
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", g.head, g.about)
		if set {
			b.WriteString("| variable | set in | meaning |\n|---|---|---|\n")
		} else {
			b.WriteString("| variable | meaning |\n|---|---|\n")
		}
		for i := range Variables {
			v := &Variables[i]
			switch {
			case v.For != g.who:
			case set:
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Name, v.inWords(), v.Text)
			default:
				fmt.Fprintf(&b, "| `%s` | %s |\n", v.Name, v.Text)
			}
		}
	}
	fmt.Fprintf(&b, "\n## SLURM_*\n\n%s\n\n| variable | set in | of the | meaning |\n|---|---|---|---|\n", aboutSlurm)
	for _, v := range slurmenv.Variables {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", v.Name, v.In, v.Of, v.Text)
	}
	b.WriteString(otherVariables)
	return b.String()
}

// otherVariables ends the document.
const otherVariables = `
## Other variables

| variable | read for |
|---|---|
| ` + "`SLURM_*`, `PBS_*`" + ` | the nodes and the end of an allocation: [allocations.md](allocations.md) |
| ` + "`CUDA_VISIBLE_DEVICES`, `ROCR_VISIBLE_DEVICES`, `ZE_AFFINITY_MASK`" + ` | the GPUs of a node; set for ranks and tasks with ` + "`--gpus`" + ` |
| ` + "`XDG_CONFIG_HOME`" + ` | in place of ` + "`~/.config`" + `: the files of settings |
| ` + "`PAGER`" + ` | the pager of ` + "`filch man`" + ` where man is missing |
| ` + "`PMI_*`, `PMIX_*`, `MPI_LOCALRANKID`" + ` | set for ranks: the libraries of MPI read them; [mpi.md](mpi.md) |
`
