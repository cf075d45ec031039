package papers

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/testbed/sim/ranges"
)

const root = "../../.."

// TestPage makes the page in tiny sizes: each figure has a run, each run a name that repeats it, and each plot
// a picture.
func TestPage(t *testing.T) {
	l, err := ranges.Open(t.TempDir(), "papers", "testbed/sim/papers")
	if err != nil {
		t.Fatal(err)
	}
	b := &Book{Data: t.TempDir(), Ledger: l} // without workflow files
	p, err := Make(b, Sizes[0], "here")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Failed {
		if !strings.Contains(f, errAbsent.Error()) && !strings.Contains(f, "is absent") {
			t.Errorf("a run failed: %s", f)
		}
	}
	if len(p.Failed) == 0 {
		t.Error("the runs of workflows without files did not fail")
	}
	md, page := read(t, dir, "README.md"), read(t, dir, "index.html")
	for _, s := range p.Sections {
		if s.Lines == "" || len(s.Theirs) == 0 || len(s.Tables) == 0 {
			t.Errorf("the section %q lacks its lines, the figures of a paper, or ours", s.Title)
		}
		runs := 0
		for _, table := range s.Tables {
			for _, row := range table.Rows {
				if len(row) != len(table.Columns) {
					t.Errorf("%s: a row of %d cells below %d columns", s.Title, len(row), len(table.Columns))
				}
				for _, c := range row {
					if c.Run > 0 {
						runs++
					}
					if c.Run > len(p.Runs) || strings.HasPrefix(c.Text, "no \"") {
						t.Errorf("%s: the cell %q has the run %d", s.Title, c.Text, c.Run)
					}
				}
			}
		}
		if runs == 0 {
			t.Errorf("the section %q has no figure of a run", s.Title)
		}
		for i := range s.Plots {
			if svg := read(t, dir, s.plotFile(i)); !strings.HasPrefix(svg, "<svg") || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || strings.Contains(svg, "%!") {
				t.Errorf("%s is no picture: %.200s", s.plotFile(i), svg)
			}
		}
	}
	for i, name := range p.Runs {
		if !strings.Contains(md, fmt.Sprintf("%d. `%s`\n", i+1, name)) || !strings.Contains(page, fmt.Sprintf("id=\"run%d\"", i+1)) || !strings.Contains(name, " seed=") {
			t.Errorf("run %d, %q, is not listed with its seed", i+1, name)
		}
	}
	for _, text := range []string{md, page} {
		if strings.Contains(text, "%!") || strings.Count(text, "did not run") == 0 {
			t.Errorf("the page has a wrong format, or does not say what did not run")
		}
	}
	again := &Book{Data: b.Data, Ledger: l}
	q, err := Make(again, Sizes[0], "here")
	if err != nil {
		t.Fatal(err)
	}
	if failed := len(q.Failed); again.ran != failed {
		t.Errorf("the second page ran %d runs, want the %d without a kept result", again.ran, failed)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRunsWithWrongNames(t *testing.T) {
	for _, name := range []string{
		"", "nosuch seed=1", "flat nodes=4", "flat nodes=4 slots=2 tasks=3 length=1s seed=1 color=red", "flat nodes=4 nodes=5 slots=2 tasks=3 length=1s seed=1",
		"flat nodes=x slots=2 tasks=3 length=1s seed=1", "bag scheduler=nosuch nodes=2 slots=2 tasks=2 length=1s seed=1", "pile workload=nosuch nodes=2 slots=2 storage=active seed=1",
		"tree tree=nosuch rule=dvs cores=5 seed=1", "policy workload=fan-in policy=nosuch hosts=2 seed=1", "gangs scheduler=CloudKon nodes=4 jobs=1 low=4 high=4 runs=1s seed=1",
	} {
		if r, err := Run(name, t.TempDir()); err == nil {
			t.Errorf("the run %q has the result %v", name, r)
		}
	}
}

// TestRunRepeats: the run with a name has the same numbers again, but for the time that it took.
func TestRunRepeats(t *testing.T) {
	const name = "flat nodes=50 slots=2 tasks=9 length=20ms vary=1 victims=random seed=3"
	a, err := Run(name, "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Run(name, "")
	if err != nil {
		t.Fatal(err)
	}
	for k, x := range a.Numbers {
		if k != "us/task" && b.Numbers[k] != x {
			t.Errorf("%s: %v and %v", k, x, b.Numbers[k])
		}
	}
}

// TestLinesNameWhatIsThere: each test and file that the list of lines names exists.
func TestLinesNameWhatIsThere(t *testing.T) {
	lines, err := Lines()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, l := range lines {
		for _, name := range regexp.MustCompile(`Test[A-Z]\w+`).FindAllString(l.Where, -1) {
			if named++; !tests[name] {
				t.Errorf("line %d names %s, which does not exist", l.Number, name)
			}
		}
		for _, name := range regexp.MustCompile(`\b(?:mtc|launcher|testbed|docs|dht|slots|stealer)/[\w./-]*\w`).FindAllString(l.Where, -1) {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("line %d: %v", l.Number, err)
			}
		}
	}
	if named < 50 {
		t.Errorf("the list names %d tests", named)
	}
}

// TestThin keeps both ends of a long curve, and its jumps at their places.
func TestThin(t *testing.T) {
	var long []Point
	for i := range 10_000 {
		long = append(long, Point{float64(i), float64(i / 5000)})
	}
	kept := thin(long)
	if len(kept) > pointsMax+2 || kept[0] != long[0] || kept[len(kept)-1] != long[len(long)-1] {
		t.Errorf("%d points from %v to %v", len(kept), kept[0], kept[len(kept)-1])
	}
	for i, p := range kept[1:] {
		if p.X <= kept[i].X || p.Y != float64(int(p.X)/5000) {
			t.Fatalf("the point %v after %v", p, kept[i])
		}
	}
}

func TestNumbersOfAnAxis(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.123456: "0.123", 84.4: "84.4", 1780: "1780", 49700: "49.7k", 262144: "262k", 1.5e6: "1.5M"} { // any order
		if got := short(x); got != want {
			t.Errorf("%v is written %q, want %q", x, got, want)
		}
	}
}
