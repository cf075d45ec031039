package output_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/filch-hpc/filch/launcher/output"
)

// TestSpoolKeepsAllInOrder shows that short output comes back whole, rank by rank as it
// came, also beyond what stays in memory.
func TestSpoolKeepsAllInOrder(t *testing.T) {
	for _, size := range []int{1, 100, 50_000} {
		s := output.NewSpool(t.TempDir())
		var want bytes.Buffer
		for i := range 40 {
			data := bytes.Repeat([]byte{'a' + byte(i%26)}, size)
			s.Add(int32(i%3), uint8(1+i%2), data)
			fmt.Fprintf(&want, "%d %d %s\n", i%3+1, 1+i%2, data)
		}
		var got bytes.Buffer
		err := s.Drain(func(p output.Printed) error {
			fmt.Fprintf(&got, "%d %d %s\n", p.Rank, p.Stream, p.Data)
			if p.Lost != 0 {
				t.Errorf("%d bytes are lost of pieces of %d bytes", p.Lost, size)
			}
			return nil
		})
		if err != nil || got.String() != want.String() {
			t.Errorf("pieces of %d bytes: got %d bytes, %v; want %d", size, got.Len(), err, want.Len())
		}
	}
}

// TestSpoolBoundsOutput shows that a flood leaves its beginning and its end, and that the
// lost bytes are counted.
func TestSpoolBoundsOutput(t *testing.T) {
	s := output.NewSpool(t.TempDir())
	piece, all := make([]byte, 1<<20), int64(0)
	for i := range 50 {
		for k := range piece {
			piece[k] = byte(i)
		}
		s.Add(0, 1, piece)
		all += int64(len(piece))
	}
	var kept, lost int64
	var first, last byte = 255, 255
	err := s.Drain(func(p output.Printed) error {
		if kept == 0 {
			first = p.Data[0]
		}
		last = p.Data[len(p.Data)-1]
		kept, lost = kept+int64(len(p.Data)), lost+p.Lost
		return nil
	})
	if err != nil || kept+lost != all || lost == 0 {
		t.Fatalf("%d bytes kept and %d lost of %d, %v", kept, lost, all, err)
	}
	if first != 0 || last != 49 || kept > output.KeptMax+output.KeptMax/2+2<<20 {
		t.Errorf("kept %d bytes from piece %d to piece %d; want at most 1.5 times the limit, from 0 to 49", kept, first, last)
	}
}

// TestSpoolSince shows that a follower who asks again and again sees all output once, in
// the order of each stream.
func TestSpoolSince(t *testing.T) {
	s := output.NewSpool(t.TempDir())
	var want, got [2]bytes.Buffer
	var at [2]int64
	for i := range 3000 {
		data := fmt.Appendf(nil, "%d\n", i)
		s.Add(int32(i%5), uint8(1+i%2), data)
		want[i%2].Write(data)
		if i%7 > 0 {
			continue
		}
		pieces, next, _ := s.Since(at, 1<<10)
		for _, p := range pieces {
			got[p.Stream-1].Write(p.Data)
		}
		at = next
	}
	for more := true; more; {
		var pieces []output.Printed
		pieces, at, more = s.Since(at, 1<<10)
		for _, p := range pieces {
			got[p.Stream-1].Write(p.Data)
		}
	}
	for i := range want {
		if got[i].String() != want[i].String() {
			t.Errorf("stream %d: got %d bytes, want %d", i+1, got[i].Len(), want[i].Len())
		}
	}
}

// TestSpoolSinceReadsTheEnd shows that a follower of a gang that has printed much costs the
// new output alone: the spool reads nothing of the output before.
func TestSpoolSinceReadsTheEnd(t *testing.T) {
	s := output.NewSpool(t.TempDir())
	var want [2]int64
	for i := range 6 << 10 {
		data := bytes.Repeat([]byte{'x'}, 1<<10)
		s.Add(int32(i%4), uint8(1+i%2), data)
		want[i%2] += int64(len(data))
	}
	at := [2]int64{want[0] - 10, want[1]}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	pieces, next, more := s.Since(at, 1<<20)
	runtime.ReadMemStats(&after)
	if len(pieces) != 1 || len(pieces[0].Data) != 10 || next != want || more {
		t.Errorf("got %d pieces up to %v, more %t; want the last 10 bytes, up to %v", len(pieces), next, more, want)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("the look at 10 new bytes of %d took %d bytes of memory", want[0]+want[1], n)
	}
}

// TestSpoolWithoutDisk shows that a failure of the disk is told.
func TestSpoolWithoutDisk(t *testing.T) {
	s := output.NewSpool(t.TempDir() + "/gone")
	s.Add(0, 1, make([]byte, 1<<20))
	if s.Lost() != 1<<20 {
		t.Errorf("%d bytes are lost, want all", s.Lost())
	}
	if err := s.Drain(func(output.Printed) error { return nil }); err == nil {
		t.Error("no error, though the folder is missing")
	}
}
