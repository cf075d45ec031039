package output_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/output"
)

// fold adds pieces "RANK TEXT" at the same time, and returns the lines after a flush.
func fold(t *testing.T, size int32, pieces ...string) string {
	t.Helper()
	var got strings.Builder
	f := output.NewFold(size, func(_ uint8, line []byte) error {
		got.Write(line)
		return nil
	})
	now := time.Unix(1, 0)
	for _, p := range pieces {
		var r int
		if _, err := fmt.Sscan(p, &r); err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(p, " ")
		if err := f.Add(now, filch.Rank(r), 1, []byte(text+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Flush(); err != nil || f.Waits() {
		t.Errorf("after the flush: %v, waits %v", err, f.Waits())
	}
	return got.String()
}

func TestFoldJoinsEqualLines(t *testing.T) {
	for name, c := range map[string]struct {
		size   int32
		pieces []string
		want   string
	}{
		"all":           {3, []string{"0 a", "2 a", "1 a"}, "[0-2] a\n"},
		"some":          {0, []string{"0 a", "7 a", "1 a", "1 b", "5 a"}, "[0-1,5,7] a\n[1] b\n"},
		"twice":         {2, []string{"0 a", "0 a", "1 a", "1 a"}, "[0-1] a\n[0-1] a\n"},
		"twice-by-one":  {2, []string{"0 a", "1 a", "0 a"}, "[0-1] a\n[0] a\n"},
		"first-order":   {2, []string{"0 a", "0 b", "1 b", "1 a"}, "[0-1] a\n[0-1] b\n"},
		"high-rank":     {0, []string{"2000000 a", "1 a", "2000000 a"}, "[1,2000000] a\n[2000000] a\n"},
		"empty":         {1, []string{"0 "}, "[0] \n"},
		"past-64-ranks": {0, []string{"63 a", "64 a", "65 a", "130 a"}, "[63-65,130] a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fold(t, c.size, c.pieces...); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A line of all ranks leaves at once, and another line after a while.
func TestFoldWaitsForTheOtherRanks(t *testing.T) {
	var got []string
	f := output.NewFold(2, func(s uint8, line []byte) error {
		got = append(got, fmt.Sprintf("%d %s", s, line))
		return nil
	})
	now := time.Unix(1, 0)
	add := func(r filch.Rank, stream uint8, text string) {
		if err := f.Add(now, r, stream, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	add(0, 1, "both\nonly 0\n")
	add(1, 1, "both")
	if want := []string{"1 [0-1] both\n"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	add(0, 2, "error\n")
	add(1, 2, "error\n") // waits behind the line of rank 0
	now = now.Add(time.Second)
	if err := f.Expire(now); err != nil || len(got) != 3 || got[1] != "1 [0] only 0\n" || got[2] != "2 [0-1] error\n" {
		t.Errorf("later: got %q, %v", got, err)
	}
}

// A rank that floods does not fill the memory.
func TestFoldIsBounded(t *testing.T) {
	lines := 0
	f := output.NewFold(2, func(uint8, []byte) error { lines++; return nil })
	text := []byte(strings.Repeat("x", 1<<20) + "\n")
	for range 64 {
		if err := f.Add(time.Unix(1, 0), 0, 1, text); err != nil {
			t.Fatal(err)
		}
	}
	if lines < 40 || lines == 64 {
		t.Errorf("%d of 64 MiB left", lines)
	}
}
