package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts of testdata/script run the real binaries against an instance of
// four launchers with four slots each, brought up once. Those whose name
// begins with up- bring up their own.

// world is what the tests of this package share.
type world struct {
	dir  string // everything is in here; short, for the sake of socket paths
	bin  string // filch, and filchd beside it
	up   bool
	fail error
}

var shared world

const scriptInstance = "script"

func TestMain(m *testing.M) {
	code := m.Run()
	shared.close()
	os.Exit(code)
}

// env points every filch of the tests away from the user's own instances.
func (w *world) env() []string {
	return []string{
		"FILCH_LOCAL=" + filepath.Join(w.dir, "local"), "FILCH_HOME=" + filepath.Join(w.dir, "home"),
		"FILCH_FILCHD=" + filepath.Join(w.bin, "filchd"), "PATH=" + w.bin + ":" + os.Getenv("PATH"),
		"HOME=" + w.dir, "USER=tester",
	}
}

// build makes the two binaries once.
func (w *world) build() error {
	if w.dir != "" || w.fail != nil {
		return w.fail
	}
	w.dir, w.fail = os.MkdirTemp("/tmp", "filch")
	if w.fail != nil {
		return w.fail
	}
	w.bin = filepath.Join(w.dir, "bin")
	for _, d := range []string{w.bin, filepath.Join(w.dir, "local"), filepath.Join(w.dir, "home")} {
		if w.fail = os.Mkdir(d, 0o700); w.fail != nil {
			return w.fail
		}
	}
	for _, name := range []string{"filch", "filchd"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(w.bin, name), "../"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			w.fail = fmt.Errorf("cannot build %s: %w\n%s", name, err, out)
			return w.fail
		}
	}
	return nil
}

// instance brings up the launchers that most scripts use.
func (w *world) instance() error {
	if err := w.build(); err != nil || w.up {
		return err
	}
	if out, err := w.filch("up", "--instance", scriptInstance, "--nodes", "4", "--slots", "4").CombinedOutput(); err != nil {
		w.fail = fmt.Errorf("filch up: %w\n%s", err, out)
		return w.fail
	}
	w.up = true
	return nil
}

// filch is a command of the binary that was built.
func (w *world) filch(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(w.bin, "filch"), args...)
	cmd.Env = append(os.Environ(), w.env()...)
	if w.up {
		cmd.Env = append(cmd.Env, "FILCH_INSTANCE="+scriptInstance)
	}
	return cmd
}

func (w *world) close() {
	if w.up {
		if out, err := w.filch("down").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "filch down: %v\n%s", err, out)
		}
	}
	if w.dir != "" {
		_ = os.RemoveAll(w.dir)
	}
}

func TestScripts(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(4 * time.Minute),
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, shared.env()...)
			e.Setenv("TMPDIR", e.WorkDir)
			if !strings.HasPrefix(filepath.Base(e.WorkDir), "script-up-") {
				e.Setenv("FILCH_INSTANCE", scriptInstance)
				return nil
			}
			own, err := os.MkdirTemp(shared.dir, "up")
			if err != nil {
				return err
			}
			e.Setenv("FILCH_LOCAL", own)
			e.Setenv("FILCH_HOME", filepath.Join(own, "home"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": codeCmd},
	})
}

// codeCmd is `code N PROGRAM ARGS...`: like exec, but the exit code must be N.
func codeCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program args...")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("code %s: not a number", args[0])
	}
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		got = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%s: got exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}
