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

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// valueLines are the command lines in which options get a value: OPT is the option, and BAG,
// FLOW, LIST and SECRET are a job and files of the test. The rest of a line is right, or has a
// mistake that comes to light after the option.
var valueLines = map[string]string{
	"campaign":         "--instance= --pool slurm OPT -- LIST",
	"campaign --pool":  "OPT -- LIST",
	"cancel":           "OPT",
	"cancel --signal":  "OPT last",
	"events":           "OPT",
	"history":          "OPT",
	"join":             "OPT 127.0.0.1:1 --secret SECRET",
	"logs":             "OPT last",
	"pool add":         "--max 1 OPT slurm",
	"ps":               "OPT",
	"retry":            "OPT BAG",
	"roster":           "OPT",
	"run":              "--detach OPT true",
	"submit":           "OPT -- true",
	"submit --builtin": "OPT",
	"submit --signal":  "-t 10m OPT -- true",
	"submit --to":      "OPT --array 1-2",
	"tasks":            "OPT BAG",
	"up":               "OPT --address nonsense -- true",
	"up --address":     "OPT -- true",
	"up --iface":       "OPT -- true",
	"wait":             "OPT BAG",
	"workflow run":     "--detach OPT FLOW",
}

// anyValue are options that take every text, and why.
var anyValue = map[string]string{
	"cancel --reason":         "a text for people",
	"drain --reason":          "a text for people",
	"run --job-name":          "a text for people",
	"submit --job-name":       "a text for people",
	"workflow run --job-name": "a text for people",
	"run --output":            "the name of a file",
	"run --error":             "the name of a file",
	"run --input":             "the name of a file",
	"submit --output":         "the name of a file",
	"campaign --via":          "the name of a host, which ssh knows",
	"pool add --via":          "the name of a host, which ssh knows",
	"events --node":           "the name of a node, which may be gone: an unknown node is no wrong input, and gives 125",
}

// wrongValues are the wrong values of options that take =?x.
var wrongValues = map[string]string{
	"cancel --name":      "[",
	"history --name":     "[",
	"logs --grep":        "[",
	"ps --name":          "[",
	"submit --colsep":    "[",
	"submit --stage-out": "[",
}

// timeForms have, for options with a time in a text, the text around the time.
var timeForms = map[string]string{
	"run --signal":     "TERM@TIME",
	"submit --builtin": "sleep:TIME",
	"submit --signal":  "TERM@TIME",
	"up --ends":        "+TIME",
	"up --signal":      "TERM@TIME",
}

var timeOption = regexp.MustCompile(`TIME|LIMIT`)

// isTime reports whether an option takes a time.
func isTime(name string, f *pflag.Flag) bool {
	value, _ := pflag.UnquoteUsage(f)
	_, err := filch.ReadTime(value)
	return err == nil || timeOption.MatchString(value) || timeForms[name] != ""
}

// foreignValue is text of Go's errors and of cobra about a value.
var foreignValue = regexp.MustCompile(`strconv|invalid (argument|syntax)|parsing|panic:|goroutine|\bflag\b|regexp|missing unit`)

// valueTest tries values of options.
type valueTest struct {
	words map[string]string
	dir   string
}

// output is what filch prints with a value of an option, and the exit code.
func (v *valueTest) output(t *testing.T, path, option, value string) (out string, code int) {
	t.Helper()
	line := valueLines[path+" "+option]
	if line == "" {
		line = valueLines[path]
	}
	if line == "" {
		t.Errorf("no command line is known for %s %s", path, option)
		return "", 0
	}
	words := strings.Fields(path + " " + line)
	for i, w := range words {
		if w == "OPT" {
			words[i] = option + "=" + value
		} else if other, has := v.words[w]; has {
			words[i] = other
		}
	}
	cmd := shared.filch(words...)
	cmd.Dir = v.dir
	if i := slices.Index(words, "--instance="); i >= 0 {
		cmd = shared.filch(slices.Delete(words, i, i+1)...)
		cmd.Dir, cmd.Env = v.dir, append(cmd.Env, "FILCH_INSTANCE=")
	}
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(b), exit.ExitCode()
	} else if err != nil {
		t.Errorf("filch %s: %v", strings.Join(words, " "), err)
	}
	return string(b), 0
}

