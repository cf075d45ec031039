package filch_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

func TestReadTime(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "1.5h": 90 * time.Minute,
		"10": 10 * time.Minute, "0:30": 30 * time.Second, "90:90": 90*time.Minute + 90*time.Second, "1:30:00": 90 * time.Minute,
		"2-3": 51 * time.Hour, "1-1:30": 25*time.Hour + 30*time.Minute, "0-0:0:5": 5 * time.Second, "0": 0, "0s": 0,
		"2d": 48 * time.Hour, "2d4h": 52 * time.Hour, "0d1.5h": 90 * time.Minute,
	} {
		if got, err := filch.ReadTime(in); err != nil || got != want {
			t.Errorf("ReadTime(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", " 1", "-1", "-5s", "+5", "+5s", "1:", ":1", "1:2:3:4", "1-", "1-2:3:4:5", "banana", "10x", "1h30", "1.5",
		"9999999999999999999", "9999999h", "3661-0", "3661d", "d", "-1d", "1d-2h", "1d5", "1.5d", "2dbanana", "0x10", "1_0", "infinite",
	} {
		var told *filch.Error
		got, err := filch.ReadTime(in)
		if !errors.As(err, &told) || strings.Contains(err.Error(), "time:") {
			t.Errorf("ReadTime(%q) = %v, %v, want an error of ours", in, got, err)
		}
	}
}

func TestFractionOfMinutesHasAHint(t *testing.T) {
	for in, want := range map[string]bool{"2.5": true, "0.5": true, "soon": false, "1.5x": false, ".": false} {
		var told *filch.Error
		if _, err := filch.ReadTime(in); !errors.As(err, &told) || strings.Contains(told.Hint, "whole minutes") != want {
			t.Errorf("ReadTime(%q): %v, the hint speaks of whole minutes: want %t", in, err, want)
		}
	}
}

// Every time that a user reads has one form, and can be typed as a time again.
func TestShortTime(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{9 * time.Microsecond, "0s"},
		{300 * time.Microsecond, "0.3ms"},
		{4200 * time.Microsecond, "4.2ms"},
		{9960 * time.Microsecond, "10ms"},
		{15 * time.Millisecond, "15ms"},
		{250 * time.Millisecond, "250ms"},
		{999600 * time.Microsecond, "1s"},
		{3240 * time.Millisecond, "3.2s"},
		{5 * time.Second, "5s"},
		{9960 * time.Millisecond, "10s"},
		{41400 * time.Millisecond, "41s"},
		{59600 * time.Millisecond, "1m"},
		{61 * time.Second, "1m01s"},
		{131 * time.Second, "2m11s"},
		{time.Hour - time.Millisecond, "1h"},
		{3*time.Hour + 5*time.Minute, "3h05m"},
		{24*time.Hour - time.Second, "1d"},
		{52 * time.Hour, "2d4h"},
		{1000 * 24 * time.Hour, "1000d"},
		{-90 * time.Second, "-1m30s"},
	} {
		got := filch.ShortTime(c.d)
		if got != c.want {
			t.Errorf("%v is written %q, want %q", c.d, got, c.want)
		}
		if back, err := filch.ReadTime(got); c.d >= 0 && (err != nil || filch.ShortTime(back) != got) {
			t.Errorf("%q is read as %v, %v", got, back, err)
		}
	}
}
