package workflow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/workflow/yaml"
)

const mosaic = `filch: 1
name: mosaic
env:
  LANG: C
defaults:
  cpus: 1
  retries: 2
  env: {DEPTH: 3}
tasks:
  project-1:
    run: mProject raw1.fits p1.fits region.hdr
    inputs: [raw1.fits, region.hdr]
    outputs: p1.fits
    time: 2s
  add:
    run: [mAdd, -p, ., "the list"]
    inputs:
      - p1.fits
    outputs: [out/mosaic.fits]
    cpus: 2
    mem: 1.5G
    gpus: a100:1
    time_limit: 1:30:00
    retries: 0
    once: true
    stdout: out/add.log
    env: {LANG: de, QUIET: true}
    time: 1.5s
  report:
    run: |
      wc -c <"$1" > sizes; test -s sizes
    after: [add, project-1]
    stdin: out/add.log
    outputs: [sizes]
    time: 500ms
`

func TestNative(t *testing.T) {
	g := load(t, mosaic)
	if g.Replay || g.Name != "mosaic" || g.Format != "filch 1" || len(g.Traps) != 0 {
		t.Errorf("got %q, %q, replay %v, traps %v", g.Name, g.Format, g.Replay, g.Traps)
	}
	if got, want := edgesOf(g), "project-1>add project-1>report add>report"; got != want {
		t.Errorf("edges: got %q, want %q", got, want)
	}
	add := g.Tasks[1]
	if got := fmt.Sprintf("%q %q", add.Run.Argv, add.Run.Env); got != `["mAdd" "-p" "." "the list"] ["DEPTH=3" "LANG=de" "QUIET=true"]` {
		t.Errorf("add: got %s", got)
	}
	n := add.Need
	if n.CPUs != 2 || n.MemBytes != 3<<29 || n.GPUs != "a100:1" || n.TimeLimit != 90*time.Minute || *n.Retries != 0 || !n.Once {
		t.Errorf("add needs %+v", n)
	}
	if n := g.Tasks[0].Need; n.CPUs != 1 || *n.Retries != 2 || n.Once {
		t.Errorf("project-1 needs %+v", n)
	}
	report := g.Tasks[2]
	if report.Run.Argv[0] != shellPath || report.Kind != "wc" || report.Run.Stdin != "out/add.log" || len(report.Inputs) != 1 {
		t.Errorf("report: got %+v", report)
	}
	if m := g.Measure(); m.Critical != 4*time.Second || m.Work != 5500*time.Millisecond || m.Bound(2) != 4*time.Second || m.Bound(1) != 5500*time.Millisecond || !m.Timed {
		t.Errorf("measure: got %+v", m)
	}
}

// The same in JSON, indented with tabs, which YAML would not take.
func TestNativeJSON(t *testing.T) {
	g := load(t, "{\n\t\"filch\": 1,\n\t\"tasks\": [\n\t\t{\"name\": \"a\", \"run\": [\"true\"], \"outputs\": [\"x\"]},\n\t\t{\"name\": \"b\", \"run\": \"cat x\", \"inputs\": [\"x\"]}\n\t]\n}\n")
	if got := edgesOf(g); got != "a>b" || g.Tasks[1].Line != 5 {
		t.Errorf("got %q, line %d", got, g.Tasks[1].Line)
	}
}

