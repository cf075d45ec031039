package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHouse(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go": "package a\n\n// T is what it is, and those who use it know.\ntype T struct {\n\tbag\n\tp *part\n\tn, m int\n\tall []part\n}\n\nfunc (t *T) A() { t.B() }\n",
		"b.go": "package a\n\ntype bag struct{ x, y int }\n\ntype part struct{ z int }\n\nfunc (t *T) B() { t.A(); c() }\n",
		"c.go": "package a\n\nfunc c() {}\n", "c_test.go": "package a\n\nfunc d() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pkgs, err := load(dir)
	if err != nil || len(pkgs) != 1 {
		t.Fatalf("%d packages, %v", len(pkgs), err)
	}
	p := pkgs[0]
	if p.lines != 21 || len(p.files) != 3 || p.knot() != 2 {
		t.Errorf("%d lines in %d files, knot of %d; want 21 in 3, knot of 2", p.lines, len(p.files), p.knot())
	}
	if p.words != (words{11, 5}) {
		t.Errorf("words %+v, want 5 vague ones of 11", p.words)
	}
	for _, x := range p.types() {
		fields, structs := x.reach()
		switch x.spec.Name.Name {
		case "T":
			if x.methods != 2 || len(x.files) != 2 || fields != 8 || structs != 3 || x.isBag() {
				t.Errorf("T has %d methods in %d files, %d fields in %d structs; want 2 in 2, 8 in 3", x.methods, len(x.files), fields, structs)
			}
		case "bag":
			if !x.isBag() {
				t.Error("bag is embedded once, has no method, and is not found")
			}
		case "part":
			if x.isBag() {
				t.Error("part is not embedded")
			}
		}
	}
}
