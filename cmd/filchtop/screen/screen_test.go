package screen

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

var began = time.Unix(1_700_000_000, 0)

// node is a node that is up, with slots of jobs as JOB:SLOTS; a negative number of slots are
// slots of a job that gathers.
func node(name string, slots int32, jobs ...[2]int32) wire.NodeGlance {
	n := wire.NodeGlance{Node: filch.NodeName(name), State: "up", Slots: slots, Work: launcher.Work{Node: filch.NodeName(name), Slots: slots}}
	for _, j := range jobs {
		h := launcher.Holder{Job: filch.JobID(j[0]), Slots: max(j[1], -j[1]), Gathers: j[1] < 0}
		n.Holders = append(n.Holders, h)
		if j[1] > 0 {
			n.Work.Busy += j[1]
		}
	}
	return n
}

func bag(id filch.JobID, name string, ended, total int32) wire.OverviewJob {
	j := wire.OverviewJob{}
	j.ID, j.Name, j.Kind, j.State, j.Elapsed = id, name, "bag", "running", 20
	j.Tasks = launcher.TaskCounts{Total: total, OK: ended, Running: 8, Ready: total - ended - 8}
	return j
}

func run(id filch.JobID, name, state string, ranks int32, nodes ...filch.NodeName) wire.OverviewJob {
	j := wire.OverviewJob{}
	j.ID, j.Name, j.Kind, j.State, j.Ranks, j.Nodes, j.Elapsed = id, name, "run", state, ranks, nodes, 65
	return j
}

// view is an instance in which much happens.
func view() *wire.Overview {
	code := int32(139)
	v := &wire.Overview{Self: "n1"}
	n1 := node("n1", 8, [2]int32{1, 4}, [2]int32{2, 4})
	n2 := node("n2", 8, [2]int32{1, 2}, [2]int32{3, -3})
	n2.Work.From = []launcher.Theft{{Victim: "n1", Won: 4}, {Victim: "n4", Won: 2}}
	n2.Work.Won, n2.Work.Ready, n2.Work.Ended = 6, 40, 100
	n3 := node("n3", 8)
	n3.State = "draining"
	n4 := node("n4", 8, [2]int32{1, 8})
	n5 := node("n5", 8)
	n5.State, n5.Silent, n5.Work = "dead", true, launcher.Work{Node: "n5", Silent: true}
	v.Nodes = []wire.NodeGlance{n1, n2, n3, n4, n5}
	waits := run(3, "big", "waiting", 16)
	waits.Cause = "room for 3 of 16 ranks is held, 13 missing"
	gang := bag(4, "gangs", 0, 12)
	gang.State, gang.Tasks.Running, gang.Tasks.Ready = "ready", 0, 12
	gang.Gathers, gang.Lacks = 2, "task 4.1 holds 2 of 6 slots"
	bad := run(5, "crash", "killed", 2, "n1")
	bad.Code, bad.Cause = &code, "rank 1 on n1 was killed by SIGSEGV"
	v.Jobs = []wire.OverviewJob{bag(1, "dock", 310, 472), run(2, "ring", "running", 4, "n1"), waits, gang, bad}
	for i := range 3 {
		v.Tasks = append(v.Tasks, launcher.RunningTask{Index: int32(100 + i), Node: "n4", Attempt: 1, Took: float64(30 - i), Memory: int64(i) << 28})
	}
	return v
}

// at is a screen of a size, after two looks a second apart.
func at(width, height int, v *wire.Overview) Model {
	m := Model{Instance: "brave-otter"}
	m, _ = m.Update(Tick(began))
	m, _ = m.Update(Size{width, height})
	m, _ = m.Update(Told{began, v})
	later := *v
	later.Nodes, later.Jobs = slices.Clone(v.Nodes), slices.Clone(v.Jobs)
	for i := range later.Nodes {
		if n := &later.Nodes[i]; n.Node == "n2" {
			n.Work.Ended, n.Work.Won = n.Work.Ended+17, n.Work.Won+1
			n.Work.From = slices.Clone(n.Work.From)
			n.Work.From[1].Won++
		}
	}
	for i := range later.Jobs {
		if j := &later.Jobs[i]; j.ID == 1 {
			j.Tasks.OK += 20
		}
	}
	m, _ = m.Update(Told{began.Add(time.Second), &later})
	m, _ = m.Update(Tick(began.Add(3 * time.Second)))
	return m
}

func keys(m Model, names ...string) (Model, Order) {
	var o Order
	for _, k := range names {
		m, o = m.Update(Key(k))
	}
	return m, o
}

func text(m Model) string { return strings.Join(m.Frame(), "\n") + "\n" }

