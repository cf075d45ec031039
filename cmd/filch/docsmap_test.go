package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// docs/README.md leads to every document, once; TestTidyLinks looks whether its links lead
// somewhere.
func TestMapOfDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		name := filepath.Base(path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "../.." && (strings.HasPrefix(name, ".") || name == "testdata"):
			return filepath.SkipDir
		case filepath.Dir(path) == "../../docs" && filepath.Ext(name) == ".md" && name != "README.md", name == "DESIGN.md":
			all = append(all, path)
		}
		return nil
	})
	if err != nil || len(all) < 20 {
		t.Fatalf("found %d documents: %v", len(all), err)
	}
	for _, path := range all {
		link, err := filepath.Rel("../../docs", path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "]("+link+")"); n != 1 {
			t.Errorf("docs/README.md has %d links to %s, want 1", n, link)
		}
	}
}
