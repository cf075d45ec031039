package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// topInstance brings up three launchers of their own, and returns their variables and the
// process of each node.
func topInstance(t *testing.T) (env []string, pids map[string]int) {
	t.Helper()
	if err := shared.build(); err != nil {
		t.Fatal(err)
	}
	own, err := os.MkdirTemp(shared.dir, "top")
	if err != nil {
		t.Fatal(err)
	}
	env = []string{"FILCH_LOCAL=" + own, "FILCH_HOME=" + filepath.Join(own, "home"), "FILCH_INSTANCE=topper"}
	cmd := shared.filch("up", "--instance", "topper", "--nodes", "3", "--slots", "4", "--", "sh", "-c", "echo is-up; exec cat")
	cmd.Env = append(cmd.Env, env...)
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = hold.Close()
		_ = cmd.Wait() // a killed launcher makes the end bad
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "is-up\n" {
		t.Fatalf("filch up: got %q, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	list := with(env, "nodes", "--json")
	b, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var nodes []struct {
		Name string
		PID  int
	}
	if err := json.Unmarshal(b, &nodes); err != nil || len(nodes) != 3 {
		t.Fatalf("%v\n%s", err, b)
	}
	pids = map[string]int{}
	for _, n := range nodes {
		pids[n.Name] = n.PID
	}
	return env, pids
}

func with(env []string, args ...string) *exec.Cmd {
	cmd := shared.filch(args...)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// screenOf draws what a terminal was sent.
func (x *terminal) grid(rows, cols int) *grid {
	g := newGrid(rows, cols)
	g.show(x.screen())
	return g
}

// awaitGrid waits until the screen matches, and returns how long the wait was.
func (x *terminal) awaitGrid(rows, cols int, pattern string) time.Duration {
	x.t.Helper()
	want, began := regexp.MustCompile(pattern), time.Now()
	for {
		g := x.grid(rows, cols)
		if want.MatchString(g.String()) {
			if len(g.odd) > 0 {
				x.t.Errorf("the test's terminal does not know %q", g.odd)
			}
			return time.Since(began)
		}
		if time.Since(began) > ptyDeadline {
			x.t.Fatalf("%q never came; the screen shows\n%s", pattern, g)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestTopOnATerminal(t *testing.T) {
	env, pids := topInstance(t)
	if out, err := with(env, "submit", "-J", "dock", "--", "sh", "-c", "echo said {}; exec sleep 100", ":::", "1", "2", "3", "4", "5").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	x := onTerminalWith(t, append(env, "TERM=xterm-256color", "NO_COLOR="), "top", "--interval", "500ms")
	const rows, cols = 33, 101
	x.awaitGrid(rows, cols, `(?s)^topper  \ds old  3/3 nodes  5/12 slots.*\* a +1  dock +running +0/5 +5 `)
	x.awaitGrid(rows, cols, `(?s)n1 +[a.]{4}.*n2 +[a.]{4}.*n3 +[a.]{4}`)

	// Keys: tasks with age and memory, help, filter, explain, logs.
	x.typed("t")
	x.awaitGrid(rows, cols, `TASKS of job 1 that run`)
	x.awaitGrid(rows, cols, `1\.\d  +n\d +[\d.]+m?s +[\d.]+[KM] +try 1`)
	x.typed("t?")
	x.awaitGrid(rows, cols, `(?s)^help .*a slot of a dead node`)
	x.typed("q/nosuch\r")
	x.awaitGrid(rows, cols, `(?s)WHERE / WHY[^\n]*\n\n`)
	x.typed("\x1b")
	x.awaitGrid(rows, cols, ` dock +running`)
	x.typed("e")
	x.awaitGrid(rows, cols, `(?s)^filch explain 1 .*job 1 is running`)
	x.typed("q")
	x.awaitGrid(rows, cols, `^topper`)
	x.typed("l")
	x.awaitGrid(rows, cols, `(?s)^filch logs --tail 200 1 .*said \d`)
	x.typed("q")

	// A smaller terminal, and the larger again.
	if err := pty.Setsize(x.tty, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	x.awaitGrid(24, 80, `(?s)^topper .*\n\? help  q quit  tab  s by state[^\n]*$`)
	if err := pty.Setsize(x.tty, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		t.Fatal(err)
	}
	x.awaitGrid(rows, cols, `(?s)^topper .*d drain$`)

	// Drain asks first.
	x.typed("\tGd")
	x.awaitGrid(rows, cols, `drain node n3\? y or n`)
	x.typed("y")
	x.awaitGrid(rows, cols, `(?s)^filch drain n3 `)
	x.typed("q")
	x.awaitGrid(rows, cols, `n3 +[a-]{4} .*draining`)

	// A launcher that was killed shows at once; one that hangs, too, when it is asked.
	if err := syscall.Kill(pids["n2"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if took := x.awaitGrid(rows, cols, `(?m)^! n2 (is (gone|dead|suspect)|does not answer)`); took > 2*time.Second {
		t.Errorf("a dead node shows after %s", took)
	}
	x.awaitGrid(rows, cols, `n2 +x{4} +(gone|dead)`)

	// Cancel asks first.
	x.typed("\tx")
	x.awaitGrid(rows, cols, `cancel job 1 \(dock\)\? y or n`)
	x.typed("n")
	x.awaitGrid(rows, cols, `(?s)d drain$`)

	// q gives the terminal back as it was.
	x.typed("q")
	if code := x.code(); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	if g := x.grid(rows, cols); g.alt || g.hidden {
		t.Errorf("after the end: alternate screen %v, cursor hidden %v", g.alt, g.hidden)
	}
	if s := x.screen(); !strings.Contains(s, "\x1b[?1049h") {
		t.Errorf("no alternate screen: %q", s[:min(len(s), 300)])
	}
}

// A dead node is red in the list of nodes on a terminal.
func TestADeadNodeIsRedOnATerminal(t *testing.T) {
	env, pids := topInstance(t)
	if err := syscall.Kill(pids["n2"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	dead := regexp.MustCompile(`(?m)^n2 +dead `)
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		out, err := with(env, "nodes").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if dead.Match(out) {
			break
		}
		if time.Since(began) > ptyDeadline {
			t.Fatalf("n2 does not die:\n%s", out)
		}
	}
	redRow(t, env, " dead ", "nodes")
}
