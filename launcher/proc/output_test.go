package proc_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"golang.org/x/sys/unix"
)

// TestFloodIsHeldBack has a rank write far more than anybody takes.
func TestFloodIsHeldBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		argv  []string
		total int
		raw   bool
	}{
		{"lines", argv("flood", "64000000"), 64000000, false},
		{"single-bytes", argv("bytes", "3000000"), 3000000, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBoss(t)
			b.stall = true
			o := newOrder(1, c.argv...)
			o.IO.Unbuffered = c.raw
			b.run(o)
			last, still := uint64(0), time.Now()
			s := b.until("the flood to stand still", func(s seen) bool {
				if s.offset != last || s.offset == 0 {
					last, still = s.offset, time.Now()
				}
				return time.Since(still) > 300*time.Millisecond
			})
			if s.offset > 2<<20 || s.done != nil {
				t.Errorf("%d bytes came without a credit, done %v", s.offset, s.done)
			}
			if rss := rssKiB(b.k.PID); rss > 80<<10 {
				t.Errorf("the keeper has %d KiB", rss)
			}
			b.mu.Lock()
			b.stall = false
			b.credit(b.s.offset)
			b.mu.Unlock()
			s = b.untilDone()
			if got := len(s.out["0.1"]); got != c.total {
				t.Errorf("got %d bytes, want %d", got, c.total)
			}
			if rss := rssKiB(b.k.PID); rss > 80<<10 {
				t.Errorf("the keeper has %d KiB afterwards", rss)
			}
		})
	}
}

// TestStalledSinkDoesNotHoldTheEnd cancels a job whose output nobody takes.
func TestStalledSinkDoesNotHoldTheEnd(t *testing.T) {
	b := newBoss(t)
	b.stall = true
	b.run(newOrder(2, argv("flood")...))
	s := b.until("output", func(s seen) bool { return s.offset > 1<<19 && s.started != nil })
	b.stop(unix.SIGTERM, time.Second)
	eventually(t, "the ranks to end", func() bool { return !living(int(s.started.PIDs[0])) && !living(int(s.started.PIDs[1])) })
	b.until("both ends", func(s seen) bool { return len(s.ends) == 2 })
	b.mu.Lock()
	b.stall = false
	b.credit(b.s.offset)
	b.mu.Unlock()
	b.untilDone()
}

func TestLinesOfRanksDoNotMix(t *testing.T) {
	b := newBoss(t)
	o := newOrder(4, "/bin/sh", "-c", `i=0; while [ $i -lt 200 ]; do printf "rank $FILCH_RANK "; printf "line $i"; echo " end"; i=$((i+1)); done`)
	dir := t.TempDir()
	o.IO.Stdout, o.IO.Label = dir+"/all.%N.%n", true
	b.run(o)
	b.untilDone()
	got, err := os.ReadFile(dir + "/all.n3.0")
	if err != nil {
		t.Fatal(err)
	}
	next := [4]int{}
	for line := range strings.Lines(string(got)) {
		var label, rank, n int
		if _, err := fmt.Sscanf(line, "%d: rank %d line %d end\n", &label, &rank, &n); err != nil || label != rank || n != next[rank] {
			t.Fatalf("line %q: %v, want line %d", line, err, next[rank])
		}
		next[rank]++
	}
	if next != [4]int{200, 200, 200, 200} {
		t.Errorf("lines per rank: %v", next)
	}
}

func TestOutputFiles(t *testing.T) {
	b := newBoss(t)
	dir := t.TempDir()
	for _, c := range []struct {
		name  string
		io    launcher.IO
		files map[string]string
		out   map[string]string
	}{
		{"per-rank", launcher.IO{Stdout: "o.%t"}, map[string]string{"o.0": "out\nerr\n", "o.1": "out\nerr\n"}, nil},
		{"per-rank-both", launcher.IO{Stdout: "o.%2t", Stderr: "e.%t"}, map[string]string{"o.00": "out\n", "e.0": "err\n", "o.01": "out\n", "e.1": "err\n"}, nil},
		{"stderr-only", launcher.IO{Stderr: "e.%t"}, map[string]string{"e.0": "err\n", "e.1": "err\n"}, map[string]string{"0.1": "out\n", "1.1": "out\n"}},
		{"none", launcher.IO{Stdout: "none"}, nil, nil},
		{"stderr-none", launcher.IO{Stderr: "none"}, nil, map[string]string{"0.1": "out\n", "1.1": "out\n"}},
		{"clients-file", launcher.IO{Stdout: "whole.%j"}, nil, map[string]string{"0.1": "out\n", "0.2": "err\n", "1.1": "out\n", "1.2": "err\n"}},
		{"labels", launcher.IO{Stdout: "l.%t", Label: true}, map[string]string{"l.0": "0: out\n0: err\n", "l.1": "1: out\n1: err\n"}, nil},
		{"one-rank", launcher.IO{OutRank: 1}, nil, map[string]string{"1.1": "out\n", "1.2": "err\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOrder(2, "/bin/sh", "-c", "echo out; sleep 0.05; echo err >&2")
			o.Cwd = dir
			if c.io.OutRank == 0 {
				c.io.OutRank = -1
			}
			c.io.ErrRank = -1
			c.io.StdinMode = launcher.StdinNone
			o.IO = c.io
			b.run(o)
			s := b.untilDone()
			for name, want := range c.files {
				if got, err := os.ReadFile(dir + "/" + name); err != nil || string(got) != want {
					t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
				}
				os.Remove(dir + "/" + name)
			}
			if len(s.out) != len(c.out) {
				t.Errorf("came to the client: %q, want %q", s.out, c.out)
			}
			for key, want := range c.out {
				if got := string(s.out[key]); got != want {
					t.Errorf("%s: got %q, want %q", key, got, want)
				}
			}
			if names, _ := os.ReadDir(dir); len(names) != 0 {
				t.Errorf("files left: %v", names)
			}
			b.forget()
		})
	}
}

