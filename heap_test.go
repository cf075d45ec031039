package filch_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
)

type number int

func (n *number) Before(m *number) bool { return *n < *m }

func TestHeapPopsInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var h filch.Heap[number, *number]
		var want []number
		for range r.IntN(100) {
			if x := number(r.IntN(1000)); r.IntN(4) > 0 || len(h) == 0 {
				h.Push(x)
				want = append(want, x)
			} else {
				x := h.Remove(r.IntN(len(h)))
				want = slices.Delete(want, slices.Index(want, x), slices.Index(want, x)+1)
			}
			if !h.Ordered() {
				t.Fatalf("%v is not a heap", h)
			}
		}
		slices.Sort(want)
		var got []number
		for len(h) > 0 {
			got = append(got, h.Pop())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("popped %v, want %v", got, want)
		}
	}
}
