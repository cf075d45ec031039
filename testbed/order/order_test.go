package order

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/mtc/workflow"
	"github.com/filch-hpc/filch/mtc/workflow/replay"
	"github.com/filch-hpc/filch/mtc/workflow/yaml"
)

// asTask makes this test binary a task of a replay.
const asTask = "FILCH_TEST_REPLAY"

func TestMain(m *testing.M) {
	if os.Getenv(asTask) == "" {
		os.Exit(m.Run())
	}
	s, err := replay.Parse(os.Args[1:])
	if err == nil {
		err = replay.Play(s, ".")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hands runs a replay on so many slots of this machine, in one folder, in the
// simplest way that there is. Swap is an edge that it turns around.
type hands struct {
	g     *workflow.Graph
	dir   string
	trace string
	swap  *swap
}

type swap struct{ parent, child int32 }

// ready reports whether task i may start, given how far each task is.
func (h *hands) ready(i int32, state []int) bool {
	for _, p := range h.g.Tasks[i].Parents {
		if state[p] != 2 && (h.swap == nil || *h.swap != swap{p, i}) {
			return false
		}
	}
	return state[i] == 0 && (h.swap == nil || h.swap.parent != i || state[h.swap.child] == 2)
}

func (h *hands) run(t *testing.T, slots int) (failed int) {
	t.Helper()
	if err := replay.Prepare(h.g, h.dir); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type end struct {
		task int32
		err  error
	}
	ends := make(chan end)
	state := make([]int, len(h.g.Tasks)) // 0 waiting, 1 running, 2 ended
	running := 0
	start := func(i int32) {
		cmd := exec.CommandContext(t.Context(), self, h.args(i)...)
		cmd.Dir, cmd.Env = h.dir, append(os.Environ(), asTask+"=1")
		go func() { ends <- end{i, cmd.Run()} }()
	}
	for done := 0; done < len(h.g.Tasks); {
		for i := range h.g.Tasks {
			if running < slots && h.ready(int32(i), state) {
				state[i] = 1
				running++
				start(int32(i))
			}
		}
		e := <-ends
		state[e.task] = 2
		running--
		done++
		if e.err != nil {
			failed++
		}
	}
	return failed
}

func load(t *testing.T, text string, o workflow.Options) *workflow.Graph {
	t.Helper()
	o.YAML = yaml.JSON
	g, err := workflow.Load(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// small has every kind of dependency: by an edge alone, by a file alone, by
// both, and by a file with two writers.
const small = `<adag version="2.1" name="small">
<job id="a" name="make" runtime="0.05"><uses file="in" link="input" size="100"/><uses file="x" link="output" size="70000"/><uses file="log" link="output" size="9"/></job>
<job id="b" name="make" runtime="0.02"><uses file="log" link="output" size="40"/></job>
<job id="c" name="use" runtime="0"><uses file="x" link="input" size="70000"/><uses file="y" link="output" size="500"/></job>
<job id="d" name="wait" runtime="0.01"/>
<job id="e" name="both" runtime="0"><uses file="log" link="input" size="40"/><uses file="z" link="output" size="0"/></job>
<job id="f" name="chain" runtime="0"><uses file="y" link="input" size="500"/></job>
<child ref="c"><parent ref="a"/></child>
<child ref="d"><parent ref="a"/></child>
</adag>`

func replayed(t *testing.T, g *workflow.Graph, s *swap, slots int) ([]byte, string, int) {
	t.Helper()
	h := &hands{g: g, dir: t.TempDir(), trace: filepath.Join(t.TempDir(), "trace"), swap: s}
	failed := h.run(t, slots)
	b, err := os.ReadFile(h.trace)
	if err != nil {
		t.Fatal(err)
	}
	return b, h.dir, failed
}

func TestReplay(t *testing.T) {
	g := load(t, small, workflow.Options{})
	trace, dir, failed := replayed(t, g, nil, 3)
	r, err := Check(g, bytes.NewReader(trace))
	if err != nil || failed != 0 || r.Tasks != 6 || r.Starts != 6 || r.Edges != 5 || r.Files != 10 {
		t.Errorf("%v, %d failed, %v", r, failed, err)
	}
	// What is left is what the workflow alone says.
	sums, err := Sums(g)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range g.Files {
		file, err := os.Open(filepath.Join(dir, f.Path))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := replay.Verify(file, f.Size); err != nil || got != sums[i] {
			t.Errorf("%s: %v", f.Path, err)
		}
		_ = file.Close()
	}
}

// The checker bites: for every edge, a run that does not honor it is seen, be
// there data with it or not.
func TestCheckBites(t *testing.T) {
	g := load(t, small, workflow.Options{})
	for i := range g.Tasks {
		for _, p := range g.Tasks[i].Parents {
			parent, child := g.Tasks[p].Name, g.Tasks[i].Name
			trace, _, _ := replayed(t, g, &swap{p, int32(i)}, 10)
			_, err := Check(g, bytes.NewReader(trace))
			if want := fmt.Sprintf("task %s was started before its parent %s had ended", child, parent); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	trace, _, _ := replayed(t, g, nil, 1)
	lines := strings.SplitAfter(strings.TrimSuffix(string(trace), "\n"), "\n")
	for name, c := range map[string]struct{ text, want string }{
		"missing task": {strings.Join(lines[:len(lines)-2], ""), "never ended well"},
		"other order":  {strings.Join(append([]string{lines[len(lines)-2]}, lines...), ""), "was started before its parent"},
		"other sum":    {strings.Replace(string(trace), `"sha256":"`, `"sha256":"00`, 1), "other files than it should have"},
		"no start":     {strings.Join(lines[1:], ""), "ended without having been started"},
		"too fast":     {strings.Replace(string(trace), `"took_ns":`, `"took_ns":1,"x":`, 1), "should take"},
		"stranger":     {strings.Replace(string(trace), `"task":"a"`, `"task":"q"`, 1), `no task "q"`},
		"no trace":     {"{", "line 1 of the trace"},
	} {
		if _, err := Check(g, strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// Published workflows of the papers' applications, as processes.
func TestReplayPublished(t *testing.T) {
	const data = "../../../shared/data"
	for _, name := range []string{"dax/Montage_25.xml", "dax/CyberShake_30.xml", "dax/Sipht_30.xml", "dax/HEFT_paper.xml", "wfformat/sarek-dirt02-001.json", "wfformat/helloworld-forkjoin-10-chameleon.json"} {
		t.Run(strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(data, name))
			if errors.Is(err, os.ErrNotExist) {
				t.Skipf("%s is absent: its workflow files are not replayed", data)
			}
			if err != nil {
				t.Fatal(err)
			}
			g := load(t, string(text), workflow.Options{Name: name, TimeScale: 0.0002, SizeScale: 0.0001})
			trace, _, failed := replayed(t, g, nil, 4)
			r, err := Check(g, bytes.NewReader(trace))
			if err != nil || failed > 0 {
				t.Errorf("%v; %d failed; %v", r, failed, err)
			}
			t.Log(r)
		})
	}
}

// args are the arguments of filch replay for a task.
func (h *hands) args(i int32) []string {
	task := &h.g.Tasks[i]
	args := []string{"--task", task.Name, "--time", task.Cost.String(), "--trace", h.trace}
	for way, files := range map[string][]int32{"in": task.Inputs, "out": task.Outputs} {
		for _, f := range files {
			args = append(args, fmt.Sprintf("%s:%d:%s", way, max(h.g.Files[f].Size, 0), h.g.Files[f].Path))
		}
	}
	return args
}
