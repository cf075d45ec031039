package children

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/staging"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/watch"
)

// A gang whose file cannot be made tells the reason in its end and as its last line, with the name
// of the file and without Go's words.
func TestAGangWithoutItsFileSaysWhy(t *testing.T) {
	for _, keep := range []launcher.Keep{launcher.KeepAll, launcher.KeepFailed, launcher.KeepNone} {
		dir := t.TempDir()
		gs := newGangs(inputs.New("n1", watch.Discard()), dir)
		_, err := staging.NewSink(dir, "", false)
		if err == nil {
			t.Fatal("a folder was opened as a file")
		}
		e := gs.unopened(&launcher.TaskStart{Serial: 4, Job: 3, Index: 7, Nth: 1}, keep, err)
		want := "cannot write " + dir + ", the output of task 3.7, on n1: is a directory"
		if e.Text != want || e.Kind != launcher.CauseOurs || e.Code != filch.ExitOurs || e.Serial != 4 {
			t.Errorf("got the end %+v, want %q", e, want)
		}
		last := ""
		_, _, err = output.ReadSegmentsFrom(proc.Place{Dir: dir}.OutputDir(3), nil, func(output.Printed) bool { return true }, func(p output.Printed) bool {
			last += string(p.Data)
			return true
		})
		if want = "filch: " + want + "\n"; keep == launcher.KeepNone {
			want = ""
		}
		if err != nil || last != want {
			t.Errorf("keep %v: the output is %q, %v, want %q", keep, last, err, want)
		}
		gs.forget(3)
	}
}

// TestOutputLostWithANodeIsTold shows that a gang which ended well says so when a node of its
// ranks was lost with output, unless the output of good ends is not kept anyway.
func TestOutputLostWithANodeIsTold(t *testing.T) {
	for _, c := range []struct {
		keep   launcher.Keep
		silent []filch.NodeName
		cut    bool
	}{
		{launcher.KeepAll, nil, false},
		{launcher.KeepAll, []filch.NodeName{"n3"}, true},
		{launcher.KeepFailed, []filch.NodeName{"n3"}, false},
		{launcher.KeepNone, []filch.NodeName{"n3"}, false},
	} {
		dir := t.TempDir()
		gs := newGangs(inputs.New("n1", watch.Discard()), dir)
		g := &runningGang{start: launcher.TaskStart{Job: 3, Index: 7}, keep: c.keep, spool: output.NewSpool(dir), looks: &looks{}}
		g.spool.Add(0, 1, []byte("hello\n"))
		e := &launcher.TaskEnd{Silent: c.silent}
		gs.keepOutput(g, e)
		told := strings.Contains(e.Text, "n1 did not get the last output of task 3.7 from n3")
		if e.Cut != c.cut || told != c.cut {
			t.Errorf("keep %v, without the end of the output of %v: got %+v, want cut and told %t", c.keep, c.silent, *e, c.cut)
		}
		gs.forget(3)
	}
}
