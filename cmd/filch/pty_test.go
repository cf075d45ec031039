package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// terminal is a filch that was started on a pseudo terminal.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	done chan error

	mu   sync.Mutex // guards what follows
	seen strings.Builder
}

const ptyDeadline = 30 * time.Second

func onTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	return onTerminalWith(t, nil, args...)
}

// onTerminalWith is onTerminal with more variables.
func onTerminalWith(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	return onTerminalOf(t, 101, env, args...)
}

// onTerminalOf is onTerminalWith on a terminal of so many columns.
func onTerminalOf(t *testing.T, columns uint16, env []string, args ...string) *terminal {
	t.Helper()
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	cmd := shared.filch(args...)
	cmd.Env = append(cmd.Env, env...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, cmd: cmd, tty: tty, done: make(chan error, 1)}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := tty.Read(b)
			x.mu.Lock()
			x.seen.Write(b[:n])
			x.mu.Unlock()
			if err != nil {
				break
			}
		}
		x.done <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = tty.Close()
	})
	return x
}

func (x *terminal) screen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen.String()
}

// await waits until the screen shows text.
func (x *terminal) await(text string) {
	x.t.Helper()
	for end := time.Now().Add(ptyDeadline); !strings.Contains(x.screen(), text); {
		if time.Now().After(end) {
			x.t.Fatalf("%q never came; the screen shows %q", text, x.screen())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (x *terminal) typed(s string) {
	x.t.Helper()
	if _, err := io.WriteString(x.tty, s); err != nil {
		x.t.Fatal(err)
	}
}

// code waits for the end and gives the exit code.
func (x *terminal) code() int {
	x.t.Helper()
	select {
	case err := <-x.done:
		var e *exec.ExitError
		if errors.As(err, &e) {
			return e.ExitCode()
		}
		return 0
	case <-time.After(ptyDeadline):
		x.t.Fatalf("it does not end; the screen shows %q", x.screen())
		return 0
	}
}

const ctrlC = "\x03"

// What failed is red in every list on a terminal; NO_COLOR (no-color.org), a terminal without
// colors and a pipe get none.
func TestFailedRowsAreRedOnATerminal(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	name := "red" + strconv.FormatInt(time.Now().UnixNano(), 36)
	out, err := shared.filch("submit", "--wait", "-J", name, "--", "sh", "-c", "exit {}", ":::", "0", "3").Output()
	id := strings.TrimSpace(string(out))
	if id == "" {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, list := range [][]string{{"tasks", id}, {"ps", "-a", "--name", name}, {"history", "--name", name}} {
		redRow(t, nil, " failed ", list...)
	}
}

// redRow checks that one row of a list is red on a terminal with colors, the row with word, and
// that nothing has a color elsewhere.
func redRow(t *testing.T, env []string, word string, list ...string) {
	t.Helper()
	const red, plain = "\x1b[31m", "\x1b[0m"
	for _, c := range []struct {
		set  string
		want int
	}{{"TERM=xterm", 1}, {"NO_COLOR=1", 0}, {"TERM=dumb", 0}} {
		x := onTerminalWith(t, append(slices.Clone(env), "TERM=xterm", "NO_COLOR=", c.set), list...)
		if code := x.code(); code != 0 {
			t.Fatalf("filch %s: code %d\n%s", strings.Join(list, " "), code, x.screen())
		}
		rows := 0
		for line := range strings.SplitSeq(x.screen(), "\r\n") {
			switch has := strings.Contains(line, word); {
			case strings.HasPrefix(line, red) != strings.HasSuffix(line, plain), strings.HasPrefix(line, red) && !has:
				t.Errorf("filch %s with %s: %q", strings.Join(list, " "), c.set, line)
			case strings.HasPrefix(line, red):
				rows++
			}
		}
		if rows != c.want || !strings.Contains(x.screen(), word) {
			t.Errorf("filch %s with %s: %d rows are red, want %d:\n%q", strings.Join(list, " "), c.set, rows, c.want, x.screen())
		}
	}
	if out, err := with(env, list...).Output(); err != nil || bytes.Contains(out, []byte("\x1b")) {
		t.Errorf("filch %s in a pipe: %v\n%q", strings.Join(list, " "), err, out)
	}
}

func TestCtrlCOnceTellsAndTwiceEnds(t *testing.T) {
	x := onTerminal(t, "run", "-v", "-n", "2", "--kill-wait", "1", "sh", "-c", "exec sleep 60")
	x.await("2 ranks on n1")
	x.typed(ctrlC)
	x.await("interrupt (one more within 1 sec to abort)")
	x.await("ranks 0-1 on n1: running")
	x.typed(ctrlC)
	x.await("sending Ctrl-C to job")
	if got := x.code(); got != 130 {
		t.Errorf("got exit code %d, want 130; the screen shows %q", got, x.screen())
	}
}

func TestCtrlCOnceLetsTheJobGoOn(t *testing.T) {
	x := onTerminal(t, "run", "sh", "-c", "echo ready; read line; echo got $line")
	x.await("ready")
	x.typed(ctrlC)
	x.await("to abort)")
	x.typed("word\n")
	if got := x.code(); got != 0 || !strings.Contains(x.screen(), "got word") {
		t.Errorf("got exit code %d; the screen shows %q", got, x.screen())
	}
}

// Whatever waits for a job says at Ctrl-C how to come back, and the job goes on.
func TestCtrlCSaysHowToComeBack(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	flow := filepath.Join(t.TempDir(), "flow.yaml")
	if err := os.WriteFile(flow, []byte("filch: 1\ntasks:\n  a:\n    run: echo ready; exec sleep 60\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	submit := func(args ...string) string {
		t.Helper()
		out, err := shared.filch(args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		id := strings.TrimSpace(string(out))
		t.Cleanup(func() { _ = shared.filch("cancel", id).Run() })
		return id
	}
	run := submit("run", "--detach", "sh", "-c", "echo ready; exec sleep 60")
	bag := submit("submit", "--", "sh", "-c", "echo ready; exec sleep 60")
	for _, c := range []struct {
		job  string
		args []string
	}{
		{run, []string{"attach", run}},
		{bag, []string{"attach", bag}},
		{run, []string{"logs", "-f", run}},
		{bag, []string{"logs", "-f", bag}},
		{"", []string{"workflow", "run", "--ungroup", flow}},
	} {
		x := onTerminal(t, c.args...)
		x.await("ready")
		if c.job == "" {
			out, err := shared.filch("ps", "--name", "flow", "-o", "id", "--state", "running").Output()
			if f := strings.Fields(string(out)); err == nil && len(f) > 0 {
				c.job = f[len(f)-1]
			}
			t.Cleanup(func() { _ = shared.filch("cancel", c.job).Run() })
		}
		x.typed(ctrlC)
		x.await("filch: job " + c.job + " goes on; filch wait " + c.job + " waits for the end, filch cancel " + c.job + " ends the job")
		if got := x.code(); got != 130 {
			t.Errorf("filch %s: got exit code %d, want 130; the screen shows %q", strings.Join(c.args, " "), got, x.screen())
		}
		if out, err := shared.filch("info", c.job).Output(); err != nil || !strings.Contains(string(out), "running") {
			t.Errorf("job %s after Ctrl-C of filch %s: %v\n%s", c.job, strings.Join(c.args, " "), err, out)
		}
	}
}

func TestThirdCtrlCLeavesAtOnce(t *testing.T) {
	x := onTerminal(t, "run", "--kill-wait", "6", "sh", "-c", "trap '' INT TERM; echo ready; while :; do sleep 0.1; done")
	x.await("ready")
	x.typed(ctrlC)
	x.await("to abort)")
	x.typed(ctrlC)
	x.await("sending Ctrl-C")
	began := time.Now()
	x.typed(ctrlC)
	if got, took := x.code(), time.Since(began); got != 130 || took > 4*time.Second {
		t.Errorf("got exit code %d after %v, want 130 at once", got, took)
	}
}

func TestCtrlCWhileWaitingGivesBackTheRequest(t *testing.T) {
	holder := onTerminal(t, "run", "-N", "4", "--exclusive", "--kill-wait", "1", "sh", "-c", "echo ready; exec sleep 60")
	holder.await("ready")
	x := onTerminal(t, "run", "-N", "4", "--exclusive", "-v", "hostname")
	x.await("job ")
	x.typed(ctrlC)
	if got := x.code(); got != 130 {
		t.Errorf("got exit code %d, want 130; the screen shows %q", got, x.screen())
	}
	holder.typed(ctrlC)
	holder.await("to abort)")
	holder.typed(ctrlC)
	if got := holder.code(); got != 130 {
		t.Errorf("the holder: got exit code %d, want 130", got)
	}
}

func TestPtyGivesRankZeroATerminal(t *testing.T) {
	x := onTerminal(t, "run", "--pty", "sh", "-c", "stty size; trap 'echo resized; stty size' WINCH; echo ready; while :; do read line && echo got $line; done")
	x.await("33 101")
	x.await("ready")
	if err := pty.Setsize(x.tty, &pty.Winsize{Rows: 20, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	x.await("20 40")
	x.typed("one\r")
	x.await("got one")
	x.typed(ctrlC) // goes to the program, which dies of it
	if got := x.code(); got != 130 {
		t.Errorf("got exit code %d, want 130 (killed by INT); the screen shows %q", got, x.screen())
	}
}

func TestPtyEndsWithItsProgram(t *testing.T) {
	x := onTerminal(t, "run", "--pty", "sh")
	x.typed("tty; exit 6\r")
	if got := x.code(); got != 6 {
		t.Errorf("got exit code %d, want 6; the screen shows %q", got, x.screen())
	}
	x.await("/dev/pts/")
}

func TestSignalsReachTheRanks(t *testing.T) {
	x := onTerminal(t, "run", "-l", "-n", "2", "sh", "-c", "trap 'echo usr1' USR1; trap 'echo usr2; exit 4' USR2; echo ready; while :; do sleep 0.05; done")
	x.await("0: ready")
	x.await("1: ready")
	if err := x.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	x.await("0: usr1")
	x.await("1: usr1")
	if err := x.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	if got := x.code(); got != 4 {
		t.Errorf("got exit code %d, want 4; the screen shows %q", got, x.screen())
	}
}

func TestTermEndsTheJob(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		x := onTerminal(t, "run", "--kill-wait", "1", "sh", "-c", "echo ready; exec sleep 60")
		x.await("ready")
		if err := x.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		x.await("forcing job termination")
		if got := x.code(); got != 143 {
			t.Errorf("%v: got exit code %d, want 143; the screen shows %q", sig, got, x.screen())
		}
	}
}

// A reader that goes away ends the job, as SIGPIPE ends a program.
func TestBrokenPipeEndsTheJob(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	cmd := shared.filch("run", "--kill-wait", "1", "yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	err = cmd.Wait()
	var e *exec.ExitError
	if !errors.As(err, &e) || e.ExitCode() != 141 {
		t.Errorf("got %v, want exit code 141", err)
	}
}

// A reader that is slow holds up the rank, not our memory.
func TestSlowReaderBoundsMemory(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	const total = 64 << 20
	cmd := shared.filch("run", "head", "-c", "67108864", "/dev/zero")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n, peak := int64(0), int64(0)
	b := make([]byte, 256<<10)
	for err == nil {
		var m int
		m, err = out.Read(b)
		n += int64(m)
		peak = max(peak, residentBytes(t, cmd.Process.Pid))
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if n != total {
		t.Errorf("got %d bytes, want %d", n, total)
	}
	if peak > 40<<20 {
		t.Errorf("the client grew to %d MB", peak>>20)
	}
}

// A follower of a task that reads nothing, and then slowly, makes no process grow: neither
// the client nor the launchers nor their runners hold what the task printed meanwhile.
func TestSlowFollowerBoundsMemory(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	const most = 96 << 20 // of the 225 MB that the task prints; a node keeps 16 MiB of them
	id, err := shared.filch("submit", "--", "seq", "10000000", "34999999").Output()
	if err != nil {
		t.Fatal(err)
	}
	job := strings.TrimSpace(string(id))
	cmd := shared.filch("logs", "-f", job)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	began, peaks := map[int]int64{}, map[int]int64{cmd.Process.Pid: 0}
	for _, pid := range family(t, shared.upCmd.Process.Pid) {
		began[pid], peaks[pid] = residentBytes(t, pid), 0
	}
	look := func() {
		for pid := range peaks {
			peaks[pid] = max(peaks[pid], residentBytes(t, pid)-began[pid])
		}
	}
	for ended := false; !ended; { // nobody reads
		info, err := shared.filch("info", "--json", job).Output()
		if err != nil {
			t.Fatal(err)
		}
		ended = bytes.Contains(info, []byte(`"exit_code": 0`))
		look()
	}
	n, b := 0, make([]byte, 64<<10)
	for err == nil {
		var m int
		m, err = out.Read(b)
		if n += m; n%(1<<20) < m {
			look()
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if n < 1<<20 {
		t.Errorf("got %d bytes, want more", n)
	}
	for pid, peak := range peaks {
		if peak > most {
			t.Errorf("process %d grew by %d MB, want at most %d", pid, peak>>20, most>>20)
		}
	}
}

// family are the processes below a process.
func family(t *testing.T, pid int) (all []int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lists {
		b, _ := os.ReadFile(path) // a thread may have ended
		for word := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(append(all, child), family(t, child)...)
			}
		}
	}
	return all
}

// residentBytes is the resident memory of a process, 0 once it has ended.
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// What tasks printed cannot move the cursor of who looks at it.
func TestLogsOnATerminal(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	out, err := shared.filch("submit", "--wait", "--", "printf", `a\033]0;title\007b\n`).Output()
	if err != nil {
		t.Fatal(err)
	}
	job := strings.TrimSpace(string(out))
	x := onTerminal(t, "logs", job)
	x.await(`a\x1b]0;title\ab`)
	if x.code(); strings.Contains(x.screen(), "\x1b") {
		t.Errorf("the terminal was sent %q", x.screen())
	}
	raw, err := shared.filch("logs", job).Output()
	if want := "a\x1b]0;title\ab\n"; err != nil || string(raw) != want {
		t.Errorf("through a pipe came %q, %v, want %q", raw, err, want)
	}
}
