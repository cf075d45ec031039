package workflow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/mtc/workflow/yaml"
)

// What no test can afford to write out is counted up to its bound by hand.
func TestBounds(t *testing.T) {
	fresh := func() *builder {
		b := newBuilder(source{"w"}, false)
		if _, err := b.task("t", "", 1); err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := fresh()
	b.uses = EdgesMax
	if err := b.input(0, "x", -1, 7); err == nil || !strings.Contains(err.Error(), `w:7: task "t": too many uses of files: at most 16777216`) {
		t.Errorf("uses: got %v", err)
	}
	b = fresh()
	b.declared = make([]declared, EdgesMax)
	if err := b.after(0, "x", 8); err == nil || !strings.Contains(err.Error(), `w:8: task "t": too many edges`) {
		t.Errorf("edges: got %v", err)
	}
	b = fresh()
	b.g.Files = make([]File, FilesMax)
	if err := b.output(0, "x", -1, 9); err == nil || !strings.Contains(err.Error(), `w:9: task "t": the file "x" is one too many: at most 4194304`) {
		t.Errorf("files: got %v", err)
	}
	b = fresh()
	b.g.Tasks = make([]Task, TasksMax)
	if _, err := b.task("u", "", 10); err == nil || !strings.Contains(err.Error(), `w:10: task "u" is one too many: at most 1048576`) {
		t.Errorf("tasks: got %v", err)
	}
	w := &wfReader{jsonText: newJSONText(source{"w"}, []byte(`{"id": "a", "parents": ["b"]}`)), named: EdgesMax}
	if err := w.task(1); err == nil || !strings.Contains(err.Error(), "too many edges and uses of files") {
		t.Errorf("edges of WfFormat: got %v", err)
	}
	n := &tree{src: source{"w"}, count: nodesMax}
	if _, err := n.json(newJSONText(source{"w"}, []byte("{}")), 0); err == nil || !strings.Contains(err.Error(), "too many values") {
		t.Errorf("values: got %v", err)
	}
}

// A file that many write and many read makes edges by their product, which is
// bounded too; so is a command.
func TestBoundsOfProducts(t *testing.T) {
	var b strings.Builder
	for i := range 4200 {
		fmt.Fprintf(&b, "<job id=\"w%d\" runtime=\"1\"><uses file=\"f\" link=\"output\" size=\"1\"/></job>\n", i)
	}
	for i := range 4200 {
		fmt.Fprintf(&b, "<job id=\"r%d\" runtime=\"1\"><uses file=\"f\" link=\"input\" size=\"1\"/></job>\n", i)
	}
	if _, err := Load(strings.NewReader(dax(b.String())), Options{Name: "w", YAML: yaml.JSON}); err == nil || !strings.Contains(err.Error(), "too many edges: at most 16777216") {
		t.Errorf("edges: got %v", err)
	}
	long := "filch: 1\ntasks:\n  t:\n    run: [x, " + strings.Repeat("y, ", WordsMax) + "]\n"
	if _, err := Load(strings.NewReader(long), Options{Name: "w", YAML: yaml.JSON}); err == nil || !strings.Contains(err.Error(), `task "t": its run has 65537 words, at most 65536`) {
		t.Errorf("words: got %v", err)
	}
	long = "filch: 1\ntasks:\n  t:\n    run: x " + strings.Repeat("y", TextMax) + "\n"
	if _, err := Load(strings.NewReader(long), Options{Name: "w", YAML: yaml.JSON}); err == nil || !strings.Contains(err.Error(), `its command and environment have 1048579 bytes`) {
		t.Errorf("text: got %v", err)
	}
	template := Template{Words: []string{strings.Repeat("{}", 20)}}
	if _, err := template.Expand([]string{strings.Repeat("v", LineMax)}, 3, 1); err == nil || !strings.Contains(err.Error(), "the command of task 3 has more than 1048576 bytes") {
		t.Errorf("template: got %v", err)
	}
	var bag Bag
	for range 4 {
		s := Source{}
		for range 1000 {
			if err := s.Values.Add("v"); err != nil {
				t.Fatal(err)
			}
		}
		bag.Sources = append(bag.Sources, s)
	}
	if err := bag.Check(); err == nil || !strings.Contains(err.Error(), "more than 1000000000 tasks") {
		t.Errorf("bag: got %v", err)
	}
	for _, bad := range []Bag{
		{Array: Array{Ranges: []Range{{First: 1, Last: 5}}}},
		{Array: Array{Ranges: []Range{{First: -1, Last: 5, Step: 1}}}},
		{Array: Array{Ranges: []Range{{First: 1, Last: 5, Step: 1}}}, Sources: make([]Source, 1)},
		{Sources: []Source{{Linked: true}}},
		{Sources: []Source{{Values: Values{Text: []byte("ab"), End: []uint32{2, 1}}}}},
		{Sources: []Source{{Values: Values{Text: []byte("ab"), End: []uint32{3}}}}},
		{Sources: make([]Source, SourcesMax+1)},
	} {
		if bad.Check() == nil {
			t.Errorf("taken: %+v", bad)
		}
	}
}
