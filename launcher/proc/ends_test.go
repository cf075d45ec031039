package proc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

func TestEnds(t *testing.T) {
	b := newBoss(t)
	for name, c := range map[string]struct {
		argv []string
		kind launcher.CauseKind
		code int32
		text string
	}{
		"ok":               {argv("exit", "0"), launcher.CauseNone, 0, ""},
		"code":             {argv("exit", "7"), launcher.CauseExit, 7, "exited with 7"},
		"segv":             {[]string{"/bin/sh", "-c", "kill -SEGV $$"}, launcher.CauseSignal, 11, "killed by SIGSEGV"},
		"kill":             {argv("kill-self", "9"), launcher.CauseSignal, 9, "killed by SIGKILL, perhaps out of memory"},
		"finalized":        {argv("pmi", "init", "finalize"), launcher.CauseNone, 0, ""},
		"no-finalize":      {argv("pmi", "init"), launcher.CauseNoFinalize, 1, "exited with 0 after MPI_Init without MPI_Finalize"},
		"code-no-finalize": {argv("pmi", "init", "exit:5"), launcher.CauseExit, 5, "exited with 5"},
		"code-finalized":   {argv("pmi", "init", "finalize", "exit:6"), launcher.CauseExit, 6, "exited with 6"},
		"not-mpi":          {argv("pmi", "exit:0"), launcher.CauseNone, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b.run(newOrder(1, c.argv...))
			s := b.untilDone()
			if len(s.ends) != 1 {
				t.Fatalf("ends %+v", s.ends)
			}
			e := s.ends[0]
			text := strings.TrimSuffix(e.Text, " (core dumped)")
			if e.Kind != c.kind || e.Code != c.code || text != c.text || e.Told {
				t.Errorf("got %+v, want kind %d, code %d, %q", e, c.kind, c.code, c.text)
			}
			b.forget()
		})
	}
}

// stop ends what still runs, as the brain would.
func (b *boss) stop(sig unix.Signal, grace time.Duration) {
	b.deed(launcher.Deed{Kind: launcher.DeedStop, Signal: int32(sig), Grace: grace})
}

func TestAbortIsReportedAtOnce(t *testing.T) {
	b := newBoss(t)
	o := newOrder(2)
	o.Programs = []launcher.Program{
		{Argv: argv("pmi", "init", "abort:42"), Ranks: []launcher.Span{{First: 1, Count: 1}}},
		{Argv: argv("pmi", "init", "fence"), Ranks: []launcher.Span{{First: 0, Count: 1}}},
	}
	b.run(o)
	s := b.until("the abort", func(s seen) bool { return len(s.ends) > 0 })
	if e := s.ends[0]; e.Rank != 1 || e.Kind != launcher.CauseAbort || e.Code != 42 || e.Told {
		t.Errorf("got %+v", e)
	}
	b.stop(unix.SIGTERM, time.Second)
	s = b.untilDone()
	if len(s.ends) != 2 || !s.ends[1].Told {
		t.Errorf("ends %+v", s.ends)
	}
}

func TestMalformedPMIEndsItsJobOnly(t *testing.T) {
	b := newBoss(t)
	o := newOrder(2)
	o.Programs = []launcher.Program{
		{Argv: argv("pmi", "init", "raw:garbage", "hang"), Ranks: []launcher.Span{{First: 1, Count: 1}}},
		{Argv: argv("pmi", "init", "fence"), Ranks: []launcher.Span{{First: 0, Count: 1}}},
	}
	b.run(o)
	s := b.until("the fault", func(s seen) bool { return len(s.ends) > 0 })
	if e := s.ends[0]; e.Rank != 1 || e.Kind != launcher.CauseProtocol || e.Code != 1 || e.Text == "" {
		t.Errorf("got %+v", e)
	}
	b.stop(unix.SIGKILL, 0)
	b.untilDone()
	b.forget()
	b.run(newOrder(1, argv("exit", "0")...))
	if s := b.untilDone(); s.ends[0].Code != 0 {
		t.Errorf("the next job: %+v", s.ends)
	}
}

func TestRankThatLeavesOthersWaiting(t *testing.T) {
	b := newBoss(t)
	o := newOrder(3)
	o.Programs = []launcher.Program{
		{Argv: argv("exit", "0"), Ranks: []launcher.Span{{First: 1, Count: 1}}},
		{Argv: argv("pmi", "init", "fence"), Ranks: []launcher.Span{{First: 0, Count: 1}, {First: 2, Count: 1}}},
	}
	b.run(o)
	s := b.until("a verdict", func(s seen) bool {
		for _, e := range s.ends {
			if e.Kind == launcher.CauseProtocol {
				return true
			}
		}
		return false
	})
	for _, e := range s.ends {
		if e.Kind == launcher.CauseProtocol && !strings.Contains(e.Text, "rank 1") {
			t.Errorf("got %q, want it to name rank 1", e.Text)
		}
	}
	b.stop(unix.SIGTERM, time.Second)
	b.untilDone()
}

// couple makes two keepers of one job, joined as their launchers would.
func couple(t *testing.T, argv ...string) (a, b *boss) {
	t.Helper()
	a, b = newBoss(t), newBoss(t)
	for i, x := range []*boss{a, b} {
		o := newOrder(4, argv...)
		o.nodes = []launcher.NodeRanks{
			{Node: "n3", Ranks: []launcher.Span{{First: 0, Count: 2}}},
			{Node: "n4", Ranks: []launcher.Span{{First: 2, Count: 2}}},
		}
		o.start.Index = int32(i)
		o.start.Launch.Ident = sharedIdent(t)
		other := []*boss{b, a}[i]
		x.mu.Lock()
		x.peer = func(f wire.PeerFrame) {
			other.conn.WriteRaw(wire.KindPeerFrame, 0, f.Head(nil), f.Body)
			other.conn.Flush()
		}
		x.mu.Unlock()
		x.run(o)
	}
	return a, b
}

func TestFenceOverTwoNodes(t *testing.T) {
	a, b := couple(t, argv("pmi", "init", "map", "put:k$RANK=v", "fence", "get:k0", "finalize")...)
	for _, x := range []*boss{a, b} {
		s := x.untilDone()
		if s.wired != 1 {
			t.Errorf("the wire-up was told %d times, want once", s.wired)
		}
		for _, e := range s.ends {
			if e.Code != 0 {
				t.Errorf("end %+v", e)
			}
		}
		for key, out := range s.out {
			if !strings.Contains(string(out), "value=(vector,(0,2,2))\ncmd=barrier_out\n") {
				t.Errorf("%s: %s", key, out)
			}
		}
	}
}
