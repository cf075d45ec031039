package filch_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// anyOrder is the comment, on the line of a range over a map or the one above,
// by which its author says that the order reaches no output.
const anyOrder = "any order"

// TestTidyOrder keeps the order of maps out of pure packages: the same inputs must
// make the same outputs, or a seed replays nothing.
func TestTidyOrder(t *testing.T) {
	pkgs := map[string][]source{}
	for _, s := range sources(t) {
		if !s.test && slices.Contains(pure, s.pkg) && s.file.Name.Name != "main" {
			pkgs[s.pkg] = append(pkgs[s.pkg], s)
		}
	}
	exports := exportData(t, pkgs)
	for pkg, files := range pkgs {
		checkOrder(t, pkg, files, exports)
	}
}

// exportData maps each package that the packages need to its compiled types.
func exportData(t *testing.T, pkgs map[string][]source) map[string]string {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for pkg := range pkgs {
		args = append(args, "./"+pkg)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -export: %v", err)
	}
	exports := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return exports
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
}

func checkOrder(t *testing.T, pkg string, files []source, exports map[string]string) {
	t.Helper()
	fset := files[0].fset
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{
		Importer: importer.ForCompiler(fset, "gc", func(p string) (io.ReadCloser, error) {
			return os.Open(exports[p])
		}),
		Error: func(error) {}, // the compiler has its own say
	}
	asts := make([]*ast.File, 0, len(files))
	for _, s := range files {
		asts = append(asts, s.file)
	}
	_, _ = conf.Check(module+"/"+pkg, fset, asts, info)
	for _, s := range files {
		excused := map[int]bool{}
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				if strings.Contains(c.Text, anyOrder) {
					excused[s.line(c.End())] = true
				}
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			r, ok := n.(*ast.RangeStmt)
			if !ok {
				return true
			}
			l := s.line(r.Pos())
			if isMapWalk(info, r.X) && !excused[l] && !excused[l-1] {
				s.errorf(t, r.Pos(), "a pure pkg ranges over a map: sort the keys, or say why in a comment with the words %q", anyOrder)
			}
			return true
		})
	}
}

// isMapWalk reports whether x is a map, or maps.Keys and the like over one.
func isMapWalk(info *types.Info, x ast.Expr) bool {
	if call, ok := x.(*ast.CallExpr); ok {
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
			id, _ := sel.X.(*ast.Ident)
			return id != nil && id.Name == "maps"
		}
	}
	tv, ok := info.Types[x]
	if !ok || tv.Type == nil {
		return false
	}
	_, ok = tv.Type.Underlying().(*types.Map)
	return ok
}
