package filch_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

func TestNearest(t *testing.T) {
	names := []string{"slots", "spare", "debug", "log_bytes", "store_bytes"}
	for _, c := range []struct {
		name  string
		below int
		want  string
	}{
		{"slot", 3, "slots"},
		{"sapre", 3, "spare"},
		{"log-bytes", 3, "log_bytes"},
		{"slots", 1, "slots"},
		{"slot", 1, ""},
		{"colour", 3, ""},
		{"", 3, ""},
		{strings.Repeat("slots", 20), 99, ""},
	} {
		if got := filch.Nearest(c.name, slices.Values(names), c.below); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
