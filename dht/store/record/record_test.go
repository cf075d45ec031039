package record

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/filch-hpc/filch/dht"
)

// TestRecentReplies looks that a record remembers answers up to a limit, the
// newest first, and its operations beyond.
func TestRecentReplies(t *testing.T) {
	nobody := func([]byte, uint64, uint64) bool { return false }
	big := bytes.Repeat([]byte("x"), keptReply)
	var recent []byte
	const n = 2 * keptReplies / keptReply
	for i := range n {
		recent = appendRecent(recent, answered{node: []byte("n"), incarnation: 1, seq: uint64(i + 1), version: dht.Version{Epoch: 1, Seq: uint64(i + 1)}, reply: big}, nobody)
		if len(recent) > recentMax || !checkRecent(recent) {
			t.Fatalf("after %d answers %d bytes are kept, valid %t", i+1, len(recent), checkRecent(recent))
		}
	}
	kept := 0
	for i := range n {
		a, ok, _ := findRecent(recent, dht.OpID{Node: "n", Incarnation: 1, Seq: uint64(i + 1)})
		if !ok {
			t.Errorf("operation %d of %d is forgotten", i+1, n)
		}
		if a.reply != nil {
			kept++
		} else if kept > 0 {
			t.Errorf("the answer to operation %d is forgotten, that to an older one is not", i+1)
		}
	}
	if kept != keptReplies/keptReply {
		t.Errorf("%d answers are kept, want %d", kept, keptReplies/keptReply)
	}
}

// TestRecentMarks looks that an operation which a record has forgotten, since many
// others came, is not carried out again by a repeat of it, and that nothing else is
// refused. (An append was carried out again, and was in the list twice.)
func TestRecentMarks(t *testing.T) {
	nobody := func([]byte, uint64, uint64) bool { return false }
	var recent []byte
	add := func(node string, seq uint64) {
		recent = appendRecent(recent, answered{node: []byte(node), incarnation: 1, seq: seq, version: dht.Version{Epoch: 1, Seq: seq}}, nobody)
	}
	for seq := uint64(2); seq <= 4; seq++ {
		add("a", seq)
	}
	for seq := range uint64(maxRecent) {
		add("b", seq+1)
	}
	old := &Record{Kind: dht.KindList, recent: recent}
	tests := []struct {
		id   dht.OpID
		code dht.OpCode
		want dht.Outcome
	}{
		{dht.OpID{Node: "a", Incarnation: 1, Seq: 1}, dht.OpAppend, dht.Unknown}, // came late for the first time, or not: nobody knows
		{dht.OpID{Node: "a", Incarnation: 1, Seq: 4}, dht.OpAppend, dht.Unknown},
		{dht.OpID{Node: "a", Incarnation: 1, Seq: 4}, dht.OpMerge, dht.Done},
		{dht.OpID{Node: "a", Incarnation: 1, Seq: 5}, dht.OpAppend, dht.Done},
		{dht.OpID{Node: "a", Incarnation: 2, Seq: 1}, dht.OpAppend, dht.Done},
		{dht.OpID{Node: "a", Incarnation: 1, Seq: 4 | OwnSeq}, dht.OpAppend, dht.Done},
		{dht.OpID{Node: "b", Incarnation: 1, Seq: 1}, dht.OpAppend, dht.Done}, // it is remembered
		{dht.OpID{Node: "c", Incarnation: 1, Seq: 1}, dht.OpAppend, dht.Done},
	}
	kinds := dht.Kinds{dht.KindList: func(_, value []byte) ([]byte, []byte, error) { return value, nil, nil }}
	for _, x := range tests {
		op := &dht.Op{ID: x.id, Code: x.code, Kind: dht.KindList, Key: "k", Value: []byte("x")}
		res, again := Repeated(old, op, kinds)
		if !again {
			_, res = Apply(old, op, kinds)
		}
		if res.Outcome != x.want {
			t.Errorf("%v of %v: got %v %s, want %v", x.code, x.id, res.Outcome, res.Err, x.want)
		}
	}
	for i := range 3 * maxMarks {
		for seq := range uint64(maxRecent) {
			add(fmt.Sprintf("n%d", i), seq+1)
		}
		if len(recent) > recentMax || !checkRecent(recent) {
			t.Fatalf("after %d callers %d bytes are kept, valid %t", i+1, len(recent), checkRecent(recent))
		}
	}
}