// Errors name the line and the task, and say what to do.
func TestErrors(t *testing.T) {
	task := func(body string) string { return "filch: 1\ntasks:\n  t:\n    run: x\n" + body }
	many := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for _, c := range []struct{ name, text, want string }{
		{"cycle", task("    after: b\n  b:\n    run: x\n    after: c\n  c:\n    run: x\n    after: t"), `w:3: task "t" waits for itself: "t" -> "c" -> "b" -> "t"`},
		{"cycle-by-files", task("    inputs: y\n    outputs: x\n  b:\n    run: x\n    inputs: x\n    outputs: y"), `waits for itself: "t" -> "b" -> "t"`},
		{"itself", task("    after: t"), `w:5: task "t" waits for itself`},
		{"two-writers", task("    outputs: x\n  b:\n    run: x\n    outputs: [x]"), `w:8: task "b": the file "x" is also written by task "t" (line 3)`},
		{"reads-and-writes", task("    outputs: x\n    inputs: x"), `w:3: task "t" reads and writes the file "x"`},
		{"absolute", task("    outputs: /etc/passwd"), `w:5: task "t": the file "/etc/passwd" is refused: it is absolute`},
		{"leaves", task("    outputs: a/../../b"), `task "t": the file "a/../../b" is refused: its .. leaves the sandbox`},
		{"dot", task("    outputs: ./b"), `refused: it is not in its shortest form`},
		{"nul", task(`    outputs: "a\0b"`), `w:5: task "t": outputs holds a NUL byte`},
		{"control", task(`    outputs: "a\eb"`), `refused: it holds the control character U+001B`},
		{"long-part", task("    outputs: " + strings.Repeat("x", 256)), `a part of it has 256 bytes, at most 255`},
		{"folder-and-file", task("    outputs: [a, a/b]"), `w:3: task "t": the file "a/b" needs a folder where task "t" has the file "a"`},
		{"twice", task("  t:\n    run: y"), `w:5: "t" is there twice: also on line 3`},
		{"twice-in-a-list", "filch: 1\ntasks:\n- name: a\n  run: x\n- {name: a, run: x}", `w:5: task "a" is there twice: also on line 3`},
		{"unknown-parent", task("    after: [u]\n  use:\n    run: x"), `w:5: task "t": its parent "u" is not in this file`},
		{"cwl", "class: Workflow\ncwlVersion: v1.2\nsteps: {}\n", `w:2: the file is in the Common Workflow Language, which filch does not read (filch reads its own format, WfFormat and Pegasus DAX)`},
		{"unknown-key", task("    input: x"), `w:5: task "t" has the unknown key "input" (did you mean inputs?)`},
		{"no-run", "filch: 1\ntasks:\n  t: {cpus: 1}", `task "t" has no run`},
		{"empty-run", "filch: 1\ntasks:\n  t: {run: []}", `task "t": its run is empty`},
		{"cpus", task("    cpus: 1000000"), `w:5: task "t": cpus: "1000000" is not a number of slots from 1 to 65536`},
		{"mem", task("    mem: -4G"), `"-4G" is not a size`},
		{"mem-big", task("    mem: 999999999999T"), `is not a size`},
		{"time-limit", task("    time_limit: soon"), `"soon" is not a time like`},
		{"retries", task("    retries: 1e9"), `is not a number from 0 to 1000`},
		{"once", task("    once: maybe"), `is not true or false`},
		{"defaults", "filch: 1\ndefaults: {run: x}\ntasks: {t: {run: x}}", `w:2: defaults has the unknown key "run"`},
		{"alias", "filch: 1\ntasks:\n  t: &a {run: x}\n  u: *a", `w:3: this is no YAML of this form: anchors, aliases and tags`},
		{"tag", "filch: 1\ntasks: !!binary aGk=", `w:2: this is no YAML of this form: anchors, aliases and tags`},
		{"two-documents", "filch: 1\ntasks: {t: {run: x}}\n---\nfilch: 1", `a second document`},
		{"deep", "filch: 1\ntasks: " + many, `nested more than 32 deep`},
		{"deep-json", `{"filch": 1, "tasks": ` + many + `}`, `nested more than 32 deep`},
		{"no-version", "tasks: {t: {run: x}}", `"filch: 1" is missing`},
		{"version", "filch: 2\ntasks: {t: {run: x}}", `version "2" of the form is not known`},
		{"no-tasks", "filch: 1\ntasks: {}", `there is no task in it`},
		{"indent", "filch: 1\ntasks:\n  t:\n    run: x\n   cpus: 2\n", `w:5: this is no YAML of this form: this line is not indented like those before it`},
		{"colon", task("    stdin: a: b"), `w:5: this is no YAML of this form: a colon where none can stand`},
		{"bracket", task("    after: [a\n  b:\n    run: x\n"), `w:5: this is no YAML of this form: a bracket is not closed`},
		{"null-task", "filch: 1\ntasks:\n  a: {run: x}\n  t:\n", `w:4: task "t" is nothing, not a map`},
		{"bad-yaml", "filch: 1\ntasks:\n\t- x", `w:3: this is no YAML`},
		{"bad-json", "{\"filch\": 1,\n\"tasks\": [\n{\"name\" \"x\"}]}", `w:3: this is no JSON`},
		{"json-twice", "{\"filch\": 1,\n \"filch\": 1}", `w:2: "filch" is there twice: also on line 1`},
		{"json-more", "{\"filch\": 1, \"tasks\": [{\"name\": \"t\", \"run\": \"x\"}]}\n{}", `w:2: something follows`},
		{"empty", " \n", `w: it is empty`},
		{"text", "hello", `this is text, not a workflow`},
		{"bad-xml", "<adag>\n<job id=\"a\">\n</adag>", `w:3: this is no XML`},
		{"no-dax", "<html/>", `this is no DAX`},
		{"dax-deep", strings.Repeat("<adag>", 40), `nested more than 32 deep`},
		{"dax-unknown-parent", dax("<job id=\"ID01\" runtime=\"1\"/>\n<child ref=\"ID01\"><parent ref=\"ID02\"/></child>"), `w:4: task "ID01": its parent "ID02" is not in this file (did you mean "ID01"?)`},
		{"dax-unknown-child", dax("<child ref=\"x\"><parent ref=\"y\"/></child>"), `w:3: the child "x" is not in this file`},
		{"dax-cycle", dax("<job id=\"a\" runtime=\"1\"/><job id=\"b\" runtime=\"1\"/><child ref=\"a\"><parent ref=\"b\"/></child><child ref=\"b\"><parent ref=\"a\"/></child>"), `task "a" waits for itself: "a" -> "b" -> "a"`},
		{"dax-time", dax(`<job id="a" runtime="1e300"/>`), `task "a": a run time of 1e+300 seconds makes no sense`},
		{"dax-nan", dax(`<job id="a" runtime="NaN"/>`), `makes no sense`},
		{"dax-size", dax(`<job id="a" runtime="1"><uses file="f" link="output" size="1e40"/></job>`), `the file "f" has a size of "1e40" bytes, which makes no sense`},
		{"dax-twice", dax("<job id=\"a\" runtime=\"1\"/>\n<job id=\"a\" runtime=\"1\"/>"), `w:4: task "a" is there twice: also on line 3`},
		{"dax-long-name", dax(`<job id="` + strings.Repeat("n", 300) + `" runtime="1"/>`), `its name has 300 bytes, at most 255`},
		{"wf-unknown-parent", `{"workflow": {"specification": {"tasks": [` + "\n" + `{"id": "mAdd_1", "parents": ["mImgtbl_ID9"]}, {"id": "mImgtbl_ID09"}]}}}`, `w:2: task "mAdd_1": its parent "mImgtbl_ID9" is not in this file (did you mean "mImgtbl_ID09"?)`},
		{"wf-unknown-child", `{"workflow": {"specification": {"tasks": [{"id": "a", "children": ["b"]}]}}}`, `its child "b" is not in this file`},
		{"wf-type", "{\"workflow\": {\"specification\": {\"tasks\": [\n{\"id\": \"a\", \"parents\": 5}]}}}", `w:2: parents is a number`},
		{"wf-stranger", "{\"workflow\": {\"specification\": {\"tasks\": [{\"id\": \"a\"}]}, \"execution\": {\"tasks\": [\n{\"id\": \"b\"}]}}}", `w:2: the execution has task "b", which the specification has not`},
		{"wf-cores", `{"workflow": {"specification": {"tasks": [{"id": "a"}]}, "execution": {"tasks": [{"id": "a", "coreCount": 1e9}]}}}`, `coreCount "1e9" makes no sense`},
		{"wf-cut", `{"workflow": {"specification": {"tasks": [{"id": "a"`, `this is no JSON: the text ends too early`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(strings.NewReader(c.text), Options{Name: "w", YAML: yaml.JSON})
			if err == nil {
				t.Fatalf("no error for\n%s", c.text)
			}
			var told *filch.Error
			if !errors.As(err, &told) || told.Kind != filch.Invalid {
				t.Fatalf("not an invalid filch.Error: %v", err)
			}
			got := told.Text
			if told.Hint != "" {
				got += " (" + told.Hint + ")"
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if strings.ContainsFunc(got, isControl) {
				t.Errorf("a control character in %q", got)
			}
		})
	}
}

