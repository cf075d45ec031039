package filch_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// spot is the place of a package in the drawing of ARCHITECTURE.md.
type spot struct {
	floor  int // 0 is the highest
	column int // of the floor, from the left
	order  int // in the column, row by row
	name   string
}

// drawnSpots reads the drawing. A row without a label goes on with the floor above it. "dht/:" is a
// prefix of the names that follow in its column, "x/..." stands for x and all packages below x, and
// "filch" for the root.
func drawnSpots(t *testing.T, isPackage func(string) bool) []spot {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n## Packages\n\n```\n")
	drawing, _, _ := strings.Cut(after, "```")
	var spots []spot
	floor := -1
	prefixes := map[int]string{}
	for row := range strings.Lines(drawing) {
		cells := strings.Split(row, "│")
		if len(cells) < 3 {
			continue
		}
		if strings.TrimSpace(cells[0]) != "" {
			floor++
			clear(prefixes)
		}
		for column, cell := range cells[1 : len(cells)-1] {
			for name := range strings.FieldsSeq(cell) {
				if prefix, is := strings.CutSuffix(name, ":"); is {
					prefixes[column] = prefix
					continue
				}
				if isPackage(prefixes[column] + strings.TrimSuffix(name, "/...")) {
					name = prefixes[column] + name
				}
				if name != "pure" {
					spots = append(spots, spot{floor, column, len(spots), name})
				}
			}
		}
	}
	return spots
}

// TestTidyDrawing holds the drawing of packages in ARCHITECTURE.md against the code: the drawing has
// each package, and a package imports packages of lower floors, or packages behind it in its column.
func TestTidyDrawing(t *testing.T) {
	imports := map[string]map[string]bool{}
	for _, s := range sources(t) {
		if s.test || isBelow(s.pkg, "testbed") || isBelow(s.pkg, "scripts") {
			continue
		}
		if imports[s.pkg] == nil {
			imports[s.pkg] = map[string]bool{}
		}
		for _, i := range s.file.Imports {
			target, _ := strconv.Unquote(i.Path.Value)
			if isBelow(target, module) {
				imports[s.pkg][strings.TrimPrefix(strings.TrimPrefix(target, module), "/")] = true
			}
		}
	}
	spots := drawnSpots(t, func(name string) bool { return imports[name] != nil })
	places := map[string]spot{}
	for pkg := range imports {
		at := slices.IndexFunc(spots, func(p spot) bool { return p.name == pkg || pkg == "" && p.name == "filch" })
		if at < 0 { // the longest group that has the package
			for i, p := range spots {
				if group, is := strings.CutSuffix(p.name, "/..."); is && isBelow(pkg, group) && (at < 0 || len(p.name) > len(spots[at].name)) {
					at = i
				}
			}
		}
		if at < 0 {
			t.Errorf("the drawing in ARCHITECTURE.md lacks %s", pkgName(pkg))
			continue
		}
		places[pkg] = spots[at]
	}
	for _, p := range spots {
		if name := strings.TrimSuffix(p.name, "/..."); imports[name] == nil && name != "filch" {
			t.Errorf("the drawing in ARCHITECTURE.md has %s, which is no package", p.name)
		}
	}
	for pkg, targets := range imports {
		for target := range targets {
			from, to := places[pkg], places[target]
			switch {
			case from.order == to.order, isBelow(pkg, "mtc") && isBelow(target, "mtc"):
			case from.floor > to.floor:
				t.Errorf("%s imports %s, which the drawing has on a higher floor", pkgName(pkg), pkgName(target))
			case from.floor == to.floor && from.column != to.column:
				t.Errorf("%s imports %s, which the drawing has in another column", pkgName(pkg), pkgName(target))
			case from.floor == to.floor && from.order > to.order:
				t.Errorf("%s imports %s, which the drawing has before it", pkgName(pkg), pkgName(target))
			}
		}
	}
}
