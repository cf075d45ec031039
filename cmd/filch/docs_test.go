package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/stats"
	"github.com/filch-hpc/filch/cmd/filch/tasks"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

const commandsDoc = "../../docs/commands.md"

// TestCommandsDoc keeps docs/commands.md what the commands say of themselves;
// make golden writes it.
func TestCommandsDoc(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands\n\nWhat `filch COMMAND --help` says, in one page. Written by `make golden`.\n")
	root := newRoot()
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == group.ID && !c.Hidden && c.Name() != "help" && c.Name() != "completion" {
				describe(&b, c)
				for _, sub := range c.Commands() {
					describe(&b, sub)
				}
			}
		}
	}
	b.WriteString("\n`--instance NAME` chooses the instance for every command; else it is that of\n`FILCH_INSTANCE`, of the allocation, or the only one that runs here.\n")
	if os.Getenv("FILCH_GOLDEN") != "" {
		if err := os.WriteFile(commandsDoc, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(commandsDoc)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s is not what the commands say; make golden writes it", commandsDoc)
	}
}

func describe(b *strings.Builder, c *cobra.Command) {
	long := c.Long
	if long == "" {
		long = strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
	}
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n```\n%s\n", c.CommandPath(), long, cli.UseLine(c))
	options := optionList()
	if c.CommandPath() != "filch run" {
		options = cli.OptionList(c.LocalFlags())
	}
	if options != "" {
		b.WriteString("\n" + options)
	}
	b.WriteString("```\n")
	if c.Example != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", c.Example)
	}
}

// Every command that is not hidden says what it does and shows how.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, c := range newRoot().Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.Short == "" || c.Example == "" || c.GroupID == "" {
			t.Errorf("filch %s: help, example or group is missing", c.Name())
		}
		if strings.HasSuffix(c.Short, ".") || strings.ToLower(c.Short[:1]) != c.Short[:1] {
			t.Errorf("filch %s: %q is not a lower-case line without a full stop", c.Name(), c.Short)
		}
	}
}

// Options, and the values of those that have a fixed list, are completed.
func TestCompletionKnowsOptions(t *testing.T) {
	root := newRoot()
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs([]string{"__complete", "run", "--ntasks-"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "--ntasks-per-node") {
		t.Errorf("got %q", out.String())
	}
	out.Reset()
	root = newRoot()
	root.SetOut(&out)
	root.SetArgs([]string{"__complete", "run", "--mpi", ""})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "pmi2") {
		t.Errorf("got %q", out.String())
	}
}

// Commands in the documents, with their options, exist.
func TestDocsNameRealCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	checked := 0
	for _, page := range append(pages, "../../README.md", "../../CHANGELOG.md", "../../CONTRIBUTING.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codeOf(string(b)) {
			words := strings.Fields(code)
			for i, w := range words {
				message := i > 0 && strings.HasSuffix(words[i-1], ":") // srun: filch does not do --relative
				if w == "filch" && i+1 < len(words) && !message {
					checkUse(t, filepath.Base(page), words[i+1:])
					checked++
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d commands are in the documents, want more: the search is broken", checked)
	}
}

var inlineCode = regexp.MustCompile("`([^`]+)`")

// codeOf returns the lines of code blocks and the spans of code of a page.
func codeOf(page string) (code []string) {
	for i, part := range strings.Split(page, "```") {
		if i%2 == 1 {
			code = append(code, strings.Split(part, "\n")...)
			continue
		}
		for _, m := range inlineCode.FindAllStringSubmatch(part, -1) {
			code = append(code, m[1])
		}
	}
	return code
}

var commandName = regexp.MustCompile(`^[a-z]+$`)

// checkUse checks a command, given without the word filch, up to its own COMMAND.
func checkUse(t *testing.T, page string, words []string) {
	t.Helper()
	root := newRoot()
	if !commandName.MatchString(words[0]) {
		return
	}
	c, _, err := root.Find(words)
	if err != nil || c == root {
		t.Errorf("%s: there is no command filch %s", page, words[0])
		return
	}
	for _, w := range words {
		if w == "--" || strings.ContainsAny(w, "|;)#&") {
			return
		}
		name, isFlag := strings.CutPrefix(w, "--")
		name, _, _ = strings.Cut(strings.TrimRight(name, ".,:"), "=")
		if isFlag && name != "help" && c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
			t.Errorf("%s: filch %s has no option --%s", page, c.Name(), name)
		}
	}
}

