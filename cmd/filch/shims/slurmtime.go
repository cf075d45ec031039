package shims

import (
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// timeForms are the forms of a time of day and of a day that Slurm's commands read.
var timeForms = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02", "01/02/06-15:04:05", "01/02/06-15:04", "01/02/06", "01/02", "0102", "010206", "15:04:05", "15:04"}

// slurmTime reads a time as Slurm's commands do.
func slurmTime(s string, now time.Time) (time.Time, error) {
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch word := strings.ToLower(s); {
	case word == "now":
		return now, nil
	case word == "today", word == "midnight":
		return day, nil
	case word == "noon":
		return day.Add(12 * time.Hour), nil
	case strings.HasPrefix(word, "now+"), strings.HasPrefix(word, "now-"):
		return shiftedTime(word, now)
	}
	for _, form := range timeForms {
		t, err := time.ParseInLocation(form, s, now.Location())
		switch {
		case err != nil:
		case strings.HasPrefix(form, "15"):
			return day.Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second), nil
		case t.Year() == 0:
			return t.AddDate(now.Year(), 0, 0), nil
		default:
			return t, nil
		}
	}
	return now, filch.Errorf(filch.Invalid, "Invalid time specification: %s", ui.Clean(s)).WithHint("2026-01-31T12:30, 12:30, now-1hour, today")
}

// shiftedTime reads now+5minutes; without a unit the number is of seconds.
func shiftedTime(word string, now time.Time) (time.Time, error) {
	number := strings.TrimRight(word[4:], "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseUint(number, 10, 31)
	unit := time.Second
	switch name := strings.TrimSuffix(word[4+len(number):], "s"); name {
	case "", "second":
	case "minute":
		unit = time.Minute
	case "hour":
		unit = time.Hour
	case "day":
		unit = 24 * time.Hour
	case "week":
		unit = 7 * 24 * time.Hour
	default:
		err = strconv.ErrSyntax
	}
	if err != nil {
		return now, filch.Errorf(filch.Invalid, "Invalid time specification: %s", ui.Clean(word)).WithHint("now-1hour, now+30minutes")
	}
	if word[3] == '-' {
		unit = -unit
	}
	return now.Add(time.Duration(n) * unit), nil
}

// window reads sacct's --starttime and --endtime; a time that is not given is zero.
func (q question) window(now time.Time) (from, to time.Time, err error) {
	if s, ok := q.get("starttime"); ok {
		if from, err = slurmTime(s, now); err != nil {
			return from, to, err
		}
	}
	if s, ok := q.get("endtime"); ok {
		to, err = slurmTime(s, now)
	}
	return from, to, err
}

// within reports whether a job existed at some moment of a window.
func (j batchJob) within(from, to time.Time) bool {
	over := j.Code != nil && !from.IsZero() && j.ended().Before(from.Truncate(time.Second))
	return !over && (to.IsZero() || !j.submitted().After(to))
}
