package queue

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

func TestMirrorLine(t *testing.T) {
	for _, value := range [][]byte{{0}, []byte("x\n"), bytes.Repeat([]byte{10, 255}, 70_000)} {
		b := AppendLine([]byte("before\n"), "j/7/p/3", value)
		line := b[len("before\n") : len(b)-1]
		if bytes.ContainsRune(line, '\n') {
			t.Fatal("a line has an end of a line in it")
		}
		key, got, ok := ReadLine(line)
		if !ok || key != "j/7/p/3" || !bytes.Equal(got, value) {
			t.Fatalf("got %q, %d bytes, %v; want what was written, %d bytes", key, len(got), ok, len(value))
		}
		for _, at := range []int{0, 7, 8, 9, len(line) / 2, len(line) - 1} {
			for _, bit := range []byte{1, 4, 32} {
				bad := bytes.Clone(line)
				bad[at] ^= bit
				if _, _, ok := ReadLine(bad); ok && !bytes.EqualFold(bad, line) {
					t.Errorf("a line with a flipped bit at %d is taken: %.40q", at, bad)
				}
			}
		}
		for _, n := range []int{0, 8, 9, len(line) / 2, len(line) - 1} {
			if _, _, ok := ReadLine(line[:n]); ok {
				t.Errorf("a line torn after %d of %d bytes is taken", n, len(line))
			}
		}
	}
	for _, key := range []string{"", "j/", "k/7", "j/7/x"} {
		b := AppendLine(nil, key, []byte{1})
		if _, _, ok := ReadLine(b[:len(b)-1]); ok {
			t.Errorf("a line about %q is taken", key)
		}
	}
}

func endOf(off uint8, s filch.State, a filch.Attempt, by record.Owner) record.BlockOp {
	return record.BlockOp{Kind: record.BlockEnd, Off: off, Task: record.Task{State: s, Attempt: a, Owner: by, Began: int64(a)}}
}

