package records_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	noderecords "github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/testbed/sim/records"
)

var _ noderecords.Store = (*records.Port)(nil)

// kindCount counts merges: said twice it would show.
const kindCount = dht.KindFree

func count(old, _ []byte) (value, reply []byte, err error) {
	value = append(slices.Clone(old), 'x')
	return value, value, nil
}

// user is a node that keeps what its port says.
type user struct {
	w     *world
	port  *records.Port
	tag   uint64
	got   map[uint64]dht.Result
	seen  []string // of watches
	homes int
}

func (w *world) user(n filch.NodeName) *user {
	if w.store == nil {
		w.store = records.New(w, dht.Kinds{kindCount: count})
	}
	u := &user{w: w, got: map[uint64]dht.Result{}}
	u.port = w.store.Open(n, func() { w.At(w.Now(), u.tick) })
	return u
}

func (u *user) tick() {
	if u.port.Deadline() > u.w.Now() {
		return
	}
	var out store.Out
	u.port.Tick(u.w.Now(), &out)
	u.take(&out)
}

func (u *user) take(out *store.Out) {
	for _, r := range out.Results {
		if r.Watch {
			u.seen = append(u.seen, r.Result.Outcome.String()+string(r.Result.Value))
			continue
		}
		if _, ok := u.got[r.Tag]; ok {
			panic(fmt.Sprintf("%d is answered twice", r.Tag))
		}
		u.got[r.Tag] = r.Result
	}
	u.homes += len(out.Homes)
}

func (u *user) ask(op dht.Op, limit time.Duration) uint64 {
	u.tag++
	u.port.Do(u.w.Now(), u.tag, []dht.Op{op}, u.w.Now()+limit, nil)
	return u.tag
}

func (u *user) one(t *testing.T, op dht.Op) dht.Result {
	t.Helper()
	tag := u.ask(op, time.Minute)
	u.w.run(t, time.Minute, func() bool { _, ok := u.got[tag]; return ok })
	return u.got[tag]
}

func TestOperations(t *testing.T) {
	u := newWorld(0).user("n1")
	want := func(what string, op dht.Op, o dht.Outcome, value string) dht.Result {
		t.Helper()
		r := u.one(t, op)
		if r.Outcome != o || string(r.Value) != value {
			t.Errorf("%s: got %v %q (%s), want %v %q", what, r.Outcome, r.Value, r.Err, o, value)
		}
		return r
	}
	want("lookup of nothing", dht.Op{Code: dht.OpLookup, Key: "a"}, dht.Absent, "")
	first := want("insert", dht.Op{Code: dht.OpInsert, Key: "a", Value: []byte("1")}, dht.Done, "")
	want("insert again", dht.Op{Code: dht.OpInsert, Key: "a", Value: []byte("2")}, dht.Exists, "1")
	second := want("swap", dht.Op{Code: dht.OpSwap, Key: "a", Value: []byte("2"), Expect: first.Version}, dht.Done, "")
	want("swap of an old version", dht.Op{Code: dht.OpSwap, Key: "a", Value: []byte("3"), Expect: first.Version}, dht.Mismatch, "2")
	want("merge of another kind", dht.Op{Code: dht.OpMerge, Kind: kindCount, Key: "a"}, dht.Conflict, "")
	want("remove of an old version", dht.Op{Code: dht.OpRemove, Key: "a", Expect: first.Version}, dht.Mismatch, "2")
	want("remove", dht.Op{Code: dht.OpRemove, Key: "a", Expect: second.Version}, dht.Done, "2")
	want("remove again", dht.Op{Code: dht.OpRemove, Key: "a"}, dht.Absent, "")
	want("swap of nothing", dht.Op{Code: dht.OpSwap, Key: "a", Expect: first.Version}, dht.Absent, "")
	want("merge", dht.Op{Code: dht.OpMerge, Kind: kindCount, Key: "m"}, dht.Done, "x")
	want("join", dht.Op{Code: dht.OpJoin, Kind: kindCount, Key: "j"}, dht.Done, "x")
	want("remove what was joined", dht.Op{Code: dht.OpRemove, Key: "j"}, dht.Done, "x")
	want("join of removed", dht.Op{Code: dht.OpJoin, Kind: kindCount, Key: "j"}, dht.Absent, "")
	want("merge without a rule", dht.Op{Code: dht.OpMerge, Kind: 99, Key: "o"}, dht.Invalid, "")
	id := dht.OpID{Node: "n1", Incarnation: 1, Seq: 1}
	for range 2 {
		want("merge under an identity", dht.Op{ID: id, Code: dht.OpMerge, Kind: kindCount, Key: "m"}, dht.Done, "xx")
	}
	want("empty insert", dht.Op{Code: dht.OpInsert, Key: "e"}, dht.Done, "")
	want("lookup of nothing in it", dht.Op{Code: dht.OpLookup, Key: "e"}, dht.Done, "")
}

