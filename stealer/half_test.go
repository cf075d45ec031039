package stealer_test

import (
	"testing"

	. "github.com/filch-hpc/filch/stealer"
)

// MATRIX 3.8: "it locks half of its compute slots". Rounding is ours: up, so
// that the last slot of a node can be stolen; MATRIX's code rounds down.
func TestHalfRoundsUp(t *testing.T) {
	for _, c := range [][2]int32{{-1, 0}, {0, 0}, {1, 1}, {2, 1}, {3, 2}, {4, 2}, {15, 8}, {16, 8}, {1<<31 - 1, 1 << 30}} {
		if got := Half(c[0]); got != c[1] {
			t.Errorf("Half(%d) = %d, want %d", c[0], got, c[1])
		}
	}
}