func TestCheckInputs(t *testing.T) {
	g := load(t, mosaic)
	files, err := g.CheckInputs(func(string) (int64, error) { return 42, nil })
	if err != nil {
		t.Fatal(err)
	}
	if m := g.volume(); m.InitialFiles != 2 || files[0].Size != 42 {
		t.Errorf("got %+v, first file of %d bytes", m, files[0].Size)
	}
	_, err = g.CheckInputs(func(path string) (int64, error) {
		if path == "region.hdr" {
			return 0, errors.New("no such file")
		}
		return 1, nil
	})
	if err == nil || !strings.Contains(err.Error(), `task "project-1": its input "region.hdr" is written by no task and is not there: no such file`) {
		t.Errorf("got %v", err)
	}
}

func TestDot(t *testing.T) {
	g := load(t, strings.Replace(mosaic, "name: mosaic", `name: 'a "b" \n'`, 1))
	var b strings.Builder
	if err := g.WriteDot(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`digraph "a \"b\" \\n" {`, "t0 -> t1 [penwidth=3]", "t0 -> t2 [style=dashed]", `label="add\nmAdd\n1.5s"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

// Check goes on after errors, and counts those beyond its bound; the first is Load's.
func TestCheckFindsAll(t *testing.T) {
	var b strings.Builder
	b.WriteString("{\"filch\": 1, \"tasks\": {\n")
	for i := range 2 * ProblemsMax {
		fmt.Fprintf(&b, "%s\"t%d\": {\"run\": \"x\", \"cpus\": 0, \"after\": [\"nobody\"]}\n", strings.Repeat(",", min(i, 1)), i)
	}
	text := b.String() + "}}"
	g, errs, more := Check(strings.NewReader(text), Options{Name: "w"})
	if g == nil || len(g.Tasks) != 2*ProblemsMax || len(errs) != ProblemsMax || more != 3*ProblemsMax {
		t.Errorf("got %d errors and %d more, want %d and %d", len(errs), more, ProblemsMax, 3*ProblemsMax)
	}
	_, err := Load(strings.NewReader(text), Options{Name: "w"})
	if err == nil || err.Error() != errs[0].Error() {
		t.Errorf("Load says %v, Check first %v", err, errs[0])
	}
	if g, errs, more = Check(strings.NewReader(`{"filch": 1, "tasks": {"a": {"run": "x"}}}`), Options{}); g == nil || len(errs)+more > 0 {
		t.Errorf("a good file: got %v and %d more", errs, more)
	}
}

// TestParentsOf: the writers of a task's inputs come first; the other parents only come before the
// task, and are counted.
func TestParentsOf(t *testing.T) {
	g := loadText(t, `{"filch": 1, "tasks": {
"early": {"run": "true"},
"write": {"run": "true > x", "outputs": ["x"]},
"late": {"run": "true"},
"read": {"run": "cat x", "inputs": ["x", "own"], "after": ["early", "late", "write"]},
"gate": {"run": "true", "after": ["early", "write"]}}}`)
	for task, want := range []struct {
		parents string
		after   int
	}{3: {"[1 0 2]", 2}, 4: {"[0 1]", 2}} {
		if parents, after := g.ParentsOf(int32(task)); want.after > 0 && (fmt.Sprint(parents) != want.parents || after != want.after) {
			t.Errorf("task %d has the parents %v, %d without files; want %s, %d", task, parents, after, want.parents, want.after)
		}
	}
}
