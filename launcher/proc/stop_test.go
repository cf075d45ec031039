package proc_test

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"golang.org/x/sys/unix"
)

func TestStop(t *testing.T) {
	for _, c := range []struct {
		name     string
		argv     []string
		before   func(pids []int)
		sig      unix.Signal
		grace    time.Duration
		by       unix.Signal // what ends the rank
		at, most time.Duration
	}{
		{"term", argv("hang"), nil, unix.SIGTERM, patience, unix.SIGTERM, 0, 5 * time.Second},
		{"another-signal", argv("hang"), nil, unix.SIGINT, patience, unix.SIGINT, 0, 5 * time.Second},
		{"kill", argv("stubborn"), nil, unix.SIGKILL, patience, unix.SIGKILL, 0, 5 * time.Second},
		{"no-grace", argv("stubborn"), nil, unix.SIGTERM, 0, unix.SIGKILL, 0, 5 * time.Second},
		{"ignores-term", argv("stubborn"), nil, unix.SIGTERM, 300 * time.Millisecond, unix.SIGKILL, 300 * time.Millisecond, 5 * time.Second},
		{"stopped-rank", []string{"/bin/sh", "-c", "echo up $$; while :; do sleep 1; done"}, func(pids []int) {
			for _, p := range pids {
				unix.Kill(p, unix.SIGSTOP)
			}
		}, unix.SIGTERM, patience, unix.SIGTERM, 0, 5 * time.Second},
		{"family", argv("family", "hang"), nil, unix.SIGTERM, patience, unix.SIGTERM, 0, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBoss(t)
			b.run(newOrder(2, c.argv...))
			want := 2
			if c.name == "family" {
				want = 6
			}
			s := b.until("the ranks", func(s seen) bool { return len(pidsAfter(s, "up")) == want })
			pids := pidsAfter(s, "up")
			if c.before != nil {
				c.before(pids)
			}
			began := time.Now()
			b.stop(c.sig, c.grace)
			s = b.untilDone()
			took := time.Since(began)
			if took < c.at || took > c.most {
				t.Errorf("took %v, want %v to %v", took, c.at, c.most)
			}
			for _, e := range s.ends {
				if c.name != "family" && e.Kind == launcher.CauseExit && e.Code == 2 && c.by == unix.SIGINT {
					continue // the Go runtime turns some signals into exits
				}
				if e.Kind != launcher.CauseSignal || e.Code != int32(c.by) || !e.Told {
					t.Errorf("end %+v, want signal %d, told", e, c.by)
				}
			}
			for _, p := range pids {
				if living(p) {
					t.Errorf("process %d is left", p)
				}
			}
		})
	}
}

func TestStopCanBeHastened(t *testing.T) {
	b := newBoss(t)
	b.run(newOrder(1, argv("stubborn")...))
	b.until("the rank", func(s seen) bool { return len(pidsAfter(s, "up")) == 1 })
	b.stop(unix.SIGTERM, time.Hour)
	b.stop(unix.SIGTERM, 50*time.Millisecond)
	b.untilDone()
	b.forget()
	b.run(newOrder(1, argv("stubborn")...))
	b.until("the rank", func(s seen) bool { return len(pidsAfter(s, "up")) == 1 })
	b.stop(unix.SIGTERM, time.Hour)
	b.stop(unix.SIGKILL, time.Hour)
	b.untilDone()
}

// TestStopDoesNotHideACause kills one rank and stops the job at once: the
// first must not be taken for a consequence.
func TestStopDoesNotHideACause(t *testing.T) {
	b := newBoss(t)
	b.run(newOrder(2, argv("hang")...))
	s := b.until("the ranks", func(s seen) bool { return len(pidsAfter(s, "up")) == 2 && s.started != nil })
	unix.Kill(int(s.started.PIDs[1]), unix.SIGKILL)
	eventually(t, "rank 1 to end", func() bool {
		threads, _ := os.ReadDir("/proc/" + strconv.Itoa(int(s.started.PIDs[1])) + "/task")
		return len(threads) <= 1 && !living(int(s.started.PIDs[1]))
	})
	b.stop(unix.SIGTERM, time.Second)
	s = b.untilDone()
	for _, e := range s.ends {
		if e.Told != (e.Rank == 0) {
			t.Errorf("end %+v", e)
		}
	}
}

