package message

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/record"
)

var update = flag.Bool("update", false, "write testdata/golden.txt again")

// samples has every kind of message, with every optional field present and absent.
func samples() []Message {
	e := Envelope{From: 3, To: 1 << 40, Roster: 300}
	a, b, c := dht.Replica{Name: "n1", Incarnation: 7}, dht.Replica{Name: "node-2", Incarnation: 1 << 33}, dht.Replica{Name: "n3", Incarnation: 2}
	v := dht.Version{Epoch: 5, Seq: 600}
	ballot := Ballot{N: 129, Name: "n1", Incarnation: 7}
	first := roster.New(a)
	next := first.Copy()
	next.Epoch, next.By, next.Acceptors = 2, "node-2", []dht.Replica{a, b, c}
	next.Members = append(next.Members, roster.Member{Replica: b, Leaving: true}, roster.Member{Replica: c, Sick: true})
	next.Shards[3] = &roster.Config{Epoch: 9, Replicas: []dht.Replica{b, {Name: "dead", Incarnation: 1}, a}, Learner: c, Recovered: true}
	whole, delta := next.Since(nil), next.Since(first)
	rec := record.Record{Stamp: v, Version: dht.Version{Epoch: 4, Seq: 1}, Kind: 1, Value: []byte("value")}
	rec.Remember(nil, dht.OpID{Node: "n1", Incarnation: 7, Seq: 8}, nil)
	gone := record.New(record.Record{Stamp: v, Version: v, Kind: 2, Gone: true, Keep: time.Minute})
	items := []Keyed{{"k1", record.New(rec)}, {"k2", gone}}
	found := dht.Result{Outcome: dht.Done, Kind: 2, Version: v, Value: []byte("found"), Stale: true, Err: "why"}
	empty := dht.Result{Outcome: dht.Exists, Value: []byte{}}
	absent := dht.Result{Outcome: dht.Absent, Err: strings.Repeat("x", 200)}
	copies := []roster.DiskCopy{{Shard: 64, Epoch: 1, Incarnation: 2, Guess: true}, {Shard: 4097, Epoch: 1 << 20, Incarnation: 1}}
	return []Message{
		&Prepare{e, 1, ballot, Ballot{}},
		&Promise{e, 1, ballot, ballot, whole},
		&Promise{Envelope: e, Generation: 1 << 50, Ballot: ballot},
		&Accept{e, 1, ballot, ballot, delta},
		&Accepted{e, 1, ballot},
		&Refuse{e, 1, ballot, Ballot{N: 200}, true, false},
		&Refuse{e, 1, ballot, Ballot{}, false, true},
		&Install{e, ballot, whole},
		&Roster{e, []*roster.Delta{first.Since(nil), delta}},
		&Want{e},
		&Have{Envelope{}},
		&Ask{e, []roster.Change{{What: roster.ChangeAdmit, Shard: 64, Epoch: 2, Who: b}, {What: roster.ChangeSick, Who: a}}},
		&Ops{e, 20, []Op{
			{20, 64, 5, dht.Op{ID: dht.OpID{Node: "n1", Incarnation: 7, Seq: record.OwnSeq | 1}, Code: dht.OpInsert, Key: "k", Kind: 1, Value: []byte("v"), Durable: true}},
			{21, 65, 5, dht.Op{ID: dht.OpID{Node: "n1", Incarnation: 7, Seq: 2}, Code: dht.OpLookup, Key: "k2", Consistent: true}},
			{22, 0, 0, dht.Op{ID: dht.OpID{Node: "n3", Incarnation: 1, Seq: 3}, Code: dht.OpRemove, Key: "k3", Expect: v, Keep: time.Hour}},
			{23, 66, 5, dht.Op{Code: dht.OpSwap, Key: "k4", Value: []byte{}}},
		}},
		&Ops{Envelope: e},
		&Replies{e, []Reply{{20, 5, found}, {21, 5, empty}, {22, 5, absent}}},
		&Replicate{e, 77, true, []Item{
			{What: ItemRecord, Shard: 64, Epoch: 5, Session: 2, Key: "k1", Rec: items[0].Rec},
			{What: ItemConfirm, Shard: 65, Epoch: 6},
			{What: ItemDrop, Shard: 66, Epoch: 7, Key: "k2", Stamp: v},
		}},
		&Ack{e, []BatchAck{{77, nil}, {78, []uint32{0, 200}}}},
		&Snapshot{e, 64, 5, 2, 3, true, items},
		&SnapshotAck{e, 64, 5, 2, 3},
		&Watch{e, []WatchedKey{{1, 64, 5, "k1", v, false}, {1 << 60, 65, 5, "k2", dht.Version{}, true}}},
		&Changed{e, []Change{{1, 64, 5, "k1", found}, {2, 64, 5, "k2", absent}}},
		&Seen{e, []SeenVersion{{1, 64, "k1", v, false}, {2, 64, "k2", v, true}}},
		&Offer{e, copies},
		&Recover{e, 64, 5, []dht.Replica{a, b}},
		&Fetch{e, 64, 5, "after"},
		&Images{e, 64, 5, "", items, true},
		&Count{e, 1 << 62},
		&Counted{e, 1 << 62, false, 3, true, 300, false, whole, nil},
		&Counted{e, 1 << 62, true, 0, false, 0, true, nil, copies},
	}
}

// TestGolden compares the bytes of every kind of message with the bytes that earlier
// versions sent.
func TestGolden(t *testing.T) {
	var got strings.Builder
	kinds := map[byte]bool{}
	for _, m := range samples() {
		b := Encode(m)
		kinds[b[0]] = true
		fmt.Fprintf(&got, "%T %x\n", m, b)
		back, err := Decode(b)
		if err != nil {
			t.Errorf("%T: %v", m, err)
		} else if again := Encode(back); !bytes.Equal(again, b) {
			t.Errorf("%T: %x after decoding, want %x", m, again, b)
		}
	}
	if len(kinds) != kindCounted {
		t.Errorf("samples of %d kinds of %d", len(kinds), kindCounted)
	}
	if *update {
		if err := os.WriteFile("testdata/golden.txt", []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	g, w := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("got  %s\nwant %s", g[i], w[i])
		}
	}
	if len(g) != len(w) {
		t.Errorf("%d messages, want %d", len(g)-1, len(w)-1)
	}
}

// TestRefused decodes messages with a malformed field.
func TestRefused(t *testing.T) {
	for _, x := range []string{
		"",                // no kind
		"00",              // no such kind
		"1a",              // the kind after the last
		"08",              // no envelope
		"08010203" + "00", // bytes after the message
		"0a01020301" + "00" + "00" + "00" + "0000",             // a wish of no kind
		"13010203" + "01" + "01" + "01" + "00" + "0000" + "00", // shard 1 is too low
		"0d010203" + "01" + "01" + "04" + "4001" + "00",        // an item of no kind
		"0b010203" + "00" + "ffffffffffffffffff01",             // more operations than bytes
	} {
		b, err := hex.DecodeString(x)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := Decode(b); err == nil {
			t.Errorf("%s decodes as %T", x, m)
		}
	}
}