func TestMirrorSaysWhatIsNew(t *testing.T) {
	blockOf := func(ops ...record.BlockOp) []byte {
		v, _, err := record.Merges()[record.RecordBlock](nil, record.EncodeBlockOps(ops, false))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	one := endOf(3, filch.OK, 1, ownerA)
	two := endOf(9, filch.Failed, 2, ownerB)
	moved := record.BlockOp{Kind: record.BlockMove, Off: 5, Task: record.Task{Attempt: 1, Owner: ownerC}}
	begun := record.BlockOp{Kind: record.BlockStart, Off: 5, Once: true, Task: record.Task{Attempt: 1, Hop: 1, Owner: ownerC}}
	m := NewMirror()
	for i, step := range []struct {
		key   string
		value []byte
		want  int // lines
		offs  []uint8
	}{
		{"j/4/b/0", blockOf(one), 1, []uint8{3}},
		{"j/4/b/0", blockOf(one), 0, nil},
		{"j/4/b/0", blockOf(one, moved), 0, nil},
		{"j/4/b/0", blockOf(one, moved, begun, two), 1, []uint8{5, 9}},
		{"j/4/k", []byte{1}, 0, nil},
		{"job/4", []byte{1}, 0, nil},
		{"j/4/s", (&record.Spec{}).Encode(), 2, nil},
		{"j/4/s", (&record.Spec{}).Encode(), 0, nil},
		{"j/4", (&record.Job{Total: 9, Closed: true}).Encode(), 2, nil},
		{"j/4", (&record.Job{Total: 9, Closed: true, Leader: ownerA, Hop: 3, Zones: []record.ZoneTally{{Zone: 0, Tally: record.Tally{OK: 8}}}}).Encode(), 0, nil},
		{"j/4", (&record.Job{Total: 9, Closed: true, Zones: []record.ZoneTally{{Zone: 0, Tally: record.Tally{OK: 9}}}}).Encode(), 2, nil},
		{"j/4/z/0", (&record.Zone{Blocks: []record.BlockTally{{Block: 0, Tally: record.Tally{OK: 8}}}}).Encode(), 0, nil},
		{"j/4/z/0", (&record.Zone{Spans: []record.Span{{Hi: 9, Front: 4, Owner: ownerA}}}).Encode(), 1, nil},
		{"j/4/z/0", (&record.Zone{Spans: []record.Span{{Hi: 6, Front: 4, Owner: ownerB}, {Lo: 6, Hi: 9, Front: 6, Owner: ownerC}}}).Encode(), 0, nil},
	} {
		b := m.Append(nil, step.key, step.value)
		if n := bytes.Count(b, []byte("\n")); n != step.want {
			t.Fatalf("step %d, %s: %d lines, want %d", i, step.key, n, step.want)
		}
		if step.offs == nil {
			continue
		}
		_, v, _ := ReadLine(split(b)[0])
		if got, err := record.DecodeBlock(v); err != nil || !slices.Equal(got.Offs, step.offs) {
			t.Errorf("step %d says %v of the block (%v), want %v", i, got.Offs, err, step.offs)
		}
	}
}

func TestSettle(t *testing.T) {
	job := func(once bool, tasks ...record.Task) *RecoveredJob {
		var b []byte
		b = AppendLine(b, record.KeyJob(4), (&record.Job{Total: 300, Closed: true}).Encode())
		b = AppendLine(b, record.KeySpec(4), (&record.Spec{Once: once}).Encode())
		b = AppendLine(b, record.KeyZone(4, 0), (&record.Zone{Spans: []record.Span{{Lo: 290, Hi: 300, Front: 292}}}).Encode())
		blk := record.Block{}
		for i, k := range tasks {
			blk.Offs, blk.Tasks = append(blk.Offs, uint8(i)), append(blk.Tasks, k)
		}
		b = AppendLine(b, record.KeyBlock(4, 0), blk.Encode())
		return recovered(t, b).Jobs()[0]
	}
	end := record.Task{State: filch.OK, Attempt: 1, By: ownerA}
	run := record.Task{Attempt: 1, Started: true, Owner: ownerA}
	again := record.Task{Attempt: 3, Crashes: 1, Started: true, Owner: ownerA}
	for _, c := range []struct {
		name string
		once bool
		in   []record.Task
		want []record.Task // of the same offsets
		more int           // tasks of other blocks that may have been started

		raised bool // the limit of crashes
		t      Tally
	}{
		{"ended", false, []record.Task{end}, []record.Task{end}, 2, false, Tally{Done: 1, Left: 299}},
		{"started", false, []record.Task{run}, []record.Task{{Attempt: 2, Crashes: 1}}, 2, true, Tally{Left: 300}},
		{"retried", false, []record.Task{again}, []record.Task{{Attempt: 4, Crashes: 2}}, 2, true, Tally{Left: 300}},
		{"waits-again", false, []record.Task{{Attempt: 2, Owner: ownerA}}, []record.Task{{Attempt: 2}}, 2, false, Tally{Left: 300}},
		{"once", true, []record.Task{end, run}, []record.Task{end, {State: filch.Lost, Code: filch.ExitNodeLost, Attempt: 1, By: ownerA}}, 0, false, Tally{Done: 2, Left: 298, Lost: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := job(c.once, c.in...)
			for round := range 2 { // settled again, nothing changes
				got := r.Settle()
				if round > 0 {
					c.t.Lost = 0
				}
				if got != c.t {
					t.Errorf("round %d: %+v, want %+v", round, got, c.t)
				}
				for i, want := range c.want {
					if k := r.Blocks[0].Find(uint8(i)); k == nil || !reflect.DeepEqual(*k, want) {
						t.Errorf("round %d: task %d is %+v, want %+v", round, i, k, want)
					}
				}
				if b := r.Blocks[1]; c.more == 0 && b != nil || c.more > 0 && (b == nil || len(b.Offs) != c.more || !reflect.DeepEqual(b.Tasks[0], record.Task{Attempt: 1, Maybe: true})) {
					t.Errorf("round %d: the tasks below the front are %+v, want %d that may have been started", round, b, c.more)
				}
				if limit := r.Spec.Crashes(); (limit == record.CrashLimit+1) != c.raised {
					t.Errorf("round %d: the limit of crashes is %d", round, limit)
				}
				r = recovered(t, r.Append(nil)).Jobs()[0]
			}
		})
	}
}

// FuzzMirror: whatever a line is, and whatever one with a right checksum says
// of a record, it is refused or taken; and what was settled stays as it is.
func FuzzMirror(f *testing.F) {
	f.Add(record.KeyJob(1), (&record.Job{Total: 3}).Encode(), []byte("00000000 "))
	f.Add(record.KeySpec(1), (&record.Spec{Body: []byte("x")}).Encode(), []byte{})
	f.Add(record.KeyZone(1, 0), (&record.Zone{Spans: []record.Span{{Hi: 3, Front: 2}}}).Encode(), []byte{})
	f.Add(record.KeyBlock(1, 0), (&record.Block{Offs: []uint8{7}, Tasks: []record.Task{{Attempt: 2, Started: true}}}).Encode(), AppendStart(nil, 1, 300, 1, ownerA))
	f.Add(record.KeyPayload(1, 0), (&record.Payload{Offs: []uint8{1}, Lines: [][]byte{{3}}}).Encode(), []byte{})
	f.Fuzz(func(t *testing.T, key string, value, raw []byte) {
		m := NewRecovered()
		for _, l := range [][]byte{
			AppendLine(nil, record.KeyJob(1), (&record.Job{Total: 700}).Encode()), AppendLine(nil, record.KeySpec(1), (&record.Spec{}).Encode()),
			AppendLine(nil, key, value), raw,
		} {
			l = bytes.TrimSuffix(l, []byte("\n"))
			key, value, ok := ReadLine(l)
			if !ok && m.Take(l) {
				t.Fatalf("a line that makes no sense is taken: %q", l)
			}
			if !ok {
				continue
			}
			if k, v, ok := ReadLine(bytes.TrimSuffix(AppendLine(nil, key, value), []byte("\n"))); !ok || k != key || !bytes.Equal(v, value) {
				t.Fatalf("%q is not the same when written again", l)
			}
			m.Take(l)
		}
		for _, r := range m.Jobs() {
			if r.Whole() && r.Job.Total < 1<<20 {
				once := r.Settle()
				if again := r.Settle(); again.Left != once.Left || again.Done != once.Done {
					t.Fatalf("settled %+v, and again %+v", once, again)
				}
				if again := recovered(t, r.Append(nil)).Jobs()[0].Settle(); again.Left != once.Left || again.Done != once.Done {
					t.Fatalf("settled %+v, and read back %+v", once, again)
				}
			}
		}
	})
}

func TestRemnantsTellHowLongTasksTook(t *testing.T) {
	at := func(off uint8, state filch.State, secs int64) record.Task {
		return record.Task{State: state, Attempt: 1, By: ownerA, TookUS: secs * 1e6}
	}
	blk := record.Block{Offs: []uint8{0, 1, 2}, Tasks: []record.Task{at(0, filch.OK, 4), at(1, filch.OK, 6), at(2, filch.Failed, 60)}}
	for _, finished := range []bool{false, true} {
		job := record.Job{Total: 300, Closed: true}
		if finished {
			job.Zones = []record.ZoneTally{{Zone: 0, Tally: record.Tally{OK: 300}}}
		}
		b := AppendLine(nil, record.KeyJob(4), job.Encode())
		b = AppendLine(b, record.KeySpec(4), (&record.Spec{Like: "solve"}).Encode())
		b = AppendLine(b, record.KeyBlock(4, 0), blk.Encode())
		r := recovered(t, b).Jobs()[0]
		r.Settle()
		again := recovered(t, r.Append(nil)).Jobs()[0] // as the next instance begins with
		if got := again.Spec; got.Expect != 6*time.Second || got.Like != "solve" {
			t.Errorf("finished %v: tasks like %q are taken to take %v, want 6s", finished, got.Like, got.Expect)
		}
	}
}

func TestMirrorRun(t *testing.T) {
	var b []byte
	for i := range 70 {
		b = AppendRun(b, RunTime{"4:solve", int64(1000 - i), time.Duration(i)})
	}
	b = AppendRun(b, RunTime{"1:a/b c", 5, time.Minute})
	b = append(b, b...) // a writer that says it twice
	runs := recovered(t, b).Runs()
	if len(runs) != 65 || runs[0] != (RunTime{"1:a/b c", 5, time.Minute}) {
		t.Fatalf("got %d runs, the first is %+v", len(runs), runs[0])
	}
	if first, last := runs[1], runs[64]; first.Ended != 937 || last.Ended != 1000 {
		t.Errorf("the runs that are kept ended from %d to %d, want the last 64 of them", first.Ended, last.Ended)
	}
	for _, bad := range [][]byte{nil, {1}, {2, 1}, {2, 2, 0}} {
		line := AppendLine(nil, record.KeyRun+"x", bad)
		if NewRecovered().Take(line[:len(line)-1]) {
			t.Errorf("a run of bytes %v is taken", bad)
		}
	}
	if m := NewMirror(); m.Append(nil, record.KeyRun+"x", []byte{2, 2}) != nil {
		t.Error("the mirror takes a record of the store for a run")
	}
}

var ownerA, ownerB, ownerC = record.Owner{Node: "a", Incarnation: 1}, record.Owner{Node: "b", Incarnation: 1}, record.Owner{Node: "c", Incarnation: 1}

func split(b []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

func recovered(t *testing.T, b []byte) *Recovered {
	t.Helper()
	m := NewRecovered()
	for _, l := range split(b) {
		if !m.Take(l) {
			t.Fatalf("line %q is refused", l)
		}
	}
	return m
}