func TestSignalIsForwarded(t *testing.T) {
	b := newBoss(t)
	o := newOrder(2, "/bin/sh", "-c", "trap 'echo got it; exit 3' USR1; echo up $$; while :; do sleep 0.01; done")
	b.run(o)
	b.until("the ranks", func(s seen) bool { return len(pidsAfter(s, "up")) == 2 })
	b.deed(launcher.Deed{Kind: launcher.DeedSignal, Signal: int32(unix.SIGUSR1)})
	s := b.untilDone()
	for _, e := range s.ends {
		if e.Code != 3 || e.Told {
			t.Errorf("end %+v", e)
		}
	}
}

func TestTerminalStopStops(t *testing.T) {
	b := newBoss(t)
	b.run(newOrder(1, argv("hang")...))
	s := b.until("the rank", func(s seen) bool { return len(pidsAfter(s, "up")) == 1 })
	pid := pidsAfter(s, "up")[0]
	state := func() byte {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return stat[bytes.LastIndexByte(stat, ')')+2]
	}
	b.deed(launcher.Deed{Kind: launcher.DeedSignal, Signal: int32(unix.SIGTSTP)})
	eventually(t, "the rank to be stopped", func() bool { return state() == 'T' })
	b.deed(launcher.Deed{Kind: launcher.DeedSignal, Signal: int32(unix.SIGCONT)})
	eventually(t, "the rank to go on", func() bool { return state() != 'T' })
	b.stop(unix.SIGTERM, time.Second)
	b.untilDone()
}

// TestToldWithoutItsFirstThread has a rank that looks as if it had ended, while
// its other threads go on: that it ends is our doing.
func TestToldWithoutItsFirstThread(t *testing.T) {
	b := newBoss(t)
	b.run(newOrder(1, argv("leader")...))
	s := b.until("the rank", func(s seen) bool { return len(pidsAfter(s, "up")) == 1 })
	pid := pidsAfter(s, "up")[0]
	eventually(t, "the end of its first thread", func() bool {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return stat[bytes.LastIndexByte(stat, ')')+2] == 'Z'
	})
	b.stop(unix.SIGTERM, time.Second)
	if s = b.untilDone(); len(s.ends) != 1 || !s.ends[0].Told {
		t.Errorf("ends %+v, want one that we brought about", s.ends)
	}
}

// abrtOfUCX ends as UCX ends a process, in MPI.
const abrtOfUCX = `echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
printf '==== backtrace (tid: 7) ====\n 0 main\n=================================\n' >&2; kill -ABRT $$`

// TestDoubt has the ends of ranks in MPI that may be consequences.
func TestDoubt(t *testing.T) {
	b := newBoss(t)
	for name, c := range map[string]struct {
		argv  []string
		doubt launcher.Doubt
	}{
		"abort-15":       {argv("pmi", "init", "abort:15"), launcher.DoubtMuch},
		"asked-15":       {argv("pmi", "init", "say:"+strings.Repeat("x", 300), "say:application called MPI_Abort(MPI_COMM_WORLD, 15) - process 0", "abort:15"), launcher.DoubtNone},
		"abort-16":       {argv("pmi", "init", "abort:16"), launcher.DoubtNone},
		"abrt":           {argv("pmi", "init", "kill:6"), launcher.DoubtNone},
		"abrt-of-ucx":    {[]string{"/bin/sh", "-c", abrtOfUCX}, launcher.DoubtSome},
		"abrt-finalized": {argv("pmi", "init", "finalize", "kill:6"), launcher.DoubtNone},
		"abrt-alone":     {argv("kill-self", "6"), launcher.DoubtNone},
		"segv":           {argv("pmi", "init", "kill:11"), launcher.DoubtNone},
		"exit":           {argv("pmi", "init", "exit:15"), launcher.DoubtNone},
	} {
		t.Run(name, func(t *testing.T) {
			b.run(newOrder(1, c.argv...))
			s := b.until("the end", func(s seen) bool { return len(s.ends) > 0 })
			if e := s.ends[0]; e.Doubt != c.doubt || e.Told {
				t.Errorf("got %+v, want doubt %d", e, c.doubt)
			}
			b.stop(unix.SIGKILL, 0)
			b.untilDone()
			b.forget()
		})
	}
}
