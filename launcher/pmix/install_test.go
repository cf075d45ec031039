package pmix

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandBuilds compiles pmixd from the source that is carried, and runs
// it; the second time it is there.
func TestCommandBuilds(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		argv, err := compiled(dir)
		if err != nil {
			t.Fatal(err)
		}
		if round == 1 && len(argv) != 1 {
			t.Errorf("compiled again: %v", argv)
		}
		// Its keeper is gone at once: it leaves.
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s; apt-get install gcc libc6-dev libpmix-dev", argv, err, out)
		}
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	argv, err := Command(dir)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(argv[0], "extra").CombinedOutput(); err == nil || !strings.Contains(string(out), "not by hand") {
		t.Errorf("%v: %v: %s", argv, err, out)
	}
}

// TestBuildSaysWhatIsMissing runs the build without a compiler and without
// headers.
func TestBuildSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	for _, tool := range []string{"dirname", "ls", "sed"} {
		path, err := exec.LookPath(tool)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, tool))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func() string {
		t.Helper()
		cmd := exec.Command("/bin/sh", "pmixd/build", filepath.Join(dir, "pmixd"))
		cmd.Env = []string{"PATH=" + dir}
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != NotBuilt {
			t.Errorf("code %d: %s", code, out)
		}
		return string(out)
	}
	if got := run(); !strings.HasPrefix(got, "no C compiler (") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "cc"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := run(); !strings.HasPrefix(got, "no pmix_server.h (") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
}
