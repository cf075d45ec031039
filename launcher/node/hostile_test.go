package node_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// fill sets every field under v to something: often small and plausible, so
// that it meets what exists, sometimes wild.
func (w *net) fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(w.pick(2) == 0)
	case reflect.Int32, reflect.Int64, reflect.Int8, reflect.Int:
		x := int64(w.pick(6)) - 1
		switch w.pick(12) {
		case 0:
			x = -(1 << 31)
		case 1:
			x = 1<<31 - 1
		case 2:
			x = int64(w.pick(1 << 20))
		}
		v.SetInt(x)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64, reflect.Uint16:
		x := uint64(w.pick(8))
		if w.pick(12) == 0 {
			x = 1<<64 - 1
		}
		v.SetUint(x)
	case reflect.String:
		v.SetString([]string{"n1", "n2", "n3", "", "n9"}[w.pick(5)])
	case reflect.Slice:
		n := w.pick(4)
		if depth > 4 {
			n = 0
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			w.fill(v.Index(i), depth+1)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			w.fill(field, depth+1)
		}
	}
}

// A peer that has the secret but a bug must not take a brain down: whatever the
// fields hold, no input panics and no invariant breaks.
func TestSenselessMessagesDoNoHarm(t *testing.T) {
	kinds := []launcher.Message{
		&launcher.Ask{}, &launcher.Grant{}, &launcher.Release{}, &launcher.Dispatch{}, &launcher.Progress{}, &launcher.ProgressAck{}, &launcher.Proceed{}, &launcher.Halt{}, &launcher.Signals{},
		&launcher.SignalsAck{}, &launcher.Renew{}, &launcher.StepAsk{}, &launcher.StepGrant{}, &launcher.StepDone{}, &launcher.StepDoneAck{},
	}
	for seed := range uint64(60) {
		w := newNet(t, 3, 4)
		w.rng = filch.Rand(seed + 1)
		w.behave = w.randomLife
		for i := range 6 {
			w.submit(w.names[i%3], launcher.ClientID(i+1), gang(int32(1+i*2)))
		}
		for range 300 {
			k := kinds[w.pick(len(kinds))]
			m := reflect.New(reflect.TypeOf(k).Elem())
			w.fill(m.Elem(), 0)
			to, from := w.nodes[w.names[w.pick(3)]], w.names[w.pick(3)]
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Fatalf("seed %d: %T %+v from %s: %v", seed, k, m.Elem().Interface(), from, r)
					}
				}()
				to.node.Message(w.Now(), from, m.Interface().(launcher.Message), &to.out)
				to.node.Check()
			}()
			to.out = launcher.Outbox{} // what it says to senseless questions is of no matter here
			w.run(time.Duration(w.pick(20)) * ms)
		}
	}
}

func TestSenselessKeepersDoNoHarm(t *testing.T) {
	for seed := range uint64(60) {
		w := newNet(t, 2, 4)
		w.rng = filch.Rand(seed + 1)
		w.behave = w.randomLife
		w.submit("n1", 1, gang(8))
		for range 100 {
			n := w.nodes[w.names[w.pick(2)]]
			id := filch.Ident{Instance: "test", Job: filch.JobID(w.pick(3)), Attempt: filch.Attempt(w.pick(3))}
			ends := []launcher.RankEnd{{Rank: filch.Rank(w.pick(9) - 1)}, {Rank: 2, Kind: launcher.CauseKind(w.pick(20)), Code: int32(w.pick(300))}}
			ev := []any{
				launcher.KeeperReady{Ident: id},
				launcher.RanksStarted{Ident: id},
				launcher.RanksWired{Ident: id},
				launcher.RanksEnded{Ident: id, Ends: ends},
				launcher.KeeperDone{Ident: id, Left: int32(w.pick(2))},
				launcher.KeeperGone{Ident: id},
				launcher.Adopted{Start: launcher.Start{Launch: launcher.Launch{Ident: id, Nodes: []launcher.NodeRanks{{Node: n.Name}}}, Index: int32(w.pick(3)), Slots: []int32{int32(w.pick(9) - 2)}}},
			}[w.pick(7)]
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Fatalf("seed %d: %T %+v: %v", seed, ev, ev, r)
					}
				}()
				n.node.Keeper(w.Now(), ev, &n.out)
				n.node.Check()
			}()
			n.out = launcher.Outbox{}
			w.run(time.Duration(w.pick(100)) * ms)
		}
	}
}
