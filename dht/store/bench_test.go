package store

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

// bench is a few stores in a tight loop: messages go through the codec and
// arrive at once, disks sync at once.
type bench struct {
	names []filch.NodeName
	at    map[filch.NodeName]*Store
	now   time.Duration
	queue []benchMessage
	done  int
	buf   []byte
	out   Out
	wire  bool
	sent  int
}

type benchMessage struct {
	from, to filch.NodeName
	bytes    []byte
	m        message.Message
}

func newBench(b *testing.B, nodes int) *bench {
	l := newLab(b, 1)
	l.quiet = true
	l.kinds = dht.Kinds{kindSilent: mergeBits(""), kindSame: mergeBits("same"), kindOther: mergeBits("other")}
	l.cluster(nodes)
	w := &bench{at: map[filch.NodeName]*Store{}, now: l.Now() + time.Hour, wire: true}
	for _, n := range l.nodes {
		w.names = append(w.names, n.name)
		w.at[n.name] = n.s
	}
	for _, n := range w.names {
		w.tick(n)
	}
	w.pump()
	return w
}

func (w *bench) tick(n filch.NodeName) {
	w.out.Reset()
	w.at[n].Tick(w.now, &w.out)
	w.act(n)
}

func (w *bench) act(n filch.NodeName) {
	for len(w.out.Sends)+len(w.out.Logs)+len(w.out.Results) > 0 {
		for _, x := range w.out.Sends {
			w.sent++
			m := benchMessage{from: n, to: x.To, m: x.Message}
			if w.wire {
				w.buf = message.Append(w.buf[:0], x.Message)
				m.bytes = append([]byte(nil), w.buf...)
			}
			w.queue = append(w.queue, m)
		}
		for _, r := range w.out.Results {
			if r.Result.Outcome != dht.Done && r.Result.Outcome != dht.Exists {
				panic(r.Result.Outcome.String() + r.Result.Err)
			}
			w.done++
		}
		synced := uint64(0)
		if len(w.out.Logs) > 0 {
			synced = w.out.Logs[len(w.out.Logs)-1].Number
		}
		w.out.Reset()
		if synced > 0 {
			w.at[n].Synced(w.now, synced, &w.out)
		}
	}
}

func (w *bench) pump() {
	for len(w.queue) > 0 {
		m := w.queue[0]
		w.queue = w.queue[1:]
		if w.wire {
			var err error
			if m.m, err = message.Decode(m.bytes); err != nil {
				panic(err)
			}
		}
		w.out.Reset()
		w.at[m.to].Message(w.now, m.from, m.m, &w.out)
		w.act(m.to)
	}
}

func (w *bench) do(n filch.NodeName, ops []dht.Op) {
	want := w.done + len(ops)
	w.out.Reset()
	w.at[n].Do(w.now, 1, ops, w.now+time.Minute, &w.out)
	w.act(n)
	for w.done < want {
		w.pump()
		if w.done < want {
			w.now += time.Millisecond
			for _, n := range w.names {
				w.tick(n)
			}
		}
	}
}

// Kinds of sets of bits, as large as records of 256 tasks: without an answer to a
// merge, with one that the same merge once more would have too, and with one that
// it would not have, which is to be kept.
const (
	kindSilent = dht.Kind(210 + iota)
	kindSame
	kindOther

	bitsOf = 4096 * 8
)

func mergeBits(answer string) dht.Merge {
	return func(old, delta []byte) (value, reply []byte, err error) {
		bit := binary.BigEndian.Uint16(delta)
		value = make([]byte, bitsOf/8)
		copy(value, old)
		at, mask := bit/8, byte(1)<<(bit%8)
		if answer != "" {
			reply = []byte(answer)
		}
		if answer == "other" && value[at]&mask != 0 {
			reply = []byte("again")
		}
		value[at] |= mask
		return value, reply, nil
	}
}

// BenchmarkStore is the core alone: no network, no disk. One op is one
// operation; all nodes of the cluster run in this one thread.
func BenchmarkStore(b *testing.B) {
	for _, c := range []struct {
		name  string
		nodes int
		batch int
		op    dht.Op
	}{
		{"op=insert/nodes=3/batch=1", 3, 1, dht.Op{Code: dht.OpInsert}},
		{"op=insert/nodes=3/batch=500", 3, 500, dht.Op{Code: dht.OpInsert}},
		{"op=swap/nodes=3/batch=1", 3, 1, dht.Op{Code: dht.OpSwap}},
		{"op=lookup/nodes=3/batch=1", 3, 1, dht.Op{Code: dht.OpLookup}},
		{"op=consistent/nodes=3/batch=1", 3, 1, dht.Op{Code: dht.OpLookup, Consistent: true}},
		{"op=consistent/nodes=3/batch=500", 3, 500, dht.Op{Code: dht.OpLookup, Consistent: true}},
		{"op=merge/answer=none/nodes=3/batch=500", 3, 500, dht.Op{Code: dht.OpMerge, Kind: kindSilent}},
		{"op=merge/answer=same/nodes=3/batch=500", 3, 500, dht.Op{Code: dht.OpMerge, Kind: kindSame}},
		{"op=merge/answer=other/nodes=3/batch=500", 3, 500, dht.Op{Code: dht.OpMerge, Kind: kindOther}},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newBench(b, c.nodes)
			value := make([]byte, 128)
			if c.op.Reads() {
				var ops []dht.Op
				for i := range 1000 {
					ops = append(ops, dht.Op{Code: dht.OpInsert, Key: dht.Key(fmt.Sprintf("bench/%d", i)), Value: value})
				}
				w.do(w.names[0], ops)
			}
			b.ResetTimer()
			sent, spent := w.sent, cpu()
			i := 0
			for i < b.N {
				n := min(c.batch, b.N-i)
				ops := make([]dht.Op, n)
				for j := range ops {
					ops[j] = c.op
					ops[j].Key = dht.Key(fmt.Sprintf("bench/%d", i%1000))
					switch {
					case c.op.Code == dht.OpMerge:
						ops[j].Value = binary.BigEndian.AppendUint16(nil, uint16(i/1000%bitsOf))
					case !c.op.Reads():
						ops[j].Key, ops[j].Value = dht.Key(fmt.Sprintf("bench/%d", i)), value
					}
					i++
				}
				w.do(w.names[i%len(w.names)], ops)
			}
			b.ReportMetric(float64(cpu()-spent)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(w.sent-sent)/float64(b.N), "messages/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

// cpu is the time that this process used: the clock on the wall says little on
// a busy machine.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHome is how long it takes to find the home of a key.
func BenchmarkHome(b *testing.B) {
	r := roster.New(dht.Replica{Name: "n0", Incarnation: 1})
	for r.Depth < dht.ShardBitsMax {
		r.Split()
	}
	k := dht.Key("job/000123/range/000042")
	for b.Loop() {
		if _, c := r.HomeOf(k); c.Primary().Name != "n0" {
			b.Fatal(c.Primary())
		}
	}
}
