package tasklist

import (
	"os"
	"os/exec"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
)

// A shell reads the words back.
func TestShellWordsAreReadBack(t *testing.T) {
	for _, s := range []string{"plain", "", "two words", "it's", "a\nb\tc", "quote ' and \n and \\ and \"", "bell\a\x1b[2J", "bytes\xff\xfe", "right\u202eleft", "größe", "größe\n1"} {
		word := shellWord(s)
		if oneLine(word) != word {
			t.Errorf("%q is written %q, which a line cannot hold", s, word)
		}
		for _, locale := range []string{"C", "C.UTF-8"} {
			cmd := exec.Command("bash", "-c", "printf %s "+word)
			cmd.Env = append(os.Environ(), "LC_ALL="+locale)
			out, err := cmd.Output()
			if string(out) != s || err != nil {
				t.Errorf("%q is written %s, and read as %q, %v in locale %s", s, word, out, err, locale)
			}
		}
	}
}

func TestJobLogLines(t *testing.T) {
	code := func(n int32) *int32 { return &n }
	for _, c := range []struct {
		name string
		task Row
		want string
	}{
		{"ok", Row{Task: launcher.Task{Index: 0, State: "ok", Code: code(0), Node: "n1", Began: 1700000000123456, Took: 1.5, Bytes: 9}, Command: "echo a"}, "1\tn1\t1700000000.123\t     1.500\t0\t9\t0\t0\techo a\n"},
		{"failed", Row{Task: launcher.Task{Index: 41, State: "failed", Code: code(7), Node: "n2", Began: 1e6}, Command: "x"}, "42\tn2\t1.000\t     0.000\t0\t0\t7\t0\tx\n"},
		{"signal", Row{Task: launcher.Task{State: "killed", Code: code(137), Node: "n2", Began: 1e6}, Signal: 9, Command: "x"}, "1\tn2\t1.000\t     0.000\t0\t0\t0\t9\tx\n"},
		{"lines-and-tabs", Row{Task: launcher.Task{State: "ok", Code: code(0), Node: "n2", Began: 1e6}, Command: "a\nb\tc"}, "1\tn2\t1.000\t     0.000\t0\t0\t0\t0\ta\\nb\\tc\n"},
		{"lost", Row{Task: launcher.Task{State: "lost", Code: code(filch.ExitNodeLost), Node: "n3"}, Command: "x"}, "1\tn3\t0.000\t     0.000\t0\t0\t122\t0\tx\n"},
		{"running", Row{Task: launcher.Task{State: "running", Node: "n3"}}, ""},
		{"never-started", Row{Task: launcher.Task{State: "cancelled", Code: code(143)}}, ""},
		{"skipped", Row{Task: launcher.Task{State: "skipped"}}, ""},
	} {
		if got := joblogLine(&c.task); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// Of an ended job, only the blocks with tasks in the wanted states are read.
func TestBlocksWithoutWantedStatesArePassedOver(t *testing.T) {
	job := record.Job{Total: 3 * record.ZoneSize, Closed: true, Zones: []record.ZoneTally{
		{Zone: 0, Tally: record.Tally{OK: record.ZoneSize}},
		{Zone: 1, Tally: record.Tally{OK: record.ZoneSize - 258, Failed: 2, Cancelled: 256}},
		{Zone: 2, Tally: record.Tally{OK: record.ZoneSize}},
	}}
	zone := &record.Zone{
		Spans: []record.Span{{Lo: record.ZoneSize + 5*256, Hi: record.ZoneSize + 6*256, Void: filch.Cancelled}},
		Blocks: []record.BlockTally{
			{Block: 256, Tally: record.Tally{OK: 256}}, {Block: 259, Tally: record.Tally{OK: 255, Failed: 1}}, {Block: 260, Tally: record.Tally{OK: 255, Failed: 1}},
		},
	}
	for _, c := range []struct {
		name   string
		states []filch.State
		want   []int
	}{
		{"failed", []filch.State{filch.Failed}, []int{0, 2, 0}},
		{"cancelled", []filch.State{filch.Cancelled}, []int{0, 1, 0}},
		{"both", []filch.State{filch.Cancelled, filch.Failed}, []int{0, 3, 0}},
		{"killed", []filch.State{filch.Killed}, []int{0, 0, 0}},
		{"all", nil, []int{256, 256, 256}},
		{"live", []filch.State{filch.Running, filch.Failed}, []int{256, 256, 256}},
	} {
		for num, want := range c.want {
			v := &view{Job: &taskrecords.Job{ID: 1, Rec: &job}, zone: zone, num: 1}
			got, err := v.blocksOf(int32(num), c.states)
			if err != nil || len(got) != want {
				t.Errorf("%s: of zone %d the blocks %v are read, %v, want %d", c.name, num, got, err, want)
			}
		}
	}
	job.Closed = false // the tallies may lack the latest ends
	v := &view{Job: &taskrecords.Job{ID: 1, Rec: &job}, zone: zone, num: 1}
	if got, err := v.blocksOf(0, []filch.State{filch.Failed}); err != nil || len(got) != record.ZoneBlocks {
		t.Errorf("of a job that goes on %d blocks are read, %v, want all", len(got), err)
	}
}

// TestEndsOnTheirWayAreShown: the record of a task has no end yet, and its node told how the task
// ended. Once the record has an end, that counts.
func TestEndsOnTheirWayAreShown(t *testing.T) {
	code := int32(143)
	v := &view{Job: &taskrecords.Job{Rec: &record.Job{Total: 2}, Spec: &record.Spec{}}, zone: &record.Zone{}, idle: filch.Ready}
	v.ended = map[int32]launcher.Task{1: {Index: 1, State: "cancelled", Code: &code, Began: 1, Node: "n2", Attempts: 1}}
	for _, c := range []struct {
		at   int32
		in   *record.Task
		want string
	}{
		{0, nil, "ready"},
		{1, nil, "cancelled"},
		{1, &record.Task{State: filch.OK, Began: 1}, "ok"},
	} {
		row := v.listed(c.at)
		if !v.settle(&row, c.in) || row.State != c.want || (row.Signal != 0) != (c.want == "cancelled") {
			t.Errorf("task %d is listed as %s with signal %d, want %s", c.at, row.State, row.Signal, c.want)
		}
	}
}
