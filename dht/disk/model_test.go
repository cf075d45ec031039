package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// rig drives a log by hand over a fake disk and knows what it owes.
type rig struct {
	t    rapid.TB
	fs   *fakeFS
	log  *Log
	now  time.Time
	next uint64 // value of the next entry; never used twice
	// owed are the values that a key may have, the oldest is what was promised
	// last; "" is gone.
	owed  map[string][]string
	sent  []sent // in this life of the log, by number
	acked uint64
	heard map[Kind]int
	note  string
}

type sent struct{ key, value string }

func newRig(t rapid.TB, fs *fakeFS) *rig {
	r := &rig{t: t, fs: fs, now: time.Now(), owed: map[string][]string{}, heard: map[Kind]int{}}
	r.open()
	return r
}

// open opens the log as a new process would.
func (r *rig) open() {
	r.sent, r.acked = nil, 0
	l, err := openIdle(Config{
		Dir: "/log", FS: r.fs, SegmentBytes: segmentMin, QuotaBytes: 64 << 10,
		Synced: r.synced, Report: func(rep Report) { r.heard[rep.Kind]++ },
	})
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.log = l
}

func (r *rig) synced(upto uint64) {
	for r.acked < upto {
		s := r.sent[r.acked]
		list := r.owed[s.key]
		i := slices.Index(list, s.value)
		if s.value == "" {
			// The last removal up to here: each entry is listed once.
			for i = 1; list[i] != ""; i++ {
			}
		}
		if i < 0 {
			r.t.Fatalf("%s: %q is not among %q", s.key, s.value, list)
		}
		r.owed[s.key] = list[i:]
		r.acked++
	}
}

func (r *rig) append(key string, size int) {
	e := Entry{Key: key}
	value := ""
	if size > 0 {
		r.next++
		b := binary.BigEndian.AppendUint64(nil, r.next)
		e.Value = append(b, bytes.Repeat([]byte{byte(r.next)}, size)...)
		value = string(e.Value)
	}
	if r.owed[key] == nil {
		r.owed[key] = []string{""}
	}
	r.owed[key] = append(r.owed[key], value)
	r.sent = append(r.sent, sent{key, value})
	if _, err := appendNext(r.log, e); err != nil {
		r.t.Fatalf("append: %v", err)
	}
}

// turn lets the writer work.
func (r *rig) turn(passed time.Duration) {
	r.now = r.now.Add(passed)
	f := <-r.log.own
	r.log.turn(f, r.now)
	r.log.own <- f
}

// check compares what a new process reads with what is owed.
func (r *rig) check() {
	got := map[string]string{}
	if err := r.log.Each(func(key string, value []byte) error {
		if _, twice := got[key]; twice {
			r.t.Fatalf("%s came twice", key)
		}
		got[key] = string(value)
		return nil
	}); err != nil {
		r.t.Fatalf("each: %v", err)
	}
	for key := range maps.Keys(got) {
		if r.owed[key] == nil {
			r.t.Fatalf("%s was never appended", key)
		}
	}
	for key, list := range r.owed {
		if !slices.Contains(list, got[key]) {
			r.t.Fatalf("%s%s: read %s, want one of %s", r.note, key, brief(got[key]), brief(list...))
		}
	}
	f := <-r.log.own
	checkFiles(r.t, f)
	r.log.own <- f
}

func brief(values ...string) string {
	var b []string
	for _, v := range values {
		if v == "" {
			b = append(b, "gone")
		} else {
			b = append(b, fmt.Sprintf("%d (%d bytes)", binary.BigEndian.Uint64([]byte(v)), len(v)))
		}
	}
	return fmt.Sprint(b)
}

// checkFiles compares the sums with what they are sums of.
func checkFiles(t rapid.TB, f *files) {
	var size, live int64
	of, n := map[*segment]int64{}, 0
	for _, p := range f.index.keys {
		if !p.idle {
			of[p.seg] += p.bytes
		}
		if !p.remove {
			live += p.bytes
			n++
		}
		if p.copies == 0 || p.idle && (!p.remove || p.copies != 1) {
			t.Fatalf("a key with %d records, removal %v", p.copies, p.remove)
		}
	}
	for _, s := range f.segs {
		size += s.size
		if s.live != of[s] || s.live > s.size {
			t.Fatalf("%s of %d bytes: live %d, counted %d", s.name, s.size, s.live, of[s])
		}
		delete(of, s)
	}
	for s := range of {
		if of[s] == 0 {
			delete(of, s)
		}
	}
	if len(of) > 0 || size != f.size || live != f.index.live || n != f.index.n {
		t.Fatalf("size %d of %d, live %d of %d, keys %d of %d, %d segments unknown", f.size, size, f.index.live, live, f.index.n, n, len(of))
	}
}

// until runs f and reports whether the machine crashed in it.
func until(f func()) (crashed bool) {
	defer func() {
		if e := recover(); e != nil {
			if err, ok := e.(error); !ok || !errors.Is(err, errCrash) {
				panic(e)
			}
			crashed = true
		}
	}()
	f()
	return false
}

