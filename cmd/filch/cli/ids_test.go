package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

func lastIs42() (filch.JobID, error) { return 42, nil }

func TestReadJobs(t *testing.T) {
	for in, want := range map[string]string{"7": "[7]", "3-5": "[3 4 5]", "last": "[42]", "1,3-4,last": "[1 3 4 42]"} {
		if ids, err := readJobs([]string{in}, lastIs42); err != nil || fmt.Sprint(ids) != want {
			t.Errorf("readJobs(%q) = %v, %v, want %s", in, ids, err, want)
		}
	}
	for _, in := range []string{"", "0", "-3", "x", "5-3", "1-99999", "1-2.3", "7.", "7.x", "7.2", "1,7.2", "99999999999", "1,,2", "+1"} {
		if ids, err := readJobs([]string{in}, lastIs42); err == nil {
			t.Errorf("readJobs(%q) = %v, want an error", in, ids)
		}
	}
}

// The words of tasks are the same in every command.
func TestReadTasksOfJobs(t *testing.T) {
	for in, want := range map[string]string{
		"7": "7", "3-5": "3 4 5", "last": "42", "1,3-4": "1 3 4",
		"7.2": "7[2-2]", "7.5-9": "7[5-9]", "7.5,7,9-12": "7[5-5 7-7 9-12]", "last.0,2": "42[0-0 2-2]",
		"1,7.2,4": "1 7[2-2 4-4]", "7.2,8.3-4,5": "7[2-2] 8[3-4 5-5]",
		"7.merge": "7:merge", "last.a.b 2": "42:a.b 2", "7.2nd": "7:2nd", "7.fit,plot": "7:fit,plot", "7.5,fit,8": "7:5,fit,8",
		"1.3,7.fit,9.b": "1[3-3] 7:fit,9.b", "7.2024-01": "7:2024-01", "7.-1": "7:-1",
	} {
		list, err := readJobTasks([]string{in}, lastIs42)
		var got []string
		for _, j := range list {
			word := j.Job.String()
			if len(j.Tasks) > 0 {
				var runs []string
				for _, r := range j.Tasks {
					runs = append(runs, fmt.Sprintf("%d-%d", r[0], r[1]))
				}
				word += fmt.Sprint(runs)
			}
			if j.Names != "" {
				word += ":" + j.Names
			}
			got = append(got, word)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("readJobTasks(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "x", "5-3", "1-2.3", "x.merge", ".merge", "1-2.merge", "7.", "7.5,", "7.,5", "7.1073741825"} {
		if list, err := readJobTasks([]string{in}, lastIs42); err == nil {
			t.Errorf("readJobTasks(%q) = %v, want an error", in, list)
		}
	}
}
