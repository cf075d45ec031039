package logs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher/wire"
)

// However the output comes, the output is printed in the order of tasks, and at no time more than
// the limit is in memory.
func TestTurnsPrintInOrder(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var out bytes.Buffer
		p := NewPrinter(View{Turns: true, Tail: -1, Label: true})
		p.out, p.err = &out, &out
		p.turns.most = 4 << 10
		const tasks = 200
		var want strings.Builder
		for i := range tasks {
			for attempt := range 2 {
				fmt.Fprintf(&want, "7.%d: %d a\n7.%d: %d b\n", i, attempt, i, attempt)
			}
		}
		came := 0 // tasks before came have ended
		ended := map[int]bool{}
		job := bag(7)
		spilled := false
		for _, i := range r.Perm(tasks) {
			for attempt := range 2 {
				for _, text := range []string{"a", "b"} {
					o := &wire.OutputPiece{Index: int32(i), Attempt: int32(attempt), Stream: 1, Data: fmt.Appendf(nil, "%d %s\n", attempt, text)}
					if err := p.Piece(job, o); err != nil {
						t.Fatal(err)
					}
				}
			}
			spilled = spilled || len(p.turns.parts) > 0
			if p.turns.memory > p.turns.most {
				t.Fatalf("%d bytes are in memory, at most %d may be", p.turns.memory, p.turns.most)
			}
			ended[i] = true
			for ended[came] {
				came++
			}
			if r.IntN(3) == 0 {
				if err := p.Passed(int32(came)); err != nil {
					t.Fatal(err)
				}
				if n := strings.Count(out.String(), "\n"); n != 4*came {
					t.Fatalf("seed %d: %d tasks have ended, and %d lines are printed", seed, came, n)
				}
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want.String() {
			t.Fatalf("seed %d: got\n%s", seed, out.String())
		}
		if !spilled {
			t.Errorf("seed %d: the file was not used", seed)
		}
	}
}

// The file gives its space back when all pieces were printed.
func TestTurnsEmptyTheirFile(t *testing.T) {
	s := newTurns()
	s.most = 1000
	defer s.close()
	printed := 0
	for round := range int32(3) {
		for i := range int32(50) {
			s.add(&wire.OutputPiece{Index: 100*round + i, Data: make([]byte, 100)})
		}
		if s.size < 4000 {
			t.Fatalf("the file has %d bytes", s.size)
		}
		if err := s.release(100*(round+1), func(*wire.OutputPiece) error { printed++; return nil }); err != nil {
			t.Fatal(err)
		}
		st, err := s.file.Stat()
		if err != nil || st.Size() != 0 || len(s.parts) > 0 {
			t.Errorf("the file has %d bytes in %d parts after all were printed, %v", st.Size(), len(s.parts), err)
		}
	}
	if printed != 150 {
		t.Errorf("%d pieces were printed, want 150", printed)
	}
}

// A full disk ends the ordered output, once, with an error; no output out of order follows.
func TestTurnsTellOfAFullDisk(t *testing.T) {
	var out bytes.Buffer
	p := NewPrinter(View{Turns: true, Tail: -1})
	p.out, p.err = &out, &out
	p.turns.most = 1000
	p.turns.create = func() (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
	for i := range int32(50) {
		if err := p.Piece(bag(7), &wire.OutputPiece{Index: i + 1, Stream: 1, Data: []byte(strings.Repeat("x", 100))}); err != nil {
			t.Fatal(err)
		}
	}
	if p.turns.fault == nil || !strings.Contains(p.turns.fault.Error(), "no space left on device") || !strings.Contains(p.turns.fault.Error(), "wait for task 0") {
		t.Errorf("the fault is %v", p.turns.fault)
	}
	if err := p.Close(); err == nil {
		t.Error("the printer closed without an error")
	}
	if out.Len() > 0 {
		t.Errorf("printed %q", out.String())
	}
}
