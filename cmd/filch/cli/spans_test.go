package cli

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

func TestReadSpans(t *testing.T) {
	last := func() (filch.JobID, error) { return 42, nil }
	for in, want := range map[string]string{
		"7": "7.0-", "7.2": "7.2-2", "last.0-3": "42.0-3", "3-4": "3.0- 4.0-", "5.1-9,last": "5.1-9 42.0-",
	} {
		spans, err := readSpans([]string{in}, last)
		var got []string
		for _, s := range spans {
			got = append(got, strings.TrimSuffix(fmt.Sprintf("%d.%d-%d", s.Job, s.First, s.Last), fmt.Sprint(math.MaxInt32)))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "7.", "7.3-1", "7.1-x", "7.-1", "3-4.1-2", "x.1-2", "7.1-99999999999"} {
		if spans, err := readSpans([]string{in}, last); err == nil {
			t.Errorf("%q: got %v, want an error", in, spans)
		}
	}
}