// docs/json.md names every field that a --json prints.
func TestJSONDocNamesEveryField(t *testing.T) {
	b, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	var check func(reflect.Type)
	check = func(ty reflect.Type) {
		for ty.Kind() == reflect.Slice || ty.Kind() == reflect.Pointer {
			ty = ty.Elem()
		}
		if ty.Kind() != reflect.Struct {
			return
		}
		for f := range ty.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && !strings.Contains(doc, "`"+name+"`") {
				t.Errorf("docs/json.md does not name %s of %s", name, ty)
			}
			check(f.Type)
		}
	}
	check(reflect.TypeFor[wire.NodeInfo]())
	check(reflect.TypeFor[launcher.JobInfo]())
	check(reflect.TypeFor[launcher.Task]())
	check(reflect.TypeFor[launcher.Explanation]())
	check(reflect.TypeFor[wire.RosterInfo]())
	check(reflect.TypeFor[wire.PolicyInfo]())
	check(reflect.TypeFor[stats.List]())
	check(reflect.TypeFor[finding]())
	check(reflect.TypeFor[Cancelled]())
	check(reflect.TypeFor[tasks.WorkflowInfo]())
	check(reflect.TypeFor[tasks.WorkflowJob]())
	check(reflect.TypeFor[PastJob]())
	check(reflect.TypeFor[Setting]())
}

// releaseFiles are the files of a release that README names, in this order, before the build
// from the sources.
var releaseFiles = []string{"_amd64.deb", ".x86_64.rpm", "-linux-amd64.tar.gz", "-linux-amd64", "SHA256SUMS", "From the sources"}

// neverRunOn are the systems without a test, which README names.
var neverRunOn = []string{"No test has run filch on", "arm64 hardware", "Fedora, RHEL, SUSE, Ubuntu", "more than one physical machine", "InfiniBand", "GPUs"}

// readmeFault says what a newcomer would miss in the first section of README; "" nothing.
func readmeFault(readme string) string {
	sections := strings.Split(readme, "\n## ")
	first, text, _ := strings.Cut(strings.Join(sections[min(1, len(sections)-1):min(2, len(sections))], ""), "\n")
	if first != "Get it" {
		return "the first section is " + strconv.Quote(first)
	}
	for _, list := range [][]string{releaseFiles, neverRunOn} {
		rest := strings.Join(strings.Fields(text), " ")
		for _, want := range list {
			_, after, found := strings.Cut(rest, want)
			if !found {
				return "the section \"Get it\" does not have " + strconv.Quote(want) + " in its place"
			}
			rest = after
		}
	}
	return ""
}

// README first says how to get a binary without Go, then how to build one, and on what
// filch was never run.
func TestReadmeBeginsWithTheBinary(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	if fault := readmeFault(readme); fault != "" {
		t.Error(fault)
	}
	s := strings.Split(readme, "\n## ")
	source := strings.Index(s[1], "From the sources")
	never := strings.Index(s[1], "filch was tested on")
	for name, wrong := range map[string]string{
		"another section first":         strings.Join(append([]string{s[0], s[2], s[1]}, s[3:]...), "\n## "),
		"the sources first":             s[0] + "\n## Get it\n" + s[1][source:never] + s[1][len("Get it\n"):source] + s[1][never:],
		"nothing of untested systems":   s[0] + "\n## " + s[1][:never] + "\n## " + strings.Join(s[2:], "\n## "),
		"untested systems further down": s[0] + "\n## " + s[1][:never] + "\n## Tests\n" + s[1][never:],
		"no rpm":                        strings.ReplaceAll(readme, ".x86_64.rpm", ""),
		"no section at all":             s[0],
	} {
		if readmeFault(wrong) == "" {
			t.Errorf("%s: the check sees no fault", name)
		}
	}
}

// The log of a launcher, and the files beside it, are where docs/trouble.md says.
func TestTroubleDocNamesTheFilesOfALauncher(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("../../docs/trouble.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(b), "## The log of a launcher")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found || !strings.Contains(section, "`BASE/INSTANCE/NODE`") || !strings.Contains(section, "`filch-UID`") || !strings.Contains(section, "the first usable folder of `FILCH_LOCAL`,") {
		t.Fatalf("docs/trouble.md does not say where the log of a launcher is:\n%s", section)
	}
	local := ""
	for _, v := range shared.env() {
		if value, is := strings.CutPrefix(v, "FILCH_LOCAL="); is {
			local = value
		}
	}
	// Output of a task, and a detached job, make the files that are not there from the start.
	if out, err := shared.filch("submit", "--wait", "--", "echo", "x").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || !strings.Contains(cells[1], "`") {
			continue
		}
		for _, m := range inlineCode.FindAllStringSubmatch(cells[1], -1) {
			if m[1] == "log.1" { // of a full log
				continue
			}
			path := filepath.Join(local, "filch-"+strconv.Itoa(os.Getuid()), scriptInstance, "n1", m[1])
			if _, err := os.Stat(path); err != nil {
				t.Errorf("docs/trouble.md names %s, and %v", m[1], err)
			}
		}
	}
	log, err := os.ReadFile(filepath.Join(local, "filch-"+strconv.Itoa(os.Getuid()), scriptInstance, "n1", "log"))
	first, _, _ := strings.Cut(string(log), "\n")
	var keys map[string]any
	if err != nil || json.Unmarshal([]byte(first), &keys) != nil || keys["time"] == nil || keys["level"] == nil || keys["msg"] == nil {
		t.Errorf("the log begins with %q, %v", first, err)
	}
}
