package cli

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

func TestReadIDs(t *testing.T) {
	last := func() (filch.JobID, error) { return 42, nil }
	for in, want := range map[string]string{
		"7": "7", "3-5": "3 4 5", "last": "42", "7.2": "7.2", "last.0": "42.0", "1,3-4,last": "1 3 4 42",
	} {
		ids, err := readIDs([]string{in}, last)
		var got []string
		for _, id := range ids {
			s := id.Job.String()
			if id.Rank >= 0 {
				s += "." + filch.JobID(id.Rank).String()
			}
			got = append(got, s)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("readIDs(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "-3", "x", "5-3", "1-99999", "1-2.3", "7.", "7.x", "99999999999", "1,,2", "+1"} {
		if ids, err := readIDs([]string{in}, last); err == nil {
			t.Errorf("readIDs(%q) = %v, want an error", in, ids)
		}
	}
}