// parse gives an option a value, and does not start the command.
func parse(path, option, value string) error {
	root := newRoot()
	c, _, err := root.Find(strings.Fields(path))
	if err != nil {
		return err
	}
	c.Args, c.RunE = cobra.ArbitraryArgs, func(*cobra.Command, []string) error { return nil }
	root.SetArgs(append(strings.Fields(path), option+"="+value))
	return root.Execute()
}

// refused checks the text of a refusal: the text names the option, in the words of filch.
func refused(t *testing.T, name, value, text string, f *pflag.Flag) {
	t.Helper()
	if !strings.Contains(text, "--"+f.Name) && (f.Shorthand == "" || !strings.Contains(text, "-"+f.Shorthand+" ")) {
		t.Errorf("%s=%s: the message does not name the option: %s", name, value, text)
	}
	if found := foreignValue.FindString(text); found != "" {
		t.Errorf("%s=%s: the message has %q: %s", name, value, found, text)
	}
	if isTime(name, f) && !strings.Contains(text, "is not a time") {
		t.Errorf("%s=%s: the message does not say that this is not a time: %s", name, value, text)
	}
}

// Every option refuses a wrong value as wrong input: exit code 2, and a message that names
// the option in the words of filch. Every option with a time reads the forms of times.
func TestWrongValuesAreWrongInput(t *testing.T) {
	v := valueInstance(t)
	tried, times := map[string]bool{}, 0
	try := func(path string, f *pflag.Flag) {
		name, option := path+" --"+f.Name, "--"+f.Name
		value, good := "=?x", []string(nil)
		if wrong := wrongValues[name]; wrong != "" {
			value = wrong
		}
		tried[name] = true
		if isTime(name, f) {
			times++
			form := "TIME"
			if timeForms[name] != "" {
				form = timeForms[name]
			}
			value = strings.Replace(form, "TIME", "10x", 1)
			good = []string{strings.Replace(form, "TIME", "0:30", 1), strings.Replace(form, "TIME", "90s", 1)}
		}
		if kind := f.Value.Type(); kind == "string" || kind == "stringArray" || path == "run" {
			text, code := v.output(t, path, option, value)
			if code != 2 {
				t.Errorf("%s=%s ends with %d, want 2\n%s", name, value, code, text)
			}
			refused(t, name, value, text, f)
			for _, g := range good {
				if text, _ := v.output(t, path, option, g); strings.Contains(text, "is not a time") {
					t.Errorf("%s=%s: %s", name, g, text)
				}
			}
			return
		}
		err := parse(path, option, value)
		if !errors.As(err, new(ui.Misuse)) {
			t.Fatalf("%s=%s gives %v, want a misuse", name, value, err)
		}
		refused(t, name, value, err.Error(), f)
		for _, g := range good {
			if err := parse(path, option, g); err != nil {
				t.Errorf("%s=%s: %v", name, g, err)
			}
		}
	}
	every(newRoot(), func(c *cobra.Command) {
		if c.Hidden || !c.HasParent() {
			return
		}
		path := strings.TrimPrefix(c.CommandPath(), "filch ")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			value, _ := pflag.UnquoteUsage(f)
			if f.Value.Type() == "bool" || f.Hidden || fileOption.MatchString(value) || value == "COMMAND" || anyValue[path+" --"+f.Name] != "" {
				return
			}
			try(path, f)
		})
	})
	for name := range maps.Keys(wrongValues) {
		if !tried[name] {
			t.Errorf("there is no option %s", name)
		}
	}
	if len(tried) < 130 || times < 20 {
		t.Errorf("got %d options, %d with a time, want more: the walk is broken", len(tried), times)
	}
}

// valueInstance starts the shared instance, with a bag that has ended.
func valueInstance(t *testing.T) *valueTest {
	t.Helper()
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	v := &valueTest{dir: t.TempDir(), words: map[string]string{}}
	for word, text := range map[string]string{
		"FLOW":   "filch: 1\ntasks:\n  a:\n    run: echo x > out\n    outputs: [out]\n",
		"LIST":   "true\n",
		"SECRET": strings.Repeat("0123456789abcdef", 4) + "\n",
	} {
		v.words[word] = filepath.Join(v.dir, strings.ToLower(word))
		if err := os.WriteFile(v.words[word], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := shared.filch("submit", "--", "true").Output()
	if v.words["BAG"] = strings.TrimSpace(string(out)); err != nil {
		t.Fatal(err)
	}
	if out, err := shared.filch("wait", v.words["BAG"]).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { // jobs that begin at a time of day
		if out, err := shared.filch("cancel", "--yes", "--state", "waiting").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	return v
}