// Every frame has the lines and at most the columns of its terminal.
func check(t *testing.T, m Model) {
	t.Helper()
	lines := m.Frame()
	if !m.Once && len(lines) != max(m.height, 1) {
		t.Errorf("%d lines on a terminal of %d", len(lines), m.height)
	}
	for _, l := range lines {
		if w := ansi.StringWidth(l); !m.Once && w > max(m.width, 1) {
			t.Errorf("a line of %d cells on a terminal of %d: %q", w, m.width, l)
		}
	}
}

func TestFrames(t *testing.T) {
	once := Model{Instance: "brave-otter", Once: true}
	once, _ = once.Update(Size{Width: 100})
	once, _ = once.Update(Told{began, view()})
	nodes, _ := keys(at(80, 24, view()), "tab", "down", "down")
	tasks, _ := keys(at(160, 50, view()), "t")
	asks, _ := keys(at(80, 24, view()), "x")
	help, _ := keys(at(80, 24, view()), "?")
	filter, _ := keys(at(80, 24, view()), "/", "n", "2")
	silent, _ := at(80, 24, view()).Update(Failed{began.Add(5 * time.Second), "the launcher did not answer glance within 2s"})
	empty := Model{Instance: "brave-otter"}
	empty, _ = empty.Update(Size{80, 24})
	for name, m := range map[string]Model{
		"80x24": at(80, 24, view()), "160x50": at(160, 50, view()), "once": once, "nodes": nodes, "tasks": tasks, "asks": asks,
		"help": help, "filter": filter, "silent": silent, "empty": empty,
	} {
		t.Run(name, func(t *testing.T) {
			check(t, m)
			file := filepath.Join("testdata", name+".golden")
			if os.Getenv("FILCH_GOLDEN") != "" {
				if err := os.WriteFile(file, []byte(text(m)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(m); got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Frames of every size, with and without colors, fit, and colors change no letter.
func TestFramesFit(t *testing.T) {
	for width := 1; width < 200; width += 7 {
		for height := 1; height < 60; height += 3 {
			m := at(width, height, view())
			check(t, m)
			plain := m.Frame()
			m.Color = true
			check(t, m)
			for i, l := range m.Frame() {
				if got := strings.TrimRight(ansi.Strip(l), " "); got != plain[i] {
					t.Fatalf("%dx%d: with colors %q, without %q", width, height, got, plain[i])
				}
			}
		}
	}
}

func TestHostileNamesAreText(t *testing.T) {
	const evil = "a\x1b[2J\nb\r\u202ec\u0007\x00\xff"
	v := view()
	v.Nodes[1].Node, v.Nodes[1].Work.From[0].Victim, v.Nodes[1].State = evil, evil, "up"
	v.Nodes[4].Node = evil + "5"
	for i := range v.Jobs {
		v.Jobs[i].Name, v.Jobs[i].Cause, v.Jobs[i].Lacks, v.Jobs[i].Held = evil, evil, evil, evil
		v.Jobs[i].State, v.Jobs[i].Kind = evil, evil
	}
	v.Tasks[0].Node = evil
	for _, color := range []bool{false, true} {
		m := at(200, 50, v)
		m.Color, m.Instance = color, evil
		frames := []Model{m}
		for _, k := range [][]string{{"t"}, {"x"}, {"tab", "down", "d"}, {"?"}} {
			n, _ := keys(m, k...)
			frames = append(frames, n)
		}
		n, _ := m.Update(Said{evil, evil + "\n" + evil})
		frames = append(frames, n)
		n, _ = m.Update(Failed{began, evil})
		for _, m := range append(frames, n) {
			check(t, m)
			for _, l := range m.Frame() {
				if l = ansi.Strip(l); strings.ContainsAny(l, "\x1b\n\r\u202e\x07\x00") || !utf8.ValidString(l) {
					t.Errorf("a name reaches the terminal: %q", l)
				}
			}
			if !color && strings.Contains(text(m), "\x1b") {
				t.Errorf("an escape without colors: %q", text(m))
			}
		}
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		keys []string
		want Order
	}{
		{[]string{"q"}, Order{Quit: true}},
		{[]string{"?", "ctrl+c"}, Order{Quit: true}},
		{[]string{"e"}, runs("explain", "2")},
		{[]string{"down", "enter"}, runs("explain", "1")},
		{[]string{"l"}, runs("logs", "--tail", "200", "2")},
		{[]string{"x"}, Order{}},
		{[]string{"x", "n"}, Order{}},
		{[]string{"x", "x"}, Order{}},
		{[]string{"x", "y"}, runs("cancel", "--yes", "-m", "filch top", "2")},
		{[]string{"end", "x", "y"}, Order{}}, // the job has ended
		{[]string{"s", "x", "y"}, runs("cancel", "--yes", "-m", "filch top", "2")},
		{[]string{"d", "y"}, runs("drain", "n1")},
		{[]string{"tab", "down", "down", "u", "y"}, runs("drain", "--undo", "n3")},
		{[]string{"/", "d", "o", "c", "k", "enter", "e"}, runs("explain", "1")},
		{[]string{"/", "n", "o", "n", "e", "enter", "x", "y"}, Order{}},
		{[]string{"?", "x", "y"}, Order{}}, // the help is no table
	} {
		if _, got := keys(at(80, 24, view()), c.keys...); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v: got %+v, want %+v", c.keys, got, c.want)
		}
	}
}

// A dead node keeps its row, and the others go on; an answer again ends the alert.
func TestDeadNodeShowsAtOnce(t *testing.T) {
	v := view()
	v.Nodes = v.Nodes[:4]
	m := at(80, 24, v)
	if s := text(m); strings.Contains(s, "!") {
		t.Errorf("an alert without a reason:\n%s", s)
	}
	lost := *v
	lost.Nodes = slices.Clone(v.Nodes)
	lost.Nodes[3].Silent, lost.Nodes[3].Work = true, launcher.Work{Node: "n4", Silent: true}
	for state, want := range map[string]string{"up": "n4 does not answer, last seen 1s ago", "gone": "n4 is gone, last seen", "dead": "n4 is dead, last seen"} {
		lost.Nodes[3].State = state
		n, _ := m.Update(Told{began.Add(2 * time.Second), &lost})
		if s := text(n); !strings.Contains(s, want) || !strings.Contains(s, "3/4 nodes") {
			t.Errorf("%s: got\n%s", state, s)
		}
		n, _ = n.Update(Told{began.Add(3 * time.Second), v})
		if s := text(n); strings.Contains(s, "! ") {
			t.Errorf("the node is back:\n%s", s)
		}
	}
}

// Many nodes and jobs scroll, the selection stays visible, and memory stays bounded.
func TestManyRowsScroll(t *testing.T) {
	v := &wire.Overview{}
	for i := range 500 {
		v.Nodes = append(v.Nodes, node(fmt.Sprintf("n%03d", i), 200, [2]int32{int32(i + 1), 150}))
	}
	for i := range 200 {
		v.Jobs = append(v.Jobs, bag(filch.JobID(i+1), "many", 1, 100))
	}
	m := at(80, 24, v)
	m, _ = keys(m, "tab")
	for _, k := range []string{"pgdown", "pgdown", "end", "up", "home", "down"} {
		m, _ = keys(m, k)
		check(t, m)
		if s := text(m); !strings.Contains(s, "* "+string(m.node)) {
			t.Fatalf("after %s the selected node %s is not visible:\n%s", k, m.node, s)
		}
	}
	if m.node != "n001" {
		t.Errorf("got node %s, want n001", m.node)
	}
	for i := range 1000 {
		m, _ = m.Update(Told{began.Add(time.Duration(i) * 100 * time.Millisecond), v})
	}
	for id, list := range m.marks {
		if len(list) > marksMax {
			t.Fatalf("job %d has %d marks", id, len(list))
		}
	}
	n, _ := m.Update(Said{"big", strings.Repeat("x\n", 10*textLines)})
	if len(n.lines) > textLines+1 {
		t.Errorf("%d lines of a text are kept", len(n.lines))
	}
}

// No job has the letter of the slots of dead nodes.
func TestNoJobHasTheLetterOfDeadNodes(t *testing.T) {
	v := view()
	v.Nodes = v.Nodes[:0]
	for id := int32(1); id <= 30; id++ {
		v.Nodes = append(v.Nodes, node("m"+strconv.Itoa(int(id)), 8, [2]int32{id, 4}))
	}
	m := at(80, 24, v)
	got := map[byte]int{}
	for id := filch.JobID(1); id <= 30; id++ {
		got[m.letter(id)]++
	}
	if got[deadLetter] > 0 || got['y'] != 1 || got[anyLetter] != 5 || len(got) != 26 {
		t.Errorf("30 jobs have the letters %v, want 25 letters without x, and 5 jobs without a letter", got)
	}
}

// A job keeps its letter while it has slots.
func TestLettersStay(t *testing.T) {
	m := at(80, 24, view())
	if a := m.letter(1); a != 'a' {
		t.Errorf("job 1 has %c", a)
	}
	v := view()
	v.Nodes[0] = node("n1", 8, [2]int32{27, 4}) // would like the letter of job 1
	m, _ = m.Update(Told{began.Add(2 * time.Second), v})
	if a, b := m.letter(1), m.letter(27); a != 'a' || b == 'a' || b == anyLetter {
		t.Errorf("jobs 1 and 27 have %c and %c", a, b)
	}
}
