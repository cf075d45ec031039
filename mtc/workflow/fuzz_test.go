package workflow

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/workflow/yaml"
)

// hinted is the hint of an error, if it has one.
func hinted(err error) string {
	var told *filch.Error
	if errors.As(err, &told) {
		return told.Hint
	}
	return ""
}

// told asserts that what a parser says is for people: a kind, and nothing that
// moves a cursor.
func told(t *testing.T, err error) {
	t.Helper()
	var e *filch.Error
	if !errors.As(err, &e) || strings.ContainsFunc(e.Text+e.Hint, isControl) || len(e.Text) > 4096 {
		t.Fatalf("not for people: %T %q", err, err)
	}
}

// fuzzLoad holds any text against what [Load] promises.
func fuzzLoad(t *testing.T, text string) {
	g, err := Load(strings.NewReader(text), Options{Name: "f", TimeScale: 0.5, SizeScale: 0.5, YAML: yaml.JSON})
	if err != nil {
		told(t, err)
		return
	}
	checkGraph(t, g)
	m := g.Measure()
	if m.Bound(3) < m.Critical || m.Bytes.Total() < 0 || m.Work < 0 {
		t.Fatalf("measure: %+v", m)
	}
	if err := g.WriteDot(io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := g.CheckInputs(func(string) (int64, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
}

func FuzzDAX(f *testing.F) {
	f.Add(dax(`<job id="a" name="n" runtime="1"><uses file="x" link="output" size="5"/></job><job id="b" runtime="-1"><uses file="x" link="inout" size="1e3"/></job><child ref="b"><parent ref="a"/></child>`))
	f.Add(`<adag jobCount="2"><job id="a"><profile key="runtime">1</profile></job></adag>`)
	f.Add(`<!DOCTYPE a [<!ENTITY x "y">]><adag>&x;</adag>`)
	f.Fuzz(func(t *testing.T, text string) { fuzzLoad(t, "<"+text) })
}

func FuzzWfFormat(f *testing.F) {
	f.Add(`{"workflow": {"specification": {"tasks": [{"id": "a", "name": "n", "children": ["b"], "outputFiles": ["/x:y"]}, {"id": "b", "parents": ["a"], "inputFiles": ["/x:y"]}], "files": [{"id": "/x:y", "sizeInBytes": 5}]}, "execution": {"tasks": [{"id": "a", "runtimeInSeconds": 0.5, "coreCount": 2, "command": {"program": "/p"}}]}}}`)
	f.Add(`{"workflow": {"tasks": [{"name": "a", "runtime": 1, "files": [{"link": "output", "name": "f", "size": 1}]}]}}`)
	f.Fuzz(func(t *testing.T, text string) { fuzzLoad(t, `{"schemaVersion": "1.5",`+strings.TrimPrefix(text, "{")) })
}

func FuzzNative(f *testing.F) {
	f.Add(mosaic)
	f.Add("filch: 1\ntasks:\n- {name: a, run: x, outputs: [y]}\n- {name: b, run: [z], inputs: y, after: a, once: true}\n")
	f.Add(`{"filch": 1, "tasks": {"a": {"run": "x"}}}`)
	f.Add("filch: 1\ntasks: &x {a: *x}")
	f.Fuzz(func(t *testing.T, text string) { fuzzLoad(t, text) })
}

func FuzzArray(f *testing.F) {
	f.Add("1-1000000:2%50")
	f.Add("1,3,5-7")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseArray(text)
		if err != nil {
			told(t, err)
			return
		}
		n := a.Len()
		last, ok := a.At(n - 1)
		if n < 1 || n > BagMax || !ok || last < 0 || last > IndexMax || a.check() != nil {
			t.Fatalf("%q: %d tasks, the last is %d", text, n, last)
		}
	})
}

func FuzzTemplate(f *testing.F) {
	f.Add("echo {} {1.} {-1/.}\n:::\na/b.c\n::::\nfile", "it's $HOME")
	f.Add("printf %s {}", "")
	f.Fuzz(func(t *testing.T, command, value string) {
		b, err := ParseSources(strings.Split(command, "\n"), openText(map[string]string{"file": "x\ny\n"}))
		if err != nil {
			told(t, err)
			return
		}
		for _, i := range []int64{0, b.Len() - 1} {
			if argv, err := b.Argv(i, 1); err != nil {
				told(t, err)
			} else if argv[0] == "" {
				t.Fatalf("%q: an empty command", command)
			}
		}
		// A quoted value is one word to a shell, which has no other way out.
		if q := Quote(value); strings.Count(q, "'")%2 != 0 && !strings.Contains(value, "'") {
			t.Fatalf("%q becomes %q", value, q)
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add("a\nb\r\n\n", false)
	f.Add("a\x00b", true)
	f.Fuzz(func(t *testing.T, text string, commands bool) {
		l := NewLines(strings.NewReader(text), "f", commands)
		var v Values
		if err := l.All(&v); err != nil {
			told(t, err)
		} else if err := v.check(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzEntries(f *testing.F) {
	f.Add("[\"a b\", [\"c\"], {\"run\": \"d\", \"cpus\": 2, \"env\": {\"A\": 1}}]")
	f.Add("\"a\"\n{\"run\": [\"b\"]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		e := NewEntries(strings.NewReader(text), "f")
		for n := 0; n <= len(text); n++ {
			task, err := e.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				told(t, err)
				return
			}
			if len(task.Run.Argv) == 0 || task.Run.Argv[0] == "" {
				t.Fatalf("an empty command: %+v", task)
			}
		}
		t.Fatalf("more entries than bytes")
	})
}
