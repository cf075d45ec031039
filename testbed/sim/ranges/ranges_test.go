package ranges

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRangesAreRememberedForTheirSources(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("go.mod", "module m\n")
	put("a/a.go", "package a\n")
	put("a/a_test.go", "package a\n")
	t.Chdir(filepath.Join(root, "a"))
	open := func() *Ledger {
		t.Helper()
		l, err := Open(filepath.Join(root, "cache"), "sim", "a")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	type figures struct{ Jobs int }
	if err := open().Keep(1, 500, figures{7}); err != nil {
		t.Fatal(err)
	}
	var f figures
	if l := open(); !l.Done(1, 500, &f) || f.Jobs != 7 || l.Done(501, 500, &f) {
		t.Errorf("the range that was run is not known, or another one is: %+v", f)
	}
	put("a/a_test.go", "package a // another test\n")
	if !open().Done(1, 500, &f) {
		t.Error("a change of a test begins anew")
	}
	put("a/a.go", "package a // another source\n")
	if open().Done(1, 500, &f) {
		t.Error("a range counts for sources that did not run")
	}
	if _, err := Open(filepath.Join(root, "cache"), "sim", "nowhere"); err == nil {
		t.Error("a package that is not there is no error")
	}
}
