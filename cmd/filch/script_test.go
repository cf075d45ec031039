package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts of testdata/script run the real binaries against an instance of
// four launchers with four slots each, brought up once. They run one after the
// other, since `last` is the last job of the instance. Scripts whose name begins
// with up- bring up their own instance and run side by side: they wait more than
// they work.

// world is what the tests of this package share.
type world struct {
	dir   string // everything is in here; short, for the sake of socket paths
	bin   string // filch, and filchd beside it
	upCmd *exec.Cmd
	hold  io.Closer // closing it takes the instance down
	said  strings.Builder
	fail  error
}

var shared world

const scriptInstance = "script"

// scriptsAtOnce is how many scripts with an instance of their own run at once.
const scriptsAtOnce = "3"

// scriptMax ends a script that hangs. The longest takes half a minute.
const scriptMax = 3 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", scriptsAtOnce); err != nil {
		panic(err)
	}
	code := m.Run()
	shared.close()
	os.Exit(code)
}

// env points every filch of the tests away from the user's own instances.
func (w *world) env() []string {
	return []string{
		"FILCH_LOCAL=" + filepath.Join(w.dir, "local"), "FILCH_HOME=" + filepath.Join(w.dir, "home"),
		"FILCH_FILCHD=" + filepath.Join(w.bin, "filchd"), "FILCH_FILCHTOP=" + filepath.Join(w.bin, "filchtop"), "PATH=" + w.bin + ":" + os.Getenv("PATH"),
		"HOME=" + w.dir, "XDG_CONFIG_HOME=", "USER=tester",
	}
}

// build makes the binaries once.
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
	for _, name := range []string{"filch", "filchd", "filchtop"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(w.bin, name), "../"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			w.fail = fmt.Errorf("cannot build %s: %w\n%s", name, err, out)
			return w.fail
		}
	}
	return nil
}

// instance brings up the launchers that most scripts use. They live as long as
// a command that ends with our end of its standard input, so that nothing is
// left of a test that was killed.
func (w *world) instance() error {
	if err := w.build(); err != nil || w.hold != nil {
		return err
	}
	w.upCmd = w.filch("up", "--instance", scriptInstance, "--nodes", "4", "--slots", "4", "--", "sh", "-c", "echo is-up; exec cat")
	hold, err := w.upCmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := w.upCmd.StdoutPipe()
	if err != nil {
		return err
	}
	w.upCmd.Stderr = &w.said
	if err := w.upCmd.Start(); err != nil {
		return err
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "is-up\n" {
		w.fail = fmt.Errorf("filch up: got %q, %w\n%s", line, w.upCmd.Wait(), w.said.String())
		return w.fail
	}
	w.hold = hold
	return nil
}

// filch is a command of the binary that was built.
func (w *world) filch(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(w.bin, "filch"), args...)
	cmd.Env = append(os.Environ(), w.env()...)
	if w.hold != nil {
		cmd.Env = append(cmd.Env, "FILCH_INSTANCE="+scriptInstance)
	}
	return cmd
}

func (w *world) close() {
	if w.hold != nil {
		_ = w.hold.Close()
		if err := w.upCmd.Wait(); err != nil {
			fmt.Fprintf(os.Stderr, "filch up: %v\n%s", err, w.said.String())
		}
	}
	if w.dir != "" {
		_ = os.RemoveAll(w.dir)
	}
}

// timed are the scripts in which an allocation ends, or a launcher comes back, within
// seconds. They run before the others, and mostly wait.
var timed = []string{"up-drain", "up-ends", "up-flags", "up-hosts", "up-learn", "up-limits", "up-times"}

// TestTimedScripts runs those of timed.
func TestTimedScripts(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	for _, name := range timed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, filepath.Join("testdata/script", name+".txtar"))
		})
	}
}

// TestScripts runs the other scripts that bring up their own instance.
func TestScripts(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	for _, file := range scripts(t) {
		if name := scriptName(file); strings.HasPrefix(name, "up-") && !slices.Contains(timed, name) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				runScript(t, file)
			})
		}
	}
}

// TestSharedScripts runs the scripts that use the shared instance.
func TestSharedScripts(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	for _, file := range scripts(t) {
		if name := scriptName(file); !strings.HasPrefix(name, "up-") {
			t.Run(name, func(t *testing.T) { runScript(t, file) })
		}
	}
}

func scripts(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func scriptName(file string) string { return strings.TrimSuffix(filepath.Base(file), ".txtar") }

// inPlace is a test that runs one script itself, without a subtest.
type inPlace struct{ *testing.T }

func (inPlace) Parallel()                            {}
func (inPlace) Verbose() bool                        { return testing.Verbose() }
func (p inPlace) Run(_ string, f func(testscript.T)) { f(p) }

// runScript runs a script, which has its own deadline: a script that hangs shows its
// last command, and on a slow machine fails no other script.
func runScript(t *testing.T, file string) {
	t.Helper()
	testscript.RunT(inPlace{t}, testscript.Params{
		Files:               []string{file},
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(scriptMax),
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, shared.env()...)
			e.Setenv("TMPDIR", e.WorkDir)
			if root, err := filepath.Abs("../.."); err == nil {
				e.Setenv("PBS", filepath.Join(root, "scripts/pbs/mpi.pbs"))
			}
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
			e.Defer(func() { takeDown(own) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": codeCmd},
	})
}

// takeDown stops what a script that failed has left running.
func takeDown(local string) {
	left, _ := filepath.Glob(filepath.Join(local, "filch-*", "*", "*", "node.json"))
	for _, path := range left {
		cmd := shared.filch("down", "--instance", filepath.Base(filepath.Dir(filepath.Dir(path))))
		cmd.Env = append(cmd.Env, "FILCH_LOCAL="+local, "FILCH_HOME="+filepath.Join(local, "home"))
		_ = cmd.Run()
	}
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
