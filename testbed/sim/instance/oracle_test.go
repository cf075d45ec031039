package instance

import (
	"slices"
	"testing"
	"time"
)

func TestOracleIsFirstComeFirstServed(t *testing.T) {
	s := time.Second
	jobs := []demand{{0, 6, 10 * s}, {1, 8, 5 * s}, {2, 2, 3 * s}, {3, 4, 20 * s}}
	tests := []struct {
		name string
		easy bool
		want []time.Duration
	}{
		{"fifo", false, []time.Duration{0, 10 * s, 10 * s, 15 * s}},
		{"easy", true, []time.Duration{0, 10 * s, 2, 15 * s}},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			if got := oracle(10, jobs, x.easy); !slices.Equal(got, x.want) {
				t.Errorf("starts at %v, want %v", got, x.want)
			}
		})
	}
}
