package launcher

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

// What rows say of each rank is what came in, and a job of 10,000 ranks costs little.
func TestRankRowsAreShort(t *testing.T) {
	for _, c := range []struct {
		ranks int
		most  int // bytes of a row
		unit  time.Duration
	}{{1, 16, time.Microsecond}, {200, 10, time.Microsecond}, {10_000, 8, time.Millisecond}} {
		rng := rand.New(rand.NewPCG(1, uint64(c.ranks)))
		nodes := []NodeRanks{{Ranks: []Span{{First: 0, Count: int32(c.ranks) / 2}}}, {Ranks: []Span{{First: filch.Rank(c.ranks / 2), Count: int32(c.ranks - c.ranks/2)}}}}
		var u RankRows
		want := make([]RankRow, c.ranks)
		for _, i := range rng.Perm(c.ranks) {
			use := filch.Usage{User: 40*time.Second + time.Duration(rng.IntN(1000))*time.Millisecond, System: time.Duration(rng.IntN(300)) * time.Millisecond, PeakBytes: 200<<20 + int64(rng.IntN(4000))<<10}
			e := RankEnd{Rank: filch.Rank(i), Usage: use}
			want[i] = RankRow{Ended: true, Usage: use}
			if i%1000 == 7 {
				e.Kind, e.Code = CauseSignal, 11
				want[i].State, want[i].Code = filch.Failed, 139
			} else {
				want[i].State = filch.OK
			}
			part := 0
			if i >= c.ranks/2 {
				part, want[i].Node = 1, 1
			}
			u.Add(part, &e, want[i].State)
		}
		b := u.Encode(nodes)
		if len(b) == 0 || len(b) > c.ranks*c.most+8 {
			t.Errorf("%d ranks take %d bytes, want at most %d a rank", c.ranks, len(b), c.most)
		}
		got := ReadRankRows(b)
		if len(got) != c.ranks {
			t.Fatalf("got %d rows of %d", len(got), c.ranks)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("of %d ranks: rank %d is %+v, want %+v", c.ranks, i, got[i], want[i])
			}
		}

		// The record of each participant alone restores the rows.
		var again RankRows
		for i := range nodes {
			p := &ParticipantRecord{Index: int32(i)}
			u.Keep(p, nodes[i].Ranks)
			again.Restore(p, nodes[i].Ranks)
		}
		if string(again.Encode(nodes)) != string(b) || again.Sum != u.Sum {
			t.Errorf("of %d ranks: the records of participants do not restore the rows", c.ranks)
		}
	}
}

// Rows beyond the bounds are left out, and malformed rows are none.
func TestRankRowsAreBounded(t *testing.T) {
	var u RankRows
	u.Add(0, &RankEnd{Rank: MaxRankRows, Usage: filch.Usage{User: time.Second}}, filch.OK)
	if b := u.Encode(nil); b != nil || u.Sum.User != time.Second {
		t.Errorf("a rank beyond the bound has %d bytes of rows, and the sum is %v", len(b), u.Sum.User)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for r := range filch.Rank(MaxRankRows) {
		u.Add(0, &RankEnd{Rank: r, Usage: filch.Usage{User: time.Duration(rng.Int64N(1e15)), System: time.Duration(rng.Int64N(1e15)), PeakBytes: rng.Int64N(1 << 40)}}, filch.OK)
	}
	if b := u.Encode(nil); b != nil {
		t.Errorf("rows of %d bytes are kept", len(b))
	}
	for _, b := range []string{"\x05", "\xff\xff\xff\xff\x7f", "\x01\x0b\x00\x00\x00\x00", "\x01\x10\x00\x00\x00\x00"} {
		if rows := ReadRankRows([]byte(b)); rows != nil {
			t.Errorf("%q are %d rows", b, len(rows))
		}
	}
}

// Of ranks that run, the rows tell the nodes.
func TestRowsOfRunningRanksHaveNodes(t *testing.T) {
	nodes := []NodeRanks{{Ranks: []Span{{First: 1, Count: 2}}}, {Ranks: []Span{{First: 0, Count: 1}, {First: 3, Count: 1}}}}
	var u RankRows
	for ended := range 2 {
		if ended == 1 {
			u.Add(0, &RankEnd{Rank: 1}, filch.OK)
		}
		rows := ReadRankRows(u.Encode(nodes))
		if len(rows) != 4 {
			t.Fatalf("%d rows of 4 ranks", len(rows))
		}
		for r, want := range []int32{1, 0, 0, 1} {
			if row := rows[r]; row.Node != want || row.Ended != (ended == 1 && r == 1) {
				t.Errorf("rank %d, with %d ends: %+v, want node %d", r, ended, row, want)
			}
		}
	}
}
