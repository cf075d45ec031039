package record

import (
	"bytes"
	"testing"
)

func TestLongTextsComeBack(t *testing.T) {
	var chunks [][]byte
	var longs []Long
	sizes := []int{1, LongChunk - 1, LongChunk, LongChunk + 1, 3*LongChunk + 17, LongMax}
	text := bytes.Repeat([]byte("0123456789abcde"), LongMax/15+1)
	for _, n := range sizes {
		var l Long
		var err error
		if chunks, l, err = CutLong(chunks, text[:n]); err != nil {
			t.Fatal(err)
		}
		longs = append(longs, l)
	}
	for i, l := range longs {
		l, err := DecodeLong(l.Encode())
		if err != nil {
			t.Fatal(err)
		}
		mine := chunks[l.First : l.First+l.Count()]
		got, err := JoinLong(l, mine)
		if err != nil || !bytes.Equal(got, text[:sizes[i]]) {
			t.Errorf("%d bytes: got %d bytes, %v", sizes[i], len(got), err)
		}
		for _, bad := range [][][]byte{mine[1:], append(mine[:len(mine):len(mine)], nil), append(mine[:len(mine)-1:len(mine)-1], nil)} {
			if got, err := JoinLong(l, bad); err == nil {
				t.Errorf("%d bytes of other chunks: got %d bytes", sizes[i], len(got))
			}
		}
	}
	for _, bad := range []int{0, LongMax + 1} {
		if _, _, err := CutLong(nil, text[:bad]); err == nil {
			t.Errorf("%d bytes are cut", bad)
		}
	}
}

// All records of a job are named once, the chunks before the job's own record.
func TestKeysOfALongJob(t *testing.T) {
	j := &Job{Total: 9, Lines: true, Long: 3, Closed: true}
	seen := map[string]bool{}
	for i := range j.Records() {
		key := j.Key(7, i)
		p, ok := ParseKey(key)
		if seen[key] || !ok || p.Job != 7 || (p.What == 0) != (i == j.Records()-1) {
			t.Errorf("record %d: got %q, %+v", i, key, p)
		}
		seen[key] = true
	}
	for n := range int32(3) {
		if !seen[KeyLong(7, n)] {
			t.Errorf("no key %q", KeyLong(7, n))
		}
	}
	if got, err := DecodeJob(j.Encode()); err != nil || got.Long != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	j.Long, j.Serial, j.Held, j.By = 4, 1, true, "me"
	if got, err := DecodeJob(j.Encode()); err != nil || got.Long != 4 || got.By != "me" {
		t.Errorf("with orders: got %+v, %v", got, err)
	}
}

func FuzzLong(f *testing.F) {
	f.Add(Long{First: 3, Size: 40_000}.Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, v []byte) {
		l, err := DecodeLong(v)
		if err != nil {
			return
		}
		if l.First < 0 || l.Size <= 0 || l.Size > LongMax || l.Count() < 1 {
			t.Fatalf("got %+v", l)
		}
		if again, err := DecodeLong(l.Encode()); err != nil || again != l {
			t.Fatalf("got %+v, %v, want %+v", again, err, l)
		}
	})
}
