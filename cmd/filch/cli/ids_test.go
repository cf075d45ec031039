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
		ids, err := readIDs([]string{in}, last, false)
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
		if ids, err := readIDs([]string{in}, last, false); err == nil {
			t.Errorf("readIDs(%q) = %v, want an error", in, ids)
		}
	}
}

func TestReadNamesOfTasks(t *testing.T) {
	last := func() (filch.JobID, error) { return 42, nil }
	for in, want := range map[string]JobRank{
		"7": {7, -1, ""}, "7.2": {7, 2, ""}, "7.merge": {7, -1, "merge"}, "last.a.b 2": {42, -1, "a.b 2"}, "7.2nd": {7, -1, "2nd"}, "7.-1": {7, -1, "-1"},
	} {
		if ids, err := readIDs([]string{in}, last, true); err != nil || len(ids) != 1 || ids[0] != want {
			t.Errorf("readIDs(%q) = %+v, %v, want %+v", in, ids, err, want)
		}
	}
	for _, in := range []string{"7.", "1-2.merge", "x.merge", ".merge"} {
		if ids, err := readIDs([]string{in}, last, true); err == nil {
			t.Errorf("readIDs(%q) = %v, want an error", in, ids)
		}
	}
}