func TestOpenMode(t *testing.T) {
	b := newBoss(t)
	dir := t.TempDir()
	for _, c := range []struct {
		add  bool
		want string
	}{{false, "x\n"}, {true, "x\nx\n"}, {false, "x\n"}} {
		o := newOrder(1, "/bin/echo", "x")
		o.Cwd, o.IO.Stdout, o.IO.Append = dir, "log.%t", c.add
		b.run(o)
		b.untilDone()
		if got, _ := os.ReadFile(dir + "/log.0"); string(got) != c.want {
			t.Errorf("append %v: got %q, want %q", c.add, got, c.want)
		}
		b.forget()
	}
}

func TestFullDeviceIsSaid(t *testing.T) {
	b := newBoss(t)
	dir := t.TempDir()
	if err := os.Symlink("/dev/full", dir+"/full.n3"); err != nil {
		t.Fatal(err)
	}
	o := newOrder(1, "/bin/echo", "x")
	o.Cwd, o.IO.Stdout = dir, "full.%N"
	b.run(o)
	s := b.untilDone()
	if len(s.warns) != 1 || !strings.Contains(s.warns[0], "full.n3: no space left on device") {
		t.Errorf("warned %q", s.warns)
	}
}

func TestPromptIsShown(t *testing.T) {
	b := newBoss(t)
	o := newOrder(1, "/bin/sh", "-c", `printf "name? "; read n; echo "hello $n"`)
	o.IO.StdinMode = launcher.StdinAll
	b.run(o)
	b.until("the prompt", func(s seen) bool { return string(s.out["0.1"]) == "name? " })
	b.stdin(0, "world\n", true)
	if s := b.untilDone(); string(s.out["0.1"]) != "name? hello world\n" {
		t.Errorf("got %q", s.out["0.1"])
	}
}

func TestLongLinesAndNoNewlineAtTheEnd(t *testing.T) {
	b := newBoss(t)
	o := newOrder(1, "/bin/sh", "-c", `head -c 300000 /dev/zero | tr '\0' y; printf "\nend"`)
	b.run(o)
	s := b.untilDone()
	if want := append(bytes.Repeat([]byte("y"), 300000), "\nend"...); !bytes.Equal(s.out["0.1"], want) {
		t.Errorf("got %d bytes, want %d", len(s.out["0.1"]), len(want))
	}
}

func TestTerminal(t *testing.T) {
	b := newBoss(t)
	o := newOrder(2, argv("tty")...)
	o.Pty = &launcher.Window{Rows: 24, Cols: 80}
	b.run(o)
	b.until("the size", func(s seen) bool { return strings.Contains(string(s.out["0.1"]), "size 24x80") })
	b.stdin(0, "typed\n", false)
	b.until("what was typed", func(s seen) bool { return strings.Contains(string(s.out["0.1"]), `read "typed\n"`) })
	b.resize(50, 120)
	s := b.untilDone()
	if !strings.Contains(string(s.out["0.1"]), "now 50x120") {
		t.Errorf("got %q", s.out["0.1"])
	}
	if len(s.out["1.1"]) != 0 {
		t.Errorf("rank 1 has printed %q", s.out["1.1"])
	}
}

func TestTerminalEndOfInput(t *testing.T) {
	b := newBoss(t)
	o := newOrder(1, "/bin/sh", "-c", "cat; echo over")
	o.Pty = &launcher.Window{}
	b.run(o)
	b.stdin(0, "a\n", true)
	s := b.untilDone()
	if got := string(s.out["0.1"]); !strings.HasSuffix(got, "a\r\nover\r\n") {
		t.Errorf("got %q", got)
	}
}

// TestHungFileDoesNotHoldTheKill writes to a file that does not answer: a pipe
// that nobody reads.
func TestHungFileDoesNotHoldTheKill(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(dir+"/hung.n3", 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBoss(t)
	o := newOrder(2, argv("flood")...)
	o.Cwd, o.IO.Stdout = dir, "hung.%N"
	b.run(o)
	s := b.until("a refusal", func(s seen) bool { return s.ready != nil })
	if s.ready.Err == nil || !strings.Contains(s.ready.Err.Text, "cannot write "+dir+"/hung.n3 on n3") {
		t.Fatalf("without a reader: got %+v", s.ready.Err)
	}
	b.forget()

	r, err := os.OpenFile(dir+"/hung.n3", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b.run(o)
	s = b.until("the ranks", func(s seen) bool { return s.started != nil })
	full := func() bool {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		return err == nil && n >= 60000
	}
	eventually(t, "the pipe to be full", full)
	b.stop(unix.SIGTERM, time.Second)
	b.until("the ends", func(s seen) bool { return len(s.ends) == 2 })
	if rss := rssKiB(b.k.PID); rss > 80<<10 {
		t.Errorf("the keeper has %d KiB", rss)
	}
	go io.Copy(io.Discard, r)
	b.untilDone()
}
