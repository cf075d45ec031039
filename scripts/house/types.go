package main

import (
	"go/ast"
	"go/token"
)

// typeInfo is a named type with its methods.
type typeInfo struct {
	name     string // package and type
	pkg      *pkg
	spec     *ast.TypeSpec
	methods  int
	lines    int          // of the methods
	files    map[int]bool // that have methods
	embedded int          // in how many structs of its package
}

// types are those that the package declares.
func (p *pkg) types() []*typeInfo {
	byName := p.typesByName()
	for _, f := range p.files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			if t := byName[typeName(fn.Recv.List[0].Type)]; t != nil {
				t.methods++
				t.lines += p.fset.Position(fn.End()).Line - p.fset.Position(fn.Pos()).Line + 1
				t.files[p.file(fn.Pos())] = true
			}
		}
	}
	for _, t := range byName { // in any order: sums
		for _, f := range t.fields() {
			if e := byName[typeName(f.Type)]; e != nil && len(f.Names) == 0 {
				e.embedded++
			}
		}
	}
	all := make([]*typeInfo, 0, len(byName))
	for _, t := range byName { // in any order: sorted by who prints them
		all = append(all, t)
	}
	return all
}

func (p *pkg) typesByName() map[string]*typeInfo {
	byName := make(map[string]*typeInfo)
	for _, f := range p.files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.TypeSpec)
				byName[spec.Name.Name] = &typeInfo{name: p.name() + "." + spec.Name.Name, pkg: p, spec: spec, files: make(map[int]bool)}
			}
		}
	}
	return byName
}

// typeName is the name of the type that an expression is made of, in the same package;
// "" of what has none there.
func typeName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.ArrayType:
		return typeName(x.Elt)
	case *ast.MapType:
		return typeName(x.Value)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.IndexListExpr:
		return typeName(x.X)
	case *ast.ParenExpr:
		return typeName(x.X)
	}
	return ""
}

// fields are those of a struct, nil of another type.
func (t *typeInfo) fields() []*ast.Field {
	if s, ok := t.spec.Type.(*ast.StructType); ok {
		return s.Fields.List
	}
	return nil
}

// reach counts the fields of a type and of the structs of its package that are parts of
// it, not in a list or a map, and how many structs that are.
func (t *typeInfo) reach() (fields, structs int) {
	byName, seen := t.pkg.typesByName(), make(map[string]bool)
	var visit func(name string)
	visit = func(name string) {
		x := byName[name]
		if x == nil || seen[name] || x.fields() == nil {
			return
		}
		seen[name] = true
		structs++
		for _, f := range x.fields() {
			fields += max(len(f.Names), 1)
			switch f.Type.(type) {
			case *ast.Ident, *ast.StarExpr:
				visit(typeName(f.Type))
			}
		}
	}
	visit(t.spec.Name.Name)
	return fields, structs
}

// isBag reports whether a struct only carries fields of another one.
func (t *typeInfo) isBag() bool { return t.fields() != nil && t.methods == 0 && t.embedded == 1 }

// knot is how many files of a package need one another, directly or not.
func (p *pkg) knot() int {
	home := make(map[string]int) // where what a file declares is
	for i, f := range p.files {
		for _, d := range f.Decls {
			for _, name := range declared(d) {
				home[name] = i
			}
		}
	}
	uses := make([][]int, len(p.files))
	for i, f := range p.files {
		seen := make(map[int]bool)
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if to, ok := home[id.Name]; ok && to != i && !seen[to] {
				seen[to] = true
				uses[i] = append(uses[i], to)
			}
			return true
		})
	}
	return largestKnot(uses)
}

// declared are the names that a declaration adds to its package; those of methods too,
// as a call of one needs its file.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []string{d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}

// largestKnot is the size of the largest strongly connected part of a graph. It is
// Tarjan's algorithm.
func largestKnot(edges [][]int) (most int) {
	order, low, on := make([]int, len(edges)), make([]int, len(edges)), make([]bool, len(edges))
	var stack []int
	next := 0
	var visit func(v int)
	visit = func(v int) {
		next++
		order[v], low[v], on[v] = next, next, true
		stack = append(stack, v)
		for _, w := range edges[v] {
			if order[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if on[w] {
				low[v] = min(low[v], order[w])
			}
		}
		if low[v] != order[v] {
			return
		}
		for size := 1; ; size++ {
			w := stack[len(stack)-1]
			stack, on[w] = stack[:len(stack)-1], false
			if w == v {
				most = max(most, size)
				return
			}
		}
	}
	for v := range edges {
		if order[v] == 0 {
			visit(v)
		}
	}
	return most
}
