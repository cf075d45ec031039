package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