// work is a day in the life of a log, the same for a seed.
func (r *rig) work(rng *rand.Rand, steps int) {
	for range steps {
		for range 1 + rng.IntN(6) {
			size := 1 + rng.IntN(400)
			if rng.IntN(4) == 0 {
				size = 0
			}
			r.append(fmt.Sprint("k", rng.IntN(12)), size)
		}
		if rng.IntN(3) == 0 {
			r.log.Hurry(uint64(rng.IntN(len(r.sent) + 1)))
		}
		r.turn(time.Duration(rng.IntN(8)) * time.Millisecond)
	}
}

// TestCrashAtEveryCall crashes in each call that changes something, then once
// more in the life after.
func TestCrashAtEveryCall(t *testing.T) {
	const steps = 60
	for seed := range uint64(4) {
		fs := newFake(seed)
		newRig(t, fs).work(rand.New(rand.NewPCG(seed, 2)), steps)
		if fs.ops < 100 {
			t.Fatalf("only %d calls", fs.ops)
		}
		for at := 1; at <= fs.ops; at++ {
			one := newFake(seed)
			one.crash = at
			rng := rand.New(rand.NewPCG(seed, 2))
			r := newRig(t, one)
			r.note = fmt.Sprintf("seed %d, crash in call %d: ", seed, at)
			for range 4 {
				until(func() { r.work(rng, steps) })
				if rng.IntN(4) == 0 {
					r.fs = r.fs.afterKill()
				} else {
					r.fs = r.fs.afterCrash()
				}
				r.fs.crash = r.fs.ops + 1 + rng.IntN(40)
				if until(r.open) { // while it repairs
					r.fs = r.fs.afterCrash()
					r.open()
				}
				r.check()
			}
		}
	}
}

// TestModel has crashes and faults in any order.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, newFake(rapid.Uint64().Draw(t, "disk")))
		reopen := func(t *rapid.T) {
			r.t = t
			if n := rapid.IntRange(0, 20).Draw(t, "again"); n > 0 {
				r.fs.crash = r.fs.ops + n
			}
			if until(r.open) {
				r.fs = r.fs.afterCrash()
				r.open()
			}
			r.fs.crash = 0
			r.check()
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				r.t = t
				for range rapid.IntRange(1, 20).Draw(t, "entries") {
					r.append(fmt.Sprint("k", rapid.IntRange(0, 9).Draw(t, "key")), rapid.IntRange(0, 900).Draw(t, "size"))
				}
			},
			"turn": func(t *rapid.T) {
				r.t = t
				r.turn(time.Duration(rapid.IntRange(0, 100).Draw(t, "ms")) * time.Millisecond)
			},
			"hurry": func(t *rapid.T) { r.t = t; r.log.Hurry(r.log.Stats().Number); r.turn(0) },
			"fault": func(t *rapid.T) {
				r.fs.faults = append(r.fs.faults, fault{
					op:  rapid.SampledFrom([]string{"write", "sync", "truncate", "create", "remove", "syncdir"}).Draw(t, "op"),
					err: rapid.SampledFrom([]error{syscall.EIO, syscall.ENOSPC}).Draw(t, "err"),
					n:   rapid.IntRange(1, 3).Draw(t, "times"),
				})
			},
			"full":  func(t *rapid.T) { r.fs.room = int64(rapid.IntRange(0, 5000).Draw(t, "room")) },
			"room":  func(*rapid.T) { r.fs.room = -1 },
			"kill":  func(t *rapid.T) { r.fs = r.fs.afterKill(); reopen(t) },
			"crash": func(t *rapid.T) { r.fs = r.fs.afterCrash(); reopen(t) },
			"crash in a turn": func(t *rapid.T) {
				r.t = t
				r.fs.crash = r.fs.ops + rapid.IntRange(1, 10).Draw(t, "call")
				until(func() {
					for range 10 {
						r.turn(50 * time.Millisecond)
					}
				})
				r.fs = r.fs.afterCrash()
				reopen(t)
			},
			"crash after a sync that failed": func(t *rapid.T) {
				r.t = t
				r.fs.faults = append(r.fs.faults, fault{op: "sync", err: syscall.EIO, n: 1})
				r.log.Hurry(r.log.Stats().Number)
				for range rapid.IntRange(1, 8).Draw(t, "turns") {
					r.turn(time.Millisecond)
				}
				r.fs = r.fs.afterCrash()
				reopen(t)
			},
			"heal": func(t *rapid.T) {
				r.t = t
				r.fs.room, r.fs.faults = -1, nil
				for range 100 {
					r.turn(time.Second)
				}
				if n := r.log.Stats().Number; r.acked != n {
					t.Fatalf("%d of %d are durable on a disk that is well: %v", r.acked, n, r.log.Stats().Failed)
				}
			},
		})
	})
}
