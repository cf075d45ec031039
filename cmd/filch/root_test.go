package main

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

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

// --instance and --node may stand before run, which is not a command of cobra.
func TestLeadingOptions(t *testing.T) {
	for line, want := range map[string]string{
		"run -n 2 x":                             "|:run -n 2 x",
		"--instance a run --node b":              "a|:run --node b",
		"--node=n2 --instance=a run -n 2":        "a|n2:run -n 2",
		"--instance a --node n2 run --node n3 x": "a|n2:run --node n3 x",
		"--node= run":                            "|:--node= run",
		"--node":                                 "|:--node",
		"--instance a ps":                        "a|:ps",
		"--verbose --node n2 run":                "|:--verbose --node n2 run",
	} {
		instance, node, rest := leading(strings.Fields(line))
		if got := instance + "|" + node + ":" + strings.Join(rest, " "); got != want {
			t.Errorf("filch %s: got %q, want %q", line, got, want)
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

// A command that is built alone has its own name and the help that it has among the others.
func TestACommandAloneIsTheSame(t *testing.T) {
	help := func(root *cobra.Command, name string) string {
		c, _, err := root.Find([]string{name})
		if err != nil || c.Name() != name {
			t.Errorf("%s: found %s, %v", name, c.Name(), err)
		}
		return c.Short + c.Long + c.Example + c.UsageString()
	}
	seen := map[string]bool{}
	for _, c := range commands() {
		if seen[c.name] {
			t.Errorf("%s is twice in the table", c.name)
		}
		seen[c.name] = true
		one := newRootFor([]string{"--instance", "x", c.name})
		if c.readsTree {
			if n := len(one.Commands()); n < len(commands()) {
				t.Errorf("%s sees %d commands, want all %d", c.name, n, len(commands()))
			}
		} else if n := len(one.Commands()); n != 1 || one.Commands()[0].Name() != c.name {
			t.Errorf("%s: got %d commands, the first named %s", c.name, n, one.Commands()[0].Name())
		}
		if got, want := help(one, c.name), help(newRoot(), c.name); got != want {
			t.Errorf("the help of %s alone is\n%s\nwant\n%s", c.name, got, want)
		}
	}
	for _, args := range [][]string{nil, {"help"}, {"help", "ps"}, {"completion", "bash"}, {"__complete", "ps", ""}, {"runn"}, {"--help"}, {"--node=n1"}, {"--instance"}} {
		if n := len(newRootFor(args).Commands()); n < len(commands()) {
			t.Errorf("filch %v: got %d commands, want all %d", args, n, len(commands()))
		}
	}
}
