package logs

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// printed gives a printer pieces, and returns both streams after the end.
func printed(t *testing.T, v View, give func(p *Printer)) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := NewPrinter(v)
	p.out, p.err = &out, &errs
	give(p)
	if err := p.CaughtUp(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String()
}

func bag(job filch.JobID, names ...string) *Target {
	return &Target{Job: job, Last: All, Info: launcher.JobInfo{ID: job, Kind: "bag"}, Names: names}
}

func TestPrinterOrdersAndLabels(t *testing.T) {
	zero := int32(0)
	seven, eight := bag(7), bag(8, "first", "se\ncond")
	eight.order = 1
	run := &Target{Job: 9, Last: All, Info: launcher.JobInfo{Kind: "run", Ranks: 12, Code: &zero}}
	pieces := []struct {
		target *Target
		wire.OutputPiece
	}{
		{eight, wire.OutputPiece{Index: 1, Attempt: 1, Stream: 1, Data: []byte("late\n")}},
		{seven, wire.OutputPiece{Index: 10, Attempt: 2, Stream: 1, Data: []byte("again\n")}},
		{seven, wire.OutputPiece{Index: 10, Attempt: 1, Stream: 1, Data: []byte("a\nb\nc")}},
		{seven, wire.OutputPiece{Index: 2, Attempt: 1, Stream: 2, Data: []byte("no\n")}},
		{seven, wire.OutputPiece{Index: 2, Attempt: 1, Stream: 1, Data: []byte("two\n")}},
		{eight, wire.OutputPiece{Index: 0, Attempt: 1, Stream: 1, Data: []byte("one\n")}},
	}
	for name, c := range map[string]struct {
		view     View
		out, err string
	}{
		"plain":  {View{Ordered: true, Tail: -1}, "two\na\nb\nc\nagain\none\nlate\n", "no\nfilch: task 7.10, attempt 2:\n"},
		"labels": {View{Ordered: true, Tail: -1, Label: true}, "7.2: two\n7.10: a\n7.10: b\n7.10: c\n7.10 (attempt 2): again\nfirst: one\nse\\ncond: late\n", "7.2: no\n"},
		"jobs":   {View{Ordered: true, Tail: 1, Label: true, Job: true}, "7.2: two\n7.10 (attempt 2): again\n8.first: one\n8.se\\ncond: late\n", "7.2: no\n"},
		"tail":   {View{Ordered: true, Tail: 2}, "two\nc\nagain\none\nlate\n", "no\nfilch: task 7.10, attempt 2:\n"},
		"none":   {View{Ordered: true, Tail: 0}, "", ""},
		"grep":   {View{Ordered: true, Tail: -1, Grep: regexp.MustCompile("^[ab]$")}, "a\nb\n", ""},
		"fold":   {View{Ordered: true, Tail: -1, Fold: true}, "[2] two\n[10] a\n[10] b\n[10] c\n[10] again\n[0] one\n[1] late\n", "[2] no\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs := printed(t, c.view, func(p *Printer) {
				for _, one := range pieces {
					o := one.OutputPiece
					if err := p.Piece(one.target, &o); err != nil {
						t.Fatal(err)
					}
				}
			})
			if out != c.out || errs != c.err {
				t.Errorf("got %q and %q, want %q and %q", out, errs, c.out, c.err)
			}
		})
	}
	// Where only one attempt printed something, there is nothing to tell apart.
	if out, errs := printed(t, View{Tail: -1}, func(p *Printer) {
		for _, o := range []wire.OutputPiece{
			{Index: 70, Attempt: 2, Stream: 1, Data: []byte("only\n")},
			{Index: 70, Attempt: 2, Stream: 1, Data: []byte("this\n")},
			{Index: 6, Attempt: 1, Stream: 1, Data: []byte("six")},
			{Index: 70, Attempt: 1, Stream: 1, Data: []byte("late\n")},
		} {
			if err := p.Piece(seven, &o); err != nil {
				t.Fatal(err)
			}
		}
		again := wire.OutputPiece{Index: 2, Attempt: 2, Stream: 2, Data: []byte("a rank\n")}
		first := wire.OutputPiece{Index: 1, Stream: 2, Data: []byte("a rank before\n")}
		if err := errors.Join(p.Piece(run, &first), p.Piece(run, &again)); err != nil {
			t.Fatal(err)
		}
	}); out != "only\nthis\nsix\nlate\n" || errs != "filch: task 7.70, attempt 1:\na rank before\nfilch: job 9, attempt 2:\na rank\n" {
		t.Errorf("attempts: got %q and %q", out, errs)
	}
	lost := run
	lost.Info.Lost = []launcher.LostAttempt{{Attempt: 1, Node: "n2"}, {Attempt: 3, Node: "n4"}}
	if _, errs := printed(t, View{Tail: -1}, func(p *Printer) {
		for attempt := range int32(4) {
			if err := p.Piece(lost, &wire.OutputPiece{Attempt: attempt + 1, Stream: 1, Data: []byte("x\n")}); err != nil {
				t.Fatal(err)
			}
		}
	}); errs != "filch: job 9, attempt 2 after node n2 was lost:\nfilch: job 9, attempt 3:\nfilch: job 9, attempt 4 after node n4 was lost:\n" {
		t.Errorf("attempts after losses: got %q", errs)
	}
	at := time.Date(2026, 11, 2, 3, 4, 5, 6e6, time.Local).UnixMilli()
	out, _ := printed(t, View{Tail: -1, Label: true, Times: true}, func(p *Printer) {
		for _, o := range []wire.OutputPiece{
			{Index: 3, Stream: 1, Time: at, Data: []byte("x\n")},
			{Index: 11, Stream: 1, Data: []byte("y")},
		} {
			if err := p.Piece(run, &o); err != nil {
				t.Fatal(err)
			}
		}
	})
	if want := "2026-11-02T03:04:05.006  3: x\n" + noTime + " 11: y\n"; out != want {
		t.Errorf("times: got %q, want %q", out, want)
	}
}

