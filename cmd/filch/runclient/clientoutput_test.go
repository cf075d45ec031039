package runclient

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

func TestSinkLabelsAndSplits(t *testing.T) {
	var out, err strings.Builder
	s := &ClientOutput{Out: &out, Err: &err, Label: true, Width: 2}
	for _, o := range []wire.Output{
		{Rank: 3, Stream: 1, Data: []byte("a\nb\n")},
		{Rank: 12, Stream: 2, Data: []byte("no end")},
		{Rank: 12, Stream: 1, Data: nil},
	} {
		if e := s.Write(o); e != nil {
			t.Fatal(e)
		}
	}
	if out.String() != " 3: a\n 3: b\n" || err.String() != "12: no end\n" {
		t.Errorf("got %q and %q", out.String(), err.String())
	}
}

func TestGroupsFoldRanksThatEndedAlike(t *testing.T) {
	s := &Session{size: 8, Nodes: []launcher.NodeRanks{
		{Node: "n1", Ranks: []launcher.Span{{First: 0, Count: 4}}},
		{Node: "n2", Ranks: []launcher.Span{{First: 4, Count: 4}}},
	}}
	got := s.groups(launcher.Ended{Bad: 5, Ranks: []launcher.RankEnd{
		{Rank: 3, Kind: launcher.CauseExit, Code: 7},
		{Rank: 5, Kind: launcher.CauseExit, Code: 7},
		{Rank: 4, Kind: launcher.CauseExit, Code: 7},
		{Rank: 0, Kind: launcher.CauseSignal, Code: 11, Core: true},
	}})
	want := []string{
		"ranks 3-5 on n[1-2]: exited with code 7",
		"rank 0 on n1: killed by SIGSEGV (core dumped)",
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}
