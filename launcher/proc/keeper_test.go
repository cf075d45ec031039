package proc_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher"
)

func TestKeeperRunsRanks(t *testing.T) {
	b := newBoss(t)
	b.run(newOrder(3, argv("print", "out\n", "!err\n")...))
	s := b.untilDone()
	if s.ready == nil || s.ready.Err != nil {
		t.Fatalf("ready: %+v", s.ready)
	}
	if s.started == nil || len(s.started.PIDs) != 3 {
		t.Errorf("started: %+v", s.started)
	}
	if len(s.ends) != 3 {
		t.Fatalf("got %d ends, want 3: %+v", len(s.ends), s.ends)
	}
	for _, e := range s.ends {
		if e.Kind != launcher.CauseNone || e.Code != 0 || e.RSSMax == 0 {
			t.Errorf("end %+v", e)
		}
	}
	for _, key := range []string{"0.1", "1.1", "2.1"} {
		if got := string(s.out[key]); got != "out\n" {
			t.Errorf("%s: got %q, want out", key, got)
		}
		if got := string(s.out[strings.Replace(key, ".1", ".2", 1)]); got != "err\n" {
			t.Errorf("stderr of %s: got %q, want err", key, got)
		}
	}
	if s.end == nil || s.end.Offset != 24 {
		t.Errorf("end of output: %+v, want 24 bytes", s.end)
	}
	b.forget()
}
