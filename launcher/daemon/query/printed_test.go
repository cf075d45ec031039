package query

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher/output"
)

// kept is the pieces of a stream in the segments: beyond the limit without the middle.
func kept(text string, limit, piece int) (pieces []output.Printed) {
	lost := max(len(text)-limit, 0)
	if lost > 0 {
		text = text[:limit/2] + text[len(text)-limit/2:]
	}
	for first := true; len(text) > 0; first = false {
		n := min(piece, len(text))
		p := output.Printed{Stream: 1, Data: []byte(text[:n])}
		if first {
			p.Lost = int64(lost)
		}
		pieces, text = append(pieces, p), text[n:]
	}
	return pieces
}

// A reader that saw a part of a stream before the end of the task gets the rest of the
// kept output: no byte twice, and no byte missing but those that were dropped, of which the
// reader learns.
func TestUnseenIsTheRest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		limit := output.KeptScarce
		n := rnd.IntN(3 * limit)
		text := strings.Repeat("0123456789", n/10+1)[:n]
		dropped := [2]int{}
		if n > limit {
			dropped = [2]int{limit / 2, n - limit/2}
		}
		at := rnd.IntN(n + 1)
		s := seenStream{At: int64(at)}
		got, lost := "", int64(0)
		for _, p := range kept(text, limit, limit) {
			data, more := s.unseen(p)
			got, lost = got+string(data), lost+more
		}
		want := text[at:]
		wantLost := 0
		if n > limit {
			want = text[min(at, dropped[0]):dropped[0]] + text[max(at, dropped[1]):]
			wantLost = max(dropped[1]-max(at, dropped[0]), 0)
		}
		if got != want || lost != int64(wantLost) {
			t.Fatalf("%d bytes, seen up to %d: got %d bytes and %d lost, want %d and %d", n, at, len(got), lost, len(want), wantLost)
		}
	}
}

// The same of a long stream, whose pieces come in several answers.
func TestUnseenOfManyPieces(t *testing.T) {
	const limit, total = output.KeptMax, output.KeptMax + 5<<20
	text := strings.Repeat("0123456789abcde\n", total/16)
	for _, at := range []int{0, 1, limit/2 - 1, limit / 2, limit/2 + 1000, total - limit/2, total - limit/2 + 1, total - 5, total} {
		s := seenStream{At: int64(at)}
		got, lost := 0, int64(0)
		for _, p := range kept(text, limit, 1<<20-3) {
			data, more := s.unseen(p)
			got, lost = got+len(data), lost+more
		}
		before, behind := max(limit/2-at, 0), total-max(at, total-limit/2)
		if missed := max(total-limit/2-max(at, limit/2), 0); got != before+behind || lost != int64(missed) {
			t.Errorf("seen up to %d: got %d bytes and %d lost, want %d and %d", at, got, lost, before+behind, missed)
		}
	}
}
