package place

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	path, err := Install(dir, "p", []byte("#!/bin/sh\n"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.Stat(path)
	if err != nil || first.Mode().Perm() != 0o700 {
		t.Fatalf("got %v, %v", first, err)
	}
	if again, err := Install(dir, "p", []byte("#!/bin/sh\n")); err != nil || again != path {
		t.Errorf("the same again: got %s, %v, want %s", again, err, path)
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(first, now) {
		t.Errorf("what was there is written again: %v", err)
	}
	// What an earlier, interrupted one left is not taken for it.
	if err := os.Truncate(path, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(dir, "p", []byte("#!/bin/sh\n")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "#!/bin/sh\n" {
		t.Errorf("got %q, %v", b, err)
	}
	if other, err := Install(dir, "p", []byte("#!/bin/bash")); err != nil || other == path {
		t.Errorf("another program: got %s, %v", other, err)
	}
	if _, err := Install(filepath.Join(dir, "nowhere"), "p", nil); err == nil {
		t.Error("no folder: got no error")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".new-*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
