package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/store/record"
)

// TestStoreOperations runs every operation on one node and on three.
func TestStoreOperations(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprintf("nodes-%d", nodes), func(t *testing.T) {
			l := newLab(t, 1)
			l.cluster(nodes)
			for i, n := range l.nodes {
				checkOperations(t, n, fmt.Sprintf("k%d/", i))
			}
			l.check()
		})
	}
}

func checkOperations(t *testing.T, n *labNode, prefix string) {
	t.Helper()
	want := func(what string, got dht.Result, o dht.Outcome, value string) dht.Result {
		t.Helper()
		if got.Outcome != o || string(got.Value) != value {
			t.Fatalf("%s: got %v %q (%s), want %v %q", what, got.Outcome, got.Value, got.Err, o, value)
		}
		return got
	}
	k := func(s string) dht.Key { return dht.Key(prefix + s) }
	want("lookup of nothing", n.one(dht.Op{Code: dht.OpLookup, Key: k("a"), Consistent: true}), dht.Absent, "")
	first := want("insert", n.one(dht.Op{Code: dht.OpInsert, Key: k("a"), Value: []byte("1")}), dht.Done, "")
	want("insert again", n.one(dht.Op{Code: dht.OpInsert, Key: k("a"), Value: []byte("2")}), dht.Exists, "1")
	got := want("lookup", n.one(dht.Op{Code: dht.OpLookup, Key: k("a")}), dht.Done, "1")
	if !got.Stale || got.Version != first.Version || got.Kind != dht.KindRegister {
		t.Errorf("got %+v, want a stale answer of version %v", got, first.Version)
	}
	if got := want("lookup", n.one(dht.Op{Code: dht.OpLookup, Key: k("a"), Consistent: true}), dht.Done, "1"); got.Stale {
		t.Errorf("got a stale answer to a consistent lookup")
	}
	second := want("swap", n.one(dht.Op{Code: dht.OpSwap, Key: k("a"), Value: []byte("2"), Expect: first.Version}), dht.Done, "")
	want("swap of an old version", n.one(dht.Op{Code: dht.OpSwap, Key: k("a"), Value: []byte("3"), Expect: first.Version}), dht.Mismatch, "2")
	want("swap of nothing", n.one(dht.Op{Code: dht.OpSwap, Key: k("b"), Value: []byte("3"), Expect: first.Version}), dht.Absent, "")
	want("swap that makes", n.one(dht.Op{Code: dht.OpSwap, Key: k("b"), Value: []byte("3")}), dht.Done, "")
	want("remove of an old version", n.one(dht.Op{Code: dht.OpRemove, Key: k("a"), Expect: first.Version}), dht.Mismatch, "2")
	want("remove", n.one(dht.Op{Code: dht.OpRemove, Key: k("a"), Expect: second.Version}), dht.Done, "")
	want("remove again", n.one(dht.Op{Code: dht.OpRemove, Key: k("a")}), dht.Absent, "")
	want("lookup of removed", n.one(dht.Op{Code: dht.OpLookup, Key: k("a"), Consistent: true}), dht.Absent, "")

	id := dht.OpID{Node: n.name, Incarnation: n.inc, Seq: 7}
	for range 3 {
		want("append", n.one(dht.Op{ID: id, Code: dht.OpAppend, Key: k("l"), Value: []byte("x")}), dht.Done, "")
	}
	want("append", n.one(dht.Op{Code: dht.OpAppend, Key: k("l"), Value: []byte("y"), Durable: true}), dht.Done, "")
	list, err := dht.DecodeList(n.one(dht.Op{Code: dht.OpLookup, Key: k("l"), Consistent: true}).Value)
	if err != nil || fmt.Sprintf("%s", list) != "[x y]" {
		t.Errorf("got list %s (%v), want [x y]", list, err)
	}
	want("append to a register", n.one(dht.Op{Code: dht.OpAppend, Key: k("b"), Value: []byte("x")}), dht.Conflict, "")

	for _, merge := range [][2]string{{"5", "5"}, {"7", "7"}, {"6", "7"}} {
		want("merge", n.one(dht.Op{Code: dht.OpMerge, Kind: kindGreatest, Key: k("t"), Value: []byte(merge[0])}), dht.Done, merge[1])
	}
	join := dht.Op{Code: dht.OpJoin, Kind: kindGreatest, Key: k("j"), Value: []byte("5")}
	want("join", n.one(join), dht.Done, "5")
	want("remove what was joined", n.one(dht.Op{Code: dht.OpRemove, Key: k("j")}), dht.Done, "")
	want("join of removed", n.one(join), dht.Absent, "")
	want("merge of removed", n.one(dht.Op{Code: dht.OpMerge, Kind: kindGreatest, Key: k("j"), Value: []byte("4")}), dht.Done, "4")
	want("join of made again", n.one(join), dht.Done, "5")
	if got := n.one(dht.Op{Code: dht.OpLookup}); got.Outcome != dht.Invalid {
		t.Errorf("got %v for an empty key, want invalid", got.Outcome)
	}
}

