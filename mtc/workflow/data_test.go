package workflow

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dataDir is where the published workflow files may be: beside the repository.
const dataDir = "../../../shared/data"

// dataFiles lists the published files, and skips where there are none.
func dataFiles(t testing.TB, pattern string, want int) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dataDir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("%s is absent: its workflow files are not tested", dataDir)
	}
	if len(files) != want {
		t.Errorf("%s: got %d files, want %d", pattern, len(files), want)
	}
	return files
}

func loadFile(t testing.TB, name string) *Graph {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Load(bytes.NewReader(text), Options{Name: filepath.Base(name)})
	if err != nil {
		t.Fatal(err)
	}
	checkGraph(t, g)
	return g
}

// trapCounts is the traps of a graph as one line.
func trapCounts(g *Graph) string {
	var s []string
	for _, t := range g.Traps {
		s = append(s, fmt.Sprintf("%s=%d", t.Kind, t.Count))
	}
	return strings.Join(s, " ")
}

// What is known of the published files: tasks, and the traps that matter to
// who runs them. The others are counted by the slow reading below.
func TestPublishedDAX(t *testing.T) {
	traps := map[string]string{
		"CyberShake_30": "edge-without-data=26", "CyberShake_1000": "edge-without-data=994",
		"Montage_25": "several-writers=2", "Montage_100": "several-writers=2", "Montage_1000": "several-writers=2",
		"Sipht_100": "several-writers=51 data-without-edge=96", "Inspiral_1000": "several-writers=3 data-without-edge=29",
		"Epigenomics_997": "zero-time=4 time-below-zero=57", "HEFT_paper": "wrong-count=",
	}
	for _, name := range dataFiles(t, "dax/*.xml", 15) {
		short := strings.TrimSuffix(filepath.Base(name), ".xml")
		t.Run(short, func(t *testing.T) {
			g := loadFile(t, name)
			for want := range strings.FieldsSeq(traps[short]) {
				if !strings.Contains(" "+trapCounts(g)+" ", " "+want) {
					t.Errorf("traps: got %q, want %q among them", trapCounts(g), want)
				}
			}
			compare(t, g, slowDAX(t, name))
			t.Log(describe(g))
		})
	}
}

func TestPublishedWfFormat(t *testing.T) {
	zero := 0
	for _, name := range dataFiles(t, "wfformat/*.json", 22) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json"), func(t *testing.T) {
			g := loadFile(t, name)
			for _, trap := range g.Traps {
				if trap.Kind == TrapNoTime {
					zero += trap.Count
				}
			}
			compare(t, g, slowWfFormat(t, name))
			t.Log(describe(g))
		})
	}
	if zero != 76 {
		t.Errorf("tasks with a run time of zero: got %d, want 76", zero)
	}
}

func describe(g *Graph) string {
	m := g.Measure()
	return fmt.Sprintf("%s %q: %d tasks, %d edges (%d named), %d levels, width %d, work %v, critical %v over %d, %s in %d files; %s",
		g.Format, g.Name, m.Tasks, m.Edges, m.Named, len(m.Levels), m.Width, m.Work, m.Critical, len(m.Chain), Bytes(m.Bytes.Total()), m.Bytes.Files(), trapCounts(g))
}

// slow is a workflow as an independent and slow reading has it: tasks by
// name, and every edge, declared or by data, as a pair.
type slow struct {
	seconds map[string]float64
	edges   map[[2]string]bool
}

func (s *slow) data(reads, writes map[string][]string) {
	for file, readers := range reads {
		for _, r := range readers {
			for _, w := range writes[file] {
				if w != r {
					s.edges[[2]string{w, r}] = true
				}
			}
		}
	}
}

func slowDAX(t *testing.T, name string) *slow {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Jobs []struct {
			ID      string  `xml:"id,attr"`
			Runtime float64 `xml:"runtime,attr"`
			Uses    []struct {
				File string `xml:"file,attr"`
				Link string `xml:"link,attr"`
			} `xml:"uses"`
		} `xml:"job"`
		Children []struct {
			Ref     string `xml:"ref,attr"`
			Parents []struct {
				Ref string `xml:"ref,attr"`
			} `xml:"parent"`
		} `xml:"child"`
	}
	if err := xml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	s := &slow{seconds: map[string]float64{}, edges: map[[2]string]bool{}}
	reads, writes := map[string][]string{}, map[string][]string{}
	for _, j := range doc.Jobs {
		s.seconds[j.ID] = j.Runtime
		for _, u := range j.Uses {
			if u.Link == "input" {
				reads[u.File] = append(reads[u.File], j.ID)
			} else {
				writes[u.File] = append(writes[u.File], j.ID)
			}
		}
	}
	for _, c := range doc.Children {
		for _, p := range c.Parents {
			s.edges[[2]string{p.Ref, c.Ref}] = true
		}
	}
	s.data(reads, writes)
	return s
}

