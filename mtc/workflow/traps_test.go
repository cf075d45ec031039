package workflow

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/mtc/workflow/yaml"
)

func load(t testing.TB, text string) *Graph {
	t.Helper()
	g, err := Load(strings.NewReader(text), Options{Name: "w", YAML: yaml.JSON})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	checkGraph(t, g)
	return g
}

func dax(body string) string {
	return `<?xml version="1.0" encoding="UTF-8"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="small">
` + body + `
</adag>`
}

// Every trap of real files, on a small one.
func TestTraps(t *testing.T) {
	for _, c := range []struct{ name, text, traps, edges string }{
		{
			"several-writers", dax(`<job id="a" runtime="1"><uses file="log" link="output" size="5"/></job>
<job id="b" runtime="1"><uses file="log" link="output" size="5"/></job>
<job id="c" runtime="1"><uses file="log" link="input" size="5"/></job>`),
			"several-writers=1 data-without-edge=2", "a>c b>c",
		},
		{
			"overwritten", dax(`<job id="a" runtime="1"><uses file="x" link="output" size="1"/><uses file="y" link="output" size="1"/></job>
<job id="b" runtime="1"><uses file="x" link="input" size="1"/><uses file="z" link="output" size="1"/></job>
<job id="c" runtime="1"><uses file="z" link="input" size="1"/><uses file="x" link="output" size="1"/></job>`),
			"several-writers=1 data-without-edge=2 overwritten=1", "a>b b>c",
		},
		{
			"in-place", dax(`<job id="a" runtime="1"><uses file="x" link="inout" size="1"/></job>
<job id="b" runtime="1"><uses file="x" link="input" size="1"/></job>`),
			"data-without-edge=1 in-place=1", "a>b",
		},
		{
			"in-place-after-another", dax(`<job id="a" runtime="1"><uses file="x" link="output" size="1"/></job>
<job id="b" runtime="1"><uses file="x" link="inout" size="1"/></job><child ref="b"><parent ref="a"/></child>`),
			"several-writers=1 in-place=1", "a>b",
		},
		{
			"edge-without-data", dax(`<job id="a" runtime="1"/><job id="b" runtime="1"/><child ref="b"><parent ref="a"/></child>`),
			"edge-without-data=1", "a>b",
		},
		{
			"times", dax(`<job id="a" runtime="0"/><job id="b" runtime="-3.5"/><job id="c"/>`),
			"zero-time=1 time-below-zero=1 no-time=1", "",
		},
		{
			"sizes", dax(`<job id="a" runtime="1"><uses file="x" link="output" size="7"/><uses file="n" link="output" size="-9"/><uses file="u" link="output"/></job>
<job id="b" runtime="1"><uses file="x" link="input" size="8"/></job>`),
			"data-without-edge=1 sizes-differ=1 no-size=1 size-below-zero=1", "a>b",
		},
		{
			"wrong-count", `<adag version="2.1" name="n" jobCount="25" childCount="0"><job id="a" runtime="1"/></adag>`,
			"wrong-count=1", "",
		},
		{
			"big", dax(`<job id="a" runtime="1"><uses file="x" link="output" size="75000000000"/></job>`),
			"big=1", "",
		},
		{
			"odd-names", `{"workflow": {"specification": {"tasks": [{"name": "a", "id": "a_1", "parents": [], "children": [],
"inputFiles": ["/etc/passwd", "../../x", "s3://bucket/key:1"], "outputFiles": ["-rf", "a/b", "\u001b[2J"]}],
"files": [{"id": "/etc/passwd", "sizeInBytes": 10}, {"id": "../../x", "sizeInBytes": 10}, {"id": "s3://bucket/key:1", "sizeInBytes": 1},
{"id": "-rf", "sizeInBytes": 1}, {"id": "a/b", "sizeInBytes": 1}, {"id": "\u001b[2J", "sizeInBytes": 1}]},
"execution": {"tasks": [{"id": "a_1", "runtimeInSeconds": 2}]}}}`,
			"odd-name=6", "",
		},
		{
			"one-sided", `{"workflow": {"specification": {"tasks": [{"id": "a", "parents": [], "children": ["b"]}, {"id": "b", "parents": []}, {"id": "c", "parents": ["b"]}]},
"execution": {"tasks": [{"id": "a", "runtimeInSeconds": 1}, {"id": "b", "runtimeInSeconds": 1}, {"id": "c", "runtimeInSeconds": 1}]}}}`,
			"edge-without-data=2 one-sided-edge=2", "a>b b>c",
		},
		{
			"layout-of-1.3", `{"name": "old", "schemaVersion": "1.3", "workflow": {"tasks": [
{"name": "make", "type": "compute", "runtime": 1.5, "parents": [], "files": [{"link": "output", "name": "f", "size": 12}]},
{"name": "use", "type": "compute", "runtime": 2, "cores": 1, "parents": ["make"], "files": [{"link": "input", "name": "f", "size": 12}]}]}}`,
			"one-sided-edge=1", "make>use",
		},
		{
			"layout-of-1.4", `{"name": "old", "schemaVersion": "1.4", "workflow": {"tasks": [
{"name": "make", "id": "0001", "runtimeInSeconds": 1.5, "parents": [], "children": ["use"], "files": [{"link": "output", "name": "f", "sizeInBytes": 12}]},
{"name": "use", "id": "0002", "runtimeInSeconds": 2, "parents": ["make"], "files": [{"link": "input", "name": "f", "sizeInBytes": 12}]}]}}`,
			"", "0001>0002",
		},
		{
			"dax-3", `<adag version="3.6" name="n"><file name="in"><pfn url="file:///in" site="local"/></file>
<job id="a" name="p"><argument>-i <file name="in"/></argument><profile namespace="pegasus" key="runtime">12.5</profile><uses name="in" link="input" size="4"/></job></adag>`,
			"", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := load(t, c.text)
			want := map[string]bool{}
			for s := range strings.FieldsSeq(c.traps) {
				want[s] = true
			}
			for s := range strings.FieldsSeq(trapCounts(g)) {
				if !want[s] {
					t.Errorf("the trap %s was not expected", s)
				}
				delete(want, s)
			}
			for s := range want {
				t.Errorf("the trap %s was not found: got %q", s, trapCounts(g))
			}
			if got := edgesOf(g); got != c.edges {
				t.Errorf("edges: got %q, want %q", got, c.edges)
			}
		})
	}
}

