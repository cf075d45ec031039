package planted_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/testbed/sim/planted"
)

const root = "../../.."

// switches maps the names of the faults of a room to the variables that plant them.
func switches(t *testing.T, room string) map[string]string {
	t.Helper()
	name := filepath.Join(root, room, "mutants_on.go")
	if room == "mtc" { // which has a package for them
		name = filepath.Join(root, "mtc/mutants/on.go")
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr: // "name": &mutantX
			name, is := text(n.Key)
			if v, ok := n.Value.(*ast.UnaryExpr); is && ok {
				names[name] = v.X.(*ast.Ident).Name
			}
		case *ast.AssignStmt: // mutantX = name == "name"
			if v, ok := n.Lhs[0].(*ast.Ident); ok {
				if cmp, ok := n.Rhs[0].(*ast.BinaryExpr); ok {
					if name, is := text(cmp.Y); is {
						names[name] = v.Name
					}
				}
			}
		}
		return true
	})
	return names
}

func text(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// uses reports whether a file speaks of a name.
func uses(t *testing.T, file, name string) bool {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(src), name)
}

// TestEveryPartHasAPlantedFault fails when a part has none, or when one that is listed
// is not in the files of its part.
func TestEveryPartHasAPlantedFault(t *testing.T) {
	has := map[string]int{}
	known := map[string]map[string]string{}
	for _, f := range planted.Faults {
		files, ok := planted.Parts[f.Part]
		if !ok {
			t.Errorf("%s is planted in %q, which is no part", f.Name, f.Part)
			continue
		}
		if known[f.Room] == nil {
			known[f.Room] = switches(t, f.Room)
		}
		name, ok := known[f.Room][f.Name]
		if !ok {
			t.Errorf("%s plants no fault %s", f.Room, f.Name)
			continue
		}
		found := false
		for _, file := range files {
			found = found || uses(t, file, name)
		}
		if !found {
			t.Errorf("%s is not planted in a file of %s", f.Name, f.Part)
		}
		has[f.Part]++
	}
	for part := range planted.Parts {
		if has[part] == 0 {
			t.Errorf("no fault is planted in %s", part)
		}
	}
}

// TestTableIsAligned shows that all lines of a table have their columns in one place.
func TestTableIsAligned(t *testing.T) {
	rows := []planted.Row{
		{Fault: planted.Fault{Name: "a", Part: "ids", Seeds: 5}, Seed: 3, Says: "one\ntwo"},
		{Fault: planted.Fault{Name: "much-longer", Part: "restore", Plan: "restarts", Seeds: 40}},
		{Fault: planted.Fault{Name: "b", Part: "ledger"}, Says: strings.Repeat("x", 200)},
	}
	lines := strings.Split(strings.TrimSuffix(planted.Table(rows), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines, want 4", len(lines))
	}
	at := strings.Index(lines[0], "budget")
	for i, want := range []string{"budget", "5", "40", "-"} {
		if got := strings.Fields(lines[i][at:])[0]; got != want {
			t.Errorf("line %d has the budget %q, want %q:\n%s", i, got, want, lines[i])
		}
	}
	for i, want := range []string{"", "3", "none", "calm"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q, want %q in it", i, lines[i], want)
		}
	}
}
