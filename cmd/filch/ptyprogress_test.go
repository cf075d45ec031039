package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// While nothing ends there is no news of a job, and yet the bar shows what runs.
func TestProgressOnATerminal(t *testing.T) {
	x := onTerminal(t, "submit", "--wait", "--progress", "--array", "1-3", "--", "sleep", "600")
	x.await("0/3, 3 running")
	x.typed(ctrlC)
	x.code()
	if err := shared.filch("cancel", "last").Run(); err != nil {
		t.Error(err)
	}
}

// On a terminal of 40 columns the bar stays on its line and keeps the rate and the failures; and
// the lists of jobs, tasks and nodes keep their states, counts and codes, since their lines go on
// below.
func TestANarrowTerminalKeepsRateAndFailures(t *testing.T) {
	const columns = 40
	name := "narrow" + strconv.FormatInt(time.Now().UnixNano(), 36)
	gate := filepath.Join(t.TempDir(), "gate")
	x := onTerminalOf(t, columns, nil, "submit", "-J", name, "--progress", "--array", "1-30", "--", "sh", "-c", "[ {} != 7 ] || exit 3; [ {} -le 20 ] || until test -e "+gate+"; do sleep 0.02; done")
	x.await("20/30")
	x.await("1 failed")
	x.await("/s")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := x.code(); got != 1 {
		t.Errorf("code %d, want 1: %q", got, x.screen())
	}
	whole := false
	for drawn := range strings.SplitSeq(x.screen(), "\r\x1b[K") {
		line, _, _ := strings.Cut(drawn, "\r\n")
		if strings.HasPrefix(line, "job ") && len(line) >= columns {
			t.Errorf("the bar has %d letters on %d columns: %q", len(line), columns, line)
		}
		whole = whole || strings.Contains(line, "/30") && strings.Contains(line, "1 failed") && strings.Contains(line, "/s")
	}
	if !whole {
		t.Errorf("no line of the bar has both the rate and the failures: %q", x.screen())
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"ps", "-a", "--name", name}, `failed +1 +30 .*30, 29 ok, 1 failed`},
		{[]string{"history", "--name", name}, `failed +1 `},
		{[]string{"tasks", "last", "--state", "failed"}, ` 7 +failed +n[1-4] +[0-9.]+m?s +1 +3 `},
		{[]string{"nodes"}, `n4 .* up +4 +[0-4] `},
	} {
		x := onTerminalOf(t, columns, nil, c.args...)
		if got := x.code(); got != 0 || !regexp.MustCompile(c.want).MatchString(x.screen()) {
			t.Errorf("filch %s on %d columns: code %d, want %q in\n%s", strings.Join(c.args, " "), columns, got, c.want, x.screen())
		}
	}
}

// shownLines are the lines that a terminal shows in the end: a redrawn line counts as drawn
// last.
func (x *terminal) shownLines() (lines []string) {
	for line := range strings.SplitSeq(x.screen(), "\r\n") {
		if at := strings.LastIndex(line, "\x1b[K"); at >= 0 {
			line = line[at+len("\x1b[K"):]
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// The end of a job has one line on a terminal: the bar with the time, or the error. The hint
// follows.
func TestOneLineTellsTheEndOnATerminal(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	slow := shared.filch("submit", "--", "sh", "-c", "until test -e "+gate+"; do sleep 0.02; done; exit {}", ":::", "0", "3")
	out, err := slow.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		args  []string
		opens bool // the gate
		code  int
		want  []string // of each line
	}{
		{"well", []string{"submit", "--progress", "--", "sh", "-c", "exit {}", ":::", "0", "0"}, false, 0, []string{"job ", "2/2", "done in"}},
		{"badly", []string{"submit", "--progress", "--", "sh", "-c", "exit {}", ":::", "0", "3"}, false, 1, []string{"filch: error: 1 task of job ", "1 failed"}},
		{"wait", []string{"wait", "--progress", strings.TrimSpace(string(out))}, true, 1, []string{"filch: error: job ", "1 of 2 tasks did not end well: 1 failed"}},
		{"halt", []string{"submit", "--progress", "--halt", "now,success=1", "--array", "1-2%1", "--", "true"}, false, 0, []string{"done in"}},
	} {
		x := onTerminal(t, c.args...)
		if c.opens {
			x.await("0/2")
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := x.code(); got != c.code {
			t.Errorf("%s: code %d, want %d: %q", c.name, got, c.code, x.screen())
		}
		var told []string
		for _, line := range x.shownLines() {
			if strings.Contains(line, "failed") && !strings.Contains(line, "hint: ") || strings.Contains(line, "done in") {
				told = append(told, line)
			}
		}
		if len(told) != 1 {
			t.Errorf("%s: the end has %d lines: %q", c.name, len(told), x.shownLines())
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(told[0], part) {
				t.Errorf("%s: the line of the end is %q, and lacks %q", c.name, told[0], part)
			}
		}
	}
}
