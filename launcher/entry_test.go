package launcher_test

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	. "github.com/filch-hpc/filch/launcher"
)

func TestMergeJobIsAJoin(t *testing.T) {
	code := int32(0)
	entry := func(hop int32, owner filch.NodeName, inc, seq uint64, over bool) []byte {
		e := &JobEntry{Hop: hop, Owner: owner, Incarnation: inc, Seq: seq, Info: JobInfo{ID: 7, State: string(owner)}}
		if over {
			e.Info.Code = &code
		}
		b, err := EncodeJobEntry(e)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	merge := func(old, delta []byte) []byte {
		t.Helper()
		got, _, err := MergeJob(old, delta)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := entry(0, "a", 1, 1, false)
	for _, c := range []struct {
		name       string
		old, delta []byte
		taken      bool
	}{
		{"new", nil, first, true},
		{"again", first, first, true},
		{"later", first, entry(0, "a", 1, 2, false), true},
		{"restarted", entry(0, "a", 1, 9, false), entry(0, "a", 2, 1, false), true},
		{"older", entry(0, "a", 1, 2, false), first, false},
		{"taken-over", entry(0, "a", 1, 9, false), entry(1, "b", 1, 1, false), true},
		{"twice", entry(1, "b", 1, 1, false), entry(1, "c", 1, 1, false), false},
		{"fenced", entry(1, "b", 1, 1, false), entry(0, "a", 1, 99, true), false},
		{"ended", first, entry(0, "a", 1, 2, true), true},
		{"ended-already", entry(0, "a", 1, 2, true), entry(1, "b", 1, 1, false), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, reply, err := MergeJob(c.old, c.delta)
			if err != nil || (len(reply) == 0) != c.taken {
				t.Fatalf("got reply %q, %v, want taken %t", reply, err, c.taken)
			}
			if again := merge(got, c.delta); string(again) != string(got) {
				t.Errorf("merged twice: %q, once: %q", again, got)
			}
		})
	}
}

func TestAnEntryMayBeLarge(t *testing.T) {
	e := &JobEntry{Owner: "a", Resume: &JobRecord{}, Info: JobInfo{ID: 1, Detached: true}}
	for i := range 10_000 {
		name := filch.NodeName("node" + filch.JobID(i).String())
		e.Info.Nodes = append(e.Info.Nodes, name)
		e.Resume.Nodes = append(e.Resume.Nodes, NodeRanks{Node: name, Lease: filch.LeaseID{Incarnation: 1 << 60, Serial: uint64(i)}, Ranks: []Span{{First: filch.Rank(i * 8), Count: 8}}})
	}
	b, err := EncodeJobEntry(e)
	if err != nil || len(b) > dht.MaxValue {
		t.Fatalf("got %d bytes, %v, the limit is %d", len(b), err, dht.MaxValue)
	}
	got, err := DecodeJobEntry(b)
	if err != nil || len(got.Resume.Nodes) != 10_000 || got.Resume.Nodes[9999].Node != "node9999" {
		t.Errorf("got %v", err)
	}
}
