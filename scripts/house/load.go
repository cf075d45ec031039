package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pkg is one package, parsed without its tests.
type pkg struct {
	dir   string
	lines int
	files []*ast.File
	fset  *token.FileSet
	words words
}

func (p *pkg) name() string {
	if p.dir == "." {
		return "(root)"
	}
	return p.dir
}

// file is the number of the file that has a position.
func (p *pkg) file(at token.Pos) int {
	return slices.IndexFunc(p.files, func(f *ast.File) bool { return f.FileStart <= at && at < f.FileEnd })
}

// load parses the packages below a folder.
func load(root string) ([]*pkg, error) {
	fset, byDir := token.NewFileSet(), make(map[string]*pkg)
	var all []*pkg
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, name)
		switch {
		case err != nil:
			return err
		case relErr != nil:
			return relErr
		case d.IsDir() && isLeftOut(rel):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(f) {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		p := byDir[dir]
		if p == nil {
			p = &pkg{dir: dir, fset: fset}
			byDir[dir] = p
			all = append(all, p)
		}
		p.files = append(p.files, f)
		p.lines += bytes.Count(text, []byte("\n"))
		p.words.count(f)
		return nil
	})
	return all, err
}

// isLeftOut reports whether a folder is no part of the product.
func isLeftOut(rel string) bool {
	base := filepath.Base(rel)
	return base == "testdata" || base == "testbed" || base == "scripts" || rel != "." && strings.HasPrefix(base, ".")
}

// words counts those of comments, and which of them name nothing.
type words struct{ all, vague int }

var (
	word     = regexp.MustCompile(`[a-z']+`)
	pronouns = strings.Fields("who whoever whose whom what whatever one ones it its that those them")
)

func (w *words) count(f *ast.File) {
	for _, g := range f.Comments {
		for _, c := range g.List {
			text := strings.TrimPrefix(c.Text, "//")
			if strings.HasPrefix(text, "go:") {
				continue
			}
			for _, x := range word.FindAllString(strings.ToLower(text), -1) {
				w.all++
				if slices.Contains(pronouns, x) {
					w.vague++
				}
			}
		}
	}
}

func (w *words) share() float64 { return 100 * float64(w.vague) / float64(max(w.all, 1)) }
