package main

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

func TestCleanEscapesWhatATerminalWouldObey(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                        "plain",
		"größe ✓":                      "größe ✓",
		"a\nfilch: error: fake":        `a\nfilch: error: fake`,
		"\x1b[2Jgone":                  `\x1b[2Jgone`,
		"bad\xff":                      `bad\xff`,
		"c1\u009b31m":                  `c1\u009b31m`,
		"sep\u2028arator\x00\x7f":      `sep\u2028arator\x00\x7f`,
		"para\u2029graph":              `para\u2029graph`,
		"evil\u202egpj.exe":            `evil\u202egpj.exe`,
		"\u202aa\u202bb\u202cc\u202d":  `\u202aa\u202bb\u202cc\u202d`,
		"\u2066a\u2067b\u2068c\u2069":  `\u2066a\u2067b\u2068c\u2069`,
		"m\u200ea\u200fr\u061ck":       `m\u200ea\u200fr\u061ck`,
		"z\u200be\u200cr\u200do\ufeff": `z\u200be\u200cr\u200do\ufeff`,
		"soft\u00adhyphen\u2060":       `soft\u00adhyphen\u2060`,
		"tag\U000e0041":                `tag\U000e0041`,
		"שלום عربى 日本 é":               "שלום عربى 日本 é",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTableKeepsOneLinePerRow(t *testing.T) {
	tab := &table{head: []string{"ID", "NAME"}, right: map[int]bool{0: true}}
	tab.add("7", "a\nb")
	tab.add("12345", "größe")
	want := "   ID  NAME\n    7  a\\nb\n12345  größe\n"
	if got := tab.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSlurmsTablesAreClean prints a hostile job name with the shims' formats.
func TestSlurmsTablesAreClean(t *testing.T) {
	var j batchJob
	j.Name, j.page.Dir, j.page.Command = "a\n7\u202eb", "/d\x1b[2J", "/c\nJobId=8"
	const want = `a\n7\u202eb`
	if got := squeueLine("%i|%j", func(c byte) string { return j.squeueField(c, "7") }); got != "7|"+want {
		t.Errorf("squeue: got %q", got)
	}
	if got := j.scontrol(); !strings.Contains(got, "JobName="+want) || strings.ContainsAny(got, "\x1b\u202e") || strings.Contains(got, "\nJobId") {
		t.Errorf("scontrol: got %q", got)
	}
}

func TestShortTime(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 15 * time.Millisecond: "0.015s", 250 * time.Millisecond: "0.25s", 3200 * time.Millisecond: "3.2s",
		41 * time.Second: "41s", 131 * time.Second: "2m11s", 3*time.Hour + 5*time.Minute: "3h05m", 52 * time.Hour: "2d4h",
	} {
		if got := shortTime(d); got != want {
			t.Errorf("shortTime(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestReadIDs(t *testing.T) {
	last := func() (filch.JobID, error) { return 42, nil }
	for in, want := range map[string]string{
		"7": "7", "3-5": "3 4 5", "last": "42", "7.2": "7.2", "last.0": "42.0", "1,3-4,last": "1 3 4 42",
	} {
		ids, err := readIDs([]string{in}, last)
		var got []string
		for _, id := range ids {
			s := id.Job.String()
			if id.Rank >= 0 {
				s += "." + filch.JobID(id.Rank).String()
			}
			got = append(got, s)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("readIDs(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "-3", "x", "5-3", "1-99999", "1-2.3", "7.", "7.x", "99999999999", "1,,2", "+1"} {
		if ids, err := readIDs([]string{in}, last); err == nil {
			t.Errorf("readIDs(%q) = %v, want an error", in, ids)
		}
	}
}

func TestShareDividesCores(t *testing.T) {
	for _, c := range []struct {
		cores, nodes, slots int
		want                string
	}{
		{8, 4, 0, "0,1/2 2,3/2 4,5/2 6,7/2"},
		{2, 4, 0, "0/1 0/1 1/1 1/1"},
		{3, 2, 0, "0/1 1,2/2"},
		{2, 2, 4, "0/4 1/4"},
	} {
		cores := make([]int32, c.cores)
		for i := range cores {
			cores[i] = int32(i)
		}
		var got []string
		for i := range c.nodes {
			var m place.Node
			share(&m, cores, i, c.nodes, c.slots)
			var ids []string
			for _, core := range m.Cores {
				ids = append(ids, filch.JobID(core).String())
			}
			got = append(got, strings.Join(ids, ",")+"/"+filch.JobID(m.Slots).String())
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%d cores for %d nodes: got %s, want %s", c.cores, c.nodes, s, c.want)
		}
	}
}

func TestTwoWordsAreFixedByTheSecret(t *testing.T) {
	a, b := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	words, uuid := twoWords(a), uuidOf(a)
	if twoWords(a) != words || uuidOf(a) != uuid {
		t.Error("the same secret gives two names")
	}
	if uuidOf(a) == uuidOf(b) || len(uuidOf(a)) != 36 || !place.ValidName(twoWords(a)) {
		t.Errorf("got %s and %s, %s", uuidOf(a), uuidOf(b), twoWords(a))
	}
}

func TestSinkLabelsAndSplits(t *testing.T) {
	var out, err strings.Builder
	s := &sink{out: &out, err: &err, label: true, width: 2}
	for _, o := range []wire.Output{
		{Rank: 3, Stream: 1, Data: []byte("a\nb\n")},
		{Rank: 12, Stream: 2, Data: []byte("no end")},
		{Rank: 12, Stream: 1, Data: nil},
	} {
		if e := s.write(o); e != nil {
			t.Fatal(e)
		}
	}
	if out.String() != " 3: a\n 3: b\n" || err.String() != "12: no end\n" {
		t.Errorf("got %q and %q", out.String(), err.String())
	}
}

func TestGroupsFoldRanksThatEndedAlike(t *testing.T) {
	s := &session{size: 8, nodes: []launcher.NodeRanks{
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

func TestUnknownCommandsAndOptionsAreOneLine(t *testing.T) {
	for _, args := range [][]string{{"runn"}, {"ps", "--foo"}, {"info"}, {"up", "x"}, {"nodes", "x"}} {
		root := newRoot()
		root.SetArgs(args)
		err := root.Execute()
		if err == nil {
			t.Errorf("filch %v: no error", args)
			continue
		}
		if text := oneLine(err).Error(); strings.Contains(text, "\n") || text == "" {
			t.Errorf("filch %v: got %q, want one line", args, text)
		}
	}
}
