package main

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

func TestUnknownCommandsAndOptionsAreOneLine(t *testing.T) {
	for _, args := range [][]string{{"runn"}, {"ps", "--foo"}, {"info"}, {"up", "x"}, {"nodes", "x"}} {
		root := newRoot()
		root.SetArgs(args)
		err := root.Execute()
		if err == nil {
			t.Errorf("filch %v: no error", args)
			continue
		}
		if text := oneLine(err).Error(); strings.Contains(text, "\n") || text == "" {
			t.Errorf("filch %v: got %q, want one line", args, text)
		}
	}
}

// A word that a user knows from another program leads to the command of filch.
func TestOtherNamesLeadToCommands(t *testing.T) {
	root := newRoot()
	known := map[string]bool{}
	for _, c := range root.Commands() {
		known[c.Name()] = true
		for _, a := range c.Aliases {
			known[a] = true
		}
	}
	for word, command := range otherNames {
		if known[word] || !known[command] {
			t.Errorf("%s leads to %s: known are %v and %v", word, command, known[word], known[command])
		}
		want := "did you mean filch " + command + "?"
		var e *filch.Error
		if err := unknownCommand(root, word); !errors.As(err, &e) || e.Hint != want {
			t.Errorf("filch %s: got %v, want the hint %q", word, err, want)
		}
	}
}

// startMax bounds the bytes that a package of filch allocates before main. Each client,
// keeper and runner pays for them: a pattern compiled there, 200 KB, was a tenth of the CPU
// of filch run -n 1.
const startMax = 32 << 10

func TestStartsAreCheap(t *testing.T) {
	if err := shared.build(); err != nil {
		t.Fatal(err)
	}
	cmd := shared.filch("version")
	cmd.Env = append(cmd.Env, "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(trace.String()) { // init NAME @T ms, T ms clock, N bytes, N allocs
		f := strings.Fields(line)
		if len(f) < 8 || f[0] != "init" || f[1] != "main" && !strings.HasPrefix(f[1], "github.com/filch-hpc/filch/") {
			continue
		}
		seen++
		if n, err := strconv.Atoi(f[7]); err != nil || n > startMax {
			t.Errorf("got %q, %v, want at most %d bytes", line, err, startMax)
		}
	}
	if seen == 0 {
		t.Errorf("no package of filch in the trace:\n%s", trace.String())
	}
}