// What is lost is said again, and takes effect once; what is not answered at the
// deadline is told to be unknown then.
func TestLostWords(t *testing.T) {
	w := newWorld(0)
	u := w.user("n1")
	merge := dht.Op{Code: dht.OpMerge, Kind: kindCount, Key: "m"}
	fates := []records.Fate{records.Lost, records.Silent, records.Silent, records.Heard}
	w.try = func() records.Fate {
		f := fates[0]
		fates = fates[1:]
		return f
	}
	if r := u.one(t, merge); r.Outcome != dht.Done || string(r.Value) != "x" || w.Now() < 3*records.Again {
		t.Errorf("after %v: got %v %q, want one merge after three tries", w.Now(), r.Outcome, r.Value)
	}
	w.try = func() records.Fate { return records.Silent }
	began := w.Now()
	merged, read := u.ask(merge, 2*time.Second), u.ask(dht.Op{Code: dht.OpLookup, Key: "m"}, time.Second)
	w.run(t, time.Minute, func() bool { return len(u.got) == 3 })
	if took := w.Now() - began; took != 2*time.Second || u.got[merged].Outcome != dht.Unknown || u.got[read].Outcome != dht.Unavailable {
		t.Errorf("after %v: got %v and %v", took, u.got[merged].Outcome, u.got[read].Outcome)
	}
	if got := string(w.store.Value("m")); got != "xx" {
		t.Errorf("got %q after a merge of which the answer was lost", got)
	}
	w.try = func() records.Fate { return records.Heard }
	late := u.ask(merge, 150*time.Microsecond) // it gets there, and its answer would be late
	w.run(t, time.Second, never)
	if got := u.got[late].Outcome; got != dht.Unknown || string(w.store.Value("m")) != "xxx" {
		t.Errorf("got %v for an answer that would be late, and %q", got, w.store.Value("m"))
	}
}

// Each record is homed at one node that is up, and who has other ones than before
// is told.
func TestHomes(t *testing.T) {
	w := newWorld(0)
	users := map[filch.NodeName]*user{}
	for i := range 20 {
		n := filch.NodeName(fmt.Sprintf("n%d", i))
		users[n] = w.user(n)
	}
	for i := range 500 {
		users["n0"].one(t, dht.Op{Code: dht.OpInsert, Key: dht.Key(fmt.Sprintf("k/%d", i))})
	}
	users["n0"].one(t, dht.Op{Code: dht.OpInsert, Key: "other"})
	check := func(what string) {
		t.Helper()
		homes := 0
		for n, u := range users { // in any order
			var last dht.Key
			for r := range u.port.Homed("k/") {
				if home := w.store.Home(r.Key); home != n || w.down[n] || r.Key <= last {
					t.Errorf("%s: %s homes %q after %q, its home is %s", what, n, r.Key, last, home)
				}
				last = r.Key
				homes++
			}
		}
		if homes != 500 {
			t.Errorf("%s: got %d records at home somewhere, want 500", what, homes)
		}
	}
	check("all are up")
	for i := range 17 {
		n := filch.NodeName(fmt.Sprintf("n%d", i))
		heir := func() filch.NodeName {
			for r := range users[n].port.Homed("k/") {
				w.down[n] = true
				defer func() { w.down[n] = false }()
				return w.store.Home(r.Key)
			}
			return ""
		}()
		before := 0
		if heir != "" {
			before = users[heir].homes
		}
		w.down[n] = true
		w.store.Changed(n)
		w.run(t, time.Second, never)
		check(string(n) + " is down")
		if heir != "" && users[heir].homes == before {
			t.Errorf("%s has what %s had, and was not told", heir, n)
		}
	}
	var out store.Out
	users["n19"].port.Leave(w.Now(), &out)
	if users["n18"].one(t, dht.Op{Code: dht.OpLookup, Key: "other"}); !out.Left || w.store.Home("other") == "n19" {
		t.Error("a node that left is home to a record")
	}
}

func TestWatches(t *testing.T) {
	w := newWorld(0)
	u, o := w.user("n1"), w.user("n2")
	u.port.Watch(w.Now(), 1<<40, "m", dht.Version{}, nil)
	merge := dht.Op{Code: dht.OpMerge, Kind: kindCount, Key: "m"}
	settle := func() { w.run(t, 2*time.Second, never) }
	settle()
	o.one(t, merge)
	settle()
	w.cut["n1"] = true
	o.one(t, merge)
	o.one(t, merge)
	asked := u.ask(merge, time.Minute)
	settle()
	var out store.Out
	u.port.Rejoin(w.Now(), 2, &out)
	u.take(&out)
	w.cut["n1"] = false
	settle()
	o.one(t, dht.Op{Code: dht.OpRemove, Key: "m"})
	settle()
	u.port.Unwatch(w.Now(), 1<<40, nil)
	o.one(t, merge)
	settle()
	if want := []string{"donex", "donexxx", "absent"}; !slices.Equal(u.seen, want) {
		t.Errorf("the watch showed %q, want %q", u.seen, want)
	}
	if r := u.got[asked]; r.Outcome != dht.Unknown {
		t.Errorf("got %v of an operation of a life before", r.Outcome)
	}
	w.user("n2").one(t, merge) // begins another process
	if tag := o.ask(merge, time.Second); len(o.got) != 5 || o.got[tag].Outcome != 0 {
		t.Errorf("a process that has ended was answered")
	}
}
