package filch_test

import (
	"bytes"
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// This file bounds what a reader has to hold in mind at once: the lines of a package,
// the methods of a type, and structs that only hold some fields of another.

// largeTypes may have more methods than [methodsPerTypeMax], at most so many.
var largeTypes = map[string]int{
	"mtc.Core": 100, // one machine: queues, thief, victim and commits share its jobs
}

func TestTidyPackages(t *testing.T) {
	lines := map[string]int{}
	for _, s := range product(t) {
		lines[s.pkg] += s.line(s.file.FileEnd)
	}
	within(t, lines, nil, linesPerPackageMax, "lines")
}

func TestTidyTypes(t *testing.T) {
	methods, embedded, structs := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, s := range product(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					methods[s.pkg+"."+baseName(n.Recv.List[0].Type)]++
				}
			case *ast.TypeSpec:
				if _, is := n.Type.(*ast.StructType); is {
					structs[s.pkg+"."+n.Name.Name] = true
				}
			case *ast.StructType:
				for _, f := range n.Fields.List {
					if name := baseName(f.Type); len(f.Names) == 0 && name != "" {
						embedded[s.pkg+"."+name]++
					}
				}
			}
			return true
		})
	}
	within(t, methods, largeTypes, methodsPerTypeMax, "methods")
	for name := range structs {
		if embedded[name] == 1 && methods[name] == 0 {
			t.Errorf("%s is embedded once and has no method: its fields belong to the struct that embeds it", name)
		}
	}
}

// product are the sources of what ships: no tests, no testbed, no scripts.
func product(t *testing.T) (all []source) {
	t.Helper()
	for _, s := range sources(t) {
		if !s.test && !isBelow(s.pkg, "testbed") && !isBelow(s.pkg, "scripts") {
			all = append(all, s)
		}
	}
	return all
}

func isBelow(pkg, top string) bool {
	return pkg == top || len(pkg) > len(top) && pkg[:len(top)+1] == top+"/"
}

// within holds numbers against a limit, but for those that have one of their own.
func within(t *testing.T, have, special map[string]int, limit int, unit string) {
	t.Helper()
	for name, n := range have {
		most, is := special[name]
		if !is {
			most = limit
		}
		if n > most {
			t.Errorf("%s has %d %s, at most %d", name, n, unit, most)
		}
	}
	for name := range special {
		if have[name] <= limit {
			t.Errorf("%s has %d %s and needs no limit of its own", name, have[name], unit)
		}
	}
}

// baseName is the name of a type of the same package: T of T, *T and T[P].
func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	}
	return ""
}

// TestTidyTable holds the two lists of packages in PACKAGES.md against the code.
func TestTidyTable(t *testing.T) {
	text, err := os.ReadFile("PACKAGES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("\nPure packages:"))
	table, rest, _ := bytes.Cut(text, []byte("\nPackages that are not pure:"))
	row := regexp.MustCompile("(?m)^- `([^`]+)`: ")
	drawn := map[string]bool{} // by pkg; true: pure
	for i, part := range [][]byte{table, rest} {
		for _, m := range row.FindAllSubmatch(part, -1) {
			drawn[strings.TrimPrefix(string(m[1]), ".")] = i == 0
		}
	}
	pkgs := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test && !isBelow(s.pkg, "testbed") {
			pkgs[s.pkg] = true
		}
	}
	for pkg := range pkgs {
		if isPure, is := drawn[pkg]; !is {
			t.Errorf("%s stands in no list of PACKAGES.md", pkgName(pkg))
		} else if isPure != slices.Contains(pure, pkg) {
			t.Errorf("%s is pure in one of PACKAGES.md and tidy_test.go, not in the other", pkgName(pkg))
		}
	}
	for pkg := range drawn {
		if !pkgs[pkg] && !strings.HasPrefix(pkg, "testbed") {
			t.Errorf("PACKAGES.md has %s, which is no package", pkgName(pkg))
		}
	}
}

// wordsMost bounds ARCHITECTURE.md: a newcomer understands it in twenty minutes.
const wordsMost = 2500

func TestTidyWordsOfArchitecture(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	words := 0
	for f := range bytes.FieldsSeq(text) {
		if regexp.MustCompile("[A-Za-z0-9]").Match(f) {
			words++
		}
	}
	if words > wordsMost {
		t.Errorf("ARCHITECTURE.md has %d words, at most %d", words, wordsMost)
	}
}
