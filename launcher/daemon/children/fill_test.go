package children

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/staging"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
)

// The nodes replace the replacement strings of an order with the line, or the number, of
// a task.
func TestFill(t *testing.T) {
	for _, c := range []struct {
		name    string
		order   launcher.TaskOrder
		start   launcher.TaskStart
		line    string
		indexed bool
		want    launcher.TaskStart
	}{
		{
			"a line",
			launcher.TaskOrder{Argv: []string{"x", "{}", "{/.}", "{#}"}},
			launcher.TaskStart{Number: 4},
			"a/b.c", false,
			launcher.TaskStart{Number: 4, Argv: []string{"x", "a/b.c", "b", "5"}},
		},
		{
			"an index",
			launcher.TaskOrder{Argv: []string{"x", "{1}", "{#}"}, Stdout: "{}.%t"},
			launcher.TaskStart{Number: 7},
			"", true,
			launcher.TaskStart{Number: 7, Argv: []string{"x", "7", "7"}, Streams: &launcher.Streams{Stdout: "7.%t"}},
		},
		{
			"a value with a conversion",
			launcher.TaskOrder{Argv: []string{"x"}, Stderr: "{}"},
			launcher.TaskStart{},
			"%t", false,
			launcher.TaskStart{Argv: []string{"x"}, Streams: &launcher.Streams{Stderr: "%%t"}},
		},
		{
			"a value that is no file",
			launcher.TaskOrder{Argv: []string{"x"}, Stdout: "{}"},
			launcher.TaskStart{},
			"none", false,
			launcher.TaskStart{Argv: []string{"x"}, Streams: &launcher.Streams{Stdout: "./none"}},
		},
		{
			"a folder",
			launcher.TaskOrder{Argv: []string{"x"}, Cwd: "/here", FillCwd: "d/{}"},
			launcher.TaskStart{Number: 2},
			"", true,
			launcher.TaskStart{Number: 2, Argv: []string{"x"}, Cwd: "/here/d/2"},
		},
		{
			"a whole folder",
			launcher.TaskOrder{Argv: []string{"x"}, Cwd: "/here", FillCwd: "{//}"},
			launcher.TaskStart{},
			"/there/a", false,
			launcher.TaskStart{Argv: []string{"x"}, Cwd: "/there"},
		},
		{
			"a command of its own",
			launcher.TaskOrder{Argv: []string{"x", "{}"}, Stdout: "{}"},
			launcher.TaskStart{Number: 2, Argv: []string{"y", "{}"}, Env: []string{"FILCH_LINE=v"}},
			"", false,
			launcher.TaskStart{Number: 2, Argv: []string{"y", "{}"}, Env: []string{"FILCH_LINE=v"}, Streams: &launcher.Streams{Stdout: "v"}},
		},
	} {
		o := &order{TaskOrder: &c.order}
		got := c.start
		if err := o.fill(&got, c.line, c.indexed); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		streams := got.Streams
		if streams == nil {
			streams = &launcher.Streams{}
		}
		want := c.want.Streams
		if want == nil {
			want = &launcher.Streams{}
		}
		if !slices.Equal(got.Argv, c.want.Argv) || got.Cwd != c.want.Cwd || *streams != *want {
			t.Errorf("%s: got %+v with %+v, want %+v with %+v", c.name, got, *streams, c.want, *want)
		}
	}
	// {%} is the place of the task on the node.
	o := &order{TaskOrder: &launcher.TaskOrder{Argv: []string{"x", "{%}"}}}
	for i, want := range []string{"1", "2"} {
		s := launcher.TaskStart{Serial: uint64(i + 1)}
		if err := o.fill(&s, "", true); err != nil || s.Argv[1] != want {
			t.Errorf("task %d: got %q, %v, want place %s", i, s.Argv, err, want)
		}
	}
	o = &order{TaskOrder: &launcher.TaskOrder{Argv: []string{"x"}, Stdout: "%t{}"}}
	if err := o.fill(&launcher.TaskStart{}, `a\b`, false); err == nil {
		t.Error("a backslash beside a conversion is accepted")
	}
}

// A prolog and an epilog stand around the command with its values, for each kind of a payload.
func TestHooksGoAroundTheFilledCommand(t *testing.T) {
	item, err := wire.Marshal(&launcher.TaskItem{Argv: []string{"x", "own", "4"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		payload []byte
		want    []string
	}{
		{"an index", nil, []string{"x", "7", "7", "1"}},
		{"a number", binary.BigEndian.AppendUint32([]byte{launcher.PayloadNumber}, 7), []string{"x", "7", "7", "1"}},
		{"a line", append([]byte{launcher.PayloadLine}, "a b"...), []string{"x", "a b", "8", "1"}},
		{"a command of its own", append([]byte{launcher.PayloadItem}, item...), []string{"x", "own", "4"}},
	} {
		hooks := launcher.Hooks{Prolog: "p {}", Epilog: "e {}"}
		in := inputs.New("n1", watch.Discard())
		rs := NewRunners(in, nil, 4, nil)
		rs.SetFiles(staging.NewFiles(in, t.TempDir(), "filch", nil, rs), t.TempDir())
		rs.order(&launcher.TaskOrder{Argv: []string{"x", "{}", "{#}", "{%}"}, Fill: true, Stdout: "o/{}"}, &launcher.OrderExtra{
			Hooks: hooks, Stage: &launcher.Stage{Out: []string{"r{#}"}},
		})
		l := &launcher.TaskLaunch{Start: mtc.Start{Spec: &record.Spec{}, Number: 7, Payload: c.payload}}
		got, err := rs.startOf(l, nil)
		around, _ := hooks.Around(nil)
		n := min(len(around), len(got.start.Argv))
		if err != nil || !slices.Equal(got.start.Argv[:n], around) || !slices.Equal(got.start.Argv[n:], c.want) {
			t.Errorf("%s: got %q, %v, want %q behind the hooks", c.name, got.start.Argv[n:], err, c.want)
		}
	}
}