// More output than the memory of a store goes to a file, and comes back in order.
func TestStoreSpillsToAFile(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	target, big := bag(1), strings.Repeat("x", 1<<20-10)
	const tasks = storeMax>>20 + 4
	var spilled bool
	out, _ := printed(t, View{Ordered: true, Tail: -1}, func(p *Printer) {
		for i := tasks; i > 0; i-- {
			if err := p.Piece(target, &wire.OutputPiece{Index: int32(i), Stream: 1, Data: fmt.Appendf(nil, "%d %s\n", i, big)}); err != nil {
				t.Fatal(err)
			}
		}
		spilled = p.store.file != nil && p.store.memory == nil
	})
	if !spilled {
		t.Error("everything stayed in memory")
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != tasks {
		t.Fatalf("got %d lines, want %d", len(lines), tasks)
	}
	for i, line := range lines {
		if line != fmt.Sprintf("%d %s", i+1, big) {
			t.Errorf("line %d begins with %.10q and has %d bytes", i, line, len(line))
		}
	}
}

// The numbers of attempts are those of FILCH_ATTEMPT, also of a task with a start that is in no
// record; ranks of a gang have the numbers of the starts that may have happened.
func TestPrinterNumbersAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		view     View
		ended    bool
		out, err string
	}{
		"plain":  {View{Tail: -1}, false, "zero\none\ntwo\ngang\nlone\n", "filch: task 7.1, attempt 1, after a start that was not recorded:\nfilch: task 7.1, attempt 2:\n"},
		"labels": {View{Tail: -1, Label: true}, false, "7.1 (attempt 1, not recorded): zero\n7.1: one\n7.1 (attempt 2): two\n7.2.0 (attempt 2): gang\n7.3: lone\n", ""},
		"ended":  {View{Tail: -1, Label: true}, true, "7.1 (attempt 1 of 2, not recorded): zero\n7.1 (attempt 1 of 2): one\n7.1 (attempt 2 of 2): two\n7.2.0 (attempt 2): gang\n7.3: lone\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			seven := bag(7)
			seven.unrecorded.tasks = map[int32]bool{1: true, 3: true}
			if c.ended {
				seven.starts = map[int32]int32{1: 3, 3: 2}
			}
			out, errs := printed(t, c.view, func(p *Printer) {
				for _, o := range []wire.OutputPiece{
					{Index: 1, Attempt: 1, Stream: 1, Data: []byte("zero\n")},
					{Index: 1, Attempt: 2, Stream: 1, Data: []byte("one\n")},
					{Index: 1, Attempt: 3, Stream: 1, Data: []byte("two\n")},
					{Index: 2, Attempt: 2, Rank: 1, Stream: 1, Data: []byte("gang\n")},
					{Index: 3, Attempt: 2, Stream: 1, Data: []byte("lone\n")},
				} {
					if err := p.Piece(seven, &o); err != nil {
						t.Fatal(err)
					}
				}
			})
			if out != c.out || errs != c.err {
				t.Errorf("got %q and %q, want %q and %q", out, errs, c.out, c.err)
			}
		})
	}
}
