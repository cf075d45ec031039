package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
)

// A run shows the stages of the launch on each node and in each rank, from what the nodes told. A hostile name is a text.
// n3 told nothing: the launcher was restarted. That of n2
// was busy, and stamped the begin late.
func TestStagesOfALaunch(t *testing.T) {
	const ms = 1_000_000
	told := func(l *launch, w *writer, node filch.NodeName, at int64, e events.Event) {
		w.ranks.Take(node, start+at*ms, &e)
		l.take(node, start+at*ms, &e)
	}
	for name, format := range map[string]func(*bufio.Writer) sink{"chrome": asChrome, "perfetto": asPerfetto} {
		var b bytes.Buffer
		var l launch
		w := &writer{info: &launcher.JobInfo{
			ID: 7, Name: "ring\x1b[2J\u202e<b>", State: "ok", Attempt: 1, Origin: "n1", Ranks: 3, Nodes: []filch.NodeName{"n1", "n2", "n3"},
			Submit: start, Waited: 0.020, Elapsed: 0.080,
		}}
		w.paint = painter{out: format(bufio.NewWriter(&b)), job: 7, step: 1}
		told(&l, w, "n1", 2, events.Event{Kind: events.JobGathers, Job: 7, Try: 1, Count: 3})
		told(&l, w, "n1", 10, events.Event{Kind: events.JobLaunched, Job: 7, Try: 1, Count: 3})
		for i, node := range []filch.NodeName{"n1", "n2"} {
			i := int64(i)
			told(&l, w, node, 15+10*i, events.Event{Kind: events.RanksStarted, Job: 7, Try: 1, Count: 1})
			told(&l, w, node, 30+i, events.Event{Kind: events.RanksWired, Job: 7, Try: 1, Count: 15_000})
			told(&l, w, node, 90+i, events.Event{Kind: events.RankEnded, Job: 7, Try: 1, Count: i, State: filch.OK, Reason: "2-3"})
		}
		if err := errors.Join(w.drawRun(&l), w.paint.out.end()); err != nil {
			t.Fatal(err)
		}
		var d *drawn
		if name == "chrome" {
			d = readChrome(t, b.Bytes())
		} else {
			d = readPerfetto(t, b.Bytes(), start)
		}
		var got []string
		for _, s := range d.slices {
			if !strings.Contains(s.row, "slot 3") { // as slot 2
				got = append(got, fmt.Sprintf("%s %d-%d %s%s", s.row, s.begin/ms, s.end/ms, s.name, s.args))
			}
		}
		const shown = `ring\x1b[2J\u202e<b>` // as on a terminal
		want := []string{
			"n1/job 0-2 waits for slots",
			"n1/job 2-10 gathers slots ranks=3 slots=4",
			"n1/job 10-100 job 7 name=" + shown + " ranks here=1 ranks of the job=3 slots here=2 state=ok",
			"n1/job 10-15 launch", "n1/job 15-30 wire-up", "n1/job 30-90 running", "n1/job 90-100 ends",
			"n1/slot 2 10-90 7 rank 0 slots=2 state=ok",
			"n1/slot 2 10-15 launch", "n1/slot 2 15-30 wire-up", "n1/slot 2 30-90 running",
			"n2/job 10-100 job 7 name=" + shown + " ranks here=1 ranks of the job=3 slots here=2 state=ok",
			"n2/job 10-16 launch", "n2/job 16-31 wire-up", "n2/job 31-91 running", "n2/job 91-100 ends",
			"n2/slot 2 10-91 7 rank 1 slots=2 state=ok",
			"n2/slot 2 10-16 launch", "n2/slot 2 16-31 wire-up", "n2/slot 2 31-91 running",
			"n3/job 10-100 job 7 name=" + shown + " ranks of the job=3 state=ok",
			"n3/job 10-20 launch", "n3/job 20-100 running",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
