package cli

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// launcherOf serves clients as a launcher does, with an answer for each verb; a verb without
// an answer is refused. An answer may be a function that makes the next one.
func launcherOf(t *testing.T, answers map[string]any) func() (*client.Client, error) {
	t.Helper()
	base, err := os.MkdirTemp("/tmp", "st")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	dir := place.Dir{Base: filepath.Join(base, "b"), Instance: "brave-otter", Node: "n1"}
	if err := dir.Make(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", dir.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	serve := func(c *wire.Conn) {
		defer c.Close()
		for {
			f, err := c.Read()
			if err != nil {
				return
			}
			q, err := wire.DecodeQuery(f.Body)
			if f.Kind != wire.KindQuery || err != nil {
				continue // the greeting
			}
			a := wire.Answer{Err: filch.Errorf(filch.Unavailable, "no record can be read")}
			if v, has := answers[q.Verb]; has {
				if next, is := v.(func() any); is {
					v = next()
				}
				a.Err = nil
				a.JSON, _ = json.Marshal(v)
			}
			if c.Send(wire.KindAnswer, f.Req, a) != nil {
				return
			}
		}
	}
	go func() {
		for {
			sock, err := l.Accept()
			if err != nil {
				return
			}
			go serve(wire.NewConn(sock))
		}
	}()
	return func() (*client.Client, error) { return client.DialDir(dir, "test") }
}

// A command that waits says why nothing goes on: no node starts a task, or the full disk of
// the node takes no record of an end, also when the job itself cannot be explained.
func TestWaitSpeaksOfAFullDisk(t *testing.T) {
	const full = "the disk of n1 accepts no records: no space left on device"
	for name, c := range map[string]struct {
		answers map[string]any
		want    string
	}{
		"stuck": {map[string]any{
			wire.VerbExplain: launcher.Explanation{Job: 7, Stuck: true, Text: "all nodes drain"},
			wire.VerbRoster:  []wire.RosterInfo{{Node: "n1", Trouble: full}},
		}, "all nodes drain"},
		"full": {map[string]any{
			wire.VerbExplain: launcher.Explanation{Job: 7, Text: "20 tasks are ready"},
			wire.VerbRoster:  []wire.RosterInfo{{Node: "n1", Trouble: full}},
		}, full},
		"not-recorded": {map[string]any{wire.VerbRoster: []wire.RosterInfo{{Node: "n1", Trouble: full}}}, full},
		"run-that-waits": {map[string]any{
			wire.VerbExplain: launcher.Explanation{Job: 7, State: "waiting", Text: "waits until the record of the job is stored: " + full},
			wire.VerbInfo:    launcher.JobInfo{ID: 7, Kind: "run", State: "waiting"},
			wire.VerbRoster:  []wire.RosterInfo{{Node: "n1", Trouble: full}},
		}, "waits until the record of the job is stored: " + full},
		"run-that-runs": {map[string]any{
			wire.VerbExplain: launcher.Explanation{Job: 7, State: "running", Text: "runs on 2 nodes"},
			wire.VerbInfo:    launcher.JobInfo{ID: 7, Kind: "run", State: "running"},
			wire.VerbRoster:  []wire.RosterInfo{{Node: "n1", Trouble: full}},
		}, "its end cannot be recorded: " + full},
		"well": {map[string]any{
			wire.VerbExplain: launcher.Explanation{Job: 7, Text: "20 tasks are ready"},
			wire.VerbRoster:  []wire.RosterInfo{{Node: "n1"}},
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := stuckText(launcherOf(t, c.answers), 7)
			if c.want == "" && got != "" || strings.HasPrefix(name, "run-") && got != c.want || !strings.HasSuffix(got, c.want) {
				t.Errorf("the command says %q, want %q", got, c.want)
			}
		})
	}
}
