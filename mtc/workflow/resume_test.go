package workflow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

// chainText is four tasks: a writes x for b and c, b writes y for d, c is a final one.
const chainText = `{"filch": 1, "tasks": {
"a": {"run": "cat in > x", "inputs": ["in"], "outputs": ["x"]},
"b": {"run": "cat x > y", "inputs": ["x"], "outputs": ["y"], "cpus": 2, "mem": "1G"},
"c": {"run": "cat x > z", "inputs": ["x"], "outputs": ["z"]},
"d": {"run": "cat y > w", "inputs": ["y"], "outputs": ["w"], "env": {"A": "1"}},
"e": {"run": "true", "after": ["c"]}}}`

func loadText(t *testing.T, text string) *Graph {
	t.Helper()
	g, err := Load(strings.NewReader(text), Options{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func sameSum(int32) []byte { return []byte("one") }

// A change of what a task does changes the marks of the task and of all tasks after, and
// no others.
func TestMarksFollowTheWork(t *testing.T) {
	base := loadText(t, chainText).Marks(sameSum)
	for _, c := range []struct{ name, old, now, want string }{
		{"a command", "cat y > w", "cat y y > w", "d"},
		{"a command above", "cat in > x", "cat in in > x", "a b c d e"},
		{"cpus", `"cpus": 2`, `"cpus": 3`, "b d"},
		{"environment", `"A": "1"`, `"A": "2"`, "d"},
		{"an output's name", `cat x > z", "inputs": ["x"], "outputs": ["z"]`, `cat x > z", "inputs": ["x"], "outputs": ["zz"]`, "c e"},
		{"memory", "1G", "2G", ""},
		{"a limit", `"mem": "1G"`, `"mem": "1G", "time_limit": "9s", "retries": 4, "kind": "k", "time": "1s"`, ""},
		{"an edge", `"after": ["c"]`, `"after": ["b"]`, "e"},
	} {
		if !strings.Contains(chainText, c.old) {
			t.Fatalf("%s: the text has no %s", c.name, c.old)
		}
		g := loadText(t, strings.Replace(chainText, c.old, c.now, 1))
		if got := differing(g, base, g.Marks(sameSum)); got != c.want {
			t.Errorf("%s: got other marks of %q, want %q", c.name, got, c.want)
		}
	}
	g := loadText(t, chainText)
	if got := differing(g, base, g.Marks(func(int32) []byte { return []byte("two") })); got != "a b c d e" {
		t.Errorf("another input: got other marks of %q, want all", got)
	}
}

func differing(g *Graph, a, b []Mark) string {
	var names []string
	for i := range a {
		if a[i] != b[i] {
			names = append(names, g.Tasks[i].Name)
		}
	}
	return strings.Join(names, " ")
}

func TestResumeRunsWhatIsNeeded(t *testing.T) {
	g := loadText(t, chainText)
	marks := g.Marks(sameSum)
	for _, c := range []struct {
		name    string
		failed  string // tasks that failed
		never   string // tasks without an earlier run
		changed string // tasks with another mark
		missing string // files
		want    string
	}{
		{name: "nothing"},
		{name: "a failure", failed: "b", never: "d", want: "b:state d:after b"},
		{name: "a missing result", missing: "w", want: "d:file w"},
		{name: "a result whose input is gone", missing: "w y", want: "b:file y d:file w"},
		{name: "an input of nobody is gone", missing: "x y"},
		{name: "all is gone", missing: "x y w", want: "a:file x b:file y c:after a d:file w e:after c"},
		{name: "a change", changed: "c", want: "c:changed e:after c"},
		{name: "a new task", never: "e", want: "e:new"},
	} {
		in := func(list, name string) bool { return slices.Contains(strings.Fields(list), name) }
		past := make([]Past, len(g.Tasks))
		for i := range past {
			name := g.Tasks[i].Name
			past[i] = Past{State: filch.OK, Mark: marks[i]}
			switch {
			case in(c.failed, name):
				past[i].State = filch.Failed
			case in(c.never, name):
				past[i] = Past{}
			case in(c.changed, name):
				past[i].Mark[3]++
			}
		}
		again, _ := resumeAsking(t, g, marks, past, func(file int32) bool { return !in(c.missing, g.Files[file].Path) })
		var got []string
		for i, r := range again {
			switch name := g.Tasks[i].Name; r.Why {
			case WhyNot:
			case WhyNew:
				got = append(got, name+":new")
			case WhyState:
				got = append(got, name+":state")
			case WhyChanged:
				got = append(got, name+":changed")
			case WhyFile:
				got = append(got, name+":file "+g.Files[r.File].Path)
			case WhyAfter:
				got = append(got, name+":after "+g.Tasks[r.Task].Name)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: got %q, want %q", c.name, s, c.want)
		}
	}
}

// resumeAsking answers the questions of Resume.
func resumeAsking(t *testing.T, g *Graph, marks []Mark, past []Past, have func(file int32) bool) (again []Reason, rounds int) {
	t.Helper()
	start, _ := g.Readers()
	known := map[int32]Presence{}
	for {
		again, ask := g.Resume(marks, past, func(f int32) bool { return start[f] == start[f+1] }, func(f int32) Presence { return known[f] })
		if len(ask) == 0 {
			return again, rounds
		}
		if rounds++; rounds > len(g.Tasks)+1 {
			t.Fatalf("%d rounds of questions about %d tasks", rounds, len(g.Tasks))
		}
		for _, f := range ask {
			if known[f] != Unasked {
				t.Fatalf("asked twice about file %d", f)
			}
			if known[f] = Missing; have(f) {
				known[f] = Present
			}
		}
	}
}

// In random graphs the tasks to run are closed: after a task that runs all of its children
// run, each input of a task that runs is there or made by a task that runs, each result
// is there or made, and a task runs only for a reason.
func TestResumeIsClosed(t *testing.T) {
	for seed := range uint64(300) {
		d := rand.New(rand.NewPCG(seed, 1))
		n := 2 + d.IntN(30)
		var b strings.Builder
		b.WriteString(`{"filch": 1, "tasks": {`)
		for i := range n {
			var in []string
			for p := range i {
				if d.IntN(i) < 2 {
					in = append(in, fmt.Sprintf("%q", fmt.Sprintf("f%d", p)))
				}
			}
			fmt.Fprintf(&b, `%s"t%d": {"run": "x", "inputs": [%s], "outputs": ["f%d"]}`, strings.Repeat(",", min(i, 1)), i, strings.Join(in, ","), i)
		}
		g := loadText(t, b.String()+"}}")
		marks := g.Marks(sameSum)
		past, have := make([]Past, n), make([]bool, len(g.Files))
		for i := range past {
			past[i] = Past{State: filch.OK, Mark: marks[i]}
			if d.IntN(10) == 0 {
				past[i].State = filch.Failed
			}
		}
		for i := range have {
			have[i] = d.IntN(3) > 0
		}
		again, rounds := resumeAsking(t, g, marks, past, func(f int32) bool { return have[f] })
		start, _ := g.Readers()
		for i := range g.Tasks {
			runs := again[i].Why != WhyNot
			for _, p := range g.Tasks[i].Parents {
				if again[p].Why != WhyNot && !runs {
					t.Errorf("seed %d: task %d runs, and task %d after it does not", seed, p, i)
				}
			}
			for _, f := range g.Tasks[i].Inputs {
				if w := g.Files[f].Writer; runs && w >= 0 && again[w].Why == WhyNot && !have[f] {
					t.Errorf("seed %d: task %d runs without its input %d", seed, i, f)
				}
			}
			for _, f := range g.Tasks[i].Outputs {
				if final := start[f] == start[f+1]; final && !runs && !have[f] {
					t.Errorf("seed %d: the result %d of task %d is missing", seed, f, i)
				}
				if again[i].Why == WhyFile && again[i].File == f && have[f] {
					t.Errorf("seed %d: task %d runs for a file that is there", seed, i)
				}
			}
			if past[i].State != filch.OK && !runs || again[i].Why == WhyAfter && again[again[i].Task].Why == WhyNot {
				t.Errorf("seed %d: task %d has the reason %v", seed, i, again[i])
			}
		}
		if depth := len(g.Measure().Levels); rounds > depth+1 {
			t.Errorf("seed %d: %d rounds of questions, and %d levels", seed, rounds, depth)
		}
	}
}

// joinText is a task that reads the files of two tasks.
const joinText = `{"filch": 1, "tasks": {
"p": {"run": "echo > p", "outputs": ["p"]},
"q": {"run": "echo > q", "outputs": ["q"]},
"r": {"run": "cat p q", "inputs": ["p", "q"]}}}`

// A task that did not end well has that reason, also when a task that reads the missing
// file was found first. Nobody asks for the file of such a task.
func TestResumeTellsTheEndBeforeTheFile(t *testing.T) {
	g := loadText(t, joinText)
	marks := g.Marks(sameSum)
	for _, c := range []struct {
		q    Past
		want Reason
	}{
		{Past{filch.Cancelled, marks[1]}, Reason{Why: WhyState, Old: filch.Cancelled}},
		{Past{filch.Skipped, marks[1]}, Reason{Why: WhyState, Old: filch.Skipped}},
		{Past{}, Reason{Why: WhyNew}},
		{Past{State: filch.OK}, Reason{Why: WhyChanged}},
		{Past{filch.OK, marks[1]}, Reason{Why: WhyFile, File: g.Tasks[1].Outputs[0]}},
	} {
		past := []Past{{filch.Failed, marks[0]}, c.q, {filch.Skipped, marks[2]}}
		asked := false
		again, _ := g.Resume(marks, past, func(int32) bool { return false }, func(int32) Presence {
			asked = true
			return Missing
		})
		if again[1] != c.want || asked != (c.want.Why == WhyFile) {
			t.Errorf("q ended as %v: runs again for %+v, asked %v; want %+v", c.q.State, again[1], asked, c.want)
		}
	}
}
