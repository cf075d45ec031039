package children

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/watch"
)

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