// TestStoreHomed gathers the records that are at home at each node.
func TestStoreHomed(t *testing.T) {
	l := newLab(t, 2)
	l.cluster(3)
	var ops []dht.Op
	for i := range 500 {
		ops = append(ops, dht.Op{Code: dht.OpInsert, Key: dht.Key(fmt.Sprintf("job/%03d", i)), Value: make([]byte, 2000)}, dht.Op{Code: dht.OpInsert, Key: dht.Key(fmt.Sprintf("other/%d", i))})
	}
	l.nodes[0].get(ops...)
	seen := map[dht.Key]bool{}
	for _, n := range l.nodes {
		last := dht.Key("")
		for r := range n.s.Homed("job/") {
			if seen[r.Key] || r.Key <= last || len(r.Value) != 2000 {
				t.Fatalf("%s comes after %s, twice, or with %d bytes", r.Key, last, len(r.Value))
			}
			seen[r.Key], last = true, r.Key
		}
	}
	if len(seen) != 500 {
		t.Errorf("got %d records, want 500", len(seen))
	}
}

// TestStoreRequests counts what operations cost.
func TestStoreRequests(t *testing.T) {
	l := newLab(t, 3)
	l.cluster(4)
	n := l.nodes[0]
	away := func(s string) dht.Key { // a key whose home and replicas are others
		for i := 0; ; i++ {
			k := dht.Key(fmt.Sprintf("%s%d", s, i))
			if _, c := n.s.view.roster.HomeOf(k); !c.Has(n.s.self) {
				return k
			}
		}
	}
	for _, c := range []struct {
		name string
		op   dht.Op
		want int // requests; each has an answer
	}{
		{"insert", dht.Op{Code: dht.OpInsert, Key: away("a")}, 3},
		{"lookup", dht.Op{Code: dht.OpLookup, Key: away("a")}, 1},
		{"consistent", dht.Op{Code: dht.OpLookup, Key: away("a"), Consistent: true}, 3},
		{"swap", dht.Op{Code: dht.OpSwap, Key: away("b")}, 3},
	} {
		l.run(time.Second)
		before := l.sent
		n.one(c.op)
		l.run(time.Second)
		if got := l.sent - before; got != 2*c.want {
			t.Errorf("%s: got %d messages, want %d requests and their answers", c.name, got, c.want)
		}
	}
	l.run(10 * time.Second)
	before := l.sent
	l.run(time.Minute)
	if got := l.sent - before; got != 0 {
		t.Errorf("an idle store sent %d messages in a minute", got)
	}
	for _, n := range l.nodes {
		if d := n.s.Deadline() - n.clock(); d < 5*time.Minute && n.s.Deadline() != filch.Never {
			t.Errorf("%s wants to wake in %v", n.name, d)
		}
	}
}

// TestStoreIdentities asks under identities of a caller's own choice: what only
// the store may choose, or nobody, is refused before it is sent.
func TestStoreIdentities(t *testing.T) {
	l := newLab(t, 28)
	l.cluster(3)
	n := l.nodes[1]
	sent := 0
	l.tap = func(m message.Message) {
		if _, ok := m.(*message.Ops); ok {
			sent++
		}
	}
	for _, c := range []struct {
		name string
		id   dht.OpID
		want dht.Outcome
	}{
		{"none", dht.OpID{}, dht.Done},
		{"first", dht.OpID{Node: "client", Incarnation: 1, Seq: 1}, dht.Done},
		{"last", dht.OpID{Node: "client", Incarnation: 1, Seq: record.OwnSeq - 1}, dht.Done},
		{"store's", dht.OpID{Node: "client", Incarnation: 1, Seq: record.OwnSeq}, dht.Invalid},
		{"store's own name", dht.OpID{Node: n.name, Incarnation: n.inc, Seq: record.OwnSeq | 5}, dht.Invalid},
		{"store's last", dht.OpID{Node: "client", Incarnation: 1, Seq: ^uint64(0)}, dht.Invalid},
		{"no number", dht.OpID{Node: "client", Incarnation: 1, Seq: 0}, dht.Invalid},
		{"no name", dht.OpID{Node: "", Incarnation: 0, Seq: 3}, dht.Done},
		{"long name", dht.OpID{Node: filch.NodeName(strings.Repeat("x", filch.MaxNodeName+1)), Incarnation: 1, Seq: 1}, dht.Invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, code := range []dht.OpCode{dht.OpAppend, dht.OpRemove} {
				before := sent
				for i := range 40 { // some have another node for a home
					r := n.one(dht.Op{ID: c.id, Code: code, Key: dht.Key(fmt.Sprintf("%s/%d", c.name, i)), Value: []byte("v")})
					if r.Outcome != c.want || (r.Err == "") != (c.want == dht.Done) {
						t.Fatalf("operation %d: got %v %q, want %v", code, r.Outcome, r.Err, c.want)
					}
				}
				if (sent > before) != (c.want == dht.Done) {
					t.Errorf("operation %d: %d messages were sent", code, sent-before)
				}
			}
		})
	}
	l.check()
}