func edgesOf(g *Graph) string {
	var s []string
	for _, task := range g.Tasks {
		for _, p := range task.Parents {
			s = append(s, g.Tasks[p].Name+">"+task.Name)
		}
	}
	return strings.Join(s, " ")
}

// Each writer of a file makes a version, and a reader reads all of those that
// it waits for.
func TestVersions(t *testing.T) {
	g := load(t, dax(`<job id="a" runtime="1"><uses file="log" link="output" size="5"/></job>
<job id="b" runtime="1"><uses file="log" link="output" size="5"/></job>
<job id="c" runtime="1"><uses file="log" link="input" size="5"/></job>`))
	var got []string
	for _, f := range g.Tasks[2].Inputs {
		got = append(got, fmt.Sprintf("%s by %s", g.Files[f].Path, g.Tasks[g.Files[f].Writer].Name))
	}
	if s := strings.Join(got, ", "); s != "log by a, log~2 by b" {
		t.Errorf("got %s", s)
	}
}

// Writers of different sizes keep their own sizes.
func TestVersionsKeepTheirSizes(t *testing.T) {
	g := load(t, dax(`<job id="a" runtime="1"><uses file="log" link="output" size="5"/></job>
<job id="b" runtime="1"><uses file="log" link="output" size="700"/></job>
<job id="c" runtime="1"><uses file="log" link="output" size="60"/></job>
<job id="d" runtime="1"><uses file="log" link="input" size="700"/></job>`))
	var got []string
	for _, f := range g.Files {
		got = append(got, fmt.Sprintf("%s:%d", f.Path, f.Size))
	}
	if s := strings.Join(got, " "); s != "log:5 log~2:700 log~3:60" {
		t.Errorf("got %s", s)
	}
}

// A DAX states the cores of a job as an attribute, or in a profile of Pegasus.
func TestCoresOfADAX(t *testing.T) {
	g := load(t, dax(`<job id="a" runtime="1" cores="4"/>
<job id="b" runtime="1"><profile namespace="pegasus" key="cores">8</profile></job>
<job id="c" runtime="1"/>`))
	if a, b, c := g.Tasks[0].Need.CPUs, g.Tasks[1].Need.CPUs, g.Tasks[2].Need.CPUs; a != 4 || b != 8 || c != 0 {
		t.Errorf("cores %d, %d and %d; want 4, 8 and none", a, b, c)
	}
	for _, cores := range []string{"0", "-1", "x", "99999999999"} {
		if _, err := Load(strings.NewReader(dax(`<job id="a" runtime="1" cores="`+cores+`"/>`)), Options{}); err == nil || !strings.Contains(err.Error(), "cores") {
			t.Errorf("cores=%s: %v", cores, err)
		}
	}
}

func TestScales(t *testing.T) {
	text := dax(`<job id="a" runtime="10"><uses file="x" link="output" size="4000"/><uses file="y" link="output" size="3"/><uses file="z" link="output" size="0"/></job>`)
	g, err := Load(strings.NewReader(text), Options{TimeScale: 0.01, SizeScale: 0.001})
	if err != nil {
		t.Fatal(err)
	}
	if c := g.Tasks[0].Cost; c.Seconds() != 0.1 {
		t.Errorf("time: got %v", c)
	}
	if g.Files[0].Size != 4 || g.Files[1].Size != 1 || g.Files[2].Size != 0 {
		t.Errorf("sizes: got %+v", g.Files)
	}
	for _, s := range []float64{-1, math.NaN(), math.Inf(1), 2 * ScaleMax} {
		if _, err := Load(strings.NewReader(text), Options{TimeScale: s}); err == nil {
			t.Errorf("a time scale of %v was taken", s)
		}
		if _, err := Load(strings.NewReader(text), Options{SizeScale: s}); err == nil {
			t.Errorf("a size scale of %v was taken", s)
		}
	}
}

// Whatever a file is called, its name in a sandbox is plain, and two ids never
// get the same.
func TestFlatten(t *testing.T) {
	seen := map[string]string{}
	for _, origin := range []string{
		"a", "/a", "./a", "a/", "a:", "..", ".", "-a", "~", "a~2", "a b", "a\x00", "a\n", "A", "ä", "\xff",
		strings.Repeat("x", 400), strings.Repeat("x", 401), "f/a", "/f/a", "con:", "a\\b",
	} {
		got := flatten(origin)
		if err := CheckPath(got); err != nil || strings.ContainsAny(got, "/ \\") || got[0] == '-' || got[0] == '.' {
			t.Errorf("%q: got %q (%v)", origin, got, err)
		}
		if old, twice := seen[got]; twice {
			t.Errorf("%q and %q both become %q", old, origin, got)
		}
		seen[got] = origin
	}
}
