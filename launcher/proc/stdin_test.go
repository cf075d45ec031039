package proc_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// stdin sends a piece of the client's input.
func (b *boss) stdin(offset uint64, text string, eof bool) {
	b.t.Helper()
	p := wire.Stdin{Offset: offset, EOF: eof}
	b.conn.WriteRaw(wire.KindStdin, 0, p.Head(nil), []byte(text))
	if err := b.conn.Flush(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *boss) resize(rows, cols uint16) {
	b.t.Helper()
	if err := b.conn.Send(wire.KindResize, 0, launcher.Window{Rows: rows, Cols: cols}); err != nil {
		b.t.Fatal(err)
	}
}

// pour sends text as fast as the keeper asks for it.
func (b *boss) pour(text string) {
	b.t.Helper()
	const chunk = 60000
	sent := 0
	for sent < len(text) {
		s := b.until("a wish for stdin", func(s seen) bool { return s.want.Offset > uint64(sent) })
		for sent < len(text) && uint64(sent) < s.want.Offset {
			n := min(chunk, len(text)-sent, int(s.want.Offset)-sent)
			b.stdin(uint64(sent), text[sent:sent+n], false)
			sent += n
		}
	}
	b.stdin(uint64(sent), "", true)
}

func sumOf(text string) string {
	sum := uint32(0)
	for i := range len(text) {
		sum = sum*31 + uint32(text[i])
	}
	return fmt.Sprintf("%d %d\n", len(text), sum)
}

func TestStdinGoesToAll(t *testing.T) {
	b := newBoss(t)
	o := newOrder(3, argv("cat")...)
	o.IO.StdinMode = launcher.StdinAll
	b.run(o)
	b.stdin(0, "one\n", false)
	b.stdin(0, "one\n", false)  // repeated
	b.stdin(9, "gap\n", false)  // too early
	b.stdin(2, "e\ntw", false)  // overlapping
	b.stdin(6, "o\n", true)     // the rest
	b.stdin(8, "after\n", true) // beyond the end
	s := b.untilDone()
	for _, key := range []string{"0.1", "1.1", "2.1"} {
		if got := string(s.out[key]); got != "one\ntwo\n" {
			t.Errorf("%s: got %q", key, got)
		}
	}
}

// TestStdinOfASlowRank pours more than memory keeps while one rank does not
// read, and another never does.
func TestStdinOfASlowRank(t *testing.T) {
	b := newBoss(t)
	mark := t.TempDir() + "/go"
	o := newOrder(3)
	o.Programs = []launcher.Program{
		{Argv: argv("sum"), Ranks: []launcher.Span{{First: 0, Count: 1}}},
		{Argv: argv("sum", mark), Ranks: []launcher.Span{{First: 1, Count: 1}}},
		{Argv: argv("hang"), Ranks: []launcher.Span{{First: 2, Count: 1}}},
	}
	o.IO.StdinMode = launcher.StdinAll
	b.run(o)
	text := strings.Repeat("0123456789abcdef\n", 500000) // 8.5 MB
	b.pour(text)
	want := sumOf(text)
	b.until("the fast rank", func(s seen) bool { return string(s.out["0.1"]) == want })
	if rss := rssKiB(b.k.PID); rss > 80<<10 {
		t.Errorf("the keeper has %d KiB", rss)
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.until("the slow rank", func(s seen) bool { return string(s.out["1.1"]) == want })
	b.stop(unix.SIGTERM, time.Second)
	b.untilDone()
}

func TestStdinOfOneRankAndNone(t *testing.T) {
	b := newBoss(t)
	o := newOrder(2, argv("cat")...)
	o.IO.StdinMode, o.IO.StdinRank = launcher.StdinOne, 1
	b.run(o)
	b.stdin(0, "only\n", true)
	if s := b.untilDone(); string(s.out["1.1"]) != "only\n" || len(s.out["0.1"]) != 0 {
		t.Errorf("got %q", s.out)
	}
	b.forget()

	o = newOrder(2, argv("cat")...)
	o.IO.StdinMode, o.IO.StdinRank = launcher.StdinOne, 7 // on another node
	b.run(o)
	if s := b.untilDone(); s.want.Offset != wire.NoStdin {
		t.Errorf("wants stdin up to %d", s.want.Offset)
	}
}

func TestStdinFromFile(t *testing.T) {
	b := newBoss(t)
	dir := t.TempDir()
	for _, name := range []string{"in.0", "in.1"} {
		if err := os.WriteFile(dir+"/"+name, []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := newOrder(2, argv("cat")...)
	o.Cwd, o.IO.StdinMode, o.IO.Stdin = dir, launcher.StdinFile, "in.%t"
	b.run(o)
	if s := b.untilDone(); string(s.out["0.1"]) != "in.0\n" || string(s.out["1.1"]) != "in.1\n" {
		t.Errorf("got %q", s.out)
	}
}

func TestStdinIsRefusedWhenNobodyReads(t *testing.T) {
	b := newBoss(t)
	o := newOrder(2, "/bin/sh", "-c", "exec <&-; echo up $$; exec sleep 100")
	o.IO.StdinMode = launcher.StdinAll
	b.run(o)
	b.until("the keeper to want no more", func(s seen) bool { return s.want.Offset == wire.NoStdin })
	b.stop(unix.SIGTERM, time.Second)
	b.untilDone()
}
