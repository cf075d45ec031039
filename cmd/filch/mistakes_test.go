package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
)

// foreignHelp is text of the libraries below filch.
var foreignHelp = regexp.MustCompile(`\[flags\]|(?i:flags:)|\[command\]|Available Commands|sub-command|autocompletion|\[="|\(default "|\b(ints|int32|float|float64|strings|stringArray|duration)\b|completion descriptions`)

// every calls f for c and all commands below.
func every(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		every(sub, f)
	}
}

// The help of every command is in the words of filch, and so is the name of the value of
// every option.
func TestHelpHasNoForeignText(t *testing.T) {
	root, pages := newRoot(), 0
	every(root, func(c *cobra.Command) {
		var out strings.Builder
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Errorf("%s: %v", c.CommandPath(), err)
		}
		pages++
		for line := range strings.Lines(out.String()) {
			if found := foreignHelp.FindString(line); found != "" {
				t.Errorf("the help of %s has %q: %s", c.CommandPath(), found, line)
			}
		}
		if c.Hidden {
			return
		}
		if c.Flags().Lookup("help") != nil && c.CommandPath() != "filch run" && !strings.Contains(out.String(), "Usage:\n  "+c.CommandPath()) {
			t.Errorf("the help of %s does not begin its use with the command:\n%s", c.CommandPath(), out.String())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); value != "" && value == f.Value.Type() && value != "N" && !f.Hidden && c.Name() != "run" {
				t.Errorf("%s --%s: the value has no name, and is called %s", c.CommandPath(), f.Name, value)
			}
		})
	})
	if pages < 45 {
		t.Errorf("got the help of %d commands, want more: the walk is broken", pages)
	}
}

// foreignFault is text of Go's errors: the call, or the words of a library.
var foreignFault = regexp.MustCompile(`: (open|mkdir|stat|lstat|symlink|readlink|chdir|rename|link|unlink|remove|read|write) \S+( \S+)?: |error parsing|executable file not found|\.new-|fork/exec|strconv\.|json: cannot`)

// badFiles has, for each option and argument that is the name of a file or a folder, a
// command with a name that cannot be one.
var badFiles = map[string][]string{
	"run --input":              {"run", "-i", "no/such", "true"},
	"run --output":             {"run", "-o", "/proc/x/y", "true"},
	"run --error":              {"run", "-e", "/proc/x/y", "true"},
	"run --multi-prog":         {"run", "--multi-prog", "no/such"},
	"run --nodelist":           {"run", "-w", "./no/such", "true"},
	"run --exclude":            {"run", "-x", "./no/such", "true"},
	"run --bcast":              {"run", "--bcast=/x", "no-such-program"},
	"submit --bcast":           {"submit", "-n", "2", "--bcast=/x", "--", "no-such-program"},
	"submit --each-line":       {"submit", "--each-line", "no/such"},
	"submit --from-json":       {"submit", "--from-json", "no/such"},
	"submit --joblog":          {"submit", "--wait", "--joblog", "/proc/x/y", "--", "true"},
	"submit --nodelist":        {"submit", "-w", "./no/such", "--", "true"},
	"submit --exclude":         {"submit", "-x", "./no/such", "--", "true"},
	"submit ::::":              {"submit", "--", "echo", "{}", "::::", "no/such"},
	"submit --stage-in":        {"submit", "--stage-in", "no/such", "--", "true"},
	"logs --grep":              {"logs", "--grep", "[", "1"},
	"trace --output":           {"trace", "last", "-o", "/proc/x/t.json"},
	"report --output":          {"report", "last", "-o", "/proc/x/t.html"},
	"export FOLDER":            {"export", "last.0", "/proc/x"},
	"doctor --bundle":          {"doctor", "--bundle", "/proc/1/x"},
	"shim install DIR":         {"shim", "install", "/etc/passwd"},
	"man --install":            {"man", "--install", "/proc/x/y"},
	"workflow run FILE":        {"workflow", "run", "no/such.yaml"},
	"workflow run --keep-in":   {"workflow", "run", "--keep-in", "no/such", "FLOW"},
	"workflow run --chdir":     {"workflow", "run", "-D", "/no/such", "FLOW"},
	"workflow show FILE":       {"workflow", "show", "no/such.yaml"},
	"workflow check FILE":      {"workflow", "check", "no/such.yaml"},
	"workflow check --chdir":   {"workflow", "check", "-D", "/no/such", "FLOW"},
	"workflow collect --chdir": {"workflow", "collect", "-D", "/proc/x", "last", "FLOW"},
	"join INVITATION":          {"join", "no/such"},
	"join --secret":            {"join", "127.0.0.1:1", "--secret", "no/such"},
	"up --join":                {"up", "--join", "no/such", "--hosts", "localhost:1"},
	"up --hosts":               {"up", "--hosts", "./no/such"},
	"invite --output":          {"invite", "-o", "/proc/x/y"},
}