func slowWfFormat(t *testing.T, name string) *slow {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	workflow := doc["workflow"].(map[string]any)
	s := &slow{seconds: map[string]float64{}, edges: map[[2]string]bool{}}
	reads, writes := map[string][]string{}, map[string][]string{}
	strs := func(v any) (all []string) {
		list, _ := v.([]any)
		for _, x := range list {
			all = append(all, x.(string))
		}
		return all
	}
	for _, v := range workflow["specification"].(map[string]any)["tasks"].([]any) {
		task := v.(map[string]any)
		id := task["id"].(string)
		for _, p := range strs(task["parents"]) {
			s.edges[[2]string{p, id}] = true
		}
		for _, c := range strs(task["children"]) {
			s.edges[[2]string{id, c}] = true
		}
		for _, f := range strs(task["inputFiles"]) {
			reads[f] = append(reads[f], id)
		}
		for _, f := range strs(task["outputFiles"]) {
			writes[f] = append(writes[f], id)
		}
	}
	for _, v := range workflow["execution"].(map[string]any)["tasks"].([]any) {
		task := v.(map[string]any)
		s.seconds[task["id"].(string)] = task["runtimeInSeconds"].(float64)
	}
	s.data(reads, writes)
	return s
}

// levels is by relaxation until nothing changes: no order, no queue.
func (s *slow) levels() map[string]int {
	level := map[string]int{}
	for changed := true; changed; {
		changed = false
		for e := range s.edges {
			if level[e[1]] <= level[e[0]] {
				level[e[1]] = level[e[0]] + 1
				changed = true
			}
		}
	}
	return level
}

// critical is the longest chain, in seconds, by the same.
func (s *slow) critical() float64 {
	end := map[string]float64{}
	longest := 0.0
	for task, c := range s.seconds {
		end[task] = max(c, 0)
		longest = max(longest, end[task])
	}
	for changed := true; changed; {
		changed = false
		for e := range s.edges {
			if v := end[e[0]] + max(s.seconds[e[1]], 0); v > end[e[1]] {
				end[e[1]], changed = v, true
				longest = max(longest, v)
			}
		}
	}
	return longest
}

// compare holds a graph against the slow reading.
func compare(t *testing.T, g *Graph, s *slow) {
	t.Helper()
	if len(g.Tasks) != len(s.seconds) {
		t.Errorf("tasks: got %d, want %d", len(g.Tasks), len(s.seconds))
	}
	var got, want []string
	for _, task := range g.Tasks {
		for _, p := range task.Parents {
			got = append(got, g.Tasks[p].Name+" "+task.Name)
		}
	}
	for e := range s.edges {
		want = append(want, e[0]+" "+e[1])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("edges: got %d, want %d, or others", len(got), len(want))
	}
	levels := s.levels()
	for i, l := range g.LevelsOf() {
		if name := g.Tasks[i].Name; int(l) != levels[name] {
			t.Errorf("level of %s: got %d, want %d", name, l, levels[name])
		}
	}
	m := g.Measure()
	if c := s.critical(); m.Critical.Seconds() < c*0.999999-1e-6 || m.Critical.Seconds() > c*1.000001+1e-6 {
		t.Errorf("critical path: got %v, want %v s", m.Critical, c)
	}
}

// checkGraph asserts what every returned graph promises.
func checkGraph(t testing.TB, g *Graph) {
	t.Helper()
	written := map[int32]bool{}
	paths := map[string]bool{}
	for i := range g.Files {
		f := &g.Files[i]
		if err := CheckPath(f.Path); err != nil || paths[f.Path] {
			t.Fatalf("file %q: %v, or there twice", f.Path, err)
		}
		paths[f.Path] = true
		if f.Size < -1 || f.Size > SizeMax || f.Writer >= int32(len(g.Tasks)) {
			t.Fatalf("file %q: size %d, writer %d", f.Path, f.Size, f.Writer)
		}
	}
	names := map[string]bool{}
	for i := range g.Tasks {
		task := &g.Tasks[i]
		if names[task.Name] || task.Name == "" || len(task.Name) > NameMax || task.Cost < 0 {
			t.Fatalf("task %q: there twice, or name or time (%v) make no sense", task.Name, task.Cost)
		}
		names[task.Name] = true
		for _, list := range [][]int32{task.Inputs, task.Outputs, task.Parents, task.After} {
			if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
				t.Fatalf("task %q: a list is not ascending: %v", task.Name, list)
			}
		}
		for _, f := range task.Outputs {
			if g.Files[f].Writer != int32(i) || written[f] || slices.Contains(task.Inputs, f) {
				t.Fatalf("task %q: file %q has writer %d, or is read too", task.Name, g.Files[f].Path, g.Files[f].Writer)
			}
			written[f] = true
		}
		for _, f := range task.Inputs {
			if w := g.Files[f].Writer; w >= 0 && !slices.Contains(task.Parents, w) {
				t.Fatalf("task %q reads %q and does not wait for its writer", task.Name, g.Files[f].Path)
			}
		}
		for _, p := range task.After {
			if !slices.Contains(task.Parents, p) {
				t.Fatalf("task %q does not wait for its parent %q", task.Name, g.Tasks[p].Name)
			}
		}
	}
	for i := range g.Files {
		if w := g.Files[i].Writer; w >= 0 && !written[int32(i)] {
			t.Fatalf("file %q: task %q does not list it", g.Files[i].Path, g.Tasks[w].Name)
		}
	}
	if len(g.Order()) != len(g.Tasks) {
		t.Fatalf("a cycle")
	}
}
