package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// filesBelow lists the files below a folder.
func filesBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(dir, path)
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// make install puts the files below DESTDIR and PREFIX, where man and shells find them,
// and make uninstall removes these files and no other. Without Go, as with sudo, make
// installs what make build left.
func TestMakeInstall(t *testing.T) {
	if err := shared.build(); err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(t.TempDir(), "a folder")
	run := func(args ...string) (string, error) {
		cmd := exec.Command("make", append(args, "DESTDIR="+dest, "PREFIX=/opt/x", "GO=/no/go")...)
		cmd.Dir = "../.."
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("install", "BIN="+t.TempDir()); err == nil || !strings.Contains(out, "run make build first") {
		t.Errorf("without a binary and without Go: %v\n%s", err, out)
	}
	prefix := filepath.Join(dest, "opt/x")
	other := filepath.Join(prefix, "share/man/man1/other.1")
	if err := os.MkdirAll(filepath.Dir(other), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("not ours\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := run("install", "BIN="+shared.bin); err != nil || !strings.Contains(out, "filch 0.") {
		t.Fatalf("make install: %v\n%s", err, out)
	}
	files := filesBelow(t, prefix)
	for _, want := range []string{
		"bin/filch", "share/man/man1/filch.1", "share/man/man1/filch-run.1", "share/man/man7/filch-environment.7",
		"share/bash-completion/completions/filch", "share/zsh/site-functions/_filch", "share/fish/vendor_completions.d/filch.fish",
		"share/filch/sbatch/mpi.sbatch", "share/filch/pbs/mpi.pbs", "share/doc/filch/LICENSE", "share/doc/filch/docs/commands.md",
	} {
		if !slices.Contains(files, want) {
			t.Errorf("make install does not install %s", want)
		}
	}
	if out, err := exec.Command(filepath.Join(prefix, "bin/filch"), "version").CombinedOutput(); err != nil {
		t.Errorf("the installed filch: %v\n%s", err, out)
	}
	page, err := exec.Command("man", "-M", filepath.Join(prefix, "share/man"), "-P", "cat", "filch-submit").CombinedOutput()
	if err != nil || !strings.Contains(string(page), "filch submit") {
		t.Errorf("man finds no installed page: %v\n%s", err, page)
	}
	if out, err := exec.Command("bash", "-n", filepath.Join(prefix, "share/bash-completion/completions/filch")).CombinedOutput(); err != nil {
		t.Errorf("bash does not read the completion: %v\n%s", err, out)
	}
	if out, err := run("uninstall"); err != nil {
		t.Fatalf("make uninstall: %v\n%s", err, out)
	}
	if left := filesBelow(t, dest); len(left) != 1 || left[0] != "opt/x/share/man/man1/other.1" {
		t.Errorf("make uninstall left %v, want only a file that make install did not write", left)
	}
}
