package filch_test

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This file keeps exports few: an export that no other package uses belongs to its
// package alone, and a reader of the package need not ask which package depends on it.

// foreign are methods that interfaces of other modules ask for.
var foreign = []string{
	"As", "Close", "DecodeMsgpack", "EncodeMsgpack", "Enabled", "Error", "Format", "Handle", "Is", "Len", "Less", "MarshalJSON", "MarshalText",
	"Pop", "Push", "Read", "Set", "String", "Swap", "Type", "UnmarshalJSON", "UnmarshalText", "Unwrap", "WithAttrs", "WithGroup", "Write",
}

// export is an exported function, type, constant or variable, or a method
// ("Type.Method").
type export struct {
	pkg, name string
	group     string // of a constant: the first constant of the declaration
}

func (e export) String() string { return pkgName(e.pkg) + "." + e.name }

// TestTidyExports finds exports that no other package of the product uses. Of methods
// the test compares names alone.
func TestTidyExports(t *testing.T) {
	all := sources(t)
	inProduct, inTests, asked := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range all {
		if s.test || isBelow(s.pkg, "testbed") || isBelow(s.pkg, "scripts") {
			addUses(inTests, s)
		} else {
			addUses(inProduct, s)
		}
		addInterfaces(asked, s)
	}
	var have []export
	mentioned := map[string]bool{} // types in the declarations of exports
	for _, s := range product(t) {
		if s.file.Name.Name != "main" {
			have = append(have, exportsOf(s, mentioned)...)
		}
	}
	groups := map[string]bool{} // declarations of constants of which another package uses a constant
	for _, e := range have {
		if e.group != "" && uses(inProduct, e, false) {
			groups[e.pkg+" "+e.group] = true
		}
	}
	idle := map[string]export{}
	for _, e := range have {
		_, method, isMethod := strings.Cut(e.name, ".")
		free := isMethod && (asked[method] || slices.Contains(foreign, method)) ||
			!isMethod && (mentioned[e.pkg+" "+e.name] || e.group != "" && groups[e.pkg+" "+e.group])
		if !free && !uses(inProduct, e, false) {
			idle[e.String()] = e
		}
	}
	for _, name := range slices.Sorted(maps.Keys(idle)) {
		switch reason, tested := idleExports[name], uses(inTests, idle[name], true); {
		case reason == "":
			t.Errorf("no other package uses %s: unexport it, or write the reason into idleExports (tests use it: %v)", name, tested)
		case reason == testbedOnly && !tested:
			t.Errorf("neither a test nor the testbed uses %s", name)
		}
	}
	for name := range idleExports {
		if _, is := idle[name]; !is {
			t.Errorf("another package uses %s, or it is gone: take its line out of idleExports", name)
		}
	}
}

// uses reports whether a file of another package uses an export; with own, also a file
// of the same folder.
func uses(used map[string]bool, e export, own bool) bool {
	_, method, isMethod := strings.Cut(e.name, ".")
	if !isMethod {
		return used[e.pkg+" "+e.name]
	}
	for pkg := range used { // a method has the key "pkg\x00.Method", by the pkg of the user
		if user, ok := strings.CutSuffix(pkg, "\x00."+method); ok && (own || user != e.pkg) {
			return true
		}
	}
	return false
}

// addUses adds the names that a file uses of other packages.
func addUses(used map[string]bool, s source) {
	pkgs, dot := map[string]string{}, []string(nil) // by the name of the import
	for _, imp := range s.file.Imports {
		target, _ := strconv.Unquote(imp.Path.Value)
		to, ours := strings.CutPrefix(target, module)
		to = strings.TrimPrefix(to, "/")
		switch {
		case !ours:
		case imp.Name != nil && imp.Name.Name == ".":
			dot = append(dot, to)
		case imp.Name != nil:
			pkgs[imp.Name.Name] = to
		default:
			pkgs[path.Base(target)] = to
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			for _, pkg := range dot {
				used[pkg+" "+n.Name] = true
			}
		case *ast.SelectorExpr:
			if x, is := n.X.(*ast.Ident); is {
				if pkg, ours := pkgs[x.Name]; ours {
					used[pkg+" "+n.Sel.Name] = true
				}
			}
			used[s.pkg+"\x00."+n.Sel.Name] = true
		}
		return true
	})
}

// addInterfaces adds the methods that interfaces ask for.
func addInterfaces(asked map[string]bool, s source) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if i, is := n.(*ast.InterfaceType); is {
			for _, m := range i.Methods.List {
				for _, name := range m.Names {
					asked[name.Name] = true
				}
			}
		}
		return true
	})
}

// exportsOf lists the exports of a file, and adds the types mentioned in their
// declarations: a caller has values of such a type without naming the type.
func exportsOf(s source, mentioned map[string]bool) (all []export) {
	mention := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				return false
			case *ast.Ident:
				mentioned[s.pkg+" "+n.Name] = true
			}
			return true
		})
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if !d.Name.IsExported() {
				continue
			}
			if d.Recv != nil {
				base := baseName(d.Recv.List[0].Type)
				if !token.IsExported(base) {
					continue
				}
				name = base + "." + name
			}
			all = append(all, export{pkg: s.pkg, name: name})
			mention(d.Type)
		case *ast.GenDecl:
			group := ""
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						all = append(all, export{pkg: s.pkg, name: spec.Name.Name})
						mention(spec.Type)
					}
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						if !n.IsExported() {
							continue
						}
						if group == "" && d.Tok == token.CONST {
							group = n.Name
						}
						all = append(all, export{pkg: s.pkg, name: n.Name, group: group})
						if spec.Type != nil {
							mention(spec.Type)
						}
					}
				}
			}
		}
	}
	return all
}