// fileOption finds options whose value is the name of a file.
var fileOption = regexp.MustCompile(`^\+?(FILE|FOLDER|DIR|PATH)`)

// onNodes are options with names that the nodes read or write, when the job runs.
var onNodes = []string{
	"run --chdir", "run --bcast", "submit --chdir", "submit --output", "submit --error", "submit --input",
}

// Every option with the name of a file refuses a wrong name as wrong input: exit code 2,
// and a message that has the name and none of Go's words.
func TestWrongFilesAreWrongInput(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	flow := filepath.Join(t.TempDir(), "flow.yaml")
	if err := os.WriteFile(flow, []byte("filch: 1\ntasks:\n  a:\n    run: echo x > out\n    outputs: [out]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := shared.filch("workflow", "run", flow).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range slices.Sorted(maps.Keys(badFiles)) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			words := slices.Clone(badFiles[name])
			if i := slices.Index(words, "FLOW"); i >= 0 {
				words[i] = flow
			}
			out, err := shared.filch(words...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 {
				t.Errorf("filch %s ends with %v, want code 2\n%s", strings.Join(words, " "), err, out)
			}
			if found := foreignFault.Find(out); found != nil {
				t.Errorf("the message has %q:\n%s", found, out)
			}
		})
	}
	var missing []string
	want := func(name string) {
		if badFiles[name] == nil && !slices.Contains(onNodes, name) {
			missing = append(missing, name)
		}
	}
	every(newRoot(), func(c *cobra.Command) {
		if c.Hidden || !c.HasParent() {
			return
		}
		path := strings.TrimPrefix(c.CommandPath(), "filch ")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); !f.Hidden && fileOption.MatchString(value) && path != "run" {
				want(path + " --" + f.Name)
			}
		})
	})
	for i := range spec.Options {
		if o := &spec.Options[i]; fileOption.MatchString(o.Arg) {
			want("run --" + o.Name)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no wrong file is tried with %s", strings.Join(missing, ", "))
	}
}

// An option without text is wrong input in every command, before the command does
// anything.
func TestOptionsWithoutTextAreRefused(t *testing.T) {
	tried := 0
	every(newRoot(), func(c *cobra.Command) {
		if c.Hidden || c.DisableFlagParsing || !c.Runnable() || !c.HasParent() || c.Name() == "run" && !c.Parent().HasParent() {
			return
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "string" || f.Hidden {
				return
			}
			tried++
			root := newRoot()
			root.SetArgs(append(strings.Fields(c.CommandPath())[1:], "--"+f.Name+"="))
			err := root.Execute()
			if want := "--" + f.Name + " is empty"; err == nil || err.Error() != want || !errors.As(err, new(ui.Misuse)) {
				t.Errorf("%s --%s= gives %v, want %q", c.CommandPath(), f.Name, err, want)
			}
		})
	})
	if tried < 60 {
		t.Errorf("got %d options, want more: the walk is broken", tried)
	}
}
